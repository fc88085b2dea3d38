//! Properties of a model that a plan and its sounds need.

use acestep_model::{Configs, acestep::Fsq};

/// Properties of the model that a plan needs.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// Name for messages.
    pub name: String,
    /// True if distilled to eight steps without guidance.
    pub is_turbo: bool,
    /// Latent channels.
    pub channels: usize,
    /// Samples of one latent frame.
    pub hop: usize,
    /// Samples per second.
    pub sample_rate: u32,
    /// Latent frames of one audio code.
    pub frames_per_code: usize,
    /// Latent frames of a timbre reference: 750 in the released models.
    pub timbre_frames: usize,
    /// Number of audio codes in the codebook: 64 000 in the released models.
    pub codes: u32,
    /// Default guidance scale: 7 for the released models.
    pub guidance_scale: f64,
}

/// Guidance scale of the released base and sft models, from upstream's `inference.py`.
const GUIDANCE: f64 = 7.0;

impl ModelInfo {
    /// Returns the properties of the model `name` from its configurations.
    pub fn new(name: impl Into<String>, is_turbo: bool, configs: &Configs) -> Self {
        let Configs { dit, vae, .. } = configs;
        Self {
            name: name.into(),
            is_turbo,
            channels: dit.audio_acoustic_hidden_dim,
            hop: vae.hop(),
            sample_rate: vae.sampling_rate,
            frames_per_code: dit.pool_window_size,
            timbre_frames: dit.timbre_fix_frame,
            codes: Fsq::new(dit.fsq_input_levels.clone()).codes(),
            guidance_scale: dit.default_guidance_scale.unwrap_or(GUIDANCE),
        }
    }
}
