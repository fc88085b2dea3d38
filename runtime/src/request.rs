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
use serde_json::{Map, Value};

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
    /// `euler` or `heun`, of the deterministic method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler_mode: Option<String>,
    /// `euler`, `sde`, `dpm3m` or `stork4`: acestep.cpp's name for both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solver: Option<String>,
    /// Sub-steps of `stork4`, on which it does not depend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stork_substeps: Option<i64>,
    /// A velocity is shortened to so many norms of the latents; 0 = not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub velocity_norm_threshold: Option<f64>,
    /// Share of the velocity before that is kept; 0 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub velocity_ema_factor: Option<f64>,
    /// Whether steps are corrected in the wavelet domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcw_enabled: Option<bool>,
    /// `low`, `high`, `double` or `pix`: what is corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcw_mode: Option<String>,
    /// How strongly it is corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcw_scaler: Option<f64>,
    /// How strongly the high frequencies are, in mode `double`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcw_high_scaler: Option<f64>,
    /// `haar`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcw_wavelet: Option<String>,
    /// One seed for the first song (the next ones count up), or one for each.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub seed: Option<Vec<u64>>,
    /// Seeds of the noise that the songs' own is turned to: one, or one for each.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub retake_seed: Option<Vec<u64>>,
    /// How far it is turned, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retake_variance: Option<f64>,
    /// How many songs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<i64>,
    /// The songs' outlines, five codes a second: one for all songs, or one for each; they win over
    /// the duration.
    #[serde(skip_serializing_if = "Option::is_none", with = "code_lists")]
    pub audio_codes: Option<Vec<Vec<u32>>>,
    /// What is done: a name of [`Task`](crate::plan::Task).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// The sound file that a cover, a repaint and the like are made from. Whoever makes the
    /// [`Plan`](crate::Plan) reads it, and the other files below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_audio: Option<String>,
    /// The same as latents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_latents: Option<String>,
    /// Sound files whose timbre is taken.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub reference_audio: Option<Vec<String>>,
    /// The same as latents.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub ref_latents: Option<Vec<String>>,
    /// The region that is made anew begins here, in seconds of the source; below 0 is before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repainting_start: Option<f64>,
    /// The region ends here; below 0 = at the end of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repainting_end: Option<f64>,
    /// `balanced`, `conservative`, `aggressive` or `custom`: how closely the region follows its
    /// surroundings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaint_mode: Option<String>,
    /// Freedom of the region where the mode is `balanced` or `custom`, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaint_strength: Option<f64>,
    /// Latent frames on either side of the region in which source and song are mixed, where the mode
    /// is `custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaint_latent_crossfade_frames: Option<i64>,
    /// The same of the sound, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaint_wav_crossfade_sec: Option<f64>,
    /// What the transformer is told of the region: `explicit`, `ones` or `twos`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_mask_mode: Option<String>,
    /// The track that `lego` adds and `extract` takes out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub track_name: Option<String>,
    /// The tracks that `complete` adds.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub track_classes: Option<Vec<String>>,
    /// Guidance is applied at times from here ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfg_interval_start: Option<f64>,
    /// ... to here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfg_interval_end: Option<f64>,
    /// `apg`, `cfg`, `adg`, `adg_w_norm` or `adg_wo_clip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance_mode: Option<String>,
    /// The same as the mode `adg`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_adg: Option<bool>,
    /// Whether the peak is brought to `normalization_db`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_normalization: Option<bool>,
    /// The peak in dB below full scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalization_db: Option<f64>,
    /// The integrated loudness in LUFS, in place of a peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lufs: Option<f64>,
    /// acestep.cpp's loudness: how many samples of a million may be clipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_clip: Option<i64>,
    /// Seconds in which the song rises from silence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fade_in_duration: Option<f64>,
    /// Seconds in which it sinks into silence at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fade_out_duration: Option<f64>,
    /// What is written: `wav16`, `flac`, `mp3`, ..; a [`Plan`](crate::Plan) does not read it, nor
    /// what follows: see [`Encoding`](crate::audio::format::Encoding).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_format: Option<String>,
    /// Of an MP3, in kilobits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mp3_bitrate: Option<i64>,
    /// Of an MP3, in samples a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mp3_sample_rate: Option<i64>,
    /// Of an Opus file, in kilobits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opus_bitrate: Option<i64>,
    /// Share of the steps that follow the audio codes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_cover_strength: Option<f64>,
    /// How much of the source stays under the noise that sampling starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cover_noise_strength: Option<f64>,
    /// Whether a source is carried to the caption and lyrics from those of its own that follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_morph: Option<bool>,
    /// What the source sounds like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_source_caption: Option<String>,
    /// What is sung in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_source_lyrics: Option<String>,
    /// Steps before this share leave it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_n_min: Option<f64>,
    /// Steps from this share on make it anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_n_max: Option<f64>,
    /// Noises of each step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_edit_n_avg: Option<i64>,
    /// The finished latents are multiplied by this ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_rescale: Option<f64>,
    /// ... and moved by this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_shift: Option<f64>,
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
    /// Adapters of the model, LoRA and the like: a name or a path each. A [`Plan`](crate::Plan)
    /// does not read them.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub adapter: Option<Vec<String>>,
    /// How strongly they work, for all of them or for each; 1 = as they were trained.
    #[serde(skip_serializing_if = "Option::is_none", with = "one_or_many")]
    pub adapter_scale: Option<Vec<f64>>,
    /// Whether the language model decides what is left open, and writes the outline. What it may
    /// do follows; none of it is read by a [`Plan`](crate::Plan).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// The language model: a short name, a directory's name or a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_model: Option<String>,
    /// `generate`, `inspire` (the caption is a wish) or `format` (caption and lyrics are drafts).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_mode: Option<String>,
    /// Spread of its draws; 0 takes the likeliest token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_temperature: Option<f64>,
    /// Strength of its guidance; 1 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_cfg_scale: Option<f64>,
    /// It draws from so many tokens; 0 = from all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_top_k: Option<i64>,
    /// It draws from the tokens that together have this probability; 0 and 1 = from all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_top_p: Option<f64>,
    /// How much it shuns what it wrote before; 1 = not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_repetition_penalty: Option<f64>,
    /// What its guidance leads away from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_negative_prompt: Option<String>,
    /// Its seed, if not those of the songs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_seed: Option<u64>,
    /// Whether it decides missing metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_cot_metas: Option<bool>,
    /// Whether it writes the caption anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_cot_caption: Option<bool>,
    /// Whether it decides a missing language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_cot_language: Option<bool>,
    /// Whether it may write only what can be read back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_constrained_decoding: Option<bool>,
    /// `open` or `closed`: whether it writes codes within its turn or after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lm_prompt_style: Option<String>,
}

/// What a value of a request looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Text, or words that are read from it.
    Text,
    /// True or false.
    Flag,
    /// A number, or a list of them.
    Numbers,
}

/// A JSON object in which no key stands twice with different values.
///
/// # Errors
/// [`Error::RequestSyntax`]; [`Error::Conflict`] for such a key.
pub fn object(text: &str) -> Result<Map<String, Value>, Error> {
    foreign::object(text)
}

impl Request {
    /// Reads a request file of this program, of upstream or of acestep.cpp.
    ///
    /// # Errors
    /// [`Error::RequestSyntax`], [`Error::UnknownKey`], [`Error::RequestValue`], or
    /// [`Error::NotInThisVersion`] for a setting that would change the sound and is not built.
    pub fn from_json(text: &str) -> Result<(Self, Vec<Notice>), Error> {
        Self::from_object(object(text)?)
    }

    /// The same of an [`object`] that was read before.
    ///
    /// # Errors
    /// As [`Request::from_json`].
    pub fn from_object(object: Map<String, Value>) -> Result<(Self, Vec<Notice>), Error> {
        foreign::read(object)
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

    /// The same without what only steers the language model: what is left once that is done.
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

    /// Whether the song is made from another one: by its task, or because that one is edited.
    pub fn follows_source(&self) -> bool {
        // A task that is no task is refused by the plan.
        let by_task = crate::plan::Task::of(self).is_ok_and(crate::plan::Task::has_source);
        by_task || self.flow_edit_morph == Some(true)
    }

    /// Whether there is an outline.
    pub fn has_codes(&self) -> bool {
        self.audio_codes.iter().flatten().any(|list| !list.is_empty())
    }

    /// The keys that a request can have, in our spelling.
    pub fn known_keys() -> impl Iterator<Item = &'static str> {
        keys::OURS.iter().map(|(name, _, _)| *name)
    }

    /// What a value of the key `name` looks like.
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

/// A list of one is written as that one; both are read.
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

/// Codes are written as acestep.cpp writes them, `"17,4"`; those of several songs are a list of such.
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
