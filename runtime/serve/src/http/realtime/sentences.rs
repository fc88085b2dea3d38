//! Sentences of a text that comes in pieces.

/// Takes the first whole sentences out of a text, at most `most`. A sentence ends with a mark and a
/// blank, or with the end of a line.
pub(super) fn take(text: &mut String, most: usize) -> Vec<String> {
    let mut whole = Vec::new();
    let mut begin = 0;
    let mut marked = false;
    for (index, letter) in text.char_indices() {
        if whole.len() == most {
            break;
        }
        let end = index + letter.len_utf8();
        // Chinese and Japanese marks need no blank.
        let is_end = (marked && letter.is_whitespace())
            || letter == '\n'
            || matches!(letter, '。' | '！' | '？');
        if is_end {
            let sentence = text[begin..end].trim();
            if !sentence.is_empty() {
                whole.push(sentence.to_owned());
            }
            begin = end;
        }
        marked = matches!(letter, '.' | '!' | '?' | '…')
            || (marked && matches!(letter, '"' | '\'' | '”' | '’' | ')'));
    }
    text.drain(..begin);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_spoken_when_a_blank_follows_its_mark() {
        let mut text = "It costs 3.50 euros. \"Really?\" she asked".to_owned();
        assert_eq!(take(&mut text, 9), ["It costs 3.50 euros.", "\"Really?\""]);
        assert_eq!(text, "she asked");
        text += ".\nNext";
        assert_eq!(take(&mut text, 9), ["she asked."]);
        assert_eq!(text, "Next");
        let mut text = "你好。再见".to_owned();
        assert_eq!(take(&mut text, 9), ["你好。"]);
        assert_eq!(text, "再见");
    }

    #[test]
    fn sentences_without_room_stay_in_the_text() {
        let mut text = "One. Two. Three.\n".to_owned();
        assert_eq!(take(&mut text, 2), ["One.", "Two."]);
        assert_eq!(take(&mut text, 0), Vec::<String>::new());
        assert_eq!(take(&mut text, 2), ["Three."]);
        assert_eq!(text, "");
    }
}
