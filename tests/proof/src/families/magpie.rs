//! Magpie TTS and NanoCodec: their goldens, their presets and stages.

mod codec;
mod networks;
mod runs;
pub(crate) mod speed;
mod texts;

use std::path::Path;

use acestep_import::{Magpie, ModelFormat};
use acestep_model::{Backend, speech::magpie::Files};
use anyhow::Result;

use super::{Preset, Tensors, Texts, Work, listed};
use crate::{
    golden::{Lacks, tolerance::Bounds},
    measure::BenchStage,
};
use speed::{Geometry, Work as Own};

const MODEL: &str = "speech model";
const CODEC: &str = "speech codec";

static ENCODER: BenchStage =
    BenchStage::new("speech-encoder", "Text encoder of Magpie TTS: 60 ids")
        .kept_as_asked()
        .shared();
static DECODER: BenchStage =
    BenchStage::new("speech-decoder", "Decoder of Magpie TTS: one step with guidance")
        .kept_as_asked();
static LOCAL: BenchStage =
    BenchStage::new("local-transformer", "Local transformer: the codes of a step").kept_as_asked();
static NANOCODEC: BenchStage =
    BenchStage::new("nanocodec", "NanoCodec: 8 frames to samples").in_f32().shared();
static NANOCODEC_ONE: BenchStage =
    BenchStage::new("nanocodec-first", "NanoCodec: 1 frame to samples, as the first chunk")
        .in_f32()
        .shared();

/// All stages of the presets, in the order of the pipeline.
pub(super) static STAGES: &[&BenchStage] =
    &[&ENCODER, &DECODER, &LOCAL, &NANOCODEC, &NANOCODEC_ONE];

/// The stages of a geometry, and the work of each.
type OfGeometry = [(&'static BenchStage, Work); 5];

const fn of(geometry: Geometry) -> OfGeometry {
    [
        (&ENCODER, Work::Magpie(Own::Encoder)),
        (&DECODER, Work::Magpie(Own::Decoder(geometry))),
        (&LOCAL, Work::Magpie(Own::Local(geometry))),
        (&NANOCODEC, Work::Magpie(Own::Codec(8))),
        (&NANOCODEC_ONE, Work::Magpie(Own::Codec(1))),
    ]
}

static V2512: OfGeometry = of(Geometry::V2512);
static V2607: OfGeometry = of(Geometry::V2607);

/// All presets.
pub(super) static PRESETS: &[Preset] = &[
    Preset::new(
        "magpie-2512",
        "Magpie TTS of December 2025: a step of 46 ms, and its sound",
        &V2512,
        &[],
    ),
    Preset::new(
        "magpie-2607",
        "Magpie TTS of July 2026: a step of 93 ms, and its sound",
        &V2607,
        &[],
    ),
];

/// Bounds in f32 from the goldens' README, for tensors without a measurement. No golden is in bf16.
const fn bounds(of: &'static [(&'static str, f64)]) -> Bounds {
    Bounds { of, bf16: 0.0 }
}

/// The files of tensors: `s1_*` with one frame in a step, `s2_*` with two.
pub(super) fn tensors<B: Backend>() -> Vec<Tensors<B>> {
    let s1 = ["s1_encoder", "s1_decoder", "s1_local", "s1_run", "s1_e2e"];
    let s2 = ["s2_encoder", "s2_decoder", "s2_local", "s2_run", "s2_e2e"];
    let codec = [
        Tensors::new("codec", CODEC, bounds(OF_CODEC), codec::decode),
        Tensors::new("fsq", CODEC, bounds(&[("compressed", 2e-6)]), codec::codes),
    ];
    of_model::<B, 1>(s1).into_iter().chain(of_model::<B, 2>(s2)).chain(codec).collect()
}

/// The files of the model with `S` frames in a step.
fn of_model<B: Backend, const S: usize>(
    [encoder, decoder, local, run, e2e]: [&'static str; 5],
) -> [Tensors<B>; 5] {
    [
        Tensors::new(encoder, MODEL, bounds(&[("", 3e-5)]), networks::encoder::<B, S>),
        Tensors::new(decoder, MODEL, bounds(OF_DECODER), networks::decoder::<B, S>),
        Tensors::new(local, MODEL, bounds(&[("logits", 6e-5)]), networks::local::<B, S>),
        Tensors::new(run, MODEL, bounds(OF_RUNS), runs::compare::<B, S>),
        Tensors::new(e2e, MODEL, bounds(&[("wave", 5e-6)]), texts::compare::<B, S>),
    ]
}

const OF_RUNS: &[(&str, f64)] =
    &[("logits", 3e-4), ("latents", 3e-5), ("memory", 3e-5), (".prior", 1e-7)];

const OF_DECODER: &[(&str, f64)] =
    &[("cross_prob", 1e-5), ("alignment", 1e-5), ("logits", 6e-5), ("", 3e-5)];

/// Bounds of the codec. The loud sound is six times as large as others, activations up to four times. A
/// folded filter is rounded a few times, and none of its values is above 1.1.
const OF_CODEC: &[(&str, f64)] =
    &[("loud", 3e-5), ("wave", 5e-6), ("latent", 0.0), ("folded", 5e-7), ("", 2e-5)];

/// The files of text that are not below `logic/`.
pub(super) fn texts<B: Backend>() -> Vec<Texts<B>> {
    // Of networks whose weights are a formula: the tests of `import` compare it.
    vec![Texts::none("networks.json")]
}

/// The available models.
#[derive(Debug, Default)]
pub(crate) struct MagpieModels(Vec<Magpie>);

impl MagpieModels {
    /// Opens the models in the folders of `models`: archives, with the codec of any of the folders,
    /// then GGUF files.
    pub(crate) fn find(models: &Path) -> Result<Self> {
        let folders = listed(models)?;
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
        Ok(self.all_stacking(frames)?.0)
    }

    /// The model with `frames` in a step, and the GGUF files of it.
    fn all_stacking(&self, frames: usize) -> Result<(&Magpie, Vec<&Magpie>), Lacks> {
        let mut all = self.0.iter().filter(|of| of.config().frame_stacking_factor == frames);
        let first = all.next().ok_or(Lacks("such Magpie TTS model"))?;
        Ok((first, all.filter(|of| of.origin().format == ModelFormat::Gguf).collect()))
    }
}
