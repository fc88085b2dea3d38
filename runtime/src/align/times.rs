//! From a path through words and moments to lines with times.
//!
//! Source: upstream `token_timestamps`, `sentence_timestamps`. Its confidence of a line is always 0
//! and left out here.

use crate::lm::parse::python::strip;

/// A line of the lyrics and when it is sung, in seconds of the song.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What is sung, or a tag such as `[Verse]`.
    pub text: String,
    /// When it begins.
    pub start: f64,
    /// When it ends.
    pub end: f64,
}

/// When each of `tokens` begins and ends, in seconds.
///
/// `path` is of tokens and frames, of which there are `frames` in `seconds`. A token that the path
/// leaves out begins and ends where the one before it ended.
pub fn of_tokens(
    path: &[(usize, usize)],
    tokens: usize,
    frames: usize,
    seconds: f64,
) -> Vec<(f64, f64)> {
    let each = seconds / frames as f64;
    let mut found: Vec<Option<(usize, usize)>> = vec![None; tokens];
    for &(token, frame) in path {
        // A path never goes back, so the last frame is the latest.
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

/// The lines of lyrics: each ends with the token that completes a line break.
///
/// `text_of` gives the text of tokens; `times` are those of [`of_tokens`]. Blank lines are left out,
/// and times are rounded to milliseconds.
///
/// # Errors
/// Those of `text_of`.
pub fn lines<E>(
    ids: &[u32],
    times: &[(f64, f64)],
    text_of: impl Fn(&[u32]) -> Result<String, E>,
) -> Result<Vec<Line>, E> {
    let mut lines = Vec::new();
    let (mut begin, mut known) = (0, 0);
    for last in 0..ids.len() {
        // A character may be several tokens: what a token adds is known only from all of the line's.
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

/// Rounded as Python's `round(x, 3)`: by the exact value.
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
