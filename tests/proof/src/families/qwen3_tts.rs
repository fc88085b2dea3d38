//! Qwen3-TTS: its goldens, its presets and stages.

pub(super) mod agreement;
mod codec;
mod language;
mod layout;
mod odd_input;
mod runs;
pub(crate) mod speed;
pub(super) mod stress;
mod texts;
mod vocabulary;

use std::path::{Path, PathBuf};

use acestep_import::Qwen3Tts;
use acestep_model::{
    Backend,
    speech::qwen3_tts::{Files, ModelType},
};
use anyhow::Result;

use super::{Preset, Tensors, Texts, Work, config_in, listed};
use crate::{
    golden::{Lacks, tolerance::bounds},
    measure::BenchStage,
};
use speed::{Sizes, Work as Own};

const TALKER: &str = "talker";
const CODEC: &str = "speech codec";

static TALKER_STEP: BenchStage =
    BenchStage::new("talker", "Talker: one frame to the next first code").kept_as_asked();
static PREDICTOR: BenchStage =
    BenchStage::new("code-predictor", "Code predictor: the other codes of a frame").kept_as_asked();
static CODEC_STAGE: BenchStage =
    BenchStage::new("codec", "Codec decoder: 8 frames to samples").shared();
static CODEC_ONE: BenchStage =
    BenchStage::new("codec-first", "Codec decoder: 1 frame to samples, as the first chunk")
        .shared();

/// All stages of the presets, in the order of the pipeline.
pub(super) static STAGES: &[&BenchStage] = &[&TALKER_STEP, &PREDICTOR, &CODEC_STAGE, &CODEC_ONE];

/// The stages of speech, and the work of each.
type OfSpeech = [(&'static BenchStage, Work); 4];

const fn speech(sizes: Sizes) -> OfSpeech {
    [
        (&TALKER_STEP, Work::Speech(Own::Talker(sizes))),
        (&PREDICTOR, Work::Speech(Own::Predictor(sizes))),
        (&CODEC_STAGE, Work::Speech(Own::Codec(8))),
        (&CODEC_ONE, Work::Speech(Own::Codec(1))),
    ]
}

static B06: OfSpeech = speech(Sizes::B06);
static B17: OfSpeech = speech(Sizes::B17);

/// All presets.
pub(super) static PRESETS: &[Preset] = &[
    Preset::new(
        "qwen3-tts-0.6b",
        "The 0.6B speech model: a frame of 80 ms, and its sound",
        &B06,
        &[],
    ),
    Preset::new(
        "qwen3-tts-1.7b",
        "The 1.7B speech model: a frame of 80 ms, and its sound",
        &B17,
        &[],
    ),
];

/// The files of tensors. The bounds are those of the goldens' README, for tensors without a measurement.
#[rustfmt::skip]
pub(super) fn tensors<B: Backend>() -> Vec<Tensors<B>> {
    const OF_SPEAKER: &[(&str, f64)] = &[("mel", 5e-5), ("embedding", 3e-6), ("", 2e-4)];
    const OF_RUNS: &[(&str, f64)] =
        &[("wave", 5e-5), ("logits", 4e-5), ("spk", 3e-6), ("codes", 0.0), ("", 8e-6)];
    vec![
        Tensors::new("codec_decode", CODEC, bounds(&[("wave", 5e-5), ("", 4e-4)], 0.085), codec::decode),
        Tensors::new("codec_encode", CODEC, bounds(&[("act", 2e-5)], 0.03), codec::encode),
        Tensors::new("speaker", "speaker encoder", bounds(OF_SPEAKER, 0.03), codec::speaker),
        Tensors::new("lm_*", TALKER, bounds(&[("logits", 4e-5), ("", 1e-5)], 0.015), language::networks),
        Tensors::new("runs", "speech", bounds(OF_RUNS, 0.03), runs::compare),
        Tensors::new("sampling", TALKER, bounds(&[("probs", 2e-6)], 0.0), language::sampling),
    ]
}

/// The files of texts.
pub(super) fn texts<B: Backend>() -> Vec<Texts<B>> {
    vec![
        Texts::new("prompt_ids.json", "prompts", texts::ids),
        Texts::new("row_plans.json", "prompts", texts::rows),
        Texts::new("full_layout.json", "layout", layout::compare),
        Texts::new("bad_input.json", "speech", odd_input::compare),
    ]
}

/// The available speech models.
#[derive(Debug, Default)]
pub(crate) struct SpeechModels {
    models: Vec<Qwen3Tts>,
    /// The directory of the released vocabulary, or of the folders that have it.
    pub(super) vocabulary: Option<PathBuf>,
}

impl SpeechModels {
    /// Opens the speech models in `models`.
    pub(crate) fn find(models: &Path) -> Result<Self> {
        let mut paths = listed(models)?;
        // Models of other kinds have no such file, and the codec alone has no vocabulary.
        paths.retain(|path| {
            ["generation_config.json", "vocab.json"].iter().all(|file| path.join(file).is_file())
                && config_in(path)["model_type"] == "qwen3_tts"
        });
        let models = paths.iter().map(|path| Qwen3Tts::open(path)).collect::<Result<_, _>>()?;
        Ok(Self { models, vocabulary: None })
    }

    /// Any model; all have the same codec.
    fn any(&self) -> Result<&Qwen3Tts, Lacks> {
        self.models.first().ok_or(Lacks("speech model"))
    }

    /// A model with a speaker encoder.
    fn base(&self) -> Result<&Qwen3Tts, Lacks> {
        let mut all = self.models.iter();
        all.find(|model| model.config().speaker_encoder_config.is_some())
            .ok_or(Lacks("speech model with a speaker encoder"))
    }

    /// The model whose name ends with `name`.
    fn named(&self, name: &str) -> Result<&Qwen3Tts, Lacks> {
        let mut all = self.models.iter();
        all.find(|model| model.name().ends_with(name)).ok_or(Lacks("such speech model"))
    }

    /// The first model of a kind.
    fn of_type(&self, model_type: ModelType) -> Result<&Qwen3Tts, Lacks> {
        let mut all = self.models.iter();
        let found = all.find(|model| model.config().tts_model_type == model_type);
        found.ok_or(Lacks("such speech model"))
    }
}
