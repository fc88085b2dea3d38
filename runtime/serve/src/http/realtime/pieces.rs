//! Pieces of a text that comes in pieces, for a model that speaks while it comes.

/// Takes the beginning of a text that can be spoken before the rest is known: whole words, or all of it if
/// `is_end`. A mark in square brackets belongs to the next word, and a tag such as `<break ..>` is whole.
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
    let tag = text[..cut].rfind('<').filter(|&at| !text[at..cut].contains('>'));
    if let Some(at) = tag.filter(|&at| text[at + 1..].starts_with(char::is_alphabetic)) {
        cut = at;
    }
    loop {
        let head = text[..cut].trim_end();
        let word = head
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + head[at..].chars().next().map_or(0, char::len_utf8));
        if !(head[word..].starts_with('[') && head.ends_with(']')) {
            return cut;
        }
        cut = word;
    }
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
}
