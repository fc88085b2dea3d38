//! Punctuation marks of each locale.
//!
//! Source: NeMo 3.0.0, `tokenizer_utils.py` and `ipa_lexicon.py`, `get_ipa_punctuation_list`.

use crate::magpie::MagpieError;

/// The marks that every locale has.
pub(super) const COMMON: &str = "!\"(),-./:;?[]{}";
/// The marks of Arabic beside the common ones.
pub(super) const ARABIC: &str = "،؛؟";
/// The marks of Hindi beside the common ones.
pub(super) const HINDI: &str = "।॥";

/// Returns the marks of a locale, sorted by code point; most are one character long.
pub(super) fn punctuation(locale: Option<&str>) -> Result<Vec<&'static str>, MagpieError> {
    let (own, long) = match locale {
        None | Some("en-US" | "vi-VN") => ("", ""),
        Some("es-ES") => ("¡«»¿‹›", ""),
        Some("de-DE") => ("«»‒–—‘‚“„‹›", ""),
        Some("fr-FR") => ("«»\u{300}\u{301}\u{302}\u{308}\u{327}–“”…‹›", ""),
        Some("it-IT") => ("«»ʰʱʲʴʷˠˤ‒–—‘’‚“”„‹›↑→↗↘", "˞↓"),
        Some("ja-JP") => (
            "«»•‥…‹›※◦、。〃〈〉《》「」『』【】〒〓〔〕〖〗〘〙〚〛〜〽・ー﹅﹆！＊？｟｠",
            "・・・",
        ),
        Some("hi-IN") => (HINDI, ""),
        Some("ar-MSA") => (ARABIC, ""),
        Some("pt-BR") => ("«»–—‘’“”…‹›", ""),
        Some("ko-KR") => ("·–—…《》「」『』〜", ""),
        Some(other) => {
            let why = format!("`{other}` is not a locale with a list of punctuation");
            return Err(MagpieError::bad_setting("locale", why));
        }
    };
    let mut marks: Vec<_> = symbols(COMMON).chain(symbols(own)).collect();
    marks.extend((!long.is_empty()).then_some(long));
    marks.sort_unstable();
    Ok(marks)
}

/// Returns each character of a text as a text.
pub(super) fn symbols(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()])
}
