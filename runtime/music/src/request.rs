//! The user's request, by topic: every field optional, with upstream's names.
//!
//! A topic is one file: its fields, their defaults and limits, and the part of the
//! [`Plan`](crate::Plan) that follows from them. Its JSON is upstream's, without topics, and
//! [`Request::from_json`] reads other programs' spellings too (see `foreign`).
//!
//! | topic | content |
//! |---|---|
//! | `words` | caption, lyrics, metadata |
//! | `source` | task, source song, references, audio codes, tracks |
//! | `repaint` | the part of the source to generate |
//! | `edit` | an edit from one description to another |
//! | `sampling` | steps, times, guidance |
//! | `sampler` | solver, smoothing and correction of the steps |
//! | `noise` | number of songs, their seeds, retakes |
//! | `language` | settings of the language model |
//! | `output` | latents, loudness, fades and format of the result |
//! | `compute` | model, adapters, tiles of the VAE |
//!
//! `length`, `singing` are rules that several topics need.
//!
//! Source: upstream `GenerationParams` and `GenerationConfig`; acestep.cpp `AceRequest`.

pub mod compute;
pub mod edit;
mod foreign;
mod keys;
pub mod language;
pub mod length;
pub mod noise;
mod once;
pub mod output;
pub mod repaint;
pub mod sampler;
pub mod sampling;
pub mod singing;
pub mod source;
#[cfg(test)]
mod tests;
mod topic;
mod values;
pub mod words;

use acestep_engine::{Error, Notice};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use self::values::shortest;
pub use self::{
    compute::Compute,
    edit::Edit,
    foreign::snake_case,
    language::Language,
    noise::Noise,
    once::{json, object, rename},
    output::Output,
    repaint::Repaint,
    sampler::Sampler,
    sampling::Sampling,
    source::Source,
    words::Words,
};
use self::{source::Task, topic::Key};

/// Settings of a song that the user has decided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Caption, lyrics and metadata.
    #[serde(flatten)]
    pub words: Words,
    /// Task, source song, references, audio codes and tracks.
    #[serde(flatten)]
    pub source: Source,
    /// The part of the source to generate.
    #[serde(flatten)]
    pub repaint: Repaint,
    /// The edit of the source.
    #[serde(flatten)]
    pub edit: Edit,
    /// Steps, times and guidance.
    #[serde(flatten)]
    pub sampling: Sampling,
    /// Solver, smoothing and correction.
    #[serde(flatten)]
    pub sampler: Sampler,
    /// Number of songs, their seeds and retakes.
    #[serde(flatten)]
    pub noise: Noise,
    /// Latents, loudness, fades and format of the result.
    #[serde(flatten)]
    pub output: Output,
    /// Model, adapters and tiles.
    #[serde(flatten)]
    pub compute: Compute,
    /// Settings of the language model; a [`Plan`](crate::Plan) does not read them.
    #[serde(flatten)]
    pub language: Language,
}

/// The kind of value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Text or a word.
    Text,
    /// True or false.
    Flag,
    /// A number, or a list of numbers.
    Numbers,
}

impl Request {
    /// Returns the request with a change.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Reads a request file of this program, of upstream or of acestep.cpp.
    ///
    /// # Errors
    /// [`Error::RequestSyntax`], [`Error::RequestTwice`], [`Error::UnknownKey`],
    /// [`Error::RequestValue`], or
    /// [`Error::NotInThisVersion`] for an unsupported setting that would change the sound.
    pub fn from_json(text: &str) -> Result<(Self, Vec<Notice>), Error> {
        Self::from_object(object(text)?)
    }

    /// Reads a request from a result of [`object`].
    ///
    /// # Errors
    /// As [`Request::from_json`].
    pub fn from_object(object: Map<String, Value>) -> Result<(Self, Vec<Notice>), Error> {
        foreign::read(object)
    }

    /// Returns the request without the settings that a ready condition replaces.
    #[must_use]
    pub fn without_condition(&self) -> Self {
        Self {
            words: Words { duration: self.words.duration, ..Words::default() },
            source: Source::default(),
            repaint: Repaint::default(),
            edit: Edit::default(),
            ..self.without_language_model()
        }
    }

    /// Returns the request without the settings of the language model, after it has run.
    #[must_use]
    pub fn without_language_model(&self) -> Self {
        Self { language: Language::default(), ..self.clone() }
    }

    /// True if the song has a source: by its task, or for an edit.
    pub fn follows_source(&self) -> bool {
        // The plan refuses an unknown task.
        self.source.task().is_ok_and(Task::has_source) || self.edit.is_on()
    }

    /// Every key of a request.
    fn all_keys() -> impl Iterator<Item = &'static Key> {
        let topics = [
            Words::KEYS,
            Source::KEYS,
            Repaint::KEYS,
            Edit::KEYS,
            Sampling::KEYS,
            Sampler::KEYS,
            Noise::KEYS,
            Output::KEYS,
            Compute::KEYS,
            Language::KEYS,
        ];
        topics.into_iter().flatten()
    }

    /// Returns the keys of a request, in our spelling.
    pub fn known_keys() -> impl Iterator<Item = &'static str> {
        Self::all_keys().map(|key| key.name)
    }

    /// True if [`Request::from_object`] reads the key, in any spelling. Objects of more keys, such as
    /// `metadata`, do not count.
    pub fn knows(key: &str) -> bool {
        foreign::knows(key)
    }

    /// Returns our name of a key, in any spelling.
    pub fn name_of(key: &str) -> Option<&'static str> {
        let key = snake_case(key);
        Self::all_keys().find(|own| own.is(&key)).map(|own| own.name)
    }

    /// Returns the kind of value of the key `name`.
    pub fn takes(name: &str) -> Takes {
        let key = Self::all_keys().find(|key| key.name == name);
        key.map_or(Takes::Text, |key| key.kind.takes())
    }

    /// Returns the keys of the fields that are set.
    pub fn keys(&self) -> Vec<String> {
        let object = serde_json::to_value(self).expect("texts, numbers and lists are JSON");
        object.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    }

    /// Returns the request as a JSON file; unset fields are left out.
    pub fn to_json(&self) -> String {
        // NaN becomes null, so serialisation cannot fail.
        serde_json::to_string_pretty(self).expect("texts, numbers and lists are JSON") + "\n"
    }
}

/// A list of one is written as a single value; both forms are read.
mod one_or_many {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany<T> {
        One(T),
        Many(Vec<T>),
    }

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        v: &Option<Vec<T>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match v.as_deref() {
            Some([one]) => one.serialize(to),
            many => many.serialize(to),
        }
    }

    pub(super) fn deserialize<'a, T: Deserialize<'a>, D: Deserializer<'a>>(
        d: D,
    ) -> Result<Option<Vec<T>>, D::Error> {
        Ok(Option::deserialize(d)?.map(|of| match of {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        }))
    }
}

/// Codes are written as acestep.cpp writes them, `"17,4"`; for several songs as a list of these.
mod code_lists {
    use serde::{Deserializer, Serializer, de::Error};

    use super::one_or_many;
    use crate::codes;

    pub(super) fn serialize<S: Serializer>(
        v: &Option<Vec<Vec<u32>>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match v.as_deref() {
            None => to.serialize_none(),
            Some([one]) => to.serialize_str(&codes::to_list(one)),
            Some(lists) => to.collect_seq(lists.iter().map(|list| codes::to_list(list))),
        }
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(
        d: D,
    ) -> Result<Option<Vec<Vec<u32>>>, D::Error> {
        let Some(texts) = one_or_many::deserialize::<String, D>(d)? else { return Ok(None) };
        let lists = texts.iter().map(|text| codes::parse(text).map_err(D::Error::custom));
        lists.collect::<Result<_, _>>().map(Some)
    }
}
