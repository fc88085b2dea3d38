//! What was asked: every field optional, in upstream's names.
//!
//! A `Request` has no defaults and no limits; those live in [`Plan`](crate::Plan). Its JSON is
//! upstream's, and [`Request::from_json`] reads other programs' spellings too (see `foreign`).
//!
//! Source: upstream `GenerationParams` and `GenerationConfig`; acestep.cpp `AceRequest`.

mod foreign;
mod keys;
#[cfg(test)]
mod tests;
mod values;

use serde::{Deserialize, Serialize};

use crate::{Error, Notice};

/// A song, as far as the user has decided it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// What it sounds like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// What is sung, with `[Verse]` and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lyrics: Option<String>,
    /// No voice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instrumental: Option<bool>,
    /// Beats a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bpm: Option<i64>,
    /// Key, e.g. `F# minor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyscale: Option<String>,
    /// Metre, e.g. `4` or `6/8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timesignature: Option<String>,
    /// Length in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// Language of the voice, e.g. `en`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocal_language: Option<String>,
    /// Solver steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference_steps: Option<i64>,
    /// Strength of guidance; 1 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance_scale: Option<f64>,
    /// How far the schedule leans to the noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    /// The schedule itself, descending; wins over steps and shift.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timesteps: Option<Vec<f64>>,
    /// `ode` or `sde`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infer_method: Option<String>,
    /// One seed for the first song (the next ones count up), or one for each.
    #[serde(skip_serializing_if = "Option::is_none", with = "seeds")]
    pub seed: Option<Vec<u64>>,
    /// How many songs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<i64>,
    /// The song's outline, five codes a second; wins over the duration.
    #[serde(skip_serializing_if = "Option::is_none", with = "code_list")]
    pub audio_codes: Option<Vec<u32>>,
    /// `text2music`, the only one in this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// Guidance is applied at times from here ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfg_interval_start: Option<f64>,
    /// ... to here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfg_interval_end: Option<f64>,
    /// `apg` or `cfg`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance_mode: Option<String>,
    /// Whether the peak is brought to `normalization_db`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_normalization: Option<bool>,
    /// The peak in dB below full scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalization_db: Option<f64>,
    /// Share of the steps that follow the audio codes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_cover_strength: Option<f64>,
    /// The model's instruction, in place of the task's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// Generator of the noise: `philox`, `philox:THREADS` or `mt19937`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rng: Option<String>,
    /// Latent frames that the VAE decodes at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vae_chunk: Option<i64>,
    /// Latent frames on either side of a chunk whose sound is thrown away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vae_overlap: Option<i64>,
    /// The model: a short name, a directory's name or a path. A [`Plan`](crate::Plan) does not
    /// read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Request {
    /// Reads a request file of this program, of upstream or of acestep.cpp.
    ///
    /// # Errors
    /// [`Error::RequestSyntax`], [`Error::UnknownKey`], [`Error::RequestValue`], or
    /// [`Error::NotInThisVersion`] for a setting that would change the sound and is not built.
    pub fn from_json(text: &str) -> Result<(Self, Vec<Notice>), Error> {
        foreign::read(text)
    }

    /// The same without what only becomes the condition: what is left if that is there already.
    #[must_use]
    pub fn without_condition(&self) -> Self {
        Self {
            caption: None,
            lyrics: None,
            instrumental: None,
            bpm: None,
            keyscale: None,
            timesignature: None,
            vocal_language: None,
            audio_codes: None,
            audio_cover_strength: None,
            instruction: None,
            ..self.clone()
        }
    }

    /// The keys of what is set.
    pub fn keys(&self) -> Vec<String> {
        let object = serde_json::to_value(self).expect("texts, numbers and lists are JSON");
        object.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    }

    /// The request as a JSON file; what is not set is left out.
    pub fn to_json(&self) -> String {
        // NaN becomes null, so nothing in a request can fail.
        serde_json::to_string_pretty(self).expect("texts, numbers and lists are JSON") + "\n"
    }
}

/// A single seed is a number, several are a list.
mod seeds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(u64),
        Many(Vec<u64>),
    }

    pub(super) fn serialize<S: Serializer>(v: &Option<Vec<u64>>, to: S) -> Result<S::Ok, S::Error> {
        match v.as_deref() {
            Some([one]) => one.serialize(to),
            many => many.serialize(to),
        }
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(d: D) -> Result<Option<Vec<u64>>, D::Error> {
        Ok(Option::deserialize(d)?.map(|seeds| match seeds {
            OneOrMany::One(seed) => vec![seed],
            OneOrMany::Many(seeds) => seeds,
        }))
    }
}

/// Codes are written as acestep.cpp writes them: `"17,4"`.
mod code_list {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::codes;

    pub(super) fn serialize<S: Serializer>(v: &Option<Vec<u32>>, to: S) -> Result<S::Ok, S::Error> {
        match v {
            Some(list) => to.serialize_str(&codes::to_list(list)),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(d: D) -> Result<Option<Vec<u32>>, D::Error> {
        let text: Option<String> = Option::deserialize(d)?;
        text.map(|text| codes::parse_list(&text).map_err(D::Error::custom)).transpose()
    }
}
