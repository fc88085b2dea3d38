//! The user's request: every field optional, with upstream's names.
//!
//! A `Request` has no defaults and no limits; those are in [`Plan`](crate::Plan). Its JSON is
//! upstream's, and [`Request::from_json`] reads other programs' spellings too (see `foreign`).
//!
//! Source: upstream `GenerationParams` and `GenerationConfig`; acestep.cpp `AceRequest`.

mod foreign;
mod keys;
#[cfg(test)]
mod tests;
mod values;

use acestep_engine::{Error, Notice, audio::encoding::EncodingOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Settings of a song that the user has decided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Description of the sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// The sung text, with tags such as `[Verse]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lyrics: Option<String>,
    /// True for a song without voice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instrumental: Option<bool>,
    /// Beats per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bpm: Option<i64>,
    /// Key, e.g. `F# minor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyscale: Option<String>,
    /// Time signature, e.g. `4` or `6/8`.
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
    /// Guidance scale; 1 = no guidance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance_scale: Option<f64>,
    /// Shift of the schedule towards the noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    /// The schedule itself, descending; takes precedence over steps and shift.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timesteps: Option<Vec<f64>>,
    /// `ode` or `sde`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infer_method: Option<String>,
    /// `euler` or `heun`, for the deterministic method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler_mode: Option<String>,
    /// `euler`, `sde`, `dpm3m` or `stork4`: acestep.cpp's single name for method and mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solver: Option<String>,
    /// Sub-steps of `stork4`; they do not change its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stork_substeps: Option<i64>,
    /// Limit on the velocity, in norms of the latents; 0 = no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub velocity_norm_threshold: Option<f64>,
    /// Weight of the previous velocity; 0 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub velocity_ema_factor: Option<f64>,
    /// True to correct the steps in the wavelet domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcw_enabled: Option<bool>,
    /// `low`, `high`, `double` or `pix`: the frequencies to correct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcw_mode: Option<String>,
    /// Strength of the correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcw_scaler: Option<f64>,
    /// Strength for high frequencies in mode `double`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcw_high_scaler: Option<f64>,
    /// `haar`, the only wavelet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcw_wavelet: Option<String>,
    /// One seed for the first song (the next ones count up), or one per song.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub seed: Option<Vec<u64>>,
    /// Seeds of the second noise of a retake: one, or one per song.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub retake_seed: Option<Vec<u64>>,
    /// Share of the second noise, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retake_variance: Option<f64>,
    /// Number of songs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<i64>,
    /// Audio codes, five per second: one list for all songs, or one per song. They take precedence
    /// over the duration.
    #[serde(skip_serializing_if = "Option::is_none", with = "code_lists")]
    pub audio_codes: Option<Vec<Vec<u32>>>,
    /// Name of a [`Task`](crate::plan::Task).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// Source sound file of a cover, a repaint and similar tasks. The caller of
    /// [`Plan`](crate::Plan) reads it, and the other files below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_audio: Option<String>,
    /// The source as a file of latents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_latents: Option<String>,
    /// Sound files as timbre references.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub reference_audio: Option<Vec<String>>,
    /// The timbre references as files of latents.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub ref_latents: Option<Vec<String>>,
    /// Start of the region to generate, in seconds of the source; negative = before its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repainting_start: Option<f64>,
    /// End of the region; negative = the end of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repainting_end: Option<f64>,
    /// Transition to the surroundings: `balanced`, `conservative`, `aggressive` or `custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaint_mode: Option<String>,
    /// Freedom of the region in mode `balanced` or `custom`, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaint_strength: Option<f64>,
    /// Latent frames of crossfade on either side of the region, in mode `custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaint_latent_crossfade_frames: Option<i64>,
    /// Crossfade of the sound in seconds, in mode `custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaint_wav_crossfade_sec: Option<f64>,
    /// Mask of the region for the transformer: `explicit`, `ones` or `twos`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_mask_mode: Option<String>,
    /// The track that `lego` adds or `extract` extracts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub track_name: Option<String>,
    /// The tracks that `complete` adds.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub track_classes: Option<Vec<String>>,
    /// Lowest time at which guidance applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfg_interval_start: Option<f64>,
    /// Highest time at which guidance applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfg_interval_end: Option<f64>,
    /// `apg`, `cfg`, `adg`, `adg_w_norm` or `adg_wo_clip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance_mode: Option<String>,
    /// Same as the mode `adg`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_adg: Option<bool>,
    /// True to normalise the loudness; without another target, the peak to `normalization_db`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_normalization: Option<bool>,
    /// Peak in dB relative to full scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalization_db: Option<f64>,
    /// Integrated loudness in LUFS, instead of a peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lufs: Option<f64>,
    /// acestep.cpp's loudness: number of samples per million that may be clipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_clip: Option<i64>,
    /// Seconds of fade-in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fade_in_duration: Option<f64>,
    /// Seconds of fade-out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fade_out_duration: Option<f64>,
    /// Output format: `wav16`, `flac`, `mp3`, ..; see [`Encoding`](acestep_engine::audio::format::Encoding).
    /// A [`Plan`](crate::Plan) does not read it, nor the rates below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_format: Option<String>,
    /// MP3 bitrate in kilobits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mp3_bitrate: Option<i64>,
    /// MP3 sample rate in Hz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mp3_sample_rate: Option<i64>,
    /// Opus bitrate in kilobits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opus_bitrate: Option<i64>,
    /// Share of the steps that follow the audio codes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_cover_strength: Option<f64>,
    /// Share of the source in the initial latents; the rest is noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cover_noise_strength: Option<f64>,
    /// True to edit the source: from the two source texts below to `caption` and `lyrics`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_morph: Option<bool>,
    /// Description of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_source_caption: Option<String>,
    /// Lyrics of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_source_lyrics: Option<String>,
    /// Start of the editing window, as a share of the steps; earlier steps are skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_n_min: Option<f64>,
    /// End of the editing window, as a share of the steps; later steps use the target alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_n_max: Option<f64>,
    /// Noise samples per step of an edit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_n_avg: Option<i64>,
    /// Factor for the finished latents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_rescale: Option<f64>,
    /// Offset for the finished latents, added after the factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_shift: Option<f64>,
    /// Instruction for the model, instead of the task's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// Generator of the noise: `philox`, `philox:THREADS` or `mt19937`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rng: Option<String>,
    /// Latent frames per VAE tile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vae_chunk: Option<i64>,
    /// Latent frames on either side of a tile whose sound is discarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vae_overlap: Option<i64>,
    /// The model: a short name, a directory name or a path. Not used by [`Plan`](crate::Plan).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Adapters such as LoRA: a name or a path each. Not used by [`Plan`](crate::Plan).
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub adapter: Option<Vec<String>>,
    /// Scales of the adapters: one for all or one for each; 1 = as trained.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub adapter_scale: Option<Vec<f64>>,
    /// True if the language model decides open settings and writes audio codes. Its own settings
    /// follow; a [`Plan`](crate::Plan) does not read them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// The language model: a short name, a directory name or a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_model: Option<String>,
    /// `generate`, `inspire` (`caption` is a wish) or `format` (caption and lyrics are drafts).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_mode: Option<String>,
    /// Sampling temperature; 0 = greedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_temperature: Option<f64>,
    /// Guidance scale of the language model; 1 = no guidance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_cfg_scale: Option<f64>,
    /// Number of most likely tokens to sample from; 0 = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_top_k: Option<i64>,
    /// Probability mass of the tokens to sample from; 0 and 1 = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_top_p: Option<f64>,
    /// Repetition penalty; 1 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_repetition_penalty: Option<f64>,
    /// Negative prompt of the guidance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_negative_prompt: Option<String>,
    /// Seed of the language model, if it differs from the songs' seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_seed: Option<u64>,
    /// True if the language model decides missing metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_cot_metas: Option<bool>,
    /// True if the language model rewrites the caption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_cot_caption: Option<bool>,
    /// True if the language model decides a missing language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_cot_language: Option<bool>,
    /// True to restrict its output to text that can be parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_constrained_decoding: Option<bool>,
    /// Prompt format: `open`, `closed`, `upstream` or `acestep.cpp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_prompt_style: Option<String>,
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

/// Reads a JSON object; a repeated key must have equal values.
///
/// # Errors
/// [`Error::RequestSyntax`]; [`Error::RequestTwice`] for a key with different values.
pub fn object(text: &str) -> Result<Map<String, Value>, Error> {
    foreign::object(text)
}

impl Request {
    /// The options of the sound file.
    pub fn encoding(&self) -> EncodingOptions {
        EncodingOptions {
            mp3_bitrate: self.mp3_bitrate,
            mp3_sample_rate: self.mp3_sample_rate,
            opus_bitrate: self.opus_bitrate,
        }
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
            caption: None,
            lyrics: None,
            instrumental: None,
            bpm: None,
            keyscale: None,
            timesignature: None,
            vocal_language: None,
            audio_codes: None,
            audio_cover_strength: None,
            cover_noise_strength: None,
            flow_edit_morph: None,
            flow_edit_source_caption: None,
            flow_edit_source_lyrics: None,
            flow_edit_n_min: None,
            flow_edit_n_max: None,
            flow_edit_n_avg: None,
            instruction: None,
            task_type: None,
            src_audio: None,
            src_latents: None,
            reference_audio: None,
            ref_latents: None,
            repainting_start: None,
            repainting_end: None,
            repaint_mode: None,
            repaint_strength: None,
            repaint_latent_crossfade_frames: None,
            repaint_wav_crossfade_sec: None,
            chunk_mask_mode: None,
            track_name: None,
            track_classes: None,
            ..self.without_language_model()
        }
    }

    /// Returns the request without the settings of the language model, after it has run.
    #[must_use]
    pub fn without_language_model(&self) -> Self {
        Self {
            thinking: None,
            lm_model: None,
            lm_mode: None,
            lm_temperature: None,
            lm_cfg_scale: None,
            lm_top_k: None,
            lm_top_p: None,
            lm_repetition_penalty: None,
            lm_negative_prompt: None,
            lm_seed: None,
            use_cot_metas: None,
            use_cot_caption: None,
            use_cot_language: None,
            use_constrained_decoding: None,
            lm_prompt_style: None,
            ..self.clone()
        }
    }

    /// True if there are audio codes.
    pub fn has_codes(&self) -> bool {
        self.audio_codes.iter().flatten().any(|list| !list.is_empty())
    }

    /// Returns the keys of a request, in our spelling.
    pub fn known_keys() -> impl Iterator<Item = &'static str> {
        keys::OURS.iter().map(|(name, _, _)| *name)
    }

    /// Returns the kind of value of the key `name`.
    pub fn takes(name: &str) -> Takes {
        use keys::Kind;
        let kind = keys::OURS.iter().find(|(own, _, _)| *own == name).map(|(_, kind, _)| *kind);
        match kind {
            Some(Kind::Flag) => Takes::Flag,
            Some(
                Kind::Count
                | Kind::Positive
                | Kind::Number
                | Kind::Whole
                | Kind::Seeds
                | Kind::Seed
                | Kind::Numbers
                | Kind::Times,
            ) => Takes::Numbers,
            _ => Takes::Text,
        }
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
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::codes;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }

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
        let texts = match Option::deserialize(d)? {
            None => return Ok(None),
            Some(OneOrMany::One(text)) => vec![text],
            Some(OneOrMany::Many(texts)) => texts,
        };
        let lists = texts.iter().map(|text| codes::parse(text).map_err(D::Error::custom));
        lists.collect::<Result<_, _>>().map(Some)
    }
}
