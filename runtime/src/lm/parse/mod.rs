//! The model's text back to metadata, codes and lyrics.
//!
//! ```text
//! <think>
//! bpm: 73
//! caption: A calm piano melody
//!   on two lines.
//! </think>
//!
//! <|audio_code_56535|>...        or        # Lyric ...
//! ```
//!
//! Nothing that a model can write is an error: what cannot be read is not there.
//!
//! What stands between quotes in the YAML keeps them, as in upstream: the plan of a caption that
//! [`cot`](super::cot::cot) must quote is read back with its quotes.
//!
//! Source: upstream `llm_inference.py`, `parse_lm_output`, `_extract_lyrics_from_output`;
//! `constrained_logits_processor.py`, `postprocess_caption`.

pub(crate) mod python;

use super::metadata::{Metadata, Scalar};
use crate::codes;
use python::{is_space, strip};

const THINK_END: &str = "</think>";
const TURN_END: &str = "<|im_end|>";

/// The fields that the model wrote between `<think>` and `</think>`; before the first audio code,
/// if there is nothing between them.
///
/// A line that starts with a name and a colon begins a field; indented lines go on with it; lines
/// that begin with `<` are skipped. A field that comes twice counts the last time, an unknown one
/// not at all.
pub fn metadata(text: &str) -> Metadata {
    let mut metadata = Metadata::default();
    let mut field = Field::default();
    for line in reasoning(text).split('\n') {
        if strip(line).starts_with('<') {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            field.lines.push(line);
        } else if !line.starts_with(is_space)
            && let Some((key, value)) = line.split_once(':')
        {
            std::mem::take(&mut field).save(&mut metadata);
            field.key = strip(key).to_lowercase();
            if !strip(value).is_empty() {
                field.lines.push(value);
            }
        }
    }
    field.save(&mut metadata);
    metadata
}

/// A field while its lines are read.
#[derive(Default)]
struct Field<'a> {
    key: String,
    lines: Vec<&'a str>,
}

impl Field<'_> {
    fn save(self, metadata: &mut Metadata) {
        if self.lines.is_empty() {
            return;
        }
        let value = self.lines.join("\n");
        let text = || Some(strip(&value).to_owned());
        let number = || {
            Some(
                python::int(&value)
                    .map_or_else(|| Scalar::Text(strip(&value).into()), Scalar::Whole),
            )
        };
        match self.key.as_str() {
            "bpm" => metadata.bpm = number(),
            "caption" => metadata.caption = Some(caption_on_one_line(&value)),
            "duration" => metadata.duration = number(),
            "genres" => metadata.genres = text(),
            "keyscale" => metadata.keyscale = text(),
            "language" => metadata.language = text(),
            "timesignature" => metadata.timesignature = text(),
            _ => {}
        }
    }
}

fn reasoning(text: &str) -> &str {
    let between = |open: &str, close: &str| {
        let (_, after) = text.split_once(open)?;
        Some(after.split_once(close)?.0)
    };
    let inside = between("<think>", THINK_END).or_else(|| between("<reasoning>", "</reasoning>"));
    let before_codes = || text.split_once(codes::OPEN).map_or(text, |(before, _)| before);
    strip(inside.filter(|inside| !strip(inside).is_empty()).unwrap_or_else(before_codes))
}

/// The audio codes anywhere in the text, each at most the last of the released codebook.
pub fn codes(text: &str) -> Vec<u32> {
    codes::parse_markup(text)
}

/// The audio codes anywhere in the text as the text they are, one after another.
pub fn codes_as_text(text: &str) -> String {
    codes::markup(text).map(|digits| format!("{}{digits}{}", codes::OPEN, codes::CLOSE)).collect()
}

/// The lyrics after `</think>`, without the line `# Lyric` above and the end of the turn below.
pub fn lyrics(text: &str) -> String {
    let Some((_, after)) = text.split_once(THINK_END) else { return String::new() };
    let after = without_heading(strip(after));
    strip(after.strip_suffix(TURN_END).unwrap_or(after)).to_owned()
}

/// `# Lyric\n[Verse]` -> `[Verse]`. Upstream's pattern is `^#\s*Lyri[c|cs]?\s*\n`, in any case of
/// letters, in which the brackets stand for one letter: `# Lyrics` is not a heading to it.
fn without_heading(text: &str) -> &str {
    let inside = || {
        let mut rest = text.strip_prefix('#')?.trim_start_matches(is_space);
        // Python folds these four onto ASCII letters when it ignores case.
        for letter in ["lL", "yY", "rR", "iIİı"] {
            rest = rest.strip_prefix(|c| letter.contains(c))?;
        }
        rest = rest.strip_prefix(|c| "cC|sSſ".contains(c)).unwrap_or(rest);
        let after = rest.trim_start_matches(is_space);
        rest[..rest.len() - after.len()].contains('\n').then_some(after)
    };
    inside().unwrap_or(text)
}

/// Lines without their indentation, joined by spaces; empty lines are dropped.
///
/// Upstream's `postprocess_caption`: it undoes the folding of YAML.
pub fn caption_on_one_line(caption: &str) -> String {
    let lines = caption.split('\n').map(strip).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
