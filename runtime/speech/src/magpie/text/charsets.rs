//! The alphabets of the tokenizers that read characters.
//!
//! Source: NeMo 3.0.0, `tokenizer_utils.py`, `get_grapheme_character_set`. Version 1 has the letters
//! twice.

use super::{
    config::TokenizerConfig,
    dictionary::Case,
    punctuation::{ARABIC, COMMON, HINDI, symbols},
};
use crate::magpie::MagpieError;

const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ARABIC_LETTERS: &str = "ءآأإؤئابةتثجحخدذرزسشصضطظعغفقكلمنهوىي\u{64b}\u{64c}\u{64d}\u{64e}\u{64f}\u{650}\u{651}\u{670}\u{652}";
const HINDI_LETTERS: &str = "अआइईउऊऋॠएऐओऔऍऑकखगघङचछजझञटठडढणतथदधनपफबभमयरलवशषसहळऩऱ\u{93e}\u{93f}\u{940}\u{941}\u{942}\u{943}\u{944}\u{947}\u{948}\u{94b}\u{94c}\u{945}\u{949}\u{901}\u{902}\u{903}\u{94d}\u{93c}\u{94a}\u{962}\u{963}\u{946}।";

/// Returns the tokens of Arabic or Hindi characters; the space is the first one.
pub(super) fn tokens(config: &TokenizerConfig) -> Result<Vec<String>, MagpieError> {
    let is_arabic = config.class() == "ArabicCharsTokenizer";
    let letters = if is_arabic { ARABIC_LETTERS } else { HINDI_LETTERS };
    let own_marks = if is_arabic { ARABIC } else { HINDI };
    let bad = |field: &str, version: Option<u32>| {
        let why = format!("version {version:?} is not known");
        Err(MagpieError::bad_setting(field, why))
    };
    let latin = match (config.charset_version, is_arabic) {
        (Some(1), true) => [letters, letters, LOWER, UPPER],
        (Some(1), false) => [letters, letters, LOWER, ""],
        (Some(2), _) => [letters, "", LOWER, UPPER],
        (version, _) => return bad("charset_version", version),
    };
    // Only Hindi's marks depend on a version.
    let marks = match config.punct_version {
        _ if is_arabic => [COMMON, own_marks],
        Some(1) => [COMMON, ""],
        Some(2) => [COMMON, own_marks],
        version => return bad("punct_version", version),
    };
    let apostrophe = if config.has_apostrophe() { "'" } else { "" };
    let marks = if config.punct { marks } else { ["", ""] };
    let all = [" "].into_iter().chain(latin).chain([apostrophe]).chain(marks);
    let end = ["<pad>", "<oov>"];
    Ok(all.flat_map(symbols).chain(end).map(str::to_owned).collect())
}

/// Returns the case of the Latin letters in Japanese.
///
/// # Errors
/// [`MagpieError::Setting`] for another class than `JapaneseKatakanaAccentG2p`, or an unknown case.
pub(super) fn case_in_japanese(config: &TokenizerConfig) -> Result<Case, MagpieError> {
    let none = || MagpieError::bad_setting("g2p", "there is none");
    let g2p = config.g2p.as_ref().ok_or_else(none)?;
    g2p.check_class("JapaneseKatakanaAccentG2p")?;
    let case = g2p.ascii_letter_case.as_deref().unwrap_or("lower");
    Case::read("g2p.ascii_letter_case", case)
}

/// Returns the tokens of Japanese kana with pitch, and of letters in `case`; the space is the first one.
/// The prefix of letters changes nothing in the reference.
pub(super) fn kana(config: &TokenizerConfig, case: Case, marks: &[&str]) -> Vec<String> {
    let kana = ('ァ'..='ヶ').filter(|c| !matches!(c, 'ヰ' | 'ヱ')).map(String::from);
    let apostrophe = if config.has_apostrophe() { "'" } else { "" };
    let first = [" ", "01"].into_iter().flat_map(symbols).map(str::to_owned);
    let letters = case.letters().map(String::from);
    let marks = marks.iter().copied().filter(|_| config.punct);
    let rest = symbols(apostrophe).chain(marks).chain(["<pad>", "<oov>"]).map(str::to_owned);
    first.chain(kana).chain(["ー".to_owned()]).chain(letters).chain(rest).collect()
}
