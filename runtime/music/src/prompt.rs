//! The two prompts that condition a song, byte for byte as the model was trained on them.
//!
//! Caption prompt: `# Instruction\n{instruction}\n\n# Caption\n{caption}\n\n# Metas\n{metas}
//! <|endoftext|>\n`; lyric prompt: `# Languages\n{language}\n\n# Lyric\n{lyrics}<|endoftext|>`.
//!
//! Source: upstream `prompt_utils.py`, `metadata_utils.py`, `task_utils.py`, `constants.py`.

/// Instruction of text2music.
pub const TEXT_TO_MUSIC: &str = "Fill the audio semantic mask based on the given conditions:";
/// Instruction of covers and of songs from audio codes.
pub const COVER: &str = "Generate audio semantic tokens based on the given conditions:";
/// Instruction of repainting.
pub const REPAINT: &str = "Repaint the mask area based on the given conditions:";

/// Lyrics of a song without vocals.
pub const INSTRUMENTAL: &str = "[Instrumental]";

const NOT_KNOWN: &str = "N/A";

/// Duration in the prompt if none is known.
const DEFAULT_DURATION: &str = "30 seconds";

/// Tempo, metre, key and duration, as in the caption prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Metas {
    /// Beats per minute; absent and 0 are both written `N/A`.
    pub bpm: Option<u32>,
    /// Such as `4` or `6/8`, verbatim; blank is `N/A`.
    pub timesignature: Option<String>,
    /// Such as `F# minor`, verbatim; blank is `N/A`.
    pub keyscale: Option<String>,
    /// Duration text, see [`duration_text`]; absent means `30 seconds`.
    pub duration: Option<String>,
}

impl Metas {
    /// Formats the four lines, each with its newline.
    pub fn to_text(&self) -> String {
        let bpm = match self.bpm {
            None | Some(0) => NOT_KNOWN.to_owned(),
            Some(bpm) => bpm.to_string(),
        };
        let duration = self.duration.as_deref().unwrap_or(DEFAULT_DURATION);
        format!(
            "- bpm: {bpm}\n- timesignature: {}\n- keyscale: {}\n- duration: {duration}\n",
            or_not_known(self.timesignature.as_deref()),
            or_not_known(self.keyscale.as_deref()),
        )
    }
}

fn or_not_known(value: Option<&str>) -> &str {
    value.filter(|text| !text.trim().is_empty()).unwrap_or(NOT_KNOWN)
}

/// Formats a duration, truncated: `33.7` -> `33 seconds`.
pub fn duration_text(seconds: f64) -> String {
    format!("{} seconds", seconds.trunc())
}

/// Formats the prompt of the caption encoder; `metas` is [`Metas::to_text`] or any other text.
pub fn caption_prompt(instruction: &str, caption: &str, metas: &str) -> String {
    let colon = if instruction.ends_with(':') { "" } else { ":" };
    let caption = caption_of_prompt(caption);
    format!(
        "# Instruction\n{instruction}{colon}\n\n# Caption\n{caption}\n\n# Metas\n{metas}<|endoftext|>\n"
    )
}

/// Formats the prompt of the lyric encoder.
pub fn lyric_prompt(language: &str, lyrics: &str) -> String {
    format!("{}{lyrics}<|endoftext|>", lyric_head(language))
}

/// Returns the part of [`lyric_prompt`] before the lyrics.
pub fn lyric_head(language: &str) -> String {
    format!("# Languages\n{language}\n\n# Lyric\n")
}

/// Extracts the caption from a whole caption prompt; returns any other text unchanged.
///
/// Users paste prompts of the training data as captions, and upstream unwraps them.
pub fn caption_of_prompt(caption: &str) -> &str {
    const START: &str = "# Caption";
    if !caption.contains("# Instruction") {
        return caption;
    }
    let Some((_, rest)) = caption.split_once(START) else { return caption };
    rest.split_once("# Metas").map_or(rest, |(inside, _)| inside).trim()
}

/// Returns the instruction of a task; [`TEXT_TO_MUSIC`] for an unknown task, as upstream.
///
/// `track` is used by `extract` and `lego`, `classes` by `complete`; both are upper-cased.
pub fn instruction(task: &str, track: Option<&str>, classes: &[&str]) -> String {
    let track = track.filter(|track| !track.is_empty()).map(str::to_uppercase);
    match (task, track) {
        ("repaint", _) => REPAINT.into(),
        ("cover", _) => COVER.into(),
        ("extract", Some(track)) => format!("Extract the {track} track from the audio:"),
        ("extract", None) => "Extract the track from the audio:".into(),
        ("lego", Some(track)) => {
            format!("Generate the {track} track based on the audio context:")
        }
        ("lego", None) => "Generate the track based on the audio context:".into(),
        ("complete", _) if classes.is_empty() => "Complete the input track:".into(),
        ("complete", _) => {
            let classes: Vec<_> = classes.iter().map(|class| class.to_uppercase()).collect();
            format!("Complete the input track with {}:", classes.join(" | "))
        }
        _ => TEXT_TO_MUSIC.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::test_goldens::golden_cases;

    fn text(value: &Value) -> &str {
        value.as_str().expect("a text")
    }

    /// Golden: `dit_prompts.json`, `_build_metadata_dict`.
    #[test]
    fn metas_are_written_as_upstream_writes_them() {
        for case in &golden_cases("a/logic/dit_prompts.json", "build_metadata_dict") {
            let (args, out) = (&case["args"], &case["out"]);
            let metas = Metas {
                bpm: args[0].as_u64().map(|bpm| bpm as u32),
                keyscale: args[1].as_str().map(str::to_owned),
                timesignature: args[2].as_str().map(str::to_owned),
                duration: args[3].as_f64().map(duration_text),
            };
            let expected = format!(
                "- bpm: {}\n- timesignature: {}\n- keyscale: {}\n- duration: {}\n",
                out["bpm"].as_str().map_or_else(|| out["bpm"].to_string(), str::to_owned),
                text(&out["timesignature"]),
                text(&out["keyscale"]),
                out["duration"].as_str().unwrap_or("30 seconds"),
            );
            assert_eq!(metas.to_text(), expected);
        }
    }

    /// Golden: `dit_prompts.json`, `generate_instruction`.
    #[test]
    fn instructions_of_every_task_equal_upstreams() {
        for case in &golden_cases("a/logic/dit_prompts.json", "generate_instruction") {
            let classes: Vec<&str> =
                case["classes"].as_array().map_or_else(Vec::new, |c| c.iter().map(text).collect());
            let ours = instruction(text(&case["task"]), case["track_name"].as_str(), &classes);
            assert_eq!(ours, text(&case["out"]));
        }
    }

    /// Golden: `dit_prompts.json`, `extract_caption_from_sft_format`.
    #[test]
    fn a_pasted_prompt_is_unwrapped_as_upstream_does() {
        for case in &golden_cases("a/logic/dit_prompts.json", "extract_caption_from_sft_format") {
            assert_eq!(caption_of_prompt(text(&case["in"])), text(&case["out"]));
        }
    }

    #[test]
    fn a_prompt_ends_with_a_newline_after_the_end_of_text() {
        let prompt = caption_prompt(TEXT_TO_MUSIC, "calm piano", &Metas::default().to_text());
        assert!(prompt.ends_with("- duration: 30 seconds\n<|endoftext|>\n"));
    }
}
