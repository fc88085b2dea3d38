//! ACE-Step: its presets and stages; its goldens are in [`goldens`].
//!
//! | module | contents |
//! |---|---|
//! | [`goldens`] | the files of stored results, one row each |
//! | [`speed`] | the work of the stages below, at full size |
//! | [`songs`], [`types`] | songs of many lengths; networks in every type of weights |

pub(crate) mod goldens;
pub(crate) mod songs;
pub(crate) mod speed;
pub(crate) mod types;

use acestep_import::Network;

use super::{Preset, Timed, Work};
use crate::measure::BenchStage;
use speed::{
    Work as Own,
    sizes::{LanguageSizes, Sizes},
};

static TEXT_ENCODER: BenchStage =
    BenchStage::new("text-encoder", "Text encoder: caption tokens to hidden states").shared();
static CONDITION: BenchStage =
    BenchStage::new("condition", "Condition encoder: lyrics, timbre and caption to one condition");
static CODES: BenchStage = BenchStage::new("codes", "Audio codes to latent hints").with_length();
static DIT: BenchStage =
    BenchStage::new("dit", "One step of the diffusion transformer").kept_as_asked().with_length();
static VAE: BenchStage =
    BenchStage::new("vae", "VAE decoder: latents to sound").shared().with_length();
static VAE_ENCODE: BenchStage =
    BenchStage::new("vae-encode", "VAE encoder: sound to latents").shared().with_length();
static LM_PREFILL: BenchStage =
    BenchStage::new("lm-prefill", "A prompt of the language model").kept_as_asked();
static LM_DECODE: BenchStage = BenchStage::new("lm-decode", "An audio code of the language model")
    .kept_as_asked()
    .with_length();
static LM_DECODE_CFG: BenchStage =
    BenchStage::new("lm-decode-cfg", "An audio code with guidance: two rows in one pass")
        .kept_as_asked()
        .with_length();

/// All stages of the presets, in the order of the pipeline.
pub(super) static STAGES: &[&BenchStage] = &[
    &TEXT_ENCODER,
    &CONDITION,
    &CODES,
    &DIT,
    &VAE,
    &VAE_ENCODE,
    &LM_PREFILL,
    &LM_DECODE,
    &LM_DECODE_CFG,
];

/// The stages of a song, and the work of each.
type OfSong = [(&'static BenchStage, Work); 6];

const fn song(sizes: Sizes) -> OfSong {
    [
        (&TEXT_ENCODER, Work::Song(Own::TextEncoder)),
        (&CONDITION, Work::Song(Own::Condition(sizes))),
        (&CODES, Work::Song(Own::Codes(sizes))),
        (&DIT, Work::Song(Own::Dit(sizes))),
        (&VAE, Work::Song(Own::Vae)),
        (&VAE_ENCODE, Work::Song(Own::VaeEncode)),
    ]
}

static TURBO: OfSong = song(Sizes::Turbo);
static BASE: OfSong = song(Sizes::Base);
static XL: OfSong = song(Sizes::Xl);

/// The stages of a language model, and the work of each.
type OfLanguage = [(&'static BenchStage, Work); 3];

const fn language(sizes: LanguageSizes) -> OfLanguage {
    [
        (&LM_PREFILL, Work::Song(Own::Prefill(sizes))),
        (&LM_DECODE, Work::Song(Own::Decode(sizes, 1))),
        (&LM_DECODE_CFG, Work::Song(Own::Decode(sizes, 2))),
    ]
}

static LM_06B: OfLanguage = language(LanguageSizes::B06);
static LM_17B: OfLanguage = language(LanguageSizes::B17);
static LM_4B: OfLanguage = language(LanguageSizes::B4);

static VAE_ALONE: &[(&BenchStage, Work)] =
    &[(&VAE, Work::Song(Own::Vae)), (&VAE_ENCODE, Work::Song(Own::VaeEncode))];
static TEXT_ENCODER_ALONE: &[(&BenchStage, Work)] =
    &[(&TEXT_ENCODER, Work::Song(Own::TextEncoder))];

/// The networks of a language model.
const LANGUAGE_MODEL: &[Network] = &[Network::LanguageModel];

/// All presets.
#[rustfmt::skip]
pub(super) static PRESETS: &[Preset] = &[
    Preset::new("turbo", "The 2B models as turbo runs them: one forward pass per step", &TURBO, &Network::ALL),
    Preset::new("base", "The 2B models with guidance: two forward passes per step", &BASE, &Network::ALL),
    Preset::new("xl", "The XL models, one forward pass per step", &XL, &Network::ALL),
    Preset::new("vae", "The autoencoder alone", VAE_ALONE, &[Network::VaeDecoder, Network::VaeEncoder]),
    Preset::new("text-encoder", "The text encoder alone", TEXT_ENCODER_ALONE, &[Network::TextEncoder]),
    Preset::new("lm-0.6b", "The 0.6B language model", &LM_06B, LANGUAGE_MODEL),
    Preset::new("lm-1.7b", "The 1.7B language model", &LM_17B, LANGUAGE_MODEL),
    Preset::new("lm-4b", "The 4B language model", &LM_4B, LANGUAGE_MODEL),
];

/// Song lengths in seconds for diffusion steps and decoding.
const LENGTHS: &[f64] = &[10.0, 60.0, 240.0];

const fn timed(preset: &'static str, stage: &'static BenchStage, lengths: &'static [f64]) -> Timed {
    Timed { preset, stage, lengths }
}

/// The stages that `check` measures.
pub(crate) static TIMED: &[Timed] = &[
    timed("turbo", &DIT, LENGTHS),
    timed("base", &DIT, LENGTHS),
    timed("xl", &DIT, LENGTHS),
    timed("vae", &VAE, LENGTHS),
    timed("text-encoder", &TEXT_ENCODER, &[]),
    timed("lm-0.6b", &LM_PREFILL, &[]),
    timed("lm-0.6b", &LM_DECODE, &[]),
    timed("lm-0.6b", &LM_DECODE_CFG, &[]),
    timed("lm-1.7b", &LM_PREFILL, &[]),
    timed("lm-1.7b", &LM_DECODE, &[]),
    timed("lm-1.7b", &LM_DECODE_CFG, &[]),
    timed("lm-4b", &LM_PREFILL, &[]),
    timed("lm-4b", &LM_DECODE, &[]),
    timed("lm-4b", &LM_DECODE_CFG, &[]),
];

/// The stages that a quick `check` measures: small ones, which a software driver can run.
pub(crate) static QUICK: &[Timed] =
    &[timed("text-encoder", &TEXT_ENCODER, &[]), timed("vae", &VAE, &[0.2])];
