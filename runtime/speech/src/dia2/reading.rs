//! A script that comes in pieces. The entries are those of the whole text, wherever it is cut.
//!
//! So a word is read when a space follows it, and the tag of a speaker waits for its word. Text that may
//! become a break waits until this is decided.

use super::{
    error::Dia2Error,
    script::{Entry, Reader},
};

/// The tags of the speakers.
pub(super) const TAGS: [&str; 2] = ["[S1]", "[S2]"];

impl<'a> Reader<'a> {
    /// Returns the entries of a whole script, which is one line. Its first word has the tag of speaker 1
    /// before it, and before another tag.
    ///
    /// # Errors
    /// [`Dia2Error::BreakTime`].
    pub fn script(&self, script: &str) -> Result<Vec<Entry>, Dia2Error> {
        self.lines(&[script])
    }

    /// Returns the entries of lines whose speakers take turns.
    ///
    /// # Errors
    /// [`Dia2Error::BreakTime`].
    pub fn lines(&self, lines: &[&str]) -> Result<Vec<Entry>, Dia2Error> {
        let (mut entries, mut last) = (Vec::new(), None);
        for (index, line) in lines.iter().enumerate() {
            let speaker = index % 2;
            let tag = (last != Some(speaker)).then_some(self.ids.speakers[speaker]);
            let of_line = self.line(line, tag)?;
            if of_line.iter().any(|entry| !entry.is_break()) {
                last = Some(speaker);
            }
            entries.extend(of_line);
        }
        Ok(entries)
    }

    /// Begins a script that comes in pieces, as [`Self::script`].
    pub fn reading(&self) -> Reading<'a> {
        Reading::new(*self, Some(self.ids.speakers[0]))
    }

    /// Returns the entries of a line. `tag` begins the first word, unless the word begins with it.
    fn line(&self, line: &str, tag: Option<u32>) -> Result<Vec<Entry>, Dia2Error> {
        let mut reading = Reading::new(*self, tag);
        let mut entries = reading.more(line)?;
        entries.extend(reading.end()?);
        Ok(entries)
    }
}

/// The reading of one script.
#[derive(Debug, Clone)]
pub struct Reading<'a> {
    reader: Reader<'a>,
    /// The tag that begins the first word, unless the word begins with it; none after that word.
    tag: Option<u32>,
    /// The tag of the next word, as it is written.
    pending: Option<&'static str>,
    /// Text that later text may change.
    rest: String,
}

impl<'a> Reading<'a> {
    pub(super) fn new(reader: Reader<'a>, tag: Option<u32>) -> Self {
        Self { reader, tag, pending: None, rest: String::new() }
    }

    /// Returns the entries of the next piece, and of text that waited for it.
    ///
    /// # Errors
    /// [`Dia2Error::BreakTime`].
    pub fn more(&mut self, piece: &str) -> Result<Vec<Entry>, Dia2Error> {
        self.rest.push_str(&piece.replace('\u{2019}', "'").replace(':', " "));
        self.take(false)
    }

    /// Returns the entries of the text that waits: nothing comes after it.
    ///
    /// # Errors
    /// [`Dia2Error::BreakTime`].
    pub fn end(&mut self) -> Result<Vec<Entry>, Dia2Error> {
        self.take(true)
    }

    fn take(&mut self, is_end: bool) -> Result<Vec<Entry>, Dia2Error> {
        let text = std::mem::take(&mut self.rest);
        let (mut entries, mut rest) = (Vec::new(), &*text);
        while !rest.is_empty() {
            let Some(Cut { before, gap, after }) = cut(rest, is_end)? else { break };
            rest = after;
            entries.extend(self.word(before));
            if let Some(seconds) = gap {
                // Halves go to the even number; a huge number is the largest one.
                let padding = (seconds * self.reader.frame_rate).round_ties_even() as usize;
                if padding > 0 {
                    entries.push(Entry { tokens: Vec::new(), text: String::new(), padding });
                }
            }
        }
        self.rest = rest.to_owned();
        Ok(entries)
    }

    /// Returns the entry of a word; none for the tag of a speaker, which belongs to the next word.
    fn word(&mut self, word: &str) -> Option<Entry> {
        if let Some(tag) = TAGS.into_iter().find(|&tag| tag == word) {
            self.pending = Some(tag);
            return None;
        }
        if word.is_empty() {
            return None;
        }
        let tokenizer = self.reader.tokenizer;
        let mut tokens = match self.pending.take() {
            Some(tag) => tokenizer.encode(&format!("{tag} {word}")),
            None => tokenizer.encode(word),
        };
        if let Some(tag) = self.tag.take()
            && tokens.first() != Some(&tag)
        {
            tokens.insert(0, tag);
        }
        let padding = tokens.len();
        Some(Entry { tokens, text: word.to_owned(), padding })
    }
}

/// A text, cut at its first white space or break.
struct Cut<'a> {
    /// One word, or nothing.
    before: &'a str,
    /// Seconds, if it is cut at a break.
    gap: Option<f64>,
    after: &'a str,
}

/// Cuts a text; `None` if later text decides where.
fn cut(text: &str, is_end: bool) -> Result<Option<Cut<'_>>, Dia2Error> {
    for (at, letter) in text.char_indices() {
        let (before, from) = text.split_at(at);
        if is_space(letter) {
            let after = from.trim_start_matches(is_space);
            return Ok(Some(Cut { before, gap: None, after }));
        }
        match a_break(from) {
            Ok((number, after)) => {
                let gap = number.parse().map_err(|_| {
                    let tag = from[..from.len() - after.len()].to_owned();
                    Dia2Error::BreakTime { tag }
                })?;
                return Ok(Some(Cut { before, gap: Some(gap), after }));
            }
            Err(NoBreak::Yet) if !is_end => return Ok(None),
            Err(NoBreak::Yet | NoBreak::Never) => {}
        }
    }
    Ok(is_end.then_some(Cut { before: text, gap: None, after: "" }))
}

/// The reason why a text does not begin with a break.
enum NoBreak {
    /// Later text may complete it.
    Yet,
    Never,
}

/// Returns the number in the break that `text` begins with, and the text after it.
///
/// As in upstream, any character may stand for the decimal point.
fn a_break(text: &str) -> Result<(&str, &str), NoBreak> {
    let rest = literal(text, "<break")?;
    let inside = rest.trim_start_matches(is_space);
    if inside.len() == rest.len() {
        return Err(if rest.is_empty() { NoBreak::Yet } else { NoBreak::Never });
    }
    let number = literal(inside, "time=\"")?;
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let whole = digits(number);
    if whole == 0 {
        return Err(if number.is_empty() { NoBreak::Yet } else { NoBreak::Never });
    }
    let mut length = whole;
    if !number[whole..].starts_with("s\"") {
        let point = number[whole..].chars().next().ok_or(NoBreak::Yet)?;
        if point == '\n' {
            return Err(NoBreak::Never);
        }
        length += point.len_utf8();
        length += digits(&number[length..]);
    }
    let after = literal(&number[length..], "s\"")?.trim_start_matches(is_space);
    let after = literal(after.strip_prefix('/').unwrap_or(after), ">")?;
    Ok((&number[..length], after))
}

/// Returns the text after `expected`.
fn literal<'a>(text: &'a str, expected: &str) -> Result<&'a str, NoBreak> {
    let why = if expected.starts_with(text) { NoBreak::Yet } else { NoBreak::Never };
    text.strip_prefix(expected).ok_or(why)
}

/// White space of Python, which counts four separators that Unicode does not.
pub(super) fn is_space(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

#[cfg(test)]
mod tests {
    use super::{super::testing, *};

    const SCRIPTS: [&str; 10] = [
        "[S1] hello there, [S2] my friend. <break time=\"0.2s\"/> how are you [S1] fine",
        "[S2]\nhello\n[S1]\nyes",
        ": : hello",
        "<break time=\"1s\"/> [S2] hello",
        "  no<break  time=\"1.5s\" / >go a<break time=\"12s\" />b [S2]<break time=\"1s\"/>c",
        "<break time=\"1s\"",
        "a <b c <break d <break time=\"x\"/> <break time=\"1\n5s\"/> e <",
        "it\u{2019}s <break:time=\"2s\"/>\u{a0}[S2]\u{2028}[S1] so",
        "[S1]Hello [S1]",
        "<break time=\"1s5s\"/> <break time=\"1ss\"/",
    ];

    /// Row 23: wherever one script is cut, once, twice, or after each letter.
    #[test]
    fn pieces_of_a_script_have_the_entries_of_the_whole() {
        let reader = testing::reader();
        let of = |pieces: &[&str]| -> Result<Vec<Entry>, String> {
            let mut reading = reader.reading();
            let mut entries = Vec::new();
            for piece in pieces {
                entries.extend(reading.more(piece).map_err(|error| error.to_string())?);
            }
            entries.extend(reading.end().map_err(|error| error.to_string())?);
            Ok(entries)
        };
        for script in SCRIPTS {
            let whole = reader.script(script).map_err(|error| error.to_string());
            let cuts: Vec<usize> = script.char_indices().map(|(at, _)| at).collect();
            for &first in &cuts {
                for &second in cuts.iter().filter(|&&second| second >= first) {
                    let pieces = [&script[..first], &script[first..second], &script[second..]];
                    assert_eq!(of(&pieces), whole, "{pieces:?}");
                }
            }
            let letters: Vec<String> = script.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(of(&letters), whole, "{script:?}");
        }
    }

    /// 448 and 449 are the tags; 82 is "b", 237 the space before a word with a tag.
    #[test]
    fn the_tag_of_a_speaker_and_of_the_beginning_wait_for_a_word() {
        let mut reading = testing::reader().reading();
        let mut more = |piece: &str| reading.more(piece).expect("words");
        assert_eq!(more(": <break time=\"0.01s\"/> "), []);
        assert_eq!(more("b\n")[0].tokens, [448, 82]);
        assert_eq!(more("b\n")[0].tokens, [82]);
        assert_eq!(more("[S2]\n"), []);
        assert_eq!(more("b\n")[0].tokens, [449, 237, 82]);
    }

    #[test]
    fn text_waits_only_while_it_may_become_a_break() {
        let mut reading = testing::reader().reading();
        let mut words = |piece: &str| {
            let entries = reading.more(piece).expect("words");
            entries.into_iter().map(|entry| entry.text).collect::<Vec<_>>()
        };
        assert_eq!(words("a <b c "), ["a", "<b", "c"]);
        assert_eq!(words("d <break t"), ["d"]);
        assert_eq!(words("o e "), ["<break", "to", "e"]);
        assert_eq!(words("f<break time=\"1s\""), [""; 0]);
        assert_eq!(words("/>"), ["f", ""]);
    }
}
