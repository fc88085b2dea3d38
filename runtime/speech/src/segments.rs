//! Long texts in segments that end where a reader would pause.
//!
//! A text is cut at sentences (Unicode UAX #29); a sentence that is too long, after a comma or the like;
//! a clause that is too long, between words; a word that is too long, between characters.

use unicode_segmentation::UnicodeSegmentation as _;

/// Marks after which a sentence may be cut if a blank follows: `1,234` and `12:30` stay whole.
const SPACED_MARKS: [char; 6] = [',', ';', ':', ')', '\u{2013}', '\u{2014}'];
/// Marks of other scripts after which a sentence may be cut.
const CLAUSE_MARKS: [char; 10] = ['、', '，', '；', '：', '،', '؛', '।', '…', '）', '」'];

/// Cuts a text into units.
type Cut = fn(&str) -> Vec<&str>;

/// The places where a text may be cut, from the best to the worst.
const CUTS: [Cut; 4] = [
    |text| text.split_sentence_bounds().collect(),
    clauses,
    |text| text.split_word_bounds().collect(),
    |text| text.graphemes(true).collect(),
];

/// Cuts `text` after marks of clauses.
fn clauses(text: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    let mut start = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((index, mark)) = characters.next() {
        let is_spaced = characters.peek().is_some_and(|(_, next)| next.is_whitespace());
        if CLAUSE_MARKS.contains(&mark) || SPACED_MARKS.contains(&mark) && is_spaced {
            let end = index + mark.len_utf8();
            clauses.push(&text[start..end]);
            start = end;
        }
    }
    clauses.push(&text[start..]);
    clauses
}

/// Cuts `text` into segments of at most `most` tokens; `count` returns the number of tokens of a text.
///
/// A short text is one segment, unchanged. Other segments have no blanks at their ends. Tokens are
/// counted once for each unit, so that a book takes no longer than its length; a segment may have
/// fewer. A single character may have more tokens than `most`.
pub(crate) fn segments(text: &str, most: usize, count: &dyn Fn(&str) -> usize) -> Vec<String> {
    if count(text) <= most {
        return vec![text.to_owned()];
    }
    let mut segments = Vec::new();
    add(&mut segments, text, &CUTS, most, count);
    segments.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
}

/// Adds `text`, cut at the first of `cuts`, to `segments`.
fn add(
    segments: &mut Vec<String>,
    text: &str,
    cuts: &[Cut],
    most: usize,
    count: &dyn Fn(&str) -> usize,
) {
    let [cut, worse @ ..] = cuts else { return };
    let (mut segment, mut tokens) = (String::new(), 0);
    for unit in cut(text) {
        if unit.trim().is_empty() {
            // Blanks count as nothing, so many of them would make a segment of any length.
            if !segment.is_empty() && !segment.ends_with(char::is_whitespace) {
                segment.push_str(if unit.contains('\n') { "\n" } else { " " });
            }
            continue;
        }
        let own = count(unit.trim());
        if tokens + own > most && !segment.is_empty() {
            segments.push(std::mem::take(&mut segment));
            tokens = 0;
        }
        if own > most && !worse.is_empty() {
            add(segments, unit, worse, most, count);
        } else {
            segment.push_str(unit);
            tokens += own;
        }
    }
    if !segment.is_empty() {
        segments.push(segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments with one token for each word.
    fn cut(text: &str, most: usize) -> Vec<String> {
        segments(text, most, &|text| text.split_whitespace().count())
    }

    #[test]
    fn a_short_text_stays_as_it_is() {
        assert_eq!(cut(" One two. Three. \n", 3), [" One two. Three. \n"]);
        assert_eq!(cut("", 3), [""]);
    }

    #[test]
    fn sentences_are_joined_as_long_as_they_fit() {
        let text = "One two. Three four five! Six?\nSeven eight nine ten. Eleven.";
        assert_eq!(
            cut(text, 5),
            ["One two. Three four five!", "Six?\nSeven eight nine ten.", "Eleven."]
        );
    }

    #[test]
    fn a_long_sentence_is_cut_after_commas_and_a_long_clause_between_words() {
        let text = "Start. One two, three four, five six seven eight nine ten. End.";
        assert_eq!(
            cut(text, 4),
            ["Start.", "One two, three four,", "five six seven eight", "nine ten.", "End."]
        );
    }

    #[test]
    fn numbers_and_times_stay_whole_and_blanks_do_not_add_up() {
        let text = "It cost 1,234 and 1,235: at 12:30 (no, 12:31) it was sold.";
        for segment in cut(text, 3) {
            assert!(!segment.ends_with("1,") && !segment.ends_with("12:"), "{segment}");
        }
        let text = format!("One two.{}Three four five.", "\n\n".repeat(5_000));
        assert_eq!(cut(&text, 4), ["One two.", "Three four five."]);
        assert_eq!(cut(&text, 5)[0].len(), text.len());
    }

    #[test]
    fn a_word_without_end_is_cut_between_characters_and_none_is_lost() {
        let count = |text: &str| text.chars().count();
        let text = format!("{}e\u{301}{}", "a".repeat(9), "b".repeat(9));
        let made = segments(&text, 10, &count);
        // The accent stays with its letter.
        assert_eq!(made, [&"a".repeat(9), &format!("e\u{301}{}", "b".repeat(8)), "b"]);
        assert_eq!(segments("你好。再见。", 3, &count), ["你好。", "再见。"]);
    }

    #[test]
    fn a_character_of_many_tokens_is_a_segment() {
        assert_eq!(segments("ab", 1, &|text| 5 * text.len()), ["a", "b"]);
    }
}
