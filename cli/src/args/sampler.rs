//! Flags of the sampler: solver, angle-based guidance, smoothing, correction, start.

use acestep_music::Request;

use super::values::{pair, put, put_all, seed};

/// Sampler options other than steps and schedule.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct Sampler {
    /// Deterministic solver: euler, or heun with two evaluations per step [default: euler].
    #[arg(long, value_name = "MODE")]
    sampler_mode: Option<String>,

    /// Solver by acestep.cpp's name: euler, sde, dpm3m or stork4.
    ///
    /// Replaces --infer-method and --sampler-mode. With sde, base and sft keep the times of the
    /// schedule; with --infer-method sde they do not.
    #[arg(long, value_name = "SOLVER")]
    solver: Option<String>,

    /// Sub-steps of stork4, 1 to 148; every value gives the same song [default: 10].
    #[arg(long, value_name = "N")]
    stork_substeps: Option<i64>,

    /// Rotate the music away from the result without a caption: --guidance-mode adg.
    #[arg(long, overrides_with = "no_use_adg")]
    use_adg: bool,

    /// Use the guidance that --guidance-mode names.
    #[arg(long, overrides_with = "use_adg")]
    no_use_adg: bool,

    /// Limit a step's velocity to X times the norm of the latents, up to 100; 0 is no limit
    /// [default: 0].
    #[arg(long, value_name = "X")]
    velocity_norm_threshold: Option<f64>,

    /// Share of the previous velocity to keep, 0 to 1 [default: 0].
    #[arg(long, value_name = "SHARE")]
    velocity_ema_factor: Option<f64>,

    /// Correct each step in the wavelet domain (DCW), upstream's default for turbo.
    #[arg(long, overrides_with = "no_dcw_enabled")]
    dcw_enabled: bool,

    /// Do not correct steps, even if the request asks for it (the default).
    #[arg(long, overrides_with = "dcw_enabled")]
    no_dcw_enabled: bool,

    /// Part to correct: low, high, double or pix [default: double].
    ///
    /// With --dcw-scaler but without --dcw-enabled, the correction is acestep.cpp's: the default is
    /// low, and stochastic steps are not corrected.
    #[arg(long, value_name = "MODE")]
    dcw_mode: Option<String>,

    /// Strength of the correction, 0 to 1 [default: 0.05].
    #[arg(long, value_name = "X")]
    dcw_scaler: Option<f64>,

    /// Strength for the high frequencies in mode double, 0 to 1 [default: 0.02].
    #[arg(long, value_name = "X")]
    dcw_high_scaler: Option<f64>,

    /// Wavelet; only haar is built in [default: haar].
    #[arg(long, value_name = "NAME")]
    dcw_wavelet: Option<String>,

    /// Make a variant: rotate the noise towards --retake-seed's, 0 to 1 [default: 0].
    #[arg(long, value_name = "SHARE")]
    retake_variance: Option<f64>,

    /// Seed of the second noise; counts up in a batch, or a list [default: random].
    #[arg(long, value_name = "SEED", value_delimiter = ',', value_parser = seed)]
    retake_seed: Option<Vec<u64>>,

    /// Start from the source plus noise, 0 (all noise) to 1 (hardly any) [default: 0].
    #[arg(long, value_name = "SHARE")]
    cover_noise_strength: Option<f64>,

    /// Multiply the final latents by X, up to 10 [default: 1].
    #[arg(long, value_name = "X")]
    latent_rescale: Option<f64>,

    /// Add X, -10 to 10, to the final latents, after --latent-rescale [default: 0].
    #[arg(long, value_name = "X")]
    latent_shift: Option<f64>,

    /// Change the source, described by --flow-edit-source-.., to match caption and lyrics.
    #[arg(long, overrides_with = "no_flow_edit_morph")]
    flow_edit_morph: bool,

    /// Make the song without this edit.
    #[arg(long, overrides_with = "flow_edit_morph")]
    no_flow_edit_morph: bool,

    /// Caption of the source.
    #[arg(long, value_name = "TEXT")]
    flow_edit_source_caption: Option<String>,

    /// Lyrics of the source; @FILE reads them from a file.
    #[arg(long, value_name = "TEXT|@FILE")]
    flow_edit_source_lyrics: Option<String>,

    /// Share of the steps after which the edit begins, 0 to 1 [default: 0].
    #[arg(long, value_name = "SHARE")]
    flow_edit_n_min: Option<f64>,

    /// Share of the steps after which the edit ends, 0 to 1; the rest is sampled anew [default: 1].
    #[arg(long, value_name = "SHARE")]
    flow_edit_n_max: Option<f64>,

    /// Noises that each step of the edit averages over, 1 to 16 [default: 1].
    #[arg(long, value_name = "N")]
    flow_edit_n_avg: Option<i64>,
}

impl Sampler {
    /// Returns the lyrics of the source as typed, possibly a file name.
    pub(crate) fn source_lyrics(&self) -> Option<&str> {
        self.flow_edit_source_lyrics.as_deref()
    }

    /// Puts the flags over `request`, except [`Sampler::source_lyrics`]; `infer_method` is a flag
    /// of another group.
    pub(crate) fn put_over(&self, request: &mut Request, infer_method: Option<&String>) {
        // There are two ways to name a solver: a typed one clears the other.
        if self.solver.is_some() {
            (request.sampler.infer_method, request.sampler.sampler_mode) = (None, None);
        } else if infer_method.is_some() || self.sampler_mode.is_some() {
            request.sampler.solver = None;
        }
        put(&mut request.sampler.infer_method, infer_method);
        put_all!(self => request.sampler;
            sampler_mode, solver, stork_substeps, velocity_norm_threshold, velocity_ema_factor,
            dcw_mode, dcw_scaler, dcw_high_scaler, dcw_wavelet);
        put(&mut request.sampling.use_adg, pair(self.use_adg, self.no_use_adg).as_ref());
        put(&mut request.sampler.dcw_enabled, pair(self.dcw_enabled, self.no_dcw_enabled).as_ref());
        put_all!(self => request.noise; retake_variance, retake_seed);
        put_all!(self => request.source; cover_noise_strength);
        put_all!(self => request.output; latent_rescale, latent_shift);
        let morph = pair(self.flow_edit_morph, self.no_flow_edit_morph);
        put(&mut request.edit.flow_edit_morph, morph.as_ref());
        put_all!(self => request.edit;
            flow_edit_source_caption, flow_edit_n_min, flow_edit_n_max, flow_edit_n_avg);
    }
}
