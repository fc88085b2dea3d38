//! Normalises input texts of any program.
//!
//! Windows line ends would give other tokens than Unix line ends. So every text from a request, a
//! file or a flag is normalised on input.

use std::borrow::Cow;

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
