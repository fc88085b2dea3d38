//! The tables that the model families fill; a second family adds its rows here.
//!
//! No other file outside this folder names a family.

mod acestep;
mod dia2;
mod magpie;
mod qwen3_tts;

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use acestep_engine::Engine;
use acestep_import::{Layout, Network};
use acestep_model::{Backend, ConfigError, Place};
use anyhow::{Context, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Value, json};

use acestep::goldens::{built_in, checkpoints::Checkpoints};
pub use acestep::speed::load::ModelToLoad;
pub(crate) use acestep::{songs, types};
use dia2::DialogueModels;
use magpie::MagpieModels;
use qwen3_tts::SpeechModels;
pub use qwen3_tts::{
    agreement::{Agreement, agreement},
    stress::Stress,
};

use crate::{
    Host,
    golden::{page::Page, set::Set, sheet::Sheet, tolerance::Bounds},
    measure::{BenchStage, LOAD, Run},
};

/// The presets of every family.
pub static PRESETS: LazyLock<Vec<&'static Preset>> = LazyLock::new(|| {
    let speech = qwen3_tts::PRESETS.iter().chain(dia2::PRESETS).chain(magpie::PRESETS);
    acestep::PRESETS.iter().chain(speech).collect()
});

/// The stages of every family, in the order of the pipelines.
pub static STAGES: LazyLock<Vec<&'static BenchStage>> = LazyLock::new(|| {
    let speech = qwen3_tts::STAGES.iter().chain(dia2::STAGES).chain(magpie::STAGES);
    acestep::STAGES.iter().chain(speech).copied().collect()
});

/// The work of a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Work {
    Song(acestep::speed::Work),
    Speech(qwen3_tts::speed::Work),
    Dialogue(dia2::speed::Work),
    Magpie(magpie::speed::Work),
}

impl Work {
    /// Measures the work for a sound of `seconds`; its weights are freed afterwards.
    ///
    /// # Errors
    /// If a released configuration cannot be read.
    pub(crate) fn run<B: Backend>(self, seconds: f64, place: &Place<B>) -> Result<Run> {
        match self {
            Self::Song(work) => work.run(seconds, place),
            Self::Speech(work) => work.run(place),
            Self::Dialogue(work) => work.run(place),
            Self::Magpie(work) => work.run(place),
        }
    }

    /// Returns the sizes for a sustained load, if the work is speech.
    fn sizes(self) -> Option<qwen3_tts::speed::Sizes> {
        match self {
            Self::Speech(work) => work.sizes(),
            Self::Song(_) | Self::Dialogue(_) | Self::Magpie(_) => None,
        }
    }

    /// Returns the work for `torch_speed.py`: the configuration and the shapes.
    ///
    /// # Errors
    /// If a released configuration cannot be read.
    pub(crate) fn for_torch(self, seconds: f64) -> Result<Value> {
        match self {
            Self::Song(work) => work.for_torch(seconds),
            Self::Speech(_) | Self::Dialogue(_) | Self::Magpie(_) => Ok(json!({ "kind": "none" })),
        }
    }
}

/// A set of goldens, and the checkpoints to compute it with.
pub(crate) struct GoldenSource {
    pub(crate) set: Set,
    checkpoints: Checkpoints,
    speech: SpeechModels,
    dialogue: DialogueModels,
    magpie: MagpieModels,
}

impl GoldenSource {
    /// Reads a set, and opens the checkpoints in `models`. Some sets need none; other cases report what is
    /// missing.
    pub(crate) fn read(goldens: &Path, models: Option<&Path>) -> Result<Self> {
        let (checkpoints, speech, dialogue, magpie) = match models {
            Some(models) => (
                Checkpoints::find(models)?,
                SpeechModels::find(models)?,
                DialogueModels::find(models)?,
                MagpieModels::find(models)?,
            ),
            None => Default::default(),
        };
        Ok(Self { set: Set::read(goldens)?, checkpoints, speech, dialogue, magpie })
    }

    /// The set and the checkpoints inside the program.
    pub(crate) fn built_in() -> Result<Self> {
        let checkpoints = Checkpoints::built_in()?;
        let (speech, dialogue, magpie) = Default::default();
        Ok(Self { set: built_in::set()?, checkpoints, speech, dialogue, magpie })
    }

    /// Reads a source with the released tokenizers in a directory. The tokenizers come first, because a
    /// mistake in them is found at once, and checkpoints are large.
    ///
    /// # Errors
    /// No tokenizer in the directory, or another one.
    pub(crate) fn with_tokenizers(
        root: Option<&Path>,
        read: impl FnOnce() -> Result<Self>,
    ) -> Result<Self> {
        let real = root.map(Checkpoints::read_tokenizers).transpose()?;
        let mut source = read()?;
        source.checkpoints.real = real;
        source.speech.vocabulary = root.map(Path::to_owned);
        Ok(source)
    }
}

/// Returns the files of tensors of the families whose goldens are in `set`.
pub(crate) fn tensors<B: Backend>(set: &Set) -> Vec<Tensors<B>> {
    if dia2::owns(set) {
        return dia2::tensors();
    }
    let own = acestep::goldens::tensors().into_iter().chain(qwen3_tts::tensors());
    own.chain(magpie::tensors()).collect()
}

/// Returns the files of text of the families whose goldens are in `set`.
pub(crate) fn texts<B: Backend>(set: &Set) -> Vec<Texts<B>> {
    if dia2::owns(set) {
        return dia2::texts();
    }
    let own = acestep::goldens::texts().into_iter().chain(qwen3_tts::texts());
    own.chain(magpie::texts()).collect()
}

/// A file of tensors of the goldens.
pub(crate) struct Tensors<B: Backend> {
    /// Name without the ending; a `*` at its end stands for anything.
    pub(crate) file: &'static str,
    /// The part of the program that it tests.
    pub(crate) component: &'static str,
    pub(crate) bounds: Bounds,
    pub(crate) compare: CompareTensors<B>,
}

/// Compares a file of tensors.
type CompareTensors<B> = fn(&mut Sheet<'_>, &GoldenSource, &Place<B>) -> Result<()>;

impl<B: Backend> Tensors<B> {
    pub(crate) fn new(
        file: &'static str,
        component: &'static str,
        bounds: Bounds,
        compare: CompareTensors<B>,
    ) -> Self {
        Self { file, component, bounds, compare }
    }

    /// True if this is the row of the file `name`, without its ending.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        match self.file.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == self.file,
        }
    }
}

/// A file of text of the goldens.
pub(crate) struct Texts<B: Backend> {
    pub(crate) file: &'static str,
    /// The part of the program that it tests.
    pub(crate) component: &'static str,
    pub(crate) compare: CompareTexts<B>,
}

/// Compares a file of text.
type CompareTexts<B> = fn(Page<'_>, &Value, &GoldenSource, &Place<B>) -> Result<()>;

impl<B: Backend> Texts<B> {
    pub(crate) fn new(
        file: &'static str,
        component: &'static str,
        compare: CompareTexts<B>,
    ) -> Self {
        Self { file, component, compare }
    }

    /// A file with nothing to compare on a user's machine.
    pub(crate) fn none(file: &'static str) -> Self {
        Self::new(file, "", |_, _, _, _| Ok(()))
    }
}

/// Returns what lies in the folder `models`, in alphabetical order.
fn listed(models: &Path) -> Result<Vec<PathBuf>> {
    let listing =
        std::fs::read_dir(models).with_context(|| format!("cannot list `{}`", models.display()))?;
    let mut paths: Vec<_> = listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}

/// Returns the `config.json` of a folder; null if it has none.
fn config_in(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("config.json")).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Reads a released configuration.
fn released<C>(read: fn(&str) -> Result<C, ConfigError>, config: &Value) -> Result<C> {
    read(&config.to_string()).context("the released configuration cannot be read")
}

/// Returns an object with more keys, or other values.
fn with(mut object: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

/// Networks that are measured together.
#[derive(Debug, PartialEq)]
pub struct Preset {
    /// Name in flags and results.
    pub name: &'static str,
    /// Description, for help.
    pub about: &'static str,
    /// Its stages in the order of the pipeline, and the work of each.
    pub(crate) stages: &'static [(&'static BenchStage, Work)],
    /// Its networks in an installed model.
    pub(crate) parts: &'static [Network],
}

/// A stage of a preset that `check` measures.
pub(crate) struct Timed {
    pub(crate) preset: &'static str,
    pub(crate) stage: &'static BenchStage,
    /// Lengths in seconds; if empty, a length that has no place in the name.
    pub(crate) lengths: &'static [f64],
}

/// Returns the stages that `check` measures.
pub(crate) fn timed(quick: bool) -> &'static [Timed] {
    if quick { acestep::QUICK } else { acestep::TIMED }
}

impl Preset {
    pub(crate) const fn new(
        name: &'static str,
        about: &'static str,
        stages: &'static [(&'static BenchStage, Work)],
        parts: &'static [Network],
    ) -> Self {
        Self { name, about, stages, parts }
    }

    /// Returns the stages in the order of the pipeline.
    pub fn stages(&self) -> impl Iterator<Item = &'static BenchStage> {
        self.stages.iter().map(|(stage, _)| *stage)
    }

    /// Opens the model `choice`, to load the networks of this preset.
    ///
    /// # Errors
    /// If it is not installed or its files do not fit.
    pub fn open(
        &self,
        choice: &str,
        layout: &Layout,
    ) -> Result<ModelToLoad, acestep_import::Error> {
        ModelToLoad::open(choice, self.parts, layout)
    }

    /// Speaks for `length` with random weights; `None` if the preset is not one of speech.
    ///
    /// # Errors
    /// If the device fails, or the run is cancelled.
    pub fn stress(
        &self,
        length: Duration,
        engine: Engine,
        host: &dyn Host,
    ) -> Option<Result<Stress>> {
        let sizes = self.stages.iter().find_map(|(_, work)| work.sizes())?;
        Some(qwen3_tts::stress::stress(self.name, sizes, length, engine, host))
    }

    /// True if the work depends on the length of a song. A frame of speech has its own length.
    pub(crate) fn has_length(&self) -> bool {
        self.stages.iter().any(|(_, work)| matches!(work, Work::Song(_)))
    }

    /// Returns the work of a stage, if the preset has it.
    pub(crate) fn work(&self, stage: &BenchStage) -> Option<Work> {
        self.stages.iter().find(|(own, _)| *own == stage).map(|&(_, work)| work)
    }
}

impl Serialize for Preset {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

/// Reads a preset by its name.
pub(crate) fn preset<'de, D: Deserializer<'de>>(from: D) -> Result<&'static Preset, D::Error> {
    let name = String::deserialize(from)?;
    let found = PRESETS.iter().copied().find(|preset| preset.name == name);
    found.ok_or_else(|| D::Error::custom(format!("unknown preset `{name}`")))
}

/// Reads a stage by its name.
pub(crate) fn stage<'de, D: Deserializer<'de>>(from: D) -> Result<&'static BenchStage, D::Error> {
    let name = String::deserialize(from)?;
    let found = STAGES.iter().copied().chain([&LOAD]).find(|stage| stage.name == name);
    found.ok_or_else(|| D::Error::custom(format!("unknown stage `{name}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_of_a_preset_is_listed_and_every_timed_one_exists() {
        for preset in PRESETS.iter() {
            assert!(preset.stages().all(|stage| STAGES.contains(&stage)), "{}", preset.name);
        }
        for Timed { preset, stage, .. } in timed(false).iter().chain(timed(true)) {
            let preset = PRESETS.iter().find(|own| own.name == *preset).expect(preset);
            assert!(preset.work(stage).is_some(), "{} {}", preset.name, stage.name);
        }
    }
}
