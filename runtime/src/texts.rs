//! Normalises input texts of any program.
//!
//! Windows line ends would give other tokens than Unix line ends. So every text from a request, a
//! file or a flag is normalised on input.

use std::borrow::Cow;

use crate::Notice;

/// Bytes that are not text, and their line, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line} has a byte that is no UTF-8")]
pub struct NotText {
    /// The line.
    pub line: usize,
}

/// Replaces `\r\n` and `\r` with `\n`.
pub fn unix_lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Decodes a text file: UTF-8, or UTF-16 with a byte-order mark, as PowerShell writes it.
///
/// The mark is removed, and lines end as in [`unix_lines`].
///
/// # Errors
/// [`NotText`] if it is neither.
pub fn decode(bytes: &[u8]) -> Result<String, NotText> {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes)?.into(),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes)?.into(),
        _ => match str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text.strip_prefix('\u{feff}').unwrap_or(text)),
            Err(error) => return Err(NotText { line: line_of(&bytes[..error.valid_up_to()]) }),
        },
    };
    Ok(unix_lines(&text))
}

/// Removes the time stamps and metadata of an LRC file, and control characters, from lyrics.
/// Returns the lyrics with notices about removals.
pub fn sung(lyrics: &str) -> (String, Vec<Notice>) {
    let mut notices = Vec::new();
    let mut text: String =
        lyrics.chars().filter(|&c| c == '\n' || c == '\t' || !c.is_control()).collect();
    if text.len() < lyrics.len() {
        notices.push(Notice(
            "control characters are left out of the lyrics: is it a text file?".to_owned(),
        ));
    }
    if text.lines().any(|line| time(line, ['[', ']']).is_some()) {
        let is_sung = |line: &&str| !FACTS.iter().any(|fact| line.trim_start().starts_with(fact));
        let lines = text.lines().filter(is_sung).map(without_times);
        let lines = lines.collect::<Vec<_>>().join("\n");
        text = if text.ends_with('\n') { lines + "\n" } else { lines };
        notices.push(Notice(
            "the lyrics' time stamps are left out, for the model decides when a line is sung: --lrc writes \
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
fn without_times(line: &str) -> String {
    let mut rest = line;
    while let Some(after) = time(rest, ['[', ']']) {
        rest = after;
    }
    let mut words = String::new();
    while let Some((before, _)) = rest.split_once('<') {
        words.push_str(before);
        let at = &rest[before.len()..];
        rest = match time(at, ['<', '>']) {
            Some(after) => after.trim_start(),
            None => {
                words.push('<');
                &at[1..]
            }
        };
    }
    words.push_str(rest);
    words.trim().to_owned()
}

/// Returns the rest of `text` after a leading time stamp such as `[01:23.45]`.
fn time(text: &str, [open, close]: [char; 2]) -> Option<&str> {
    let (inside, after) = text.trim_start().strip_prefix(open)?.split_once(close)?;
    let (minutes, seconds) = inside.split_once(':')?;
    let is_number = |part: &str, most: usize| {
        (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (seconds, fraction) = seconds.split_once(['.', ':']).unwrap_or((seconds, "0"));
    let is_time = is_number(minutes, 3) && is_number(seconds, 2) && is_number(fraction, 3);
    is_time.then_some(after)
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, NotText> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text: Result<String, _> =
        char::decode_utf16(pairs.iter().map(|&pair| unit(pair))).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(text),
        _ => {
            let good =
                char::decode_utf16(pairs.iter().map(|&pair| unit(pair))).map_while(Result::ok);
            Err(NotText { line: 1 + good.filter(|&c| c == '\n').count() })
        }
    }
}

/// Returns the number of the line that follows `before`.
fn line_of(before: &[u8]) -> usize {
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_is_that_of_unix() {
        assert_eq!(unix_lines("[Verse]\r\nla\rla\n\r\n"), "[Verse]\nla\nla\n\n");
    }

    /// `é\n` in all three encodings, with and without a byte-order mark.
    #[test]
    fn text_of_every_encoding_is_the_same() {
        let all: [&[u8]; 4] = [
            b"\xc3\xa9\r\n",
            b"\xef\xbb\xbf\xc3\xa9\n",
            b"\xff\xfe\xe9\x00\x0d\x00\x0a\x00",
            b"\xfe\xff\x00\xe9\x00\x0a",
        ];
        for bytes in all {
            assert_eq!(decode(bytes).as_deref(), Ok("é\n"), "{bytes:x?}");
        }
    }

    #[test]
    fn times_of_lrc_are_not_sung() {
        let lrc = "[ar:Someone]\n[offset:+20]\n[Verse 1]\n[00:12.30][01:02.00] la la\n[00:15]<00:15.1> lo <00:16.0>lu\n\n[02:00.123]\n";
        let (text, notices) = sung(lrc);
        assert_eq!(text, "[Verse 1]\nla la\nlo lu\n\n\n");
        assert!(notices[0].0.starts_with("the lyrics' time stamps are left out"));
        // Sections, numbers and symbols of a song without time stamps.
        for plain in
            ["[Verse]\n1:23 is the time, a < b\n", "[ar: no]\n[1:2:3:4]\n", "[00:1x]\n", ""]
        {
            assert_eq!(sung(plain), (plain.to_owned(), vec![]), "{plain}");
        }
    }

    #[test]
    fn control_characters_are_said_and_left_out() {
        let (text, notices) = sung("la\0 la\u{7}\tlo\n");
        assert_eq!(text, "la la\tlo\n");
        assert_eq!(notices.len(), 1);
    }

    /// Latin-1 in the second line; half a UTF-16 unit; half a surrogate pair in the second line.
    #[test]
    fn what_is_no_text_names_the_line() {
        let all: [(&[u8], usize); 3] =
            [(b"a\n\xe9t\xe9", 2), (b"\xff\xfea", 1), (b"\xff\xfea\x00\n\x00\x00\xd8", 2)];
        for (bytes, line) in all {
            assert_eq!(decode(bytes), Err(NotText { line }), "{bytes:x?}");
        }
    }
}
