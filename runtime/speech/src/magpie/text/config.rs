//! Settings of the tokenizers, by their names in `model_config.yaml`.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::magpie::MagpieError;

/// The part of `model_config.yaml` that turns text into ids. Other keys are ignored.
#[derive(Debug, Clone, Deserialize)]
pub struct TextConfig {
    /// The version of NeMo that wrote the file; it decides settings that are absent.
    #[serde(default)]
    pub nemo_version: Option<String>,
    /// The tokenizers, in the order of their ids.
    pub text_tokenizers: Map<String, Value>,
    /// The tokenizers of each language; older files leave the choice to a table.
    #[serde(default)]
    pub language_to_tokenizer_mapping: Option<Map<String, Value>>,
}

/// Settings of one tokenizer.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct TokenizerConfig {
    #[serde(rename = "_target_")]
    pub target: String,
    #[serde(default = "yes")]
    pub punct: bool,
    /// `None` if the file leaves it to the class.
    pub apostrophe: Option<bool>,
    #[serde(default)]
    pub pad_with_space: bool,
    #[serde(default = "english")]
    pub locale: Option<String>,
    pub locale_specific_punct: Option<bool>,
    pub charset_version: Option<u32>,
    pub punct_version: Option<u32>,
    pub pretrained_model: Option<String>,
    pub g2p: Option<G2pConfig>,
    /// File of the tokens, one a line; without it they follow from the other settings. Archives have
    /// none: the importer of GGUF files names it.
    pub vocabulary: Option<String>,
    /// Number of ids of a tokenizer that the file does not have: see [`ABSENT`].
    pub size: Option<u32>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Keys that change the tokens or the text, and that no released file has.
const UNSUPPORTED: [&str; 6] = [
    "add_blank_at",
    "chars",
    "fixed_vocab",
    "non_default_punct_list",
    "silence",
    "text_preprocessing_func",
];

/// The class of a tokenizer for which a file has only the number of ids.
pub(super) const ABSENT: &str = "absent";

/// Settings of the conversion from letters to phonemes. A key that classes have different defaults for is
/// `None` if it is absent.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct G2pConfig {
    #[serde(rename = "_target_")]
    target: Option<String>,
    /// A file, or several that are read as one.
    phoneme_dict: Option<OneOrMore>,
    /// File of the dictionary after the reference read it: `word TAB symbol symbol`, with the case of
    /// the words changed and one pronunciation each. GGUF files have it in place of `phoneme_dict`.
    pub parsed_phoneme_dict: Option<String>,
    /// A file, or a list of the words.
    heteronyms: Option<OneOrMore>,
    /// `None` is a null in the file, which the reference takes for false.
    #[serde(default = "some_yes")]
    pub ignore_ambiguous_words: Option<bool>,
    #[serde(default)]
    pub use_chars: bool,
    #[serde(default = "some_yes")]
    pub use_stresses: Option<bool>,
    pub phoneme_probability: Option<f64>,
    pub grapheme_case: Option<String>,
    #[serde(default)]
    pub grapheme_prefix: String,
    #[serde(default = "english")]
    pub locale: Option<String>,
    #[serde(default = "mark")]
    phoneme_prefix: Option<String>,
    pub phoneme_case: Option<String>,
    #[serde(default = "mark")]
    tone_prefix: Option<String>,
    ascii_letter_prefix: Option<String>,
    pub ascii_letter_case: Option<String>,
    pub word_segmenter: Option<String>,
}

/// A text, or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "it is neither a text nor a list of texts")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

fn yes() -> bool {
    true
}

fn some_yes() -> Option<bool> {
    Some(true)
}

/// The locale of a file that names none. A null is no locale.
fn english() -> Option<String> {
    Some("en-US".to_owned())
}

/// The prefix of phonemes and tones of a file that names none. A null is an empty one.
fn mark() -> Option<String> {
    Some("#".to_owned())
}

impl G2pConfig {
    /// True if letters are symbols too. A probability of phonemes alone implies it.
    pub(super) fn has_letters(&self) -> bool {
        self.use_chars || self.phoneme_probability.is_some()
    }

    /// Returns the text of the dictionary, if there is one. Several files are one behind the other, as
    /// `_parse_phoneme_dict` of the reference merges them.
    pub(super) fn dictionary(
        &self,
        artefact: &dyn Fn(&str) -> Result<String, MagpieError>,
    ) -> Result<Option<String>, MagpieError> {
        let files: &[String] = match (&self.parsed_phoneme_dict, &self.phoneme_dict) {
            (Some(file), _) | (None, Some(OneOrMore::One(file))) => std::slice::from_ref(file),
            (None, Some(OneOrMore::More(files))) => files,
            (None, None) => &[],
        };
        let texts = files.iter().map(|file| artefact(file));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        Ok((!texts.is_empty()).then(|| texts.join("\n")))
    }

    /// Returns the words with several pronunciations, one a line.
    pub(super) fn heteronyms(
        &self,
        artefact: &dyn Fn(&str) -> Result<String, MagpieError>,
    ) -> Result<String, MagpieError> {
        match &self.heteronyms {
            None => Ok(String::new()),
            Some(OneOrMore::One(file)) => artefact(file),
            Some(OneOrMore::More(words)) => Ok(words.join("\n")),
        }
    }

    /// The prefix of phonemes. Those of a dictionary that was read before have it already.
    pub(super) fn phoneme_prefix(&self) -> &str {
        let own = self.phoneme_prefix.as_deref().unwrap_or_default();
        if self.parsed_phoneme_dict.is_some() { "" } else { own }
    }

    pub(super) fn tone_prefix(&self) -> &str {
        self.tone_prefix.as_deref().unwrap_or_default()
    }

    pub(super) fn ascii_letter_prefix(&self) -> &str {
        self.ascii_letter_prefix.as_deref().unwrap_or_default()
    }

    /// Checks that the class of the conversion is `expected`, if the file names one.
    pub(super) fn check_class(&self, expected: &str) -> Result<(), MagpieError> {
        let own = self.target.as_deref().and_then(|target| target.rsplit('.').next());
        match own.filter(|own| *own != expected) {
            None => Ok(()),
            Some(other) => {
                let why = format!("the class `{other}` is not supported, only `{expected}`");
                Err(MagpieError::bad_setting("g2p._target_", why))
            }
        }
    }
}

impl TokenizerConfig {
    /// Reads the settings of the tokenizer `name`, and fills in what depends on the version.
    pub(super) fn read(name: &str, value: &Value, version: &Version) -> Result<Self, MagpieError> {
        let bad = |why: String| MagpieError::bad_setting(format!("text_tokenizers.{name}"), why);
        let mut config = Self::deserialize(value).map_err(|error| bad(error.to_string()))?;
        let is_set = |key: &&&str| config.others.get(**key).is_some_and(|value| !value.is_null());
        if let Some(key) = UNSUPPORTED.iter().find(is_set) {
            return Err(bad(format!("`{key}` is not supported")));
        }
        match config.class() {
            "ArabicCharsTokenizer" | "HindiCharsTokenizer" => {
                config.charset_version.get_or_insert(version.charset());
                config.punct_version.get_or_insert(version.charset());
            }
            "IPATokenizer" if config.locale.as_deref() == Some("pt-BR") => {
                config.locale_specific_punct.get_or_insert(!version.is_before_2_8);
            }
            _ => {}
        }
        Ok(config)
    }

    /// True if the apostrophe is a token. `IPATokenizer` alone has none by default.
    pub(super) fn has_apostrophe(&self) -> bool {
        self.apostrophe.unwrap_or(self.class() != "IPATokenizer")
    }

    /// The class of the reference, without its module.
    pub(super) fn class(&self) -> &str {
        self.target.rsplit('.').next().unwrap_or(&self.target)
    }
}

/// The version of NeMo that wrote a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Version {
    is_before_2_8: bool,
}

impl Version {
    /// Reads `2.8.0rc0`; a version that is absent or no version counts as the newest.
    pub(super) fn read(version: Option<&str>) -> Self {
        let mut parts = version.unwrap_or_default().split('.').map(str::parse::<u32>);
        let is_before_2_8 = match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (2, 8),
            _ => false,
        };
        Self { is_before_2_8 }
    }

    fn charset(self) -> u32 {
        if self.is_before_2_8 { 1 } else { 2 }
    }
}
