//! Japanese: words of an analyser to kana with pitch.
//!
//! Each mora has a digit for its pitch before it. Words that are spoken together share one accent.
//!
//! Source: NeMo 3.0.0, `ja_jp_ipa.py`, `JapaneseKatakanaAccentG2p`.

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;

use super::dictionary::Case;

/// A word of OpenJTalk's front end, as `pyopenjtalk.run_frontend` returns it; other keys are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JapaneseWord {
    /// The word as it is written.
    pub string: String,
    /// Part of speech.
    pub pos: String,
    /// Group of the part of speech.
    pub pos_group1: String,
    /// Pronunciation in kana.
    pub pron: String,
    /// The mora after which the pitch falls; 0 if it does not fall.
    pub acc: usize,
    /// Number of morae.
    pub mora_size: usize,
    /// 1 if the word is spoken with the one before.
    pub chain_flag: i32,
}

/// Returns the symbols of words; `marks` are the punctuation marks of the vocabulary, and its Latin letters
/// are in `case`.
pub(super) fn kana(words: &[JapaneseWord], marks: &[&str], case: Case) -> Vec<String> {
    let mut kana = Kana::default();
    for (index, word) in words.iter().enumerate() {
        let written: String = word.string.nfkc().collect();
        if word.pos == "フィラー" && !written.is_empty() && written.chars().all(|c| case.has(c))
        {
            kana.end_chain();
            kana.symbols.extend(written.chars().map(String::from));
        } else if matches!(&*word.pos, "記号" | "補助記号") && word.pos_group1 != "アルファベット"
        {
            kana.end_chain();
            match marks.contains(&&*written) {
                true => kana.symbols.push(written),
                false => kana.gap(),
            }
        } else if word.pron.is_empty() || word.mora_size == 0 {
            if !written.trim().is_empty() {
                kana.gap();
            }
        } else {
            kana.chain.push(word);
            if words.get(index + 1).is_none_or(|next| next.chain_flag != 1) {
                kana.end_chain();
            }
        }
    }
    kana.end_chain();
    kana.symbols
}

#[derive(Default)]
struct Kana<'a> {
    symbols: Vec<String>,
    chain: Vec<&'a JapaneseWord>,
}

impl Kana<'_> {
    /// Adds a space, unless there is one.
    fn gap(&mut self) {
        if self.symbols.last().is_none_or(|last| last != " ") {
            self.symbols.push(" ".to_owned());
        }
    }

    /// Adds the morae of the words that are spoken together.
    fn end_chain(&mut self) {
        let words = std::mem::take(&mut self.chain);
        let Some(&first) = words.first() else { return };
        let accent = words.iter().find(|word| word.chain_flag != 1).unwrap_or(&first).acc;
        let morae: Vec<_> = words.iter().flat_map(|word| morae(&word.pron)).collect();
        for (index, mora) in morae.iter().enumerate() {
            let is_high = match accent {
                1 => index == 0,
                0 => index > 0,
                accent => index > 0 && (index < accent || accent >= morae.len()),
            };
            self.symbols.push(if is_high { "1" } else { "0" }.to_owned());
            self.symbols.extend(mora.chars().map(String::from));
        }
    }
}

/// Cuts a pronunciation into morae; other characters are left out.
fn morae(pronunciation: &str) -> Vec<&str> {
    let is_small = |c| "ャュョァィゥェォヮ".contains(c);
    let mut morae = Vec::new();
    let mut characters = pronunciation.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let mut end = at + c.len_utf8();
        match c {
            'ア'..='ン' | 'ヴ' => {
                if let Some((_, small)) = characters.next_if(|&(_, next)| is_small(next)) {
                    end += small.len_utf8();
                }
            }
            'ァ' | 'ヵ' | 'ヶ' | 'ー' => {}
            _ => continue,
        }
        morae.push(&pronunciation[at..end]);
    }
    morae
}
