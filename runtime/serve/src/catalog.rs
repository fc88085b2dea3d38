//! The models and voices that a server offers, and the check of a request before it is accepted.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::job::{JobError, Kind};

/// The family of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Songs.
    Music,
    /// The language model of songs.
    Language,
    /// Speech.
    Speech,
}

/// A model on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Model {
    /// Its name.
    pub id: String,
    /// Its family.
    pub family: Family,
    /// True for the model of requests that name none.
    pub is_default: bool,
    /// A description in a few words.
    pub about: String,
    /// The tasks of a music model; the languages of a speech model.
    pub supports: Vec<String>,
    /// Its settings for requests that have none of their own.
    pub defaults: Value,
    /// For a model of speech, what its requests and its sound are like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speech: Option<Speech>,
}

/// The requests and the sound of a model of speech.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Speech {
    /// Samples per second of its sound.
    pub sample_rate: u32,
    /// Fields that its requests take, beside the text.
    pub fields: Vec<String>,
    /// The language of a text whose request names none; absent if the model finds it out, or has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_language: Option<String>,
    /// True if results have the times of words.
    pub has_word_times: bool,
    /// True if text may arrive while it speaks.
    pub can_append: bool,
}

/// A voice of a speech model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Voice {
    /// Its name.
    pub id: String,
    /// The model that speaks with it.
    pub model: String,
    /// True for a voice of recordings, which can be removed.
    pub is_kept: bool,
}

/// A request that can be run.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// The model that it needs.
    pub model: Option<String>,
    /// Messages about values that were chosen or changed.
    pub notices: Vec<String>,
}

/// A model that a machine lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Missing {
    /// Result of requests without it, in words.
    pub text: String,
    /// The command that brings a model that was released.
    pub command: String,
}

pub(crate) fn no_voice(name: &str) -> JobError {
    let error = JobError::new("voice_not_found", format!("no kept voice is called `{name}`"));
    error.param("voice").hint("GET /v1/audio/voices lists them")
}

pub(crate) fn voice_exists(name: &str) -> JobError {
    let error = JobError::new("voice_exists", format!("a voice is called `{name}` already"));
    error.param("name").hint("choose another name, or remove that voice first")
}

/// The models and voices of a machine.
pub trait Catalog: Send + Sync + 'static {
    /// Returns the models that are here.
    fn models(&self) -> Vec<Model>;
    /// Returns the voices of all speech models.
    fn voices(&self) -> Vec<Voice>;
    /// Returns the model of the kept voice called `name`, if it is here.
    fn model_of_voice(&self, name: &str) -> Option<String>;
    /// Removes a kept voice.
    ///
    /// # Errors
    /// `voice_not_found`; a failure of the disk.
    fn remove_voice(&self, name: &str) -> Result<(), JobError>;
    /// Returns the names of the adapters of songs.
    fn adapters(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the kinds of models that are not installed, so that one inside the program is used.
    fn missing(&self) -> Vec<Missing> {
        Vec::new()
    }
    /// True if a language model is here that writes for songs of `model`, or of the default one.
    fn has_language(&self, model: Option<&str>) -> bool;
    /// Returns the samples per second of songs of `model`, or of the default one, if its files can be read.
    fn song_rate(&self, model: Option<&str>) -> Option<u32>;
    /// Returns a model of speech: the one called `name`, or the default one.
    fn speech(&self, name: Option<&str>) -> Option<(String, Speech)>;
    /// Checks a request as far as that is possible without its files and without a network.
    ///
    /// # Errors
    /// The first field that cannot be used; a model that is not here.
    fn check(&self, kind: Kind, request: &Map<String, Value>) -> Result<Checked, JobError>;
    /// Checks that `name` is an adapter of this machine. A name is never a path.
    ///
    /// # Errors
    /// `adapter_not_found`.
    fn check_adapter(&self, name: &str) -> Result<(), JobError>;
}
