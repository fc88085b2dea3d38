//! OpenJTalk's front end: the words of a Japanese text, with their kana and accents.
//!
//! Source: OpenJTalk 1.11 (`text2mecab`, `mecab`, `njd_set_*`), by the crate `jpreprocess`. Its dictionary
//! is read from disk.

use std::path::Path;

use acestep_engine::device::panics::caught;
use jpreprocess::{
    DefaultTokenizer, Dictionary, JPreprocess, SystemDictionaryConfig, error::JPreprocessError,
};

use super::japanese::JapaneseWord;
use crate::magpie::MagpieError;

pub(super) const FILES: [&str; 8] = [
    "char_def.bin",
    "dict.da",
    "dict.vals",
    "dict.words",
    "dict.wordsidx",
    "matrix.mtx",
    "metadata.json",
    "unk.bin",
];
/// Bytes of a word's cost and contexts in `dict.vals`, and of its place in `dict.wordsidx`.
const BYTES: (usize, usize) = (10, 4);

/// An analyser of Japanese texts.
pub struct OpenJTalk(JPreprocess<DefaultTokenizer>);

impl std::fmt::Debug for OpenJTalk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenJTalk")
    }
}

impl OpenJTalk {
    /// Reads a directory with a dictionary of jpreprocess: `dict.da`, `dict.words` and others.
    ///
    /// # Errors
    /// [`MagpieError::Dictionary`]: a file that is absent, cut or foreign.
    pub fn read(dir: &Path) -> Result<Self, MagpieError> {
        let bad = |why| MagpieError::Dictionary { path: dir.to_owned(), why };
        if let Some(absent) = FILES.iter().find(|file| !dir.join(file).is_file()) {
            return Err(bad(format!("`{absent}` is absent")));
        }
        let load = || SystemDictionaryConfig::File(dir.to_owned()).load();
        let dictionary = caught(load).map_err(bad)?.map_err(|error| bad(one_line(&error)))?;
        check(&dictionary).map_err(|why| bad(why.to_owned()))?;
        let analyser = Self(JPreprocess::with_dictionaries(dictionary, None));
        // Words that do not belong to their places are noticed here.
        analyser.words("今日は、天気がいいです。123円").map_err(|error| match error {
            MagpieError::Analysis { why } => bad(why),
            other => other,
        })?;
        Ok(analyser)
    }

    /// Returns the words of a text without blanks. Latin letters keep their case.
    ///
    /// # Errors
    /// [`MagpieError::Analysis`]: the dictionary has a word that cannot be read.
    pub fn words(&self, text: &str) -> Result<Vec<JapaneseWord>, MagpieError> {
        let analysed = caught(|| {
            let mut words = self.0.text_to_njd(text)?;
            words.preprocess();
            Ok(words)
        });
        let analysed = analysed.map_err(|why| MagpieError::Analysis { why })?;
        let words = analysed
            .map_err(|error: JPreprocessError| MagpieError::Analysis { why: one_line(&error) })?;
        let word = words.nodes.iter().map(|node| {
            let part = node.get_pos().to_string();
            let mut groups = part.split(',');
            let mut group = || groups.next().unwrap_or("*").to_owned();
            let pron = node.get_pron();
            JapaneseWord {
                string: node.get_string().to_owned(),
                pos: group(),
                pos_group1: group(),
                pron: pron.to_string(),
                acc: pron.accent(),
                mora_size: pron.mora_size(),
                chain_flag: node.get_chain_flag().map_or(-1, i32::from),
            }
        });
        Ok(word.collect())
    }
}

/// Compares the sizes of the files with each other: a cut file would lose words in silence.
fn check(dictionary: &Dictionary) -> Result<(), &'static str> {
    let words = &dictionary.prefix_dictionary;
    let costs = &dictionary.connection_cost_matrix;
    let (values, places) = (words.vals_data.len(), words.words_idx_data.len());
    let count = values / BYTES.0;
    // The places may have an end behind the last word.
    let is_whole = values % BYTES.0 == 0
        && places % BYTES.1 == 0
        && count > 0
        && [count, count + 1].contains(&(places / BYTES.1));
    if !is_whole {
        return Err("`dict.vals` and `dict.wordsidx` have different numbers of words");
    }
    match (costs.forward_size as usize).checked_mul(costs.backward_size as usize) {
        Some(size) if size == costs.costs_data.len() => Ok(()),
        _ => Err("`matrix.mtx` is cut"),
    }
}

fn one_line(error: &JPreprocessError) -> String {
    error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
