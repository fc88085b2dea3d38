//! Converts a path through tokens and frames to lines with times.
//!
//! Source: upstream `token_timestamps`, `sentence_timestamps`. Their confidence of a line is always
//! 0, so it is left out here.

use crate::python::strip;

/// A line of the lyrics with its times, in seconds of the song.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The text of the line, or a tag such as `[Verse]`.
    pub text: String,
    /// Start time.
    pub start: f64,
    /// End time.
    pub end: f64,
}

/// Returns the start and the end of each of `tokens`, in seconds.
///
/// `path` holds pairs `(token, frame)`; the song has `frames` frames in `seconds`. A token that is
/// not on the path starts and ends at the end of the token before it.
pub fn of_tokens(
    path: &[(usize, usize)],
    tokens: usize,
    frames: usize,
    seconds: f64,
) -> Vec<(f64, f64)> {
    let each = seconds / frames as f64;
    let mut found: Vec<Option<(usize, usize)>> = vec![None; tokens];
    for &(token, frame) in path {
        // The path is monotonic, so the last frame is the latest.
        found[token].get_or_insert((frame, frame)).1 = frame;
    }
    let mut before = 0.0;
    let time = |span: Option<(usize, usize)>| {
        let (start, end) = match span {
            Some((first, last)) => (first as f64 * each, last as f64 * each),
            None => (before, before),
        };
        before = end;
        (start, end)
    };
    found.into_iter().map(time).collect()
}

/// Groups tokens into the lines of the lyrics: each ends with the token that completes a line
/// break.
///
/// `text_of` decodes tokens; `times` come from [`of_tokens`]. Blank lines are left out, and times
/// are rounded to milliseconds.
///
/// # Errors
/// The errors of `text_of`.
pub fn lines<E>(
    ids: &[u32],
    times: &[(f64, f64)],
    text_of: impl Fn(&[u32]) -> Result<String, E>,
) -> Result<Vec<Line>, E> {
    let mut lines = Vec::new();
    let (mut begin, mut known) = (0, 0);
    for last in 0..ids.len() {
        // A character may span several tokens, so the whole line is decoded for each new token.
        let text = text_of(&ids[begin..=last])?;
        let breaks = text.get(known..).is_some_and(|new| new.contains('\n'));
        known = text.len();
        if !breaks && last + 1 < ids.len() {
            continue;
        }
        let line = strip(&text);
        if !line.is_empty() {
            lines.push(Line {
                text: line.to_owned(),
                start: to_milliseconds(times[begin].0),
                end: to_milliseconds(times[last].1),
            });
        }
        (begin, known) = (last + 1, 0);
    }
    Ok(lines)
}

/// Rounds by the exact decimal value, as Python's `round(x, 3)`.
fn to_milliseconds(seconds: f64) -> f64 {
    format!("{seconds:.3}").parse().expect("a number just written")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::align::expected::{cases, close, floats, wholes};

    #[test]
    fn tokens_and_lines_have_the_times_of_the_description() {
        let cases = cases("lines");
        assert_eq!(cases.len(), 4);
        for case in &cases {
            let rows = |key: &str| case[key].as_array().expect("rows").clone();
            let tokens: Vec<Vec<u8>> = rows("tokens")
                .iter()
                .map(|token| wholes(token).into_iter().map(|byte| byte as u8).collect())
                .collect();
            let path: Vec<_> =
                rows("path").iter().map(wholes).map(|cell| (cell[0], cell[1])).collect();
            let (frames, seconds) = (case["columns"].as_u64(), case["seconds"].as_f64());
            let (frames, seconds) = (frames.expect("frames") as usize, seconds.expect("seconds"));
            let times = of_tokens(&path, tokens.len(), frames, seconds);
            let flat: Vec<f64> = times.iter().flat_map(|&(start, end)| [start, end]).collect();
            let wanted: Vec<f64> = rows("times").iter().flat_map(floats).collect();
            close(&flat, &wanted, 1e-9);

            let text_of = |ids: &[u32]| {
                let bytes: Vec<u8> =
                    ids.iter().flat_map(|&id| tokens[id as usize].clone()).collect();
                Ok::<_, Infallible>(String::from_utf8_lossy(&bytes).into_owned())
            };
            let ids: Vec<u32> = (0..tokens.len() as u32).collect();
            let found = lines(&ids, &times, text_of).expect("lines");
            let wanted: Vec<Line> = rows("sentences")
                .iter()
                .map(|line| Line {
                    text: line[0].as_str().expect("a text").to_owned(),
                    start: line[1].as_f64().expect("a time"),
                    end: line[2].as_f64().expect("a time"),
                })
                .collect();
            assert_eq!(found, wanted);
        }
    }
}
