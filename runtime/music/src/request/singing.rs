//! A check that the lyrics fit into the song's length.
//!
//! A fast rap has about 260 words per minute, 4.3 per second. In a script without spaces a
//! character is a syllable, and a fast voice sings about twice as many syllables as words. With
//! more text than that the song skips some of it. The bound is loose: most songs are half as fast
//! and have parts without a voice.

use std::sync::LazyLock;

use acestep_engine::Notice;
use regex::Regex;

/// A tag within a line, which is not sung.
static TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\[[^\]]*\]").expect("the pattern is a constant"));

/// Most words that can be sung per second.
pub const WORDS_A_SECOND: f64 = 4.5;

/// Most characters that can be sung per second, in scripts where each is a syllable.
pub const SYLLABLES_A_SECOND: f64 = 9.0;

/// Returns the least number of seconds for singing `lyrics`. Text in `[brackets]` is not sung.
///
/// Scripts without spaces whose characters are not syllables, such as Thai, are underestimated.
pub fn least_seconds(lyrics: &str) -> f64 {
    let (words, syllables) = sung(lyrics);
    words as f64 / WORDS_A_SECOND + syllables as f64 / SYLLABLES_A_SECOND
}

/// Returns a notice if `lyrics` do not fit into a song of `seconds`.
pub fn notice(lyrics: &str, seconds: f64) -> Option<Notice> {
    let least = least_seconds(lyrics);
    (least > seconds).then(|| {
        Notice(format!(
            "the lyrics take {} s even if they are rapped fast, but the song has {seconds} s: not \
             all of them will be sung",
            least.ceil()
        ))
    })
}

/// Counts words, and characters that are syllables.
fn sung(lyrics: &str) -> (usize, usize) {
    let texts = || lyrics.lines().flat_map(|line| TAG.split(line));
    let ends = |c: char| c.is_whitespace() || is_syllable(c);
    let words = texts().flat_map(|text| text.split(ends));
    let words = words.filter(|word| word.chars().any(char::is_alphanumeric)).count();
    (words, texts().flat_map(str::chars).filter(|&c| is_syllable(c)).count())
}

/// True for Han, kana and Hangul.
fn is_syllable(c: char) -> bool {
    matches!(c,
        '\u{3041}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
        && c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_punctuation_are_not_sung() {
        for (lyrics, expected) in [
            ("", (0, 0)),
            ("[Verse 1 - slow guitar]\nLa la, la!\n\n[Chorus]\n(ooh)", (4, 0)),
            ("don't stop - never", (3, 0)),
            ("one [tag] two [open\nthree", (4, 0)),
            ("月亮代表我的心。", (0, 7)),
            ("ラーメン食べたい", (0, 8)),
            ("사랑해 baby 사랑해", (1, 6)),
            ("]]] [[[ []", (0, 0)),
            (crate::prompt::INSTRUMENTAL, (0, 0)),
        ] {
            assert_eq!(sung(lyrics), expected, "{lyrics}");
        }
    }

    #[test]
    fn only_what_cannot_be_sung_is_said() {
        let lyrics = "la ".repeat(90);
        assert_eq!(least_seconds(&lyrics), 20.0);
        assert_eq!((notice(&lyrics, 20.0), notice("", 0.04)), (None, None));
        assert_eq!(
            notice(&lyrics, 10.0).expect("too long").0,
            "the lyrics take 20 s even if they are rapped fast, but the song has 10 s: not all of \
             them will be sung"
        );
        assert_eq!(least_seconds(&"心".repeat(90)), 10.0);
    }
}
