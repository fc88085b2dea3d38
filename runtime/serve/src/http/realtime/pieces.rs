//! A text that comes in pieces, for a model that speaks while it comes.
//!
//! The model's reader makes the same words of pieces as of the whole text. Here text only waits until it is
//! useful: a word is sent when it is whole, a mark of a speaker with its word, a break in one piece.

/// Marks that belong to the next word.
const MARKS: [&str; 2] = ["[S1]", "[S2]"];
/// The beginning of a break: a number comes after it, then its end.
const BREAK: [&str; 3] = ["<break", "time=\"", "s\""];

/// Takes the beginning of a text that can be spoken before the rest is known: whole words, or all of it if
/// `is_end`.
pub(super) fn take(text: &mut String, is_end: bool) -> Option<String> {
    let cut = if is_end { text.len() } else { whole(text) };
    let piece: String = text.drain(..cut).collect();
    (!piece.trim().is_empty()).then_some(piece)
}

/// Returns the length of the beginning that is whole.
fn whole(text: &str) -> usize {
    let blank = text.char_indices().rfind(|(_, letter)| letter.is_whitespace());
    let Some((at, letter)) = blank else { return 0 };
    let mut cut = at + letter.len_utf8();
    let mut breaks = text[..cut].match_indices(BREAK[0]).map(|(at, _)| at);
    if let Some(at) = breaks.find(|&at| may_end_after(&text[at..], cut - at)) {
        cut = at;
    }
    loop {
        let head = text[..cut].trim_end();
        let word = head
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + head[at..].chars().next().map_or(0, char::len_utf8));
        if !MARKS.contains(&&head[word..]) {
            return cut;
        }
        cut = word;
    }
}

/// True if `text`, which begins as a break does, may be one that ends after `cut`.
fn may_end_after(text: &str, cut: usize) -> bool {
    let [begin, time, unit] = BREAK;
    let inside = text[begin.len()..].trim_start();
    if !inside.starts_with(time) {
        return time.starts_with(inside);
    }
    let number = &inside[time.len()..];
    let is_of_number = |letter: char| letter.is_ascii_digit() || ['.', ','].contains(&letter);
    let rest = number.trim_start_matches(is_of_number);
    if !rest.starts_with(unit) {
        return unit.starts_with(rest);
    }
    let rest = rest[unit.len()..].trim_start();
    let end = rest.strip_prefix('/').unwrap_or(rest);
    end.is_empty() || (end.starts_with('>') && text.len() - end.len() >= cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of a text that comes letter by letter.
    fn pieces(text: &str) -> Vec<String> {
        let mut rest = String::new();
        let mut pieces = Vec::new();
        for letter in text.chars() {
            rest.push(letter);
            pieces.extend(take(&mut rest, false));
        }
        pieces.extend(take(&mut rest, true));
        pieces
    }

    #[test]
    fn a_word_is_whole_when_a_blank_follows_it() {
        assert_eq!(pieces("hello there, my friend"), ["hello ", "there, ", "my ", "friend"]);
        assert_eq!(pieces(" \n "), [""; 0]);
    }

    #[test]
    fn a_mark_of_a_speaker_and_a_break_are_never_cut() {
        assert_eq!(pieces("[S1] hi [S2]  you"), ["[S1] hi ", "[S2]  you"]);
        let text = "wait <break time=\"1.5s\"/> go a < b";
        assert_eq!(pieces(text), ["wait ", "<break time=\"1.5s\"/> ", "go ", "a ", "< ", "b"]);
        let all: String = pieces("[S2] a <break time=\"1s\" /> [S1] b c").concat();
        assert_eq!(all, "[S2] a <break time=\"1s\" /> [S1] b c");
    }

    #[test]
    fn a_tag_that_is_none_holds_nothing_back() {
        let text = "a <x b <breakfast is <break at <break time=\"now\" ok [laughs] c";
        let pieces = pieces(text);
        assert_eq!(pieces[..5], ["a ", "<x ", "b ", "<breakfast ", "is "]);
        // It goes on when the letter comes that no break has.
        let rest = ["<break ", "at ", "<break ", "time=\"now\" ", "ok ", "[laughs] ", "c"];
        assert_eq!(pieces[5..], rest);
        let mut rest = "<break time=\"1s\" x y".to_owned();
        assert_eq!(take(&mut rest, false).as_deref(), Some("<break time=\"1s\" x "));
    }
}
