//! The goldens of ACE-Step: one row per file, with its component, its bounds and its comparison.
//!
//! | module | contents |
//! |---|---|
//! | [`checkpoints`], [`built_in`] | the checkpoints of a set; the set inside the program |
//! | [`networks`], [`language`] | single networks with stored inputs |
//! | [`replay`], [`constrained`] | stored runs of the language model, and of its constraints |
//! | [`sampling`], [`e2e`], [`prompts`] | sampling runs; whole songs; their prompts |
//! | [`noise`] | random numbers |
//! | [`texts`], [`tokenizers`] | texts as token ids of the real vocabulary |

pub(crate) mod built_in;
pub(crate) mod checkpoints;
mod constrained;
mod e2e;
mod language;
mod networks;
mod noise;
mod prompts;
mod replay;
mod sampling;
mod texts;
pub(crate) mod tokenizers;

use acestep_model::Backend;

use crate::{
    families::{Tensors, Texts},
    golden::tolerance::Bounds,
};

const LANGUAGE: &str = "language model";

/// Component of the texts of the condition encoder.
const TEXT: &str = "text";

/// Bounds in f32 from the goldens' README. Tensors that it does not list have the bound of a related
/// one: activations within a network have the bound of its output.
///
/// In bf16 both results are rounded independently, so they differ by up to sqrt(2) times the
/// difference between the reference in bf16 and in f32. That difference is 1.4 % for transformers,
/// and the README allows at most 3 %.
const fn bounds(of: &'static [(&'static str, f64)]) -> Bounds {
    Bounds { of, bf16: 0.03 }
}

/// In bf16 the VAE differs by 4.1 %, because its sines take rounded angles.
const fn of_vae(of: &'static [(&'static str, f64)]) -> Bounds {
    Bounds { of, bf16: 0.058 }
}

/// The files of tensors.
#[rustfmt::skip]
pub(crate) fn tensors<B: Backend>() -> Vec<Tensors<B>> {
    const OF_ENCODER: &[(&str, f64)] = &[("mean", 5e-5), ("scale", 4e-5), ("std", 3e-5), ("sample", 5e-5)];
    const OF_TIME: &[(&str, f64)] = &[("proj", 2e-6), ("temb", 3e-6), ("sinusoid", 3e-6)];
    const OF_CONDITION: &[(&str, f64)] = &[("encoder_hidden_states", 2e-5), ("mask", 0.0), ("", 2e-5)];
    vec![
        Tensors::new("vae_decode", "VAE decoder", of_vae(&[("", 5e-5)]), networks::vae_decode),
        Tensors::new("vae_encode", "VAE encoder", of_vae(OF_ENCODER), networks::vae_encode),
        Tensors::new("vae_tiled", "VAE decoder", of_vae(&[("", 5e-5)]), networks::vae_tiled),
        Tensors::new("dit_time", "DiT", bounds(OF_TIME), networks::dit_time),
        Tensors::new("dit_forward", "DiT", bounds(&[("", 2e-5)]), networks::dit_forward),
        // The bound of the same output in `dit_forward`.
        Tensors::new("bf16_time", "DiT", bounds(&[("velocity", 2e-5)]), networks::bf16_time),
        Tensors::new("cond_encoder", "condition encoder", bounds(OF_CONDITION), networks::cond_encoder),
        Tensors::new("audio_tokenizer", "audio codes", bounds(&[("", 7e-6)]), networks::audio_tokenizer),
        Tensors::new("silence", "silence", bounds(&[]), networks::silence),
        Tensors::new("text_encoder", "text encoder", bounds(&[("last_hidden_state", 2e-5)]), networks::text_encoder),
        Tensors::new("sampling_turbo", "flow matching", bounds(OF_TURBO), sampling::turbo),
        // As for turbo.
        Tensors::new("sampling_base", "flow matching", bounds(&[(".latents", 3e-4), (".step", 2e-5), ("timesteps", 1e-7)]), sampling::base),
        Tensors::new("guidance", "flow matching", bounds(&[("", 4e-5)]), sampling::guidance),
        Tensors::new("e2e", "whole song", bounds(OF_SONG), e2e::run),
        // Normals: PyTorch's logarithm and cosine in f32 are polynomials, wrong by at most two units.
        Tensors::new("rng", "noise", bounds(&[("randn", 1e-6)]), noise::streams),
        Tensors::new("lm", LANGUAGE, bounds(OF_LANGUAGE), language::scores),
    ]
}

const OF_TURBO: &[(&str, f64)] = &[
    (".latents", 8e-5),
    // Each step has the bound of a velocity, the inputs the bound of their network.
    (".step", 2e-5),
    ("encoder_hidden_states", 2e-5),
    ("context_latents", 7e-6),
    // Times are decimal fractions in f32: one unit in the last place.
    ("timesteps", 1e-7),
];

/// Each part of a run has the bound of its network.
const OF_SONG: &[(&str, f64)] = &[
    ("encoder_hidden_states", 2e-5),
    ("text_hidden_states", 2e-5),
    // A source is encoded by the VAE, codes are detokenised, and the rest is copied.
    ("src_latents", 5e-5),
    ("target_latents_input", 5e-5),
    ("context_latents", 5e-5),
    (".latents", 8e-5),
    ("wave", 5e-5),
];

const OF_LANGUAGE: &[(&str, f64)] = &[
    ("decode_logits", 4e-5),
    ("prefill_logits", 4e-5),
    (".logits", 4e-5),
    // The trunk is the same as the text encoder's, so it has the same bound.
    (".act.", 2e-5),
    // Guidance at scale 2 is `2 c - u`: twice the error of `c` plus the error of `u`.
    ("cfg2_logits", 3.0 * 4e-5),
];

/// The files of text.
///
/// Some hold pure logic, which cannot differ between machines: the tests beside its code compare it.
/// Of these files only the token ids of the real vocabulary are compared here.
pub(crate) fn texts<B: Backend>() -> Vec<Texts<B>> {
    vec![
        Texts::new("lm_e2e.json", LANGUAGE, language::runs),
        Texts::new("dit_prompts.json", TEXT, texts::prompts),
        Texts::new("tokenizer_cases.json", TEXT, texts::tokens),
        Texts::new("lm_prompts.json", LANGUAGE, texts::language_prompts),
        Texts::new("constrained_decoding.json", LANGUAGE, texts::constrained),
        Texts::new("prefix_trees_full.json", LANGUAGE, texts::trees),
        // Pure logic, and a description of how the goldens were made.
        Texts::none("cot_yaml.json"),
        Texts::none("lm_sampling.json"),
        Texts::none("prefix_trees_tiny.json"),
        Texts::none("xcheck_diffusers.json"),
    ]
}
