//! Classes of characters, as the reference's regular expressions have them.
//!
//! Source: NeMo 3.0.0, `tts_data_utils.py` and `i18n_ipa.py`.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

/// Returns true for a letter of English.
pub(super) fn is_english(c: char) -> bool {
    c.is_ascii_alphabetic()
}

/// Returns true for a letter of the other languages with phonemes: Latin, Indic scripts, Hangul.
pub(super) fn is_letter(c: char) -> bool {
    matches!(c,
        'A'..='Z' | 'a'..='z' | 'À'..='Ö' | 'Ø'..='ö' | 'ø'..='ÿ'
        | '\u{0900}'..='\u{0963}' | '\u{0966}'..='\u{097F}' // Devanagari
        | '\u{0980}'..='\u{09FF}' // Bengali
        | '\u{0A80}'..='\u{0AFF}' // Gujarati
        | '\u{0B80}'..='\u{0BFF}' // Tamil
        | '\u{0C00}'..='\u{0C7F}' // Telugu
        | '\u{0C80}'..='\u{0CFF}' // Kannada
        | '\u{AC00}'..='\u{D7A3}' | '\u{1100}'..='\u{11FF}' | '\u{3130}'..='\u{318F}')
}

/// Returns true for a letter, or a digit of any script.
pub(super) fn is_letter_or_digit(c: char) -> bool {
    is_letter(c) || c.general_category() == GeneralCategory::DecimalNumber
}

/// Returns true for a mark without width, such as an accent.
pub(super) fn is_mark(c: char) -> bool {
    c.general_category() == GeneralCategory::NonspacingMark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_end_where_the_ranges_of_the_reference_end() {
        assert!(['é', 'ñ', 'ÿ', 'न', 'ी', '한', 'ㄱ'].into_iter().all(is_letter));
        // The multiplication sign, the danda, Greek, kana.
        assert!(!['×', '÷', '।', '॥', 'λ', 'ア', '1', '\''].into_iter().any(is_letter));
        assert!(['1', '१', '٣'].into_iter().all(is_letter_or_digit));
        // A fraction and a superscript are numbers, but no digits.
        assert!(!['½', '²', '-'].into_iter().any(is_letter_or_digit));
        assert!(is_mark('\u{301}') && !is_mark('\u{903}') && !is_mark('e'));
    }
}
