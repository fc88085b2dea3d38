//! Tokenizers with the real vocabulary: of the released models.
//!
//! The goldens also have token ids of the tiny vocabulary of their checkpoints, which the tests of
//! the tokenizers compare.

use std::path::Path;

use acestep_import::{
    Directory, Error, LanguageModelDir, LanguageTokenizer, TextEncoderDir, TextTokenizer,
    acestep::TEXT_ENCODER,
};
use acestep_model::Tokenizer;
use anyhow::Result;

use super::checkpoints::{Checkpoints, LANGUAGE_MODELS};

/// The size of the released vocabulary without special tokens; the tiny one has hundreds.
const FULL_VOCABULARY: usize = 151_643;

/// The released tokenizers, without their networks; one of the two may be absent.
#[derive(Debug)]
pub(crate) struct Real {
    text: Option<TextTokenizer>,
    language: Option<LanguageTokenizer>,
}

impl Real {
    /// Reads a directory of one tokenizer, or a directory that holds the folders of both.
    fn open(root: &Path) -> Result<Self> {
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
        "`tokenizer` takes the folder of a released language model (`{LANGUAGE_MODELS}*`) or of \
         `{TEXT_ENCODER}`, or the folder that holds both"
    );
    crate::Error::NoTokenizer { problem, hint }.into()
}

impl Checkpoints {
    /// Reads the released tokenizers in a directory.
    ///
    /// # Errors
    /// If it has none, or another one.
    pub(crate) fn read_tokenizers(root: &Path) -> Result<Real> {
        Real::open(root)
    }

    /// The text encoder's tokenizer with the real vocabulary, if there is one.
    pub(crate) fn real_text(&self) -> Result<Option<&TextTokenizer>> {
        let passed = self.real.as_ref().and_then(|real| real.text.as_ref());
        let rows = |text: &&TextEncoderDir| text.weights().config().vocab_size;
        let own = || self.text.as_ref().filter(|text| rows(text) >= FULL_VOCABULARY);
        Ok(match passed {
            None => own().map(TextEncoderDir::tokenizer).transpose()?,
            passed => passed,
        })
    }

    /// The language model's tokenizer with the real vocabulary, if there is one.
    pub(crate) fn real_language(&self) -> Result<Option<&LanguageTokenizer>> {
        let passed = self.real.as_ref().and_then(|real| real.language.as_ref());
        let rows = |language: &&LanguageModelDir| language.config().vocab_size;
        let own = || self.language.as_ref().filter(|language| rows(language) >= FULL_VOCABULARY);
        Ok(match passed {
            None => own().map(LanguageModelDir::tokenizer).transpose()?,
            passed => passed,
        })
    }

    /// The reason why there is no tokenizer with the real vocabulary.
    pub(crate) fn why_no_tokenizer(&self) -> &'static str {
        match self.real {
            None => "needs the real vocabulary: pass `tokenizer: DIR`",
            Some(_) => "the directory of `tokenizer` has only the other tokenizer",
        }
    }
}
