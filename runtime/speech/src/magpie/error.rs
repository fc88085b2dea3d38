//! Errors of Magpie TTS.

use std::path::PathBuf;

use acestep_engine::{
    FamilyError,
    error::{ScoreError, counted},
};

use crate::error::{BAD_SCORES, one_of};

/// An error of a request or model; inside [`acestep_engine::Error::Family`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum MagpieError {
    /// A setting of the model's file that cannot be used.
    #[error("the model's setting `{field}` cannot be used: {why}")]
    Setting { field: String, why: String },
    /// A text embedding that does not belong to the tokenizers.
    #[error("the text embedding has {rows} rows, but the tokenizers have {ours} ids ({sizes})")]
    Vocabulary {
        rows: usize,
        /// Ids of the tokenizers.
        ours: usize,
        /// Each tokenizer and its number of ids.
        sizes: String,
    },
    /// A language that the model does not have.
    #[error("the model does not speak `{language}`")]
    Language {
        language: String,
        /// The languages that it speaks.
        known: Vec<String>,
    },
    /// A language that the model has, and that this program cannot read without more files.
    #[error("texts in `{language}` need {missing}, which is absent")]
    LanguageTool { language: String, missing: Tool },
    /// A language whose tokenizer has a setting that cannot be used. The others can.
    #[error("texts in `{language}` cannot be read: {why}")]
    LanguageSettings { language: String, why: String },
    /// Phonemes in a language whose tokenizer has none.
    #[error("texts in `{language}` have no phonemes: the model reads their {units}")]
    NoPhonemes {
        language: String,
        /// The units that it reads, as a plural noun.
        units: &'static str,
    },
    /// Words of an analyser of Japanese, for another language.
    #[error("words of OpenJTalk are Japanese, but the language is `{language}`")]
    NotJapanese { language: String },
    /// A dictionary of Japanese that cannot be used.
    #[error("the dictionary in `{}` cannot be used: {why}", .path.display())]
    Dictionary {
        /// Its directory.
        path: PathBuf,
        why: String,
    },
    /// A Japanese text that the analyser failed on.
    #[error("the words of the text cannot be found: {why}")]
    Analysis { why: String },
    /// A line of a table of pinyin that cannot be read.
    #[error("line {line} of the table of pinyin cannot be used")]
    BadPinyin { line: usize },
    /// A text without anything to speak.
    #[error("there is nothing to say in the text{}", unknown(.dropped))]
    NothingToSay {
        /// Symbols that the model does not know.
        dropped: Vec<String>,
    },
    /// A voice that the model does not have.
    #[error("the model has no voice `{voice}`")]
    Voice {
        voice: String,
        /// The voices that it has.
        known: Vec<String>,
    },
    /// More positions than the model has.
    #[error("{what} take {positions} positions, and {most} is the most")]
    TooLong {
        /// The thing that takes them, as a plural noun phrase.
        what: String,
        /// The field of it.
        field: &'static str,
        positions: usize,
        most: usize,
    },
    /// Logits that no code can be chosen from.
    #[error("the scores cannot be used at step {step}: {why}")]
    Scores { step: usize, why: ScoreError },
}

/// A thing without which texts in a language cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// A table of the syllables of Chinese words.
    Pinyin,
    /// The phonemes of those syllables.
    Syllables,
    /// A dictionary of Japanese words.
    Japanese,
}

impl std::fmt::Display for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pinyin => "a table of pinyin",
            Self::Syllables => "a whole dictionary of syllables",
            Self::Japanese => "a dictionary of Japanese",
        })
    }
}

fn unknown(symbols: &[String]) -> String {
    match symbols {
        [] => String::new(),
        symbols => format!(": the model does not know {}", listed(symbols)),
    }
}

/// Returns symbols in quotation marks.
pub(super) fn listed(symbols: &[String]) -> String {
    /// Most symbols that are named: a text in another script has hundreds.
    const MOST: usize = 20;
    let quoted: Vec<_> =
        symbols.iter().take(MOST).map(|symbol| format!("`{}`", symbol.escape_debug())).collect();
    let others = match symbols.len().saturating_sub(MOST) {
        0 => String::new(),
        others => format!(" and {}", counted(others, "other")),
    };
    quoted.join(", ") + &others
}

fn has_letter(symbol: &str) -> bool {
    symbol.chars().any(char::is_alphabetic)
}

impl MagpieError {
    pub(super) fn bad_setting(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Setting { field: field.into(), why: why.into() }
    }

    /// Adds the name of the tokenizer to the setting.
    pub(super) fn of_tokenizer(self, name: &str) -> Self {
        match self {
            Self::Setting { field, why } => {
                Self::Setting { field: format!("text_tokenizers.{name}.{field}"), why }
            }
            other => other,
        }
    }
}

impl FamilyError for MagpieError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Setting { .. } | Self::Vocabulary { .. } => {
                "the file may be damaged, or newer than this program"
            }
            Self::Language { language: name, known } | Self::Voice { voice: name, known } => {
                return Some(one_of(name, known));
            }
            Self::LanguageTool { missing: Tool::Pinyin, .. } => {
                "pass `pinyin` (a file with lines such as `银行: yín háng`), `phonemes` (such as \
                 `ni3 hao3`) or `ids`"
            }
            Self::LanguageTool { missing: Tool::Syllables, .. } => {
                "take the `.nemo` archive of the model, or pass `phonemes` that are no pinyin, or `ids`"
            }
            Self::LanguageTool { missing: Tool::Japanese, .. } => {
                "put the dictionary of jpreprocess into the models directory as `naist-jdic`, or pass \
                 `open_jtalk` (the words of pyopenjtalk.run_frontend as JSON), `phonemes` (kana with \
                 pitch, such as `1キョ0ー0ワ`) or `ids`"
            }
            Self::LanguageSettings { .. } => {
                "name another `language`, or pass `ids`; the file may be damaged, or newer than this \
                 program"
            }
            Self::NotJapanese { .. } => "pass `language: ja`",
            Self::NoPhonemes { .. } => "pass the text itself, or `ids`",
            Self::Dictionary { .. } | Self::Analysis { .. } => {
                "it is the directory of `naist-jdic-jpreprocess.tar.gz`, of the releases 0.15 of \
                 jpreprocess; unpack it anew"
            }
            Self::BadPinyin { .. } => {
                "a line is `word: syllable syllable`, with as many syllables as characters"
            }
            Self::NothingToSay { dropped } if dropped.iter().any(|symbol| has_letter(symbol)) => {
                "name the `language` of the text, and write numbers and signs as words"
            }
            Self::NothingToSay { .. } => "write numbers and signs as words",
            Self::TooLong { .. } => "pass a shorter text, or lower `max_decoder_steps`",
            Self::Scores { .. } => BAD_SCORES,
        };
        Some(text.to_owned())
    }

    fn is_usage(&self) -> bool {
        !matches!(self, Self::Scores { .. } | Self::Setting { .. } | Self::Vocabulary { .. })
    }
}
