//! Mandarin: words to syllables with tones, and syllables to phonemes.
//!
//! The words are those of jieba. The syllables of words and characters come from a table that the user
//! has: which one a character takes depends on its word, and no table of words is part of a model.
//!
//! Source: NeMo 3.0.0, `zh_cn_pinyin.py`, `ChineseG2p`; `pypinyin`, `lazy_pinyin` with style `TONE3`.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
};

use super::{
    config::TokenizerConfig, dictionary::Case, list::List, pinyin::Pinyin, punctuation::symbols,
};
use crate::magpie::MagpieError;

const MARKS: &str = "，。？！；：、‘’“”（）【】「」《》,.!?-:;/\"()[]{}";

/// Syllables to phonemes.
#[derive(Debug)]
pub(super) struct Mandarin {
    syllables: HashMap<String, Vec<String>>,
    tone_prefix: String,
    /// The case of Latin letters: texts are changed to it.
    letters: Case,
    letter_prefix: String,
    /// False if phonemes of the vocabulary are in no syllable.
    is_complete: bool,
}

impl Mandarin {
    /// Reads the dictionary of syllables; `vocabulary` are the tokens of the file, if it has a list.
    /// Returns the tokens too; the space is the first one.
    pub(super) fn read(
        config: &TokenizerConfig,
        artefact: &dyn Fn(&str) -> Result<String, MagpieError>,
        vocabulary: Option<&[String]>,
    ) -> Result<(Self, Vec<String>), MagpieError> {
        let bad = |why: &str| MagpieError::bad_setting("g2p", why);
        let g2p = config.g2p.as_ref().ok_or_else(|| bad("there is none"))?;
        g2p.check_class("ChineseG2p")?;
        if g2p.word_segmenter.as_deref() != Some("jieba") {
            // Without one, the words are those of pypinyin's own tables, which no file has.
            let own = g2p.word_segmenter.as_deref().unwrap_or("null");
            let why = format!("it is `{own}`, only `jieba` is supported");
            return Err(MagpieError::bad_setting("g2p.word_segmenter", why));
        }
        let dictionary = g2p.dictionary(artefact)?.ok_or_else(|| bad("there is no dictionary"))?;
        let letters = g2p.ascii_letter_case.as_deref().unwrap_or("lower");
        let letters = Case::read("g2p.ascii_letter_case", letters)?;
        let phonemes = g2p.phoneme_case.as_deref().unwrap_or("upper");
        let mut phoneme_case = Case::read("g2p.phoneme_case", phonemes)?;
        if g2p.parsed_phoneme_dict.is_some() {
            // The phonemes have it already.
            phoneme_case = Case::Mixed;
        }
        let phoneme_prefix = g2p.phoneme_prefix();
        let mut syllables = HashMap::new();
        for line in dictionary.lines() {
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
        tokens.extend(letters.letters().map(|letter| format!("{letter_prefix}{letter}")));
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

    /// Returns the symbols of a text, and the unknown items.
    pub(super) fn symbols(&self, text: &str, pinyin: &Pinyin) -> (Vec<String>, Vec<String>) {
        let words = pinyin.words(&self.letters.of(text));
        self.of_items(words.iter().flat_map(|word| pinyin.items(word)))
    }

    /// Returns the symbols of given phonemes, which may include pinyin such as `ni3`, and the unknown
    /// syllables. Blanks beside pinyin are no symbols.
    pub(super) fn of_phonemes(&self, text: &str, list: &List) -> (Vec<String>, Vec<String>) {
        let (mut symbols, mut unknown) = (Vec::new(), Vec::new());
        let mut rest = text;
        while let Some(place) = pinyin_in(rest) {
            symbols.extend(list.symbols(rest[..place.start].trim_end()));
            let syllable = rest[place.clone()].to_lowercase().replace('ü', "v");
            let (own, absent) = self.of_items([syllable]);
            symbols.extend(own);
            unknown.extend(absent);
            rest = rest[place.end..].trim_start();
        }
        symbols.extend(list.symbols(rest));
        (symbols, unknown)
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

/// Returns the place of the first syllable of pinyin in phonemes: Latin letters with a tone behind them.
pub(super) fn pinyin_in(phonemes: &str) -> Option<Range<usize>> {
    let is_letter = |c: char| c.is_ascii_alphabetic() || matches!(c, 'ü' | 'Ü');
    let mut from = 0;
    loop {
        let start = from + phonemes[from..].find(is_letter)?;
        let end = start + phonemes[start..].find(|c| !is_letter(c))?;
        if phonemes[end..].starts_with(['1', '2', '3', '4', '5']) {
            return Some(start..end + 1);
        }
        from = end;
    }
}
