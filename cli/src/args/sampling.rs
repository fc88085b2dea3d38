//! Flags of the diffusion: songs, steps, guidance, noise.

use std::path::PathBuf;

use acestep_music::{Request, request::Noise};

use super::{
    sampler::Sampler,
    values::{put, put_all, seed},
};

/// Settings of the diffusion.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct Sampling {
    /// Seed of the noise [default: random].
    ///
    /// The same seed makes the same song again. The songs of a batch count up from it, or a list
    /// gives each its own: 7,9,11.
    #[arg(long, value_name = "SEED", value_delimiter = ',', value_parser = seed)]
    pub(crate) seed: Option<Vec<u64>>,

    /// Number of songs, 1 to 8 [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) batch_size: Option<i64>,

    /// Steps, 1 to 200 [default: turbo 8, else 50].
    #[arg(long, value_name = "N", visible_alias = "steps")]
    pub(crate) inference_steps: Option<i64>,

    /// Guidance, 1 to 30; not turbo [default: 7; demo 4].
    ///
    /// 1 is no guidance; a higher value follows the request more closely.
    #[arg(long, value_name = "X", visible_alias = "cfg-scale")]
    pub(crate) guidance_scale: Option<f64>,

    /// Kind of guidance: apg, cfg, adg, adg_w_norm or adg_wo_clip [default: apg].
    #[arg(long, value_name = "MODE")]
    pub(crate) guidance_mode: Option<String>,

    /// Lowest time at which guidance applies, 0 to 1 [default: 0].
    #[arg(long, value_name = "T")]
    pub(crate) cfg_interval_start: Option<f64>,

    /// Highest time at which guidance applies, 0 to 1 [default: 1].
    #[arg(long, value_name = "T")]
    pub(crate) cfg_interval_end: Option<f64>,

    /// Shift of the steps towards the noise, up to 100 [default: turbo 3, else 1].
    #[arg(long, value_name = "X")]
    pub(crate) shift: Option<f64>,

    /// Times of the steps, falling from 1 to 0; replaces steps and shift.
    #[arg(long, value_name = "T,T,..", value_delimiter = ',')]
    pub(crate) timesteps: Option<Vec<f64>>,

    /// Steps without (ode) or with fresh noise (sde) [default: ode].
    #[arg(long, value_name = "METHOD")]
    pub(crate) infer_method: Option<String>,

    #[command(flatten)]
    pub(crate) sampler: Sampler,

    /// Generator of the noise: philox, philox:THREADS or mt19937 [default: philox].
    ///
    /// philox is PyTorch's generator on an NVIDIA GPU; the GPU's number of threads matters for long
    /// songs. mt19937 is PyTorch's generator on a CPU.
    #[arg(long, value_name = "NAME")]
    pub(crate) rng: Option<String>,

    /// File with the initial noise, in place of the seed's noise.
    ///
    /// A .bin as --dump-conditioning writes it (three little-endian int32 of shape, then f32), or
    /// safetensors with `initial_noise`. With --infer-method sde, the seed still determines the
    /// noise of the steps.
    #[arg(long, value_name = "FILE")]
    pub(crate) noise: Option<PathBuf>,

    /// Transformer's conditions, in place of caption and lyrics.
    ///
    /// A folder as --dump-conditioning writes it, or its conditioning.safetensors. The initial
    /// noise is also read from there.
    #[arg(long, value_name = "PATH")]
    pub(crate) conditioning: Option<PathBuf>,

    /// Write the transformer's conditions and the initial noise to the files of a folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) dump_conditioning: Option<PathBuf>,
}

impl Sampling {
    /// Puts the typed flags over `request`, except [`Sampler::source_lyrics`].
    pub(crate) fn put_over(&self, request: &mut Request) {
        // A schedule excludes steps and shift: a typed flag clears the others.
        if self.timesteps.is_some() {
            (request.sampling.inference_steps, request.sampling.shift) = (None, None);
        } else if self.inference_steps.is_some() || self.shift.is_some() {
            request.sampling.timesteps = None;
        }
        put_songs(self.seed.as_ref(), self.batch_size, &mut request.noise);
        put_all!(self => request.noise; rng);
        put_all!(self => request.sampling;
            inference_steps, guidance_scale, guidance_mode, cfg_interval_start, cfg_interval_end,
            shift, timesteps);
        self.sampler.put_over(request, self.infer_method.as_ref());
    }
}

/// Puts typed seeds and a typed number of songs over those of a request. A list of seeds excludes
/// the number: a typed flag clears the other.
pub(crate) fn put_songs(seed: Option<&Vec<u64>>, batch_size: Option<i64>, noise: &mut Noise) {
    let is_list = |seeds: Option<&Vec<u64>>| seeds.is_some_and(|seeds| seeds.len() > 1);
    if is_list(seed) {
        noise.batch_size = None;
    }
    if batch_size.is_some() && is_list(noise.seed.as_ref()) {
        noise.seed = None;
    }
    put(&mut noise.seed, seed);
    put(&mut noise.batch_size, batch_size.as_ref());
}
