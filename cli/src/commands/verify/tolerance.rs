//! How far a result may be from the reference in f32.
//!
//! Ten times what the reference's own f32 differs from its f64, where that was measured for the
//! tensor; else the bound that the goldens' README gives for its kind.

use super::golden::Golden;

/// The README's bounds: (file, part of the tensor's name, bound); the first that fits counts.
const BY_KIND: &[(&str, &str, f64)] = &[
    ("dit_time", "proj", 2e-6),
    ("dit_time", "", 3e-6),
    ("dit_forward", "", 2e-5),
    ("bf16_time", "", 2e-5),
    ("cond_encoder", "", 2e-5),
    ("audio_tokenizer", "", 7e-6),
    ("silence", "", 0.0),
    ("sampling_turbo", "timesteps", 1e-7),
    ("sampling_base", "timesteps", 1e-7),
    ("sampling_turbo", "encoder_hidden_states", 2e-5),
    ("sampling_turbo", "context_latents", 7e-6),
    ("sampling_turbo", "step", 2e-5),
    ("sampling_base", "step", 2e-5),
    ("sampling_turbo", "", 8e-5),
    ("sampling_base", "", 3e-4),
    ("guidance", "", 4e-5),
    ("text_encoder", "lyric_embedding", 0.0),
    ("text_encoder", "", 2e-5),
    ("vae_decode", "", 5e-5),
    ("vae_encode", "scale", 4e-5),
    ("vae_encode", "std", 3e-5),
    ("vae_encode", "", 5e-5),
    ("vae_tiled", "", 5e-5),
    ("e2e", "encoder_hidden_states", 2e-5),
    ("e2e", "text_hidden_states", 2e-5),
    ("e2e", "src_latents", 5e-5),
    ("e2e", "context_latents", 5e-5),
    ("e2e", "latents", 8e-5),
    ("e2e", "wave", 5e-5),
    ("rng", "", 1e-6),
];

/// The largest difference allowed for a stored tensor.
// ANCHOR: tolerance
pub(super) fn of(golden: &Golden, name: &str) -> f64 {
    if let Some(measured) = golden.f32_vs_f64(name) {
        return 10.0 * measured;
    }
    let file = golden.file.trim_end_matches(".safetensors");
    let fits = |&&(kind, part, _): &&(&str, &str, f64)| file == kind && name.contains(part);
    BY_KIND.iter().find(fits).map_or(0.0, |&(_, _, bound)| bound)
}
// ANCHOR_END: tolerance
