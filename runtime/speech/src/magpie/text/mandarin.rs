//! Mandarin: words to syllables with tones, and syllables to phonemes.
//!
//! The words are those of jieba. The syllables of words and characters come from a table that the user
//! has: which one a character takes depends on its word, and no table of words is part of a model.
//!
//! Source: NeMo 3.0.0, `zh_cn_pinyin.py`, `ChineseG2p`; `pypinyin`, `lazy_pinyin` with style `TONE3`.

use std::collections::{BTreeSet, HashMap};

use super::{
    config::{G2pConfig, TokenizerConfig},
    pinyin::Pinyin,
    punctuation::symbols,
};
use crate::magpie::MagpieError;

const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const MARKS: &str = "，。？！；：、‘’“”（）【】「」《》,.!?-:;/\"()[]{}";

/// Syllables to phonemes.
#[derive(Debug)]
pub(super) struct Mandarin {
    syllables: HashMap<String, Vec<String>>,
    tone_prefix: String,
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
        let bad = |why: &str| MagpieError::bad_setting("g2p".to_owned(), why.to_owned());
        let g2p = config.g2p.as_ref().ok_or_else(|| bad("there is none"))?;
        let file = g2p.parsed_phoneme_dict.as_ref().or(g2p.phoneme_dict.as_ref());
        let file = file.ok_or_else(|| bad("there is no dictionary"))?;
        if g2p.ascii_letter_case.as_deref().is_some_and(|case| case != "upper")
            || g2p.phoneme_case.as_deref().is_some_and(|case| case != "lower")
        {
            return Err(bad("only upper-case letters and lower-case phonemes are supported"));
        }
        let G2pConfig { mut phoneme_prefix, tone_prefix, ascii_letter_prefix, .. } = g2p.clone();
        if g2p.parsed_phoneme_dict.is_some() {
            // The phonemes have it already.
            phoneme_prefix.clear();
        }
        let mut syllables = HashMap::new();
        for line in artefact(file)?.lines() {
            if line.trim().is_empty() || line.starts_with(";;;") {
                continue;
            }
            let (syllable, phonemes) = line.split_once('\t').ok_or_else(|| {
                bad(&format!("the dictionary has the line `{line}` without a tab"))
            })?;
            let phonemes = phonemes.split_whitespace().map(|one| format!("{phoneme_prefix}{one}"));
            syllables.insert(syllable.to_lowercase(), phonemes.collect::<Vec<_>>());
        }
        let tone_prefix = tone_prefix.unwrap_or_else(|| "#".to_owned());
        let phonemes: BTreeSet<_> = syllables.values().flatten().cloned().collect();
        let mut tokens = vec![" ".to_owned()];
        tokens.extend(phonemes);
        tokens.extend((1..=5).map(|tone| format!("{tone_prefix}{tone}")));
        tokens.extend(symbols(LETTERS).map(|letter| format!("{ascii_letter_prefix}{letter}")));
        tokens.extend(config.apostrophe.then(|| "'".to_owned()));
        tokens.extend(symbols(MARKS).filter(|_| config.punct).map(str::to_owned));
        tokens.extend(["<pad>", "<oov>"].map(str::to_owned));
        let is_complete = vocabulary.is_none_or(|given| given == tokens);
        let mandarin =
            Self { syllables, tone_prefix, letter_prefix: ascii_letter_prefix, is_complete };
        Ok((mandarin, tokens))
    }

    /// False if the dictionary lacks phonemes of its syllables: those of one C++ port's files have the
    /// first phoneme of each.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the symbols of a text, and the items that nobody knows.
    pub(super) fn symbols(&self, text: &str, pinyin: &Pinyin) -> (Vec<String>, Vec<String>) {
        let words = pinyin.words(&text.to_uppercase());
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
                Some(letter @ 'A'..='Z') => symbols.push(format!("{}{letter}", self.letter_prefix)),
                _ => symbols.push(item),
            }
        }
        (symbols, unknown)
    }
}
