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
pub(crate) fn tensors<B: Backend>() -> Vec<Tensors<B>> {
    vec![
        Tensors::new("vae_decode", "VAE decoder", of_vae(&[("", 5e-5)]), |sheet, of, place| {
            networks::vae_decode(sheet, of.checkpoints.vae()?, place)
        }),
        Tensors::new(
            "vae_encode",
            "VAE encoder",
            of_vae(&[("mean", 5e-5), ("scale", 4e-5), ("std", 3e-5), ("sample", 5e-5)]),
            |sheet, of, place| networks::vae_encode(sheet, of.checkpoints.vae()?, place),
        ),
        Tensors::new("vae_tiled", "VAE decoder", of_vae(&[("", 5e-5)]), |sheet, of, place| {
            networks::vae_tiled(sheet, of.checkpoints.vae()?, place)
        }),
        Tensors::new(
            "dit_time",
            "DiT",
            bounds(&[("proj", 2e-6), ("temb", 3e-6), ("sinusoid", 3e-6)]),
            |sheet, of, place| networks::dit_time(sheet, of.checkpoints.turbo()?, place),
        ),
        Tensors::new("dit_forward", "DiT", bounds(&[("", 2e-5)]), |sheet, of, place| {
            networks::dit_forward(sheet, of.checkpoints.turbo()?, place)
        }),
        // The bound of the same output in `dit_forward`.
        Tensors::new("bf16_time", "DiT", bounds(&[("velocity", 2e-5)]), |sheet, of, place| {
            let inputs = of.set.tensors("dit_forward.safetensors").ok();
            networks::bf16_time(sheet, of.checkpoints.turbo()?, inputs.as_ref(), place)
        }),
        Tensors::new(
            "cond_encoder",
            "condition encoder",
            bounds(&[("encoder_hidden_states", 2e-5), ("mask", 0.0), ("", 2e-5)]),
            |sheet, of, place| networks::cond_encoder(sheet, of.checkpoints.turbo()?, place),
        ),
        Tensors::new(
            "audio_tokenizer",
            "audio codes",
            bounds(&[("", 7e-6)]),
            |sheet, of, place| networks::audio_tokenizer(sheet, of.checkpoints.turbo()?, place),
        ),
        Tensors::new("silence", "silence", bounds(&[]), |sheet, of, place| {
            networks::silence(sheet, of.checkpoints.turbo()?, place)
        }),
        Tensors::new(
            "text_encoder",
            "text encoder",
            bounds(&[("last_hidden_state", 2e-5)]),
            |sheet, of, place| networks::text_encoder(sheet, of.checkpoints.text_encoder()?, place),
        ),
        Tensors::new(
            "sampling_turbo",
            "flow matching",
            bounds(&[
                (".latents", 8e-5),
                // Each step has the bound of a velocity, the inputs the bound of their network.
                (".step", 2e-5),
                ("encoder_hidden_states", 2e-5),
                ("context_latents", 7e-6),
                // Times are decimal fractions in f32: one unit in the last place.
                ("timesteps", 1e-7),
            ]),
            |sheet, of, place| sampling::runs(sheet, of.checkpoints.turbo()?, true, place),
        ),
        // As for turbo.
        Tensors::new(
            "sampling_base",
            "flow matching",
            bounds(&[(".latents", 3e-4), (".step", 2e-5), ("timesteps", 1e-7)]),
            |sheet, of, place| sampling::runs(sheet, of.checkpoints.base()?, false, place),
        ),
        Tensors::new("guidance", "flow matching", bounds(&[("", 4e-5)]), |sheet, _, place| {
            sampling::guidance::<B>(sheet, &place.device)
        }),
        Tensors::new(
            "e2e",
            "whole song",
            bounds(&[
                // Each part of a run has the bound of its network.
                ("encoder_hidden_states", 2e-5),
                ("text_hidden_states", 2e-5),
                // A source is encoded by the VAE, codes are detokenised, and the rest is copied.
                ("src_latents", 5e-5),
                ("target_latents_input", 5e-5),
                ("context_latents", 5e-5),
                (".latents", 8e-5),
                ("wave", 5e-5),
            ]),
            |sheet, of, place| e2e::run(sheet, of.checkpoints.whole()?, place),
        ),
        // Normals: PyTorch's logarithm and cosine in f32 are polynomials, wrong by at most two
        // units.
        Tensors::new("rng", "noise", bounds(&[("randn", 1e-6)]), |sheet, _, _| {
            noise::streams(sheet)
        }),
        Tensors::new(
            "lm",
            LANGUAGE,
            bounds(&[
                ("decode_logits", 4e-5),
                ("prefill_logits", 4e-5),
                (".logits", 4e-5),
                // The trunk is the same as the text encoder's, so it has the same bound.
                (".act.", 2e-5),
                // Guidance at scale 2 is `2 c - u`: twice the error of `c` plus the error of `u`.
                ("cfg2_logits", 3.0 * 4e-5),
            ]),
            |sheet, of, place| language::scores(sheet, of.checkpoints.language_model()?, place),
        ),
    ]
}

/// The files of text.
///
/// Some hold pure logic, which cannot differ between machines: the tests beside its code compare it.
/// Of these files only the token ids of the real vocabulary are compared here.
pub(crate) fn texts<B: Backend>() -> Vec<Texts<B>> {
    vec![
        Texts::new("lm_e2e.json", LANGUAGE, |page, content, of, place| {
            language::runs(page, content, of.checkpoints.language.as_ref(), place)
        }),
        Texts::new("dit_prompts.json", TEXT, |page, content, of, _| {
            texts::prompts(page, content, of.checkpoints)
        }),
        Texts::new("tokenizer_cases.json", TEXT, |page, content, of, _| {
            texts::tokens(page, content, of.checkpoints)
        }),
        Texts::new("lm_prompts.json", LANGUAGE, |page, content, of, _| {
            texts::language_prompts(page, content, of.checkpoints)
        }),
        Texts::new("constrained_decoding.json", LANGUAGE, |page, content, of, _| {
            texts::constrained(page, content, of.checkpoints)
        }),
        Texts::new("prefix_trees_full.json", LANGUAGE, |page, content, of, _| {
            texts::trees(page, content, of.checkpoints)
        }),
        // Pure logic, and a description of how the goldens were made.
        Texts::none("cot_yaml.json"),
        Texts::none("lm_sampling.json"),
        Texts::none("prefix_trees_tiny.json"),
        Texts::none("xcheck_diffusers.json"),
    ]
}
