//! Dia2 and the codec Mimi: their goldens, their presets and stages.

mod codec;
mod guidance;
mod networks;
mod recorded;
mod recordings;
mod runs;
mod server;
pub(crate) mod speed;

use std::path::Path;

use acestep_import::{Dia2, Dia2Choice};
use acestep_model::{Backend, speech::dia2::Files};
use anyhow::Result;

use super::{Preset, Tensors, Texts, Work, config_in, listed};
use crate::{
    golden::{Lacks, set::Set, tolerance::bounds},
    measure::BenchStage,
};
use speed::{Sizes, Work as Own};

const CODEC: &str = "mimi";
const DIALOGUE: &str = "dialogue";

static BACKBONE: BenchStage =
    BenchStage::new("backbone", "Backbone of Dia2: one step with guidance").kept_as_asked();
static DEPFORMER: BenchStage =
    BenchStage::new("depformer", "Depformer: the other 31 codes of a frame").kept_as_asked();
static MIMI: BenchStage = BenchStage::new("mimi", "Mimi: 8 frames to samples").in_f32().shared();
static MIMI_ONE: BenchStage =
    BenchStage::new("mimi-first", "Mimi: 1 frame to samples, as the first chunk").in_f32().shared();
static SNAPSHOT: BenchStage =
    BenchStage::new("snapshot", "Kept voice of Dia2, 10 s, to the state of a run");

/// All stages of the presets, in the order of the pipeline.
pub(super) static STAGES: &[&BenchStage] = &[&BACKBONE, &DEPFORMER, &MIMI, &MIMI_ONE, &SNAPSHOT];

/// The stages of a size, and the work of each.
type OfSize = [(&'static BenchStage, Work); 5];

const fn of(sizes: Sizes) -> OfSize {
    [
        (&BACKBONE, Work::Dialogue(Own::Backbone(sizes))),
        (&DEPFORMER, Work::Dialogue(Own::Depformer(sizes))),
        (&MIMI, Work::Dialogue(Own::Codec(8))),
        (&MIMI_ONE, Work::Dialogue(Own::Codec(1))),
        (&SNAPSHOT, Work::Dialogue(Own::Snapshot(sizes))),
    ]
}

static B1: OfSize = of(Sizes::B1);
static B2: OfSize = of(Sizes::B2);

/// All presets.
pub(super) static PRESETS: &[Preset] = &[
    Preset::new("dia2-1b", "The 1B dialogue model: a frame of 80 ms, and its sound", &B1, &[]),
    Preset::new("dia2-2b", "The 2B dialogue model: a frame of 80 ms, and its sound", &B2, &[]),
];

/// The files of tensors. The bounds are those of the goldens' README, for tensors without a measurement.
#[rustfmt::skip]
pub(super) fn tensors<B: Backend>() -> Vec<Tensors<B>> {
    const OF_RUNS: &[(&str, f64)] =
        &[("wave", 1e-5), ("dep", 1e-4), ("cb0", 4e-5), ("hidden", 2e-5), ("action", 2e-5), ("", 0.0)];
    // A sample of 16 bits may be cut to the one beside it.
    const OF_SERVER: &[(&str, f64)] =
        &[("wave", 1e-5), ("pcm16", 1.0), ("cb0", 4e-5), ("hidden", 2e-5), (".kv.", 1e-5), ("", 0.0)];
    vec![
        Tensors::new("backbone", "backbone", bounds(&[("kv.", 1e-5), ("cb0", 4e-5), ("", 2e-5)], 0.03), networks::backbone),
        Tensors::new("depformer", "depformer", bounds(&[("logits", 5e-5), ("", 2e-5)], 0.03), networks::depformer),
        Tensors::new("mimi_encode", CODEC, bounds(&[("codes", 0.0), ("", 2e-5)], 0.03), codec::encode),
        Tensors::new("mimi_decode", CODEC, bounds(&[("wave", 1e-5), ("", 2e-5)], 0.03), codec::decode),
        Tensors::new("mimi_stream", CODEC, bounds(&[("codes", 0.0), ("wave", 1e-5), ("", 2e-5)], 0.03), codec::stream),
        Tensors::new("guidance", DIALOGUE, bounds(&[("kept", 3e-6)], 0.0), guidance::compare),
        Tensors::new("generate", DIALOGUE, bounds(OF_RUNS, 0.03), runs::generate),
        Tensors::new("prefix", DIALOGUE, bounds(&[(".kv.", 1e-5), (".out", 1e-6), ("", 0.0)], 0.03), runs::prefix),
        Tensors::new("server", DIALOGUE, bounds(OF_SERVER, 0.03), server::compare),
    ]
}

/// The files of texts.
pub(super) fn texts<B: Backend>() -> Vec<Texts<B>> {
    let runs = Texts::new("runs.json", DIALOGUE, runs::times::<B>);
    // Text and whole numbers alone, which the tests beside the code compare.
    let logic = [
        "config_defaults.json",
        "grid.json",
        "parse.json",
        "state_machine.json",
        "tokenizer.json",
        "words_to_entries.json",
    ];
    logic.map(Texts::none).into_iter().chain([runs]).collect()
}

/// True if a set of goldens is of this family: some files have the names of other families' files.
pub(super) fn owns(set: &Set) -> bool {
    set.names().any(|name| name == "depformer.safetensors")
}

/// The available dialogue models.
#[derive(Debug, Default)]
pub(crate) struct DialogueModels(Vec<Dia2>);

impl DialogueModels {
    /// Opens the dialogue models in `models`.
    pub(crate) fn find(models: &Path) -> Result<Self> {
        let mut paths = listed(models)?;
        paths.retain(|path| config_in(path)["model"]["depformer"].is_object());
        let open = |path: &std::path::PathBuf| Dia2::open(path, &Dia2Choice::default());
        Ok(Self(paths.iter().map(open).collect::<Result<_, _>>()?))
    }

    /// Any model; all have the same codec.
    fn any(&self) -> Result<&Dia2, Lacks> {
        self.0.first().ok_or(Lacks("dialogue model"))
    }

    /// The model of the goldens whose names begin with `prefix`: a second one has the prefix `alt.`.
    fn of(&self, prefix: &str) -> Result<&Dia2, Lacks> {
        let is_second = prefix.starts_with("alt");
        let mut all = self.0.iter();
        all.find(|model| model.name().ends_with("alt") == is_second)
            .ok_or(Lacks("such dialogue model"))
    }
}
