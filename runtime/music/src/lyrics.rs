//! Lyrics as a user writes them.

use std::sync::LazyLock;

use acestep_engine::Notice;
use regex::Regex;

/// Time stamps at the start of a line, such as `[01:23.45]`.
static OF_LINE: LazyLock<Regex> = LazyLock::new(|| times(r"^(?:\s*\[TIME\])+"));

/// A time stamp of a word, such as `<01:23.45>`.
static OF_WORD: LazyLock<Regex> = LazyLock::new(|| times(r"<TIME>\s*"));

/// Compiles a pattern in which `TIME` stands for minutes, seconds and perhaps decimals.
fn times(pattern: &str) -> Regex {
    let time = "[0-9]{1,3}:[0-9]{1,2}(?:[.:][0-9]{1,3})?";
    Regex::new(&pattern.replace("TIME", time)).expect("the pattern is a constant")
}

/// True for a text that says that the song has no voice.
pub fn is_instrumental(lyrics: &str) -> bool {
    let lyrics = lyrics.trim();
    ["[instrumental]", "[inst]"].iter().any(|mark| lyrics.eq_ignore_ascii_case(mark))
}

/// True if there is text for a voice.
pub fn is_sung(lyrics: &str) -> bool {
    !lyrics.trim().is_empty() && !is_instrumental(lyrics)
}

/// Removes the time stamps and metadata of an LRC file, and control characters, from lyrics.
/// Returns the lyrics with notices about removals.
pub fn cleaned(lyrics: &str) -> (String, Vec<Notice>) {
    let mut notices = Vec::new();
    let mut text: String =
        lyrics.chars().filter(|&c| c == '\n' || c == '\t' || !c.is_control()).collect();
    if text.len() < lyrics.len() {
        notices.push(Notice(
            "control characters are left out of the lyrics: is it a text file?".to_owned(),
        ));
    }
    if text.lines().any(|line| OF_LINE.is_match(line)) {
        let is_sung = |line: &&str| !FACTS.iter().any(|fact| line.trim_start().starts_with(fact));
        let lines = text.lines().filter(is_sung).map(without_times);
        let lines = lines.collect::<Vec<_>>().join("\n");
        text = if text.ends_with('\n') { lines + "\n" } else { lines };
        notices.push(Notice(
            "the lyrics' time stamps are left out, for the model decides when a line is sung: `lrc: true` writes \
             its times"
                .to_owned(),
        ));
    }
    (text, notices)
}

/// Prefixes of LRC metadata lines.
const FACTS: [&str; 9] =
    ["[ar:", "[al:", "[ti:", "[au:", "[by:", "[re:", "[ve:", "[length:", "[offset:"];

/// Removes the time stamps at the start of a line and within it.
pub(crate) fn without_times(line: &str) -> String {
    OF_WORD.replace_all(&OF_LINE.replace(line, ""), "").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instrumental_and_blank_lyrics_are_not_sung() {
        for none in ["", " \n", "[Instrumental]", " [inst] "] {
            assert!(!is_sung(none), "{none:?}");
        }
        for some in ["la", "[Verse]", "[Instrumental]\nla"] {
            assert!(is_sung(some), "{some:?}");
        }
    }

    #[test]
    fn times_of_lrc_are_not_sung() {
        let lrc = "[ar:Someone]\n[offset:+20]\n[Verse 1]\n[00:12.30][01:02.00] la la\n[00:15]<00:15.1> lo <00:16.0>lu\n\n[02:00.123]\n";
        let (text, notices) = cleaned(lrc);
        assert_eq!(text, "[Verse 1]\nla la\nlo lu\n\n\n");
        assert!(notices[0].0.starts_with("the lyrics' time stamps are left out"));
        // Sections, numbers and symbols of a song without time stamps.
        for plain in
            ["[Verse]\n1:23 is the time, a < b\n", "[ar: no]\n[1:2:3:4]\n", "[00:1x]\n", ""]
        {
            assert_eq!(cleaned(plain), (plain.to_owned(), vec![]), "{plain}");
        }
    }

    #[test]
    fn control_characters_are_said_and_left_out() {
        let (text, notices) = cleaned("la\0 la\u{7}\tlo\n");
        assert_eq!(text, "la la\tlo\n");
        assert_eq!(notices.len(), 1);
    }
}
