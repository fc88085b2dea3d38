//! Prompts of acestep.cpp that differ from upstream's, byte by byte.
//!
//! Source: acestep.cpp `prompt.h`, `build_cot_yaml`, `build_custom_prompt`; `pipeline-lm.cpp`,
//! `ace_lm_generate`.

use super::{FORMAT, INSPIRE, ask};
use crate::{Request, prompt::INSTRUMENTAL};

/// Number of bytes after which lines are folded.
const WIDTH: usize = 80;

/// Returns all values of `request` as the plan before the codes: `<think>\n{lines}</think>`.
///
/// Values are written without quotes. The length is truncated to whole seconds.
pub(super) fn plan(request: &Request) -> String {
    let word = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let lines = [
        request.words.bpm.filter(|&bpm| bpm > 0).map(|bpm| format!("bpm: {bpm}")),
        word(&request.words.caption).map(|caption| folded("caption", &caption)),
        request.words.duration.map(|seconds| format!("duration: {}", seconds as i64)),
        word(&request.words.keyscale).map(|key| format!("keyscale: {key}")),
        word(&request.words.vocal_language).map(|code| format!("language: {code}")),
        word(&request.words.timesignature).map(|metre| format!("timesignature: {metre}")),
    ];
    let lines: String = lines.into_iter().flatten().map(|line| line + "\n").collect();
    format!("<think>\n{lines}</think>")
}

/// Folds a line after the word that passes [`WIDTH`] bytes; the next line is indented by two.
///
/// A space at the very end is dropped.
fn folded(key: &str, text: &str) -> String {
    let mut line = format!("{key}:");
    let mut column = line.len();
    for word in text.strip_suffix(' ').unwrap_or(text).split(' ') {
        if column > WIDTH {
            line.push_str("\n  ");
            column = 2;
        } else {
            line.push(' ');
            column += 1;
        }
        line.push_str(word);
        column += word.len();
    }
    line
}

/// Returns the prompt for a whole song. It mentions the voice only if there is none.
pub fn inspire(query: &str, lyrics: &str) -> String {
    let voice = if lyrics == INSTRUMENTAL { "\n\ninstrumental: true" } else { "" };
    ask(INSPIRE, &format!("{query}{voice}\n"))
}

/// Returns the prompt to rewrite caption and lyrics.
pub fn format(caption: &str, lyrics: &str) -> String {
    ask(FORMAT, &format!("# Caption\n{caption}\n\n# Lyric\n{lyrics}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(caption: &str) -> Request {
        Request::default().with(|r| r.words.caption = Some(caption.into()))
    }

    /// Derived by hand from `build_cot_yaml`.
    #[test]
    fn a_plan_holds_what_is_given_without_quotes_and_in_order() {
        let all = request("soul: 'slow' # live").with(|r| {
            r.words.bpm = Some(92);
            r.words.duration = Some(61.9);
            r.words.keyscale = Some("F# minor".into());
            r.words.vocal_language = Some("no".into());
            r.words.timesignature = Some("6/8".into());
        });
        assert_eq!(
            plan(&all),
            "<think>\nbpm: 92\ncaption: soul: 'slow' # live\nduration: 61\nkeyscale: F# minor\n\
             language: no\ntimesignature: 6/8\n</think>"
        );
        assert_eq!(plan(&Request::default()), "<think>\n</think>");
        let unknown = request("").with(|r| r.words.vocal_language = Some("unknown".into()));
        assert_eq!(plan(&unknown), "<think>\nlanguage: unknown\n</think>");
    }

    /// Derived by hand from `yaml_wrap`: it counts bytes, and the word that passes 80 stays.
    #[test]
    fn a_long_caption_is_folded_after_eighty_bytes() {
        let ascii = ["abcdefghi"; 9].join(" ");
        let folded_at_eight = format!("caption: {}\n  abcdefghi", ["abcdefghi"; 8].join(" "));
        assert_eq!(folded("caption", &ascii), folded_at_eight);
        // `caption:` and fifteen times a space and four bytes are 83 bytes.
        let accented = ["ää"; 16].join(" ");
        let line = folded("caption", &accented);
        let words = line.split('\n').map(|line| line.matches("ää").count());
        assert_eq!(words.collect::<Vec<_>>(), [15, 1]);
        assert_eq!(folded("caption", "two  spaces "), "caption: two  spaces");
    }

    /// Derived by hand from `ace_lm_generate` and `build_custom_prompt`.
    #[test]
    fn a_turn_of_the_user_ends_with_a_line_and_names_only_a_missing_voice() {
        let system =
            |what: &str| format!("<|im_start|>system\n# Instruction\n{what}\n\n<|im_end|>\n");
        let end = "\n<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(
            inspire("rain", "[Instrumental]"),
            system(INSPIRE) + "<|im_start|>user\nrain\n\ninstrumental: true" + end
        );
        assert_eq!(inspire("rain", ""), system(INSPIRE) + "<|im_start|>user\nrain" + end);
        assert_eq!(
            format("", ""),
            system(FORMAT) + "<|im_start|>user\n# Caption\n\n\n# Lyric\n" + end
        );
    }
}
