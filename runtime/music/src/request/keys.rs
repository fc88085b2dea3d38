//! Every key of a request file, ours and those of other programs, with its meaning.
//!
//! Source: upstream `GenerationParams`, `GenerationConfig` and its REST server; acestep.cpp's
//! request files.

/// The kind of value of one of our keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text, verbatim; empty = not set.
    Text,
    /// A word; empty, `N/A` and null = not set. A number becomes its digits.
    Word,
    /// A whole number; 0 and -1 = not set.
    Count,
    /// A number; 0 and -1 = not set.
    Positive,
    /// Any number.
    Number,
    /// Any whole number.
    Whole,
    /// Kilobits a second, also as `128k`; 0 and -1 = not set.
    Kilobits,
    /// True or false.
    Flag,
    /// One seed or several; -1 = not set.
    Seeds,
    /// One seed; -1 = not set.
    Seed,
    /// Audio codes in any spelling, for one song or several.
    Codes,
    /// Times, as a list or as `a,b,c`.
    Times,
    /// Names of files or tracks: one or several.
    Names,
    /// A model's name, path or `.gguf` file.
    Model,
    /// A number or a list of numbers.
    Numbers,
    /// The mode of the language model.
    Mode,
}

/// Our keys: name, kind, other spellings.
pub(super) const OURS: &[(&str, Kind, &[&str])] = &[
    ("caption", Kind::Text, &["prompt"]),
    ("lyrics", Kind::Text, &[]),
    ("instrumental", Kind::Flag, &[]),
    ("bpm", Kind::Count, &["tempo"]),
    ("keyscale", Kind::Word, &["key_scale", "key"]),
    ("timesignature", Kind::Word, &["time_signature"]),
    ("duration", Kind::Positive, &["audio_duration", "target_duration"]),
    ("vocal_language", Kind::Word, &["language"]),
    ("inference_steps", Kind::Count, &["infer_steps"]),
    ("guidance_scale", Kind::Positive, &["cfg_scale"]),
    ("shift", Kind::Positive, &[]),
    ("timesteps", Kind::Times, &["custom_timesteps"]),
    ("infer_method", Kind::Word, &[]),
    ("sampler_mode", Kind::Word, &[]),
    ("solver", Kind::Word, &[]),
    ("stork_substeps", Kind::Whole, &[]),
    ("velocity_norm_threshold", Kind::Number, &[]),
    ("velocity_ema_factor", Kind::Number, &[]),
    ("dcw_enabled", Kind::Flag, &[]),
    ("dcw_mode", Kind::Word, &[]),
    ("dcw_scaler", Kind::Number, &[]),
    ("dcw_high_scaler", Kind::Number, &[]),
    ("dcw_wavelet", Kind::Word, &[]),
    ("seed", Kind::Seeds, &["seeds"]),
    ("retake_seed", Kind::Seeds, &["retake_seeds"]),
    ("retake_variance", Kind::Number, &[]),
    ("batch_size", Kind::Count, &["synth_batch_size"]),
    ("audio_codes", Kind::Codes, &["audio_code_string"]),
    ("task_type", Kind::Word, &["task"]),
    ("src_audio", Kind::Text, &["src_audio_path", "ctx_audio"]),
    ("src_latents", Kind::Text, &[]),
    ("reference_audio", Kind::Names, &["reference_audio_path", "ref_audio"]),
    ("ref_latents", Kind::Names, &[]),
    ("repainting_start", Kind::Number, &[]),
    ("repainting_end", Kind::Number, &[]),
    ("repaint_mode", Kind::Word, &[]),
    ("repaint_strength", Kind::Number, &[]),
    ("repaint_latent_crossfade_frames", Kind::Whole, &[]),
    ("repaint_wav_crossfade_sec", Kind::Number, &[]),
    ("chunk_mask_mode", Kind::Word, &[]),
    ("track_name", Kind::Word, &["track"]),
    ("track_classes", Kind::Names, &["complete_track_classes"]),
    ("cfg_interval_start", Kind::Number, &[]),
    ("cfg_interval_end", Kind::Number, &[]),
    ("guidance_mode", Kind::Word, &["guidance_variant"]),
    ("use_adg", Kind::Flag, &[]),
    ("enable_normalization", Kind::Flag, &[]),
    ("normalization_db", Kind::Number, &[]),
    ("lufs", Kind::Number, &[]),
    ("peak_clip", Kind::Whole, &[]),
    ("fade_in_duration", Kind::Number, &[]),
    ("fade_out_duration", Kind::Number, &[]),
    ("audio_format", Kind::Word, &["output_format"]),
    ("mp3_bitrate", Kind::Kilobits, &[]),
    ("mp3_sample_rate", Kind::Count, &[]),
    ("opus_bitrate", Kind::Kilobits, &[]),
    ("audio_cover_strength", Kind::Number, &[]),
    ("cover_noise_strength", Kind::Number, &[]),
    ("flow_edit_morph", Kind::Flag, &["flow_edit", "flow_edit_enabled"]),
    ("flow_edit_source_caption", Kind::Text, &[]),
    ("flow_edit_source_lyrics", Kind::Text, &[]),
    ("flow_edit_n_min", Kind::Number, &[]),
    ("flow_edit_n_max", Kind::Number, &[]),
    ("flow_edit_n_avg", Kind::Count, &[]),
    ("latent_rescale", Kind::Number, &[]),
    ("latent_shift", Kind::Number, &[]),
    ("instruction", Kind::Text, &[]),
    ("rng", Kind::Word, &[]),
    ("vae_chunk", Kind::Count, &[]),
    ("vae_overlap", Kind::Whole, &[]),
    ("model", Kind::Model, &["model_name", "dit_model", "synth_model"]),
    ("adapter", Kind::Names, &["adapters"]),
    ("adapter_scale", Kind::Numbers, &["adapter_scales"]),
    ("thinking", Kind::Flag, &["think"]),
    ("lm_model", Kind::Model, &["lm_model_path"]),
    ("lm_mode", Kind::Mode, &[]),
    ("lm_temperature", Kind::Number, &[]),
    ("lm_cfg_scale", Kind::Number, &[]),
    ("lm_top_k", Kind::Count, &[]),
    ("lm_top_p", Kind::Number, &[]),
    ("lm_repetition_penalty", Kind::Number, &[]),
    ("lm_negative_prompt", Kind::Text, &[]),
    ("lm_seed", Kind::Seed, &[]),
    ("use_cot_metas", Kind::Flag, &[]),
    ("use_cot_caption", Kind::Flag, &[]),
    ("use_cot_language", Kind::Flag, &["cot_language"]),
    ("use_constrained_decoding", Kind::Flag, &["constrained_decoding", "constrained"]),
    ("lm_prompt_style", Kind::Word, &[]),
];

/// Meaning of another program's key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Role {
    /// A wish from which the language model writes the caption.
    Wish,
    /// A switch for this `lm_mode`.
    Mode(&'static str),
    /// A feature that upstream has not built either; causes a notice.
    Unbuilt,
    /// An unsupported setting that changes the sound: an error.
    Sound,
    /// A choice of a file or an output; a notice names the field or the work to choose instead.
    Chosen(&'static str),
    /// A setting without effect on the sound, or only for an unsupported feature.
    Nothing,
}

/// Values that mean "off", besides null, `""` and `false`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Neutral {
    /// No other value.
    Empty,
    /// Every value.
    Any,
}

use Neutral::{Any, Empty};
use Role::{Chosen, Mode, Nothing, Sound, Unbuilt, Wish};

/// acestep.cpp's names for the modes of its language model.
pub(super) const MODES: [&str; 3] = ["generate", "inspire", "format"];

/// Keys that only acestep.cpp writes.
pub(super) const ACESTEP_CPP: [&str; 3] = ["lm_batch_size", "synth_batch_size", "synth_model"];

const MODEL: Role = Chosen("`model`");

/// Keys of other programs: name, role, values without effect.
pub(super) const THEIRS: &[(&str, Role, Neutral)] = &[
    // Language model.
    ("description", Wish, Empty),
    ("desc", Wish, Empty),
    ("query", Wish, Empty),
    ("sample_query", Wish, Empty),
    ("sample_mode", Mode("inspire"), Empty),
    ("use_format", Mode("format"), Empty),
    ("format", Mode("format"), Empty),
    ("analysis_only", Chosen("`plan` and `codes: false`"), Empty),
    ("full_analysis_only", Chosen("`understand`"), Empty),
    ("use_cot_lyrics", Unbuilt, Empty),
    ("lm_backend", Nothing, Any),
    ("lm_batch_chunk_size", Nothing, Any),
    ("allow_lm_batch", Nothing, Any),
    ("parallel_thinking", Nothing, Any),
    ("constrained_decoding_debug", Nothing, Any),
    ("is_format_caption", Nothing, Any),
    // Decisions of a language model; upstream writes them next to the request.
    ("cot_bpm", Nothing, Any),
    ("cot_keyscale", Nothing, Any),
    ("cot_timesignature", Nothing, Any),
    ("cot_duration", Nothing, Any),
    ("cot_vocal_language", Nothing, Any),
    ("cot_caption", Nothing, Any),
    ("cot_lyrics", Nothing, Any),
    // Model file.
    ("vae", MODEL, Empty),
    // Output.
    ("use_tiled_decode", Nothing, Any),
    // Post-processing on upstream's web page.
    ("auto_lrc", Chosen("`lrc: true`"), Empty),
    ("auto_score", Chosen("`score: true`"), Empty),
    ("score_scale", Nothing, Any),
    ("use_random_seed", Nothing, Any),
    ("global_caption", Sound, Empty),
];

/// Objects with more keys of the request; its own keys take precedence, then later objects.
pub(super) const NESTED: &[&str] = &["user_metadata", "metadata", "meta", "metas", "param_obj"];
