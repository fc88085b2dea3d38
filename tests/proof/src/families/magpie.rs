//! Magpie TTS and NanoCodec: their goldens.

mod codec;
mod networks;
mod runs;
mod texts;

use std::path::Path;

use acestep_import::Magpie;
use acestep_model::{Backend, speech::magpie::Files};
use anyhow::{Context, Result};

use super::Tensors;
use crate::golden::{Lacks, tolerance::Bounds};

const MODEL: &str = "speech model";
const CODEC: &str = "speech codec";

/// Bounds in f32 from the goldens' README, for tensors without a measurement. No golden is in bf16.
const fn bounds(of: &'static [(&'static str, f64)]) -> Bounds {
    Bounds { of, bf16: 0.0 }
}

/// The files of tensors: `s1_*` with one frame in a step, `s2_*` with two.
pub(super) fn tensors<B: Backend>() -> Vec<Tensors<B>> {
    vec![
        Tensors {
            file: "s1_encoder",
            component: MODEL,
            bounds: bounds(&[("", 3e-5)]),
            compare: |sheet, of, place| networks::encoder(sheet, of.magpie.stacking(1)?, place),
        },
        Tensors {
            file: "s2_encoder",
            component: MODEL,
            bounds: bounds(&[("", 3e-5)]),
            compare: |sheet, of, place| networks::encoder(sheet, of.magpie.stacking(2)?, place),
        },
        Tensors {
            file: "s1_decoder",
            component: MODEL,
            bounds: bounds(OF_DECODER),
            compare: |sheet, of, place| networks::decoder(sheet, of.magpie.stacking(1)?, place),
        },
        Tensors {
            file: "s2_decoder",
            component: MODEL,
            bounds: bounds(OF_DECODER),
            compare: |sheet, of, place| networks::decoder(sheet, of.magpie.stacking(2)?, place),
        },
        Tensors {
            file: "s1_local",
            component: MODEL,
            bounds: bounds(&[("logits", 6e-5)]),
            compare: |sheet, of, place| networks::local(sheet, of.magpie.stacking(1)?, place),
        },
        Tensors {
            file: "s2_local",
            component: MODEL,
            bounds: bounds(&[("logits", 6e-5)]),
            compare: |sheet, of, place| networks::local(sheet, of.magpie.stacking(2)?, place),
        },
        Tensors {
            file: "s1_run",
            component: MODEL,
            bounds: bounds(OF_RUNS),
            compare: |sheet, of, place| runs::compare(sheet, of.magpie.stacking(1)?, place),
        },
        Tensors {
            file: "s1_e2e",
            component: MODEL,
            bounds: bounds(&[("wave", 5e-6)]),
            compare: |sheet, of, place| texts::compare(sheet, of.magpie.stacking(1)?, place),
        },
        Tensors {
            file: "s2_run",
            component: MODEL,
            bounds: bounds(OF_RUNS),
            compare: |sheet, of, place| runs::compare(sheet, of.magpie.stacking(2)?, place),
        },
        Tensors {
            file: "s2_e2e",
            component: MODEL,
            bounds: bounds(&[("wave", 5e-6)]),
            compare: |sheet, of, place| texts::compare(sheet, of.magpie.stacking(2)?, place),
        },
        Tensors {
            file: "codec",
            component: CODEC,
            // Activations are up to four times as large as samples.
            bounds: bounds(&[("wave", 5e-6), ("latent", 0.0), ("", 2e-5)]),
            compare: |sheet, of, place| codec::decode(sheet, of.magpie.any()?, place),
        },
        Tensors {
            file: "fsq",
            component: CODEC,
            bounds: bounds(&[("compressed", 2e-6)]),
            compare: |sheet, _, place| codec::codes(sheet, place),
        },
    ]
}

const OF_RUNS: &[(&str, f64)] =
    &[("logits", 3e-4), ("latents", 3e-5), ("memory", 3e-5), (".prior", 1e-7)];

const OF_DECODER: &[(&str, f64)] =
    &[("cross_prob", 1e-5), ("alignment", 1e-5), ("logits", 6e-5), ("", 3e-5)];

/// The available models.
#[derive(Debug, Default)]
pub(crate) struct MagpieModels(Vec<Magpie>);

impl MagpieModels {
    /// Opens the models in the folders of `models`: archives, with the codec of any of the folders,
    /// then GGUF files.
    pub(crate) fn find(models: &Path) -> Result<Self> {
        let listing = std::fs::read_dir(models)
            .with_context(|| format!("cannot list `{}`", models.display()))?;
        let folders: Vec<_> = listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let files = |wanted: &str| {
            let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok());
            let paths = entries.flatten().filter_map(|entry| Some(entry.ok()?.path()));
            let mut files: Vec<_> = paths
                .filter(|path| path.extension().is_some_and(|ending| ending == wanted))
                .collect();
            files.sort();
            files.into_iter().partition::<Vec<_>, _>(|path| Magpie::is_at(path))
        };
        let (archives, codecs) = files("nemo");
        let codec = codecs.first().map(|path| &**path);
        let of_archives = archives.iter().map(|path| Magpie::open(path, codec));
        let (ggufs, _) = files("gguf");
        let all = of_archives.chain(ggufs.iter().map(|path| Magpie::open(path, None)));
        Ok(Self(all.collect::<Result<_, _>>()?))
    }

    /// Any model; all have the same codec.
    fn any(&self) -> Result<&Magpie, Lacks> {
        self.0.first().ok_or(Lacks("Magpie TTS model"))
    }

    /// The model with `frames` in a step.
    fn stacking(&self, frames: usize) -> Result<&Magpie, Lacks> {
        let mut all = self.0.iter();
        all.find(|model| model.config().frame_stacking_factor == frames)
            .ok_or(Lacks("such Magpie TTS model"))
    }
}
