//! Dictionaries of pronunciations, from the archive of the model.
//!
//! A line is `word(2) pronunciation`; each character of a pronunciation is a symbol.
//!
//! Source: NeMo 3.0.0, `i18n_ipa.py`, `_parse_phoneme_dict` and `_normalize_dict`.

use std::collections::{BTreeSet, HashMap, HashSet};

use unicode_normalization::UnicodeNormalization as _;

use super::characters::{is_letter, is_letter_or_digit};
use crate::magpie::MagpieError;

/// The case of words or letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Lower,
    /// As written; a word that is not found is looked up in upper case.
    Mixed,
}

impl Case {
    /// Reads the value `name` of the setting `key`.
    pub(super) fn read(key: &str, name: &str) -> Result<Self, MagpieError> {
        match name {
            "upper" => Ok(Self::Upper),
            "lower" => Ok(Self::Lower),
            "mixed" => Ok(Self::Mixed),
            other => {
                let why = format!("`{other}` is not `upper`, `lower` or `mixed`");
                Err(MagpieError::bad_setting(key, why))
            }
        }
    }

    /// Returns a word in this case.
    pub(super) fn of(self, word: &str) -> String {
        match self {
            Self::Upper => word.to_uppercase(),
            Self::Lower => word.to_lowercase(),
            Self::Mixed => word.to_owned(),
        }
    }

    /// True for a Latin letter in this case.
    pub(super) fn has(self, c: char) -> bool {
        match self {
            Self::Upper => c.is_ascii_uppercase(),
            Self::Lower => c.is_ascii_lowercase(),
            Self::Mixed => c.is_ascii_alphabetic(),
        }
    }

    /// Returns the Latin letters of this case by their code points.
    pub(super) fn letters(self) -> impl Iterator<Item = char> {
        ('A'..='z').filter(move |&c| self.has(c))
    }
}

/// The way in which a dictionary is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// The case of the words.
    pub case: Case,
    /// False to leave the marks of stress out.
    pub has_stresses: bool,
}

/// Marks of stress.
const STRESSES: [char; 2] = ['ˈ', 'ˌ'];

/// A pronunciation.
#[derive(Debug)]
pub(super) struct Entry {
    /// The first one.
    pub first: String,
    /// True if there are others.
    pub has_others: bool,
}

/// Pronunciations by word.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    entries: HashMap<String, Entry>,
}

/// Calls `take` with the words and pronunciations of a dictionary file.
fn each(
    text: &str,
    has_stresses: bool,
    take: &mut dyn FnMut(String, String),
) -> Result<(), MagpieError> {
    for (number, line) in text.lines().enumerate() {
        let line: String = line.nfc().collect();
        if !line.starts_with(|c| is_letter(c) || c == '\'') {
            continue;
        }
        let line = line.trim();
        let Some((word, pronunciation)) = line.split_once(char::is_whitespace) else {
            let why = format!("line {} has a word without a pronunciation", number + 1);
            return Err(MagpieError::bad_setting("phoneme_dict", why));
        };
        let is_symbol = |c: &char| !c.is_whitespace() && (has_stresses || !STRESSES.contains(c));
        let pronunciation = pronunciation.chars().filter(is_symbol).collect();
        take(without_number(word), pronunciation);
    }
    Ok(())
}

/// Removes each `(2)` from a word.
fn without_number(word: &str) -> String {
    let mut left = String::with_capacity(word.len());
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('(') {
        left.push_str(before);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        rest = match after[digits..].strip_prefix(')') {
            Some(behind) if digits > 0 => behind,
            _ => {
                left.push('(');
                after
            }
        };
    }
    left + rest
}

impl Dictionary {
    /// Reads a dictionary. Spellings that differ only in case are one word in [`Case::Upper`], and the
    /// last one replaces the others.
    pub(super) fn read(text: &str, reading: Reading) -> Result<Self, MagpieError> {
        let Reading { case, has_stresses } = reading;
        let mut spellings: Vec<(String, Entry)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        each(text, has_stresses, &mut |word, first| match places.get(&word) {
            Some(&place) => spellings[place].1.has_others = true,
            None => {
                places.insert(word.clone(), spellings.len());
                spellings.push((word, Entry { first, has_others: false }));
            }
        })?;
        let mut entries = HashMap::with_capacity(spellings.len());
        for (word, entry) in spellings {
            let upper = (case == Case::Mixed).then(|| word.to_uppercase());
            if let Some(upper) = upper.filter(|upper| *upper != word) {
                let Entry { first, has_others } = &entry;
                let copy = Entry { first: first.clone(), has_others: *has_others };
                entries.insert(upper, copy);
            }
            entries.insert(case.of(&word), entry);
        }
        Ok(Self { entries })
    }

    /// Reads a dictionary that the reference has read before: `word TAB symbol symbol`.
    pub(super) fn parsed(text: &str) -> Result<Self, MagpieError> {
        let entry = |(number, line): (usize, &str)| {
            let (word, symbols) = line.split_once('\t').ok_or_else(|| {
                let why = format!("line {} has no tab", number + 1);
                MagpieError::bad_setting("parsed_phoneme_dict", why)
            })?;
            let first = symbols.chars().filter(|c| !c.is_whitespace()).collect();
            Ok((word.to_owned(), Entry { first, has_others: false }))
        };
        let entries = text.lines().enumerate().map(entry).collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    pub(super) fn get(&self, word: &str) -> Option<&Entry> {
        self.entries.get(word)
    }
}

/// Returns the symbols of a dictionary: those of its pronunciations, and, if `prefix` is given, the
/// letters and digits of its words behind that prefix.
pub(super) fn symbols(
    text: &str,
    Reading { case, has_stresses }: Reading,
    prefix: Option<&str>,
) -> Result<BTreeSet<String>, MagpieError> {
    let (mut phonemes, mut letters) = (HashSet::new(), HashSet::new());
    each(text, has_stresses, &mut |word, pronunciation| {
        phonemes.extend(pronunciation.chars());
        if prefix.is_some() {
            letters.extend(case.of(&word).chars().filter(|&c| is_letter_or_digit(c)));
        }
    })?;
    let prefix = prefix.unwrap_or_default();
    let letters = letters.into_iter().map(|c| format!("{prefix}{c}"));
    Ok(phonemes.into_iter().map(String::from).chain(letters).collect())
}

/// Returns the words whose pronunciation depends on the sentence.
pub(super) fn heteronyms(text: &str, case: Case) -> HashSet<String> {
    text.lines().map(|word| case.of(word.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pronunciation_of_the_last_spelling_counts() {
        let text = ";;; a comment\npolish a b\nPolish  c\nPolish(2) d\n'bout e f\n1st g\n";
        let read = |case| {
            Dictionary::read(text, Reading { case, has_stresses: true }).expect("a dictionary")
        };
        let first = |words: &Dictionary, word: &str| words.get(word).map(|e| e.first.clone());
        let upper = read(Case::Upper);
        assert_eq!(first(&upper, "POLISH").as_deref(), Some("c"));
        assert!(upper.get("POLISH").is_some_and(|entry| entry.has_others));
        assert_eq!(first(&upper, "'BOUT").as_deref(), Some("ef"));
        assert!(upper.get("1ST").is_none() && upper.get("polish").is_none());
        let mixed = read(Case::Mixed);
        assert_eq!(first(&mixed, "polish").as_deref(), Some("ab"));
        assert_eq!(first(&mixed, "POLISH").as_deref(), Some("c"));
    }

    #[test]
    fn only_numbers_in_brackets_are_removed_from_a_word() {
        for (word, left) in [("a(2)", "a"), ("a(12)b", "ab"), ("a(b)", "a(b)"), ("a()", "a()")] {
            assert_eq!(without_number(word), left);
        }
    }

    #[test]
    fn a_word_alone_is_an_error_that_names_its_line() {
        let reading = Reading { case: Case::Upper, has_stresses: true };
        let error = Dictionary::read("a b\nword\n", reading).expect_err("a fault");
        assert!(error.to_string().contains("line 2"), "{error}");
        let error = Dictionary::parsed("a\tb\nword\n").expect_err("a fault");
        assert!(error.to_string().contains("line 2 has no tab"), "{error}");
    }

    #[test]
    fn stresses_are_left_out_of_words_and_symbols_on_request() {
        let reading = Reading { case: Case::Upper, has_stresses: false };
        let words = Dictionary::read("about əˈbaʊt\n", reading).expect("a dictionary");
        assert_eq!(words.get("ABOUT").map(|entry| &*entry.first), Some("əbaʊt"));
        let symbols = symbols("about əˈbaʊt\n", reading, None).expect("symbols");
        assert_eq!(symbols.into_iter().collect::<String>(), "abtəʊ");
    }

    /// Words of a parsed dictionary have their case: `polish` would hide `POLISH` if it were folded.
    #[test]
    fn a_parsed_dictionary_is_taken_as_it_stands() {
        let words = Dictionary::parsed("POLISH\tc d\npolish\ta b\n").expect("a dictionary");
        assert_eq!(words.get("POLISH").map(|entry| &*entry.first), Some("cd"));
        assert_eq!(words.get("polish").map(|entry| &*entry.first), Some("ab"));
    }
}
