//! The available tokenizers, by the vocabulary of the goldens of text.
//!
//! There are two vocabularies: `tiny` of the goldens' checkpoints, `full` of the released models.

use std::path::Path;

use acestep_import::{
    Directory, Error, LanguageModelDir, LanguageTokenizer, TextEncoderDir, TextTokenizer,
    acestep::TEXT_ENCODER,
};
use acestep_model::Tokenizer;
use anyhow::Result;

use super::checkpoints::LANGUAGE_MODELS;
use crate::error::CliError;

/// The size of the released vocabulary without special tokens; the tiny one has hundreds.
const FULL_VOCABULARY: usize = 151_643;

/// The released tokenizers, without their networks; one of the two may be absent.
#[derive(Debug)]
pub(super) struct Real {
    text: Option<TextTokenizer>,
    language: Option<LanguageTokenizer>,
}

impl Real {
    /// Reads a directory of one tokenizer, or a directory that holds the folders of both.
    pub(super) fn open(root: &Path) -> Result<Self> {
        if !root.is_dir() {
            return Err(refusal(format!("`{}` is not a directory", root.display())));
        }
        let whole = Directory::Disk(root.to_owned());
        let this = if has_tokenizer(&whole) { Self::of_one(&whole)? } else { Self::of_both(root)? };
        let language = this.language.as_ref().map(LanguageTokenizer::vocabulary);
        let sizes = [language, this.text.as_ref().map(TextTokenizer::vocabulary)];
        let root = root.display();
        match sizes.into_iter().flatten().min() {
            None => Err(refusal(format!("`{root}` holds no tokenizer"))),
            Some(size) if size < FULL_VOCABULARY => {
                let problem =
                    format!("`{root}` has a vocabulary of {size} tokens, not the real one");
                Err(refusal(problem))
            }
            Some(_) => Ok(this),
        }
    }

    fn of_one(directory: &Directory) -> Result<Self> {
        let language = open_language(directory);
        // A tokenizer.json belongs to one model; vocab.json and merges.txt are the same for both.
        let text = match &language {
            Ok(_) if directory.has("tokenizer.json") => None,
            _ => Some(TextTokenizer::open(directory)),
        };
        if let (Err(language), Some(Err(text))) = (&language, &text) {
            let root = directory.root().display();
            return Err(refusal(format!(
                "the tokenizer in `{root}` is neither the language model's ({language}) nor the \
                 text encoder's ({text})"
            )));
        }
        Ok(Self { text: text.and_then(Result::ok), language: language.ok() })
    }

    fn of_both(root: &Path) -> Result<Self> {
        let mut names: Vec<_> = std::fs::read_dir(root)?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .filter(|name| name.starts_with(LANGUAGE_MODELS))
            .collect();
        names.sort();
        let at = |name: &str| Directory::Disk(root.join(name));
        let language = names.iter().map(|name| at(name)).find(has_tokenizer);
        let text = Some(at(TEXT_ENCODER)).filter(has_tokenizer);
        Ok(Self {
            text: text.map(|directory| TextTokenizer::open(&directory)).transpose()?,
            language: language.map(|directory| open_language(&directory)).transpose()?,
        })
    }
}

/// Opens a tokenizer without a limit for ids, as there is no network with a limited table.
fn open_language(directory: &Directory) -> Result<LanguageTokenizer, Error> {
    LanguageTokenizer::open(directory, usize::MAX)
}

fn has_tokenizer(directory: &Directory) -> bool {
    directory.has("tokenizer.json") || (directory.has("vocab.json") && directory.has("merges.txt"))
}

fn refusal(problem: String) -> anyhow::Error {
    let hint = format!(
        "--tokenizer takes the folder of a released language model (`{LANGUAGE_MODELS}*`) or of \
         `{TEXT_ENCODER}`, or the folder that holds both"
    );
    CliError::new(problem).hint(hint).into()
}

/// The sources of tokenizers: the real vocabulary if it was passed, and the checkpoints.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Vocabularies<'a> {
    pub(super) real: Option<&'a Real>,
    pub(super) text: Option<&'a TextEncoderDir>,
    pub(super) language: Option<&'a LanguageModelDir>,
}

impl<'a> Vocabularies<'a> {
    /// The text encoder's tokenizer with the vocabulary of this name.
    pub(super) fn text(&self, vocabulary: &str) -> Result<Option<&'a TextTokenizer>> {
        let real = self.real.filter(|_| vocabulary == "full").and_then(|real| real.text.as_ref());
        let folder = self.text.filter(|t| of_rows(t.weights().config().vocab_size) == vocabulary);
        Ok(match (real, folder) {
            (None, Some(folder)) => Some(folder.tokenizer()?),
            (real, _) => real,
        })
    }

    /// The language model's tokenizer with the vocabulary of this name.
    pub(super) fn language(&self, vocabulary: &str) -> Result<Option<&'a LanguageTokenizer>> {
        let real = self.real.filter(|_| vocabulary == "full");
        let folder = self.language.filter(|l| of_rows(l.config().vocab_size) == vocabulary);
        Ok(match (real.and_then(|real| real.language.as_ref()), folder) {
            (None, Some(folder)) => Some(folder.tokenizer()?),
            (real, _) => real,
        })
    }

    /// The reason why there is no tokenizer with the vocabulary of this name.
    pub(super) fn why_absent(&self, vocabulary: &str) -> &'static str {
        match (vocabulary, self.real) {
            ("full", None) => "needs the real vocabulary: pass --tokenizer DIR",
            ("full", Some(_)) => "the directory of --tokenizer has only the other tokenizer",
            _ => "no tokenizer with this vocabulary among the checkpoints",
        }
    }
}

/// The vocabulary of a network with `rows` rows in its embedding table.
fn of_rows(rows: usize) -> &'static str {
    if rows >= FULL_VOCABULARY { "full" } else { "tiny" }
}
