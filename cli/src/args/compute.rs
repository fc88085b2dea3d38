//! Flags of the model: adapters, device, tiles.

use super::{device::Where, values::put_all};
use crate::cli_error::CliError;
use acestep_engine::Residency;
use acestep_import::Adapter;
use acestep_music::request;

/// Networks, and their device.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model and device")]
pub(crate) struct Compute {
    /// turbo, base, sft, demo, .. or a path [default: turbo].
    ///
    /// A short name (turbo, base, sft, turbo-shift1, turbo-shift3, turbo-continuous, xl-turbo,
    /// xl-base, xl-sft), the name of a directory or file in the models directory, or a path. It can
    /// be a released directory, a GGUF file of acestep.cpp (acestep-v15-turbo-Q8_0.gguf, which is
    /// also found as turbo), a single safetensors file of ComfyUI or a pipeline of diffusers; all
    /// are detected by their content. Two models are built in: demo, a small model that learned
    /// from music composed by this project, and tiny, a random network that tests the pipeline.
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) model: Option<String>,

    /// LoRA, LoKr, LoHa or DoRA for the model; can be given several times.
    ///
    /// A .safetensors file, a directory as PEFT writes it, or a name in `adapters/` of the models
    /// directory. A number after a colon is its strength: voice.safetensors:0.8; 1 is as it was
    /// trained. These adapters replace the ones of a request file. --lora is the same.
    #[arg(long, value_name = "PATH[:SCALE]", alias = "lora", hide_short_help = true)]
    pub(crate) adapter: Vec<String>,

    /// Strength of adapters, -10 to 10: one number for all, or one for each [default: 1].
    #[arg(long, value_name = "X,..", value_delimiter = ',', hide_short_help = true)]
    pub(crate) adapter_scale: Option<Vec<f64>>,

    /// Ignore the adapters of the request file.
    #[arg(long, hide_short_help = true, conflicts_with_all = ["adapter", "adapter_scale"])]
    pub(crate) no_adapter: bool,

    #[command(flatten)]
    pub(crate) place: Where,

    /// Keep every network except the language model in memory; by default, only one at a time.
    #[arg(long, hide_short_help = true)]
    pub(crate) keep_loaded: bool,

    /// Latent frames that the VAE decodes at once, 25 per second in the released models [default:
    /// 512, on a GPU fewer if its memory is small].
    #[arg(long, value_name = "FRAMES", hide_short_help = true)]
    pub(crate) vae_chunk: Option<i64>,

    /// Latent frames of overlap on each side, whose sound is discarded [default: 64].
    ///
    /// From 9 on, the value has no audible effect; below, the joints of chunks can be audible.
    #[arg(long, value_name = "FRAMES", hide_short_help = true)]
    pub(crate) vae_overlap: Option<i64>,
}

impl Compute {
    /// Returns how long networks stay in memory.
    pub(crate) fn residency(&self) -> Residency {
        if self.keep_loaded { Residency::Kept } else { Residency::LastUsed }
    }

    /// Puts the typed flags over those of a request, except the model.
    pub(crate) fn put_over(&self, request: &mut request::Compute) -> Result<(), CliError> {
        put_all!(self => request; vae_chunk, vae_overlap);
        let Self { adapter, adapter_scale, no_adapter, .. } = self;
        if *no_adapter {
            (request.adapter, request.adapter_scale) = (None, None);
        }
        if !adapter.is_empty() {
            let pairs: Vec<_> =
                adapter.iter().map(|typed| Adapter::name_and_scale(typed)).collect();
            let scales = pairs.iter().any(|(_, scale)| scale.is_some());
            if scales && adapter_scale.is_some() {
                let message = "`--adapter PATH:SCALE` and `--adapter-scale` both give a scale";
                return Err(CliError::usage(message).hint("use one of the two"));
            }
            request.adapter_scale =
                scales.then(|| pairs.iter().map(|(_, scale)| scale.unwrap_or(1.0)).collect());
            request.adapter = Some(pairs.into_iter().map(|(name, _)| name.to_owned()).collect());
        }
        if let Some(scales) = adapter_scale {
            if request.adapter.is_none() {
                return Err(CliError::usage("`--adapter-scale` is given, but there is no adapter")
                    .hint("name one with --adapter"));
            }
            request.adapter_scale = Some(scales.clone());
        }
        Ok(())
    }
}
