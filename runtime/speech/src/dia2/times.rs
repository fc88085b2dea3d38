//! The times of the spoken words.

use super::machine::WordStart;
use crate::spoken::Word;

/// Returns the words of a transcript with their times in the sound, which begins at step `first` and
/// is `frames` long. Words before it are left out; a word ends where the next one begins.
///
/// The word of a step sounds in the frame of that step, so the delays of the codebooks do not count.
pub fn times(transcript: &[WordStart], first: usize, frames: usize, frame_rate: f64) -> Vec<Word> {
    let start = |word: &WordStart| Some(word.step.checked_sub(first)? as f64 / frame_rate);
    let words: Vec<(&WordStart, f64)> =
        transcript.iter().filter_map(|word| Some((word, start(word)?))).collect();
    let length = frames as f64 / frame_rate;
    let of = |(index, (word, start)): (usize, &(&WordStart, f64))| {
        let end = words.get(index + 1).map_or(length, |(_, next)| *next).max(*start);
        Word { text: word.text.clone(), start: *start, end }
    };
    words.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::words::words_of_json, *};
    use crate::timestamps::TimesFormat;

    fn spoken() -> Vec<WordStart> {
        [("old", 3), ("R&B", 10), ("<b>", 14), ("end", 60)]
            .map(|(text, step)| WordStart { text: text.to_owned(), step })
            .to_vec()
    }

    /// Steps 10, 14 and 60 after 10 at 12.5 Hz: 0, 0.32 and 4 s.
    #[test]
    fn a_word_lasts_until_the_next_and_the_last_until_the_end() {
        let words = times(&spoken(), 10, 63, 12.5);
        let of: Vec<_> = words.iter().map(|word| (&*word.text, word.start, word.end)).collect();
        assert_eq!(of, [("R&B", 0.0, 0.32), ("<b>", 0.32, 4.0), ("end", 4.0, 5.04)]);
        // A sound that was cut before its last word keeps it, as upstream.
        assert_eq!(times(&spoken(), 10, 20, 12.5)[2].end, 4.0);
        assert_eq!(times(&[], 0, 5, 12.5), []);
    }

    #[test]
    fn the_json_is_read_again_as_the_words_of_a_recording() {
        let words = times(&spoken(), 3, 70, 12.5);
        let json = TimesFormat::Json.text(&words);
        assert!(json.starts_with("[\n  {\n    \"text\": \"old\",\n    \"start\": 0.0,"), "{json}");
        assert_eq!(words_of_json(&json, "words_1").expect("words"), words);
    }
}
