//! Words to phonemes of the International Phonetic Alphabet.
//!
//! A text is cut into words, parts between `|` that are phonemes already, and the rest. A word is
//! looked up in the dictionary; a word that is not there is spelled by its letters.
//!
//! Source: NeMo 3.0.0, `i18n_ipa.py`, `IpaG2p`; `tts_data_utils.py`, `any_locale_text_preprocessing`.

use std::{collections::HashSet, sync::OnceLock};

use unicode_normalization::UnicodeNormalization as _;

use super::{
    characters::{is_english, is_letter, is_letter_or_digit, is_mark},
    config::{G2pConfig, TokenizerConfig},
    dictionary::{self, Case, Dictionary, Entry, Reading},
    punctuation::punctuation,
};
use crate::magpie::MagpieError;

/// French words that lose their last vowel before another word, and their phonemes.
const ELIDED: [(&str, &str); 12] = [
    ("l", "l"),
    ("c", "s"),
    ("d", "d"),
    ("j", "ʒ"),
    ("m", "m"),
    ("n", "n"),
    ("qu", "k"),
    ("s", "s"),
    ("t", "t"),
    ("puisqu", "pyisk"),
    ("lorsqu", "loʁsk"),
    ("jusqu", "ʒysk"),
];

/// Conversion of one language.
#[derive(Debug)]
pub(super) struct Ipa {
    is_english: bool,
    is_french: bool,
    reading: Reading,
    prefix: String,
    skips_ambiguous: bool,
    heteronyms: HashSet<String>,
    source: String,
    is_parsed: bool,
    /// Read at the first text: a file has the dictionaries of many languages.
    dictionary: OnceLock<Dictionary>,
}

impl Ipa {
    /// Reads the files of a language.
    pub(super) fn read(
        config: &TokenizerConfig,
        artefact: &dyn Fn(&str) -> Result<String, MagpieError>,
    ) -> Result<Self, MagpieError> {
        let absent = || MagpieError::bad_setting("g2p", "there is no dictionary of phonemes");
        let g2p = config.g2p.as_ref().ok_or_else(absent)?;
        g2p.check_class("IpaG2p")?;
        if g2p.locale != config.locale {
            let [own, other] =
                [&g2p.locale, &config.locale].map(|locale| locale.as_deref().unwrap_or("null"));
            let why = format!("it is `{own}`, but `locale` is `{other}`");
            return Err(MagpieError::bad_setting("g2p.locale", why));
        }
        let case = g2p.grapheme_case.as_deref().unwrap_or("upper");
        let case = Case::read("g2p.grapheme_case", case)?;
        let source = g2p.dictionary(artefact)?.ok_or_else(absent)?;
        Ok(Self {
            is_english: g2p.locale.as_deref() == Some("en-US"),
            is_french: g2p.locale.as_deref() == Some("fr-FR"),
            reading: Reading { case, has_stresses: g2p.use_stresses.unwrap_or(false) },
            prefix: g2p.grapheme_prefix.clone(),
            skips_ambiguous: g2p.ignore_ambiguous_words.unwrap_or(false),
            heteronyms: dictionary::heteronyms(&g2p.heteronyms(artefact)?, case),
            source,
            is_parsed: g2p.parsed_phoneme_dict.is_some(),
            dictionary: OnceLock::new(),
        })
    }

    /// Returns the tokens; the space is the third from the end.
    pub(super) fn tokens(&self, config: &TokenizerConfig) -> Result<Vec<String>, MagpieError> {
        let has_letters = config.g2p.as_ref().is_some_and(G2pConfig::has_letters);
        let prefix = has_letters.then_some(&*self.prefix);
        let mut set = dictionary::symbols(&self.source, self.reading, prefix)?;
        set.extend(config.has_apostrophe().then(|| "'".to_owned()));
        if config.punct {
            let own = config.locale_specific_punct.unwrap_or(true);
            let locale = config.locale.as_deref().filter(|_| own);
            set.extend(punctuation(locale)?.into_iter().map(str::to_owned));
        }
        Ok(set.into_iter().chain([" ", "<pad>", "<oov>"].map(str::to_owned)).collect())
    }

    /// Returns the symbols of a text, spaces included.
    pub(super) fn symbols(&self, text: &str) -> Result<Vec<String>, MagpieError> {
        let dictionary = match self.dictionary.get() {
            Some(dictionary) => dictionary,
            None => {
                let read = match self.is_parsed {
                    true => Dictionary::parsed(&self.source)?,
                    false => Dictionary::read(&self.source, self.reading)?,
                };
                self.dictionary.get_or_init(|| read)
            }
        };
        let words = Words { ipa: self, dictionary };
        let mut symbols = Vec::new();
        for piece in self.pieces(&self.prepared(text)) {
            match piece {
                Piece::Phonemes(text) => {
                    // Spaces at the marks are none: the reference has an empty symbol there, and drops it.
                    let given = text.split(' ').filter(|symbol| !symbol.is_empty());
                    symbols.extend(given.map(|symbol| format!("{}{symbol}", self.prefix)));
                }
                Piece::Word(word) if self.is_english => {
                    words.add(&word.to_lowercase(), &mut symbols)
                }
                Piece::Word(text) | Piece::Rest(text) => words.add(text, &mut symbols),
            }
        }
        Ok(symbols)
    }

    /// Unifies accents and quotation marks.
    fn prepared(&self, text: &str) -> String {
        if !self.is_english {
            return text.nfc().map(|c| if c == '’' { '\'' } else { c }).collect();
        }
        let plain = text.nfd().filter(|&c| !is_mark(c)).map(|c| match c {
            '’' => '\'',
            '“' | '”' => '"',
            c => c,
        });
        plain.nfc().collect()
    }

    fn pieces<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        let is_letter = if self.is_english { is_english } else { is_letter };
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = if is_letter(first) {
                let in_word = |c: char| is_letter(c) || c == '-' || c == '\'';
                let run = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
                let word = rest[..run].trim_end_matches(|c| !is_letter(c));
                pieces.push(Piece::Word(word));
                word.len()
            } else if first == '|' {
                match rest[1..].find('|') {
                    Some(length) => {
                        pieces.push(Piece::Phonemes(&rest[1..=length]));
                        length + 2
                    }
                    // A lone mark vanishes.
                    None => 1,
                }
            } else {
                let run = rest.find(|c| is_letter(c) || c == '|').unwrap_or(rest.len());
                pieces.push(Piece::Rest(&rest[..run]));
                run
            };
            rest = &rest[length..];
        }
        pieces
    }
}

/// A piece of a text.
enum Piece<'a> {
    Word(&'a str),
    Phonemes(&'a str),
    Rest(&'a str),
}

/// Words with their dictionary.
struct Words<'a> {
    ipa: &'a Ipa,
    dictionary: &'a Dictionary,
}

impl Words<'_> {
    /// Adds the symbols of a piece; one with hyphens that is not found is looked up in parts.
    fn add(&self, piece: &str, symbols: &mut Vec<String>) {
        let (own, is_found) = self.look_up(piece);
        if is_found || !piece.contains('-') {
            symbols.extend(own);
            return;
        }
        for (index, part) in piece.split('-').enumerate() {
            symbols.extend((index > 0).then(|| "-".to_owned()));
            symbols.extend(self.look_up(part).0);
        }
    }

    /// Returns the symbols of a word, and false if it is unknown and therefore spelled.
    fn look_up(&self, word: &str) -> (Vec<String>, bool) {
        let case = self.ipa.reading.case;
        let word = &case.of(word);
        let characters = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        if !word.chars().any(is_letter_or_digit) {
            return (characters(word), true);
        }
        let letters = || word.chars().map(|c| format!("{}{c}", self.ipa.prefix)).collect();
        if self.ipa.heteronyms.contains(word) {
            return (letters(), true);
        }
        let known = self.with_ending(word).or_else(|| self.after_elided(word)).or_else(|| {
            let upper = || (case == Case::Mixed).then(|| word.to_uppercase());
            // A word that is skipped is not looked up in upper case.
            let entry = self.dictionary.get(word).or_else(|| self.dictionary.get(&upper()?));
            entry.filter(|entry| self.is_usable(entry)).map(|entry| characters(&entry.first))
        });
        match known {
            Some(symbols) => (symbols, true),
            None => (letters(), false),
        }
    }

    /// False for a word with several pronunciations, if the model spells such words.
    fn is_usable(&self, entry: &Entry) -> bool {
        !self.ipa.skips_ambiguous || !entry.has_others
    }

    /// Returns the entry of a word as it stands, or else in upper case.
    fn entry(&self, word: &str) -> Option<&Entry> {
        self.dictionary.get(word).or_else(|| self.dictionary.get(&word.to_uppercase()))
    }

    /// Returns the symbols of a French word behind an elided one, such as `l'ami`, if it is known alone.
    fn after_elided(&self, word: &str) -> Option<Vec<String>> {
        if !self.ipa.is_french || self.entry(word).is_some() {
            return None;
        }
        ELIDED.iter().find_map(|(letters, phonemes)| {
            let upper = letters.to_uppercase();
            let rest = word.strip_prefix(*letters).or_else(|| word.strip_prefix(&*upper))?;
            let entry = self.entry(rest.strip_prefix('\'')?)?;
            let symbols = phonemes.chars().chain(entry.first.chars()).map(String::from);
            self.is_usable(entry).then(|| symbols.collect())
        })
    }

    /// Returns the symbols of an English word with `'s` or `s` whose other part is known.
    fn with_ending(&self, word: &str) -> Option<Vec<String>> {
        if !self.ipa.is_english || self.entry(word).is_some() {
            return None;
        }
        ["'s", "s"].into_iter().find_map(|ending| {
            let at = word.len().checked_sub(ending.len()).filter(|&at| at > 0)?;
            let end = word.get(at..)?;
            if !end.eq_ignore_ascii_case(ending) {
                return None;
            }
            let stem = &word[..at];
            let entry = self.entry(stem)?;
            if !self.is_usable(entry) {
                return None;
            }
            let added: &[&str] = match stem.chars().next_back() {
                Some('t' | 'T') => &["s"],
                Some('s' | 'S') if ending == "'s" => &["ɪ", "z"],
                _ => &["z"],
            };
            let first = entry.first.chars().map(String::from);
            Some(first.chain(added.iter().map(|&symbol| symbol.to_owned())).collect())
        })
    }
}
