//! Helpers of the tests that cross crates: the tiny checkpoints, plans, comparisons.
//!
//! The tests themselves:
//!
//! | program | contents |
//! |---|---|
//! | `properties` | properties of every song, on the CPU with the built-in tiny checkpoint |
//! | `docs` | commands of the README, quotations of the book, links, module cycles |
//! | `cli` (of the package `acestep`) | the program as users type it: messages, exit codes, files |

mod altered;
pub mod foreign;
mod golden;

use std::path::{Path, PathBuf};

use acestep_engine::{Error, Residency, Unobserved, audio::loudness};
use acestep_import::{AceStep, ModelPaths};
use acestep_model::{Checkpoint, Place};
use acestep_music::{ModelInfo, Networks, Plan, Request, Song, generate};
use burn_flex::{Flex, FlexDevice};

pub use altered::{Altered, Change, Scaled, scaled};
pub use golden::Golden;

/// The backend of all tests here.
pub type Cpu = Flex;

/// The only device of [`Cpu`].
pub const DEVICE: FlexDevice = FlexDevice;

/// Returns the device and dtype (f32) of networks in most tests.
pub fn place() -> Place<Cpu> {
    Place::f32(DEVICE)
}

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns the built-in turbo checkpoint.
pub fn turbo() -> AceStep {
    acestep_import::open_tiny().expect("it is part of the program")
}

/// Returns the base checkpoint of the goldens, which uses guidance.
pub fn base() -> AceStep {
    let models: PathBuf = root().join("tests/goldens/checkpoints_a");
    let paths = ModelPaths {
        name: "base".into(),
        dit: models.join("acestep-v15-base"),
        vae: models.join("vae"),
        text_encoder: models.join("Qwen3-Embedding-0.6B"),
        pieces: Vec::new(),
    };
    AceStep::open(&paths).expect("it is part of the repository")
}

/// Returns the properties of `model` that a plan needs.
pub fn info(model: &AceStep) -> ModelInfo {
    ModelInfo::new(model.name(), model.is_turbo(), model.configs())
}

/// Returns a request for a short song with a seed. Tests change the fields that they test.
pub fn request() -> Request {
    Request::default().with(|r| {
        r.words.caption = Some("a calm piano melody, rain".into());
        r.words.lyrics = Some("[Verse]\nIt rains on the roof".into());
        r.words.duration = Some(2.0);
        r.noise.seed = Some(vec![7]);
    })
}

/// Returns a request for a song from codes. It needs every network except the VAE encoder.
pub fn covering() -> Request {
    request().with(|r| {
        r.source.audio_codes = Some(vec![vec![17; 10]]);
        r.words.duration = None;
    })
}

/// Returns the plan of `request` with `model`.
pub fn plan(request: &Request, model: &AceStep) -> Plan {
    let (plan, _) = Plan::resolve(request, &info(model)).expect("a valid request");
    plan
}

/// Returns the songs of `plan`. Each network is loaded when it is needed.
///
/// # Errors
/// Returns the errors of [`generate`].
pub fn songs(plan: &Plan, checkpoint: &dyn Checkpoint<Cpu>) -> Result<Vec<Song>, Error> {
    generate(plan, &Networks::new(checkpoint, place(), Residency::WhileUsed), &Unobserved)
}

/// Returns the largest difference of two songs of equal length, relative to the peak of `a`.
pub fn difference(a: &Song, b: &Song) -> f32 {
    assert_eq!(a.audio.channels.len(), b.audio.channels.len());
    assert_eq!(a.audio.samples(), b.audio.samples());
    let pairs = a.audio.channels.iter().flatten().zip(b.audio.channels.iter().flatten());
    largest_difference(pairs) / loudness::peak(&a.audio)
}

/// Returns the largest absolute difference; infinity if any difference is NaN.
pub fn largest_difference<'a>(pairs: impl Iterator<Item = (&'a f32, &'a f32)>) -> f32 {
    pairs.fold(0.0, |most, (a, b)| {
        let here = (a - b).abs();
        // `max` would drop a NaN.
        if here.is_nan() { f32::INFINITY } else { most.max(here) }
    })
}
