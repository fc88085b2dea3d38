//! Every key of a request file, ours and others', and what becomes of it.
//!
//! Source: upstream `GenerationParams`, `GenerationConfig` and its REST server; acestep.cpp's
//! request files.

/// What the values of one of our own keys look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text that is taken as it is; empty = not set.
    Text,
    /// A word; empty, `N/A` and null = not set. A number is taken as its digits.
    Word,
    /// A whole number; 0 and -1 = not set.
    Count,
    /// A number; 0 and -1 = not set.
    Positive,
    /// Any number.
    Number,
    /// Any whole number.
    Whole,
    /// True or false.
    Flag,
    /// One seed or several; -1 = not set.
    Seeds,
    /// Audio codes in any spelling.
    Codes,
    /// Times, as a list or as `a,b,c`.
    Times,
    /// A model's name, path or `.gguf` file.
    Model,
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
    ("infer_method", Kind::Word, &["solver"]),
    ("seed", Kind::Seeds, &["seeds"]),
    ("batch_size", Kind::Count, &["synth_batch_size"]),
    ("audio_codes", Kind::Codes, &["audio_code_string"]),
    ("task_type", Kind::Word, &["task"]),
    ("cfg_interval_start", Kind::Number, &[]),
    ("cfg_interval_end", Kind::Number, &[]),
    ("guidance_mode", Kind::Word, &["guidance_variant"]),
    ("enable_normalization", Kind::Flag, &[]),
    ("normalization_db", Kind::Number, &[]),
    ("audio_cover_strength", Kind::Number, &[]),
    ("instruction", Kind::Text, &[]),
    ("rng", Kind::Word, &[]),
    ("vae_chunk", Kind::Count, &[]),
    ("vae_overlap", Kind::Whole, &[]),
    ("model", Kind::Model, &["model_name", "dit_model", "synth_model"]),
];

/// What a key of another program means here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Role {
    /// Steers the language model: one notice for all of them.
    LanguageModel,
    /// Changes the sound through something that is not built: an error.
    Sound,
    /// Chooses a file or an output; a notice says where that is chosen instead.
    Chosen(&'static str),
    /// Changes nothing that is heard, or only how something absent works.
    Nothing,
}

/// A value that says "off", beside null, `""` and `false`, which always do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Neutral {
    /// There is none.
    Empty,
    /// A number.
    Is(f64),
    /// One of these words, without regard to case.
    Words(&'static [&'static str]),
    /// Every value.
    Any,
}

use Neutral::{Any, Empty, Is, Words};
use Role::{Chosen, LanguageModel, Nothing, Sound};

const MODEL: Role = Chosen("--model");
const FORMAT: Role = Chosen("--output and --audio-format");

/// Keys of other programs: name, role, what passes without a word.
pub(super) const THEIRS: &[(&str, Role, Neutral)] = &[
    // The language model.
    ("thinking", LanguageModel, Empty),
    ("think", LanguageModel, Empty),
    ("description", LanguageModel, Empty),
    ("desc", LanguageModel, Empty),
    ("query", LanguageModel, Empty),
    ("sample_query", LanguageModel, Empty),
    ("sample_mode", LanguageModel, Empty),
    ("use_format", LanguageModel, Empty),
    ("format", LanguageModel, Empty),
    ("lm_mode", LanguageModel, Words(&["generate"])),
    ("analysis_only", LanguageModel, Empty),
    ("full_analysis_only", LanguageModel, Empty),
    ("lm_model", LanguageModel, Any),
    ("lm_model_path", LanguageModel, Any),
    ("lm_backend", LanguageModel, Any),
    ("lm_temperature", LanguageModel, Is(0.85)),
    ("lm_cfg_scale", LanguageModel, Is(2.0)),
    ("lm_top_k", LanguageModel, Is(0.0)),
    ("lm_top_p", LanguageModel, Is(0.9)),
    ("lm_repetition_penalty", LanguageModel, Is(1.0)),
    ("lm_negative_prompt", LanguageModel, Words(&["NO USER INPUT"])),
    ("lm_seed", LanguageModel, Is(-1.0)),
    ("lm_batch_chunk_size", LanguageModel, Any),
    ("allow_lm_batch", LanguageModel, Any),
    ("parallel_thinking", LanguageModel, Any),
    ("use_cot_metas", LanguageModel, Any),
    ("use_cot_caption", LanguageModel, Any),
    ("use_cot_language", LanguageModel, Any),
    ("use_cot_lyrics", LanguageModel, Empty),
    ("use_constrained_decoding", LanguageModel, Any),
    ("constrained_decoding_debug", LanguageModel, Any),
    ("is_format_caption", LanguageModel, Any),
    ("cot_bpm", LanguageModel, Any),
    ("cot_keyscale", LanguageModel, Any),
    ("cot_timesignature", LanguageModel, Any),
    ("cot_duration", LanguageModel, Any),
    ("cot_vocal_language", LanguageModel, Any),
    ("cot_caption", LanguageModel, Any),
    ("cot_lyrics", LanguageModel, Any),
    // A file of a model.
    ("vae", MODEL, Empty),
    // The output.
    ("audio_format", FORMAT, Words(&["wav", "wav16"])),
    ("output_format", FORMAT, Words(&["wav", "wav16"])),
    ("mp3_bitrate", Nothing, Any),
    ("mp3_sample_rate", Nothing, Any),
    ("use_tiled_decode", Nothing, Any),
    ("use_random_seed", Nothing, Any),
    ("peak_clip", Sound, Is(10.0)),
    ("fade_in_duration", Sound, Is(0.0)),
    ("fade_out_duration", Sound, Is(0.0)),
    // Source audio, references, adapters.
    ("reference_audio", Sound, Empty),
    ("reference_audio_path", Sound, Empty),
    ("ref_audio", Sound, Empty),
    ("src_audio", Sound, Empty),
    ("src_audio_path", Sound, Empty),
    ("ctx_audio", Sound, Empty),
    ("adapter", Sound, Empty),
    ("adapter_scale", Nothing, Any),
    ("track", Sound, Empty),
    ("track_name", Sound, Empty),
    ("track_classes", Sound, Empty),
    ("complete_track_classes", Sound, Empty),
    ("global_caption", Sound, Empty),
    ("cover_noise_strength", Sound, Is(0.0)),
    ("repainting_start", Sound, Is(0.0)),
    ("repainting_end", Sound, Is(-1.0)),
    ("chunk_mask_mode", Sound, Words(&["auto"])),
    ("repaint_mode", Nothing, Any),
    ("repaint_strength", Nothing, Any),
    ("repaint_latent_crossfade_frames", Nothing, Any),
    ("repaint_wav_crossfade_sec", Nothing, Any),
    // The sampler.
    ("use_adg", Sound, Empty),
    ("sampler_mode", Sound, Words(&["euler"])),
    ("stork_substeps", Nothing, Any),
    ("velocity_norm_threshold", Sound, Is(0.0)),
    ("velocity_ema_factor", Sound, Is(0.0)),
    ("latent_shift", Sound, Is(0.0)),
    ("latent_rescale", Sound, Is(1.0)),
    ("retake_variance", Sound, Is(0.0)),
    ("retake_seed", Nothing, Any),
    ("dcw_enabled", Sound, Empty),
    ("dcw_scaler", Sound, Is(0.0)),
    ("dcw_high_scaler", Sound, Is(0.0)),
    ("dcw_mode", Nothing, Any),
    ("dcw_wavelet", Nothing, Any),
    ("flow_edit", Sound, Empty),
    ("flow_edit_enabled", Sound, Empty),
    ("flow_edit_morph", Sound, Empty),
];

/// Objects whose keys count as keys of the request, unless those are there themselves.
pub(super) const NESTED: &[&str] = &["metas", "metadata", "user_metadata"];
