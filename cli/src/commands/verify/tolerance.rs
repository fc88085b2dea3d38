//! The allowed difference from the reference in f32.
//!
//! It is ten times the measured difference between the reference's f32 and its f64. Without a
//! measurement for the tensor, it is the bound that the goldens' README gives for its kind.

use super::golden::Golden;

/// The largest relative error of a bf16 network against the reference in bf16.
///
/// Both are rounded independently, so they differ by up to sqrt(2) times the difference between
/// the reference in bf16 and in f32. That difference is 1.4 % for transformers, and the goldens'
/// README allows at most 3 %. It is 4.1 % for the VAE, whose sines take rounded angles.
pub(super) fn of_bf16(golden: &Golden) -> f64 {
    if golden.file.starts_with("vae") { 0.058 } else { 0.03 }
}

/// The bounds of the goldens' README: (file, part of the tensor's name, bound). The first match
/// is used.
const OF_README: &[(&str, &str, f64)] = &[
    ("dit_time", "proj", 2e-6),
    ("dit_time", "temb", 3e-6),
    ("dit_forward", "velocity", 2e-5),
    ("cond_encoder", "encoder_hidden_states", 2e-5),
    ("audio_tokenizer", "detokenized", 7e-6),
    ("sampling_turbo", ".latents", 8e-5),
    ("sampling_base", ".latents", 3e-4),
    ("guidance", "", 4e-5),
    ("lm", "decode_logits", 4e-5),
    ("lm", "prefill_logits", 4e-5),
    ("lm", ".logits", 4e-5),
    ("text_encoder", "last_hidden_state", 2e-5),
    ("vae_decode", "wave", 5e-5),
    ("vae_encode", "mean", 5e-5),
    ("vae_encode", "scale", 4e-5),
    ("vae_encode", "std", 3e-5),
];

/// Bounds of tensors that the README does not list, derived from their inputs or outputs.
const BY_KINSHIP: &[(&str, &str, f64)] = &[
    // Within a network: the bound of its output.
    ("dit_time", "sinusoid", 3e-6),
    ("dit_forward", "", 2e-5),
    ("bf16_time", "velocity", 2e-5),
    ("cond_encoder", "mask", 0.0),
    ("cond_encoder", "", 2e-5),
    ("audio_tokenizer", "", 7e-6),
    ("vae_decode", "", 5e-5),
    ("vae_encode", "sample", 5e-5),
    ("vae_tiled", "", 5e-5),
    // The trunk is the same as the text encoder's, so it has the same bound.
    ("lm", ".act.", 2e-5),
    // Guidance at scale 2 is `2 c - u`: twice the error of `c` plus once the error of `u`.
    ("lm", "cfg2_logits", 3.0 * 4e-5),
    // Within a run: each step has the bound of a velocity, the inputs the bound of their network.
    ("sampling_turbo", ".step", 2e-5),
    ("sampling_base", ".step", 2e-5),
    ("sampling_turbo", "encoder_hidden_states", 2e-5),
    ("sampling_turbo", "context_latents", 7e-6),
    ("e2e", "encoder_hidden_states", 2e-5),
    ("e2e", "text_hidden_states", 2e-5),
    // A source is encoded by the VAE, codes are detokenised, and the rest is copied.
    ("e2e", "src_latents", 5e-5),
    ("e2e", "target_latents_input", 5e-5),
    ("e2e", "context_latents", 5e-5),
    ("e2e", ".latents", 8e-5),
    ("e2e", "wave", 5e-5),
    // Times are decimal fractions in f32: one unit in the last place.
    ("sampling_turbo", "timesteps", 1e-7),
    ("sampling_base", "timesteps", 1e-7),
    // Normals: PyTorch's logarithm and cosine in f32 are polynomials, wrong by at most two units.
    ("rng", "randn", 1e-6),
];

/// The largest difference allowed for a stored tensor.
// ANCHOR: tolerance
pub(super) fn of(golden: &Golden, name: &str) -> f64 {
    // A measured 0 means that nothing was computed in f64: the tensor was assembled from others.
    if let Some(measured) = golden.f32_vs_f64(name).filter(|&measured| measured > 0.0) {
        return 10.0 * measured;
    }
    let file = golden.file.trim_end_matches(".safetensors");
    let fits = |&&(kind, part, _): &&(&str, &str, f64)| file == kind && name.contains(part);
    // Values that are copied, looked up or counted have no bound: they must be equal.
    OF_README.iter().chain(BY_KINSHIP).find(fits).map_or(0.0, |&(_, _, bound)| bound)
}
// ANCHOR_END: tolerance
