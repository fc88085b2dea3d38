//! Mandarin: words to syllables with tones, and syllables to phonemes.
//!
//! The words are those of jieba. The syllables of words and characters come from a table that the user
//! has: which one a character takes depends on its word, and no table of words is part of a model.
//!
//! Source: NeMo 3.0.0, `zh_cn_pinyin.py`, `ChineseG2p`; `pypinyin`, `lazy_pinyin` with style `TONE3`.

use std::collections::{BTreeSet, HashMap};

use super::{config::TokenizerConfig, dictionary::Case, pinyin::Pinyin, punctuation::symbols};
use crate::magpie::MagpieError;

const MARKS: &str = "，。？！；：、‘’“”（）【】「」《》,.!?-:;/\"()[]{}";

/// Syllables to phonemes.
#[derive(Debug)]
pub(super) struct Mandarin {
    syllables: HashMap<String, Vec<String>>,
    tone_prefix: String,
    letters: Letters,
    letter_prefix: String,
    /// False if phonemes of the vocabulary are in no syllable.
    is_complete: bool,
}

/// The Latin letters of a model: texts are changed to their case.
#[derive(Debug, Clone, Copy)]
struct Letters(Case);

impl Letters {
    fn has(self, c: char) -> bool {
        match self.0 {
            Case::Upper => c.is_ascii_uppercase(),
            Case::Lower => c.is_ascii_lowercase(),
            Case::Mixed => c.is_ascii_alphabetic(),
        }
    }

    /// Returns the letters by their code points.
    fn all(self) -> impl Iterator<Item = char> {
        ('A'..='z').filter(move |&c| self.has(c))
    }
}

impl Mandarin {
    /// Reads the dictionary of syllables; `vocabulary` are the tokens of the file, if it has a list.
    /// Returns the tokens too; the space is the first one.
    pub(super) fn read(
        config: &TokenizerConfig,
        artefact: &dyn Fn(&str) -> Result<String, MagpieError>,
        vocabulary: Option<&[String]>,
    ) -> Result<(Self, Vec<String>), MagpieError> {
        let bad = |why: &str| MagpieError::bad_setting("g2p".to_owned(), why.to_owned());
        let g2p = config.g2p.as_ref().ok_or_else(|| bad("there is none"))?;
        g2p.check_class("ChineseG2p")?;
        if g2p.word_segmenter.as_deref() != Some("jieba") {
            // Without one, the words are those of pypinyin's own tables, which no file has.
            let own = g2p.word_segmenter.as_deref().unwrap_or("null");
            let why = format!("it is `{own}`, only `jieba` is supported");
            return Err(MagpieError::bad_setting("g2p.word_segmenter".to_owned(), why));
        }
        let file = g2p.parsed_phoneme_dict.as_ref().or(g2p.phoneme_dict.as_ref());
        let file = file.ok_or_else(|| bad("there is no dictionary"))?;
        let letters = g2p.ascii_letter_case.as_deref().unwrap_or("lower");
        let letters = Letters(Case::read("g2p.ascii_letter_case", letters)?);
        let phonemes = g2p.phoneme_case.as_deref().unwrap_or("upper");
        let mut phoneme_case = Case::read("g2p.phoneme_case", phonemes)?;
        if g2p.parsed_phoneme_dict.is_some() {
            // The phonemes have it already.
            phoneme_case = Case::Mixed;
        }
        let phoneme_prefix = g2p.phoneme_prefix();
        let mut syllables = HashMap::new();
        for line in artefact(file)?.lines() {
            if line.trim().is_empty() || line.starts_with(";;;") {
                continue;
            }
            let (syllable, phonemes) = line.split_once('\t').ok_or_else(|| {
                bad(&format!("the dictionary has the line `{line}` without a tab"))
            })?;
            let phonemes = phoneme_case.of(phonemes);
            let phonemes = phonemes.split_whitespace().map(|one| format!("{phoneme_prefix}{one}"));
            syllables.insert(syllable.to_lowercase(), phonemes.collect::<Vec<_>>());
        }
        let [tone_prefix, letter_prefix] =
            [g2p.tone_prefix(), g2p.ascii_letter_prefix()].map(str::to_owned);
        let phonemes: BTreeSet<_> = syllables.values().flatten().cloned().collect();
        let mut tokens = vec![" ".to_owned()];
        tokens.extend(phonemes);
        tokens.extend((1..=5).map(|tone| format!("{tone_prefix}{tone}")));
        tokens.extend(letters.all().map(|letter| format!("{letter_prefix}{letter}")));
        tokens.extend(config.has_apostrophe().then(|| "'".to_owned()));
        tokens.extend(symbols(MARKS).filter(|_| config.punct).map(str::to_owned));
        tokens.extend(["<pad>", "<oov>"].map(str::to_owned));
        let is_complete = vocabulary.is_none_or(|given| given == tokens);
        Ok((Self { syllables, tone_prefix, letters, letter_prefix, is_complete }, tokens))
    }

    /// False if the dictionary lacks phonemes of its syllables: those of one C++ port's files have the
    /// first phoneme of each.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the symbols of a text, and the items that nobody knows.
    pub(super) fn symbols(&self, text: &str, pinyin: &Pinyin) -> (Vec<String>, Vec<String>) {
        let words = pinyin.words(&self.letters.0.of(text));
        self.of_items(words.iter().flat_map(|word| pinyin.items(word)))
    }

    /// Returns the symbols of syllables with tones and of other characters, and the unknown syllables.
    pub(super) fn of_items(
        &self,
        items: impl IntoIterator<Item = String>,
    ) -> (Vec<String>, Vec<String>) {
        let (mut symbols, mut unknown) = (Vec::new(), Vec::new());
        for item in items {
            match item.chars().next_back() {
                Some(tone @ '1'..='5') => match self.syllables.get(&item[..item.len() - 1]) {
                    Some(phonemes) => {
                        symbols.extend(phonemes.iter().cloned());
                        symbols.push(format!("{}{tone}", self.tone_prefix));
                    }
                    None => unknown.push(item),
                },
                Some(letter) if self.letters.has(letter) => {
                    symbols.push(format!("{}{letter}", self.letter_prefix));
                }
                _ => symbols.push(item),
            }
        }
        (symbols, unknown)
    }
}
