//! `bench`: measures the speed of each stage alone, at full size, with random weights.
//!
//! Speeds are shown beside ceilings from the same run, so that numbers of a busy machine are not
//! mistaken for those of the program.
//!
//! | module | contents |
//! |---|---|
//! | `measured`, `results` | one stage; a run, as JSON |
//! | `table`, `section`, `page`, `peers` | terminal, book |

pub(crate) mod measured;
mod page;
mod peers;
mod results;
mod section;
mod table;

use acestep_engine::{BackendWork, Device, Engine, device::dtype};
use acestep_model::{Backend, Place};
use anyhow::Result;

pub(crate) use measured::Measurement;
pub use page::write;
pub use peers::Peer;
pub use results::{BenchRun, repeated};
pub use table::text;

use crate::{
    Host,
    families::{ModelToLoad, Preset},
    machine,
    measure::{BenchStage, LOAD, ceilings::Peaks, clock},
};

/// The stages to measure.
#[derive(Debug)]
pub struct Options {
    /// The sizes.
    pub preset: &'static Preset,
    /// Stages of the preset, in the order of the pipeline.
    pub stages: Vec<&'static BenchStage>,
    /// Length of the song in seconds.
    pub duration_s: f64,
}

/// Measures stages, and the loading of the networks of `model`.
///
/// # Errors
/// If the device is absent or a network cannot be loaded.
pub fn run(
    options: Options,
    model: Option<ModelToLoad>,
    engine: Engine,
    host: &dyn Host,
) -> Result<BenchRun> {
    let Options { preset, duration_s, .. } = options;
    let (date, load_1m) = (machine::now(), clock::load_1m());
    let bench = Bench { device: engine.device, options, model, host };
    let (ceilings, stages) = engine.run(bench)??;
    let results = BenchRun {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date,
        machine: machine::describe(engine.device),
        threads: threads(),
        level: level().to_owned(),
        load_1m,
        preset,
        duration_s,
        dtype: dtype::name(engine.dtype).to_owned(),
        ceilings,
        stages,
    };
    if cfg!(debug_assertions) {
        host.note(
            "this build is for tests: times are longer than they need be, and floors say little",
        );
    }
    if results.was_busy() {
        host.note("other programs were at work when it began: times are longer than they need be");
    }
    Ok(results)
}

/// Returns the level of the CPU's vector instructions; empty without kernels for CPUs.
fn level() -> &'static str {
    #[cfg(feature = "cpu")]
    return acestep_model::kernel::cpu_level().name();
    #[cfg(not(feature = "cpu"))]
    ""
}

/// Returns the number of CPU threads that compute.
fn threads() -> usize {
    #[cfg(feature = "cpu")]
    return crate::measure::silicon::threads();
    #[cfg(not(feature = "cpu"))]
    std::thread::available_parallelism().map_or(1, usize::from)
}

struct Bench<'a> {
    device: Device,
    options: Options,
    model: Option<ModelToLoad>,
    host: &'a dyn Host,
}

impl BackendWork for Bench<'_> {
    type Output = Result<(Peaks, Vec<Measurement>)>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { device, options, model, host } = self;
        let Options { preset, stages, duration_s } = options;
        let go_on = || match host.is_cancelled() {
            true => Err(acestep_engine::Error::Cancelled),
            false => Ok(()),
        };
        host.line("measuring what the device can do");
        let peaks = Peaks::measure(device, &place);
        let mut measured = Vec::new();
        if let Some(model) = model {
            for &part in preset.parts {
                go_on()?;
                host.line(&format!("load: {part}"));
                let dtype = ModelToLoad::dtype(part, place.dtype);
                let place = Place::<B> { device: place.device.clone(), dtype };
                let work = || model.run(part, &place);
                measured.push(measured::measure(&LOAD, dtype, peaks.used, work)?);
            }
        }
        for stage in stages {
            let Some(work) = preset.work(stage) else { continue };
            go_on()?;
            host.line(&format!("{}: making weights, then measuring", stage.name));
            let work = || work.run(duration_s, &place);
            let (dtype, ceilings) = peaks.of_stage(stage, place.dtype);
            let one = measured::measure(stage, dtype, ceilings, work)?;
            // The table comes at the end. A run that is stopped before it has said this.
            host.line(&format!("{}: {:.4} s", stage.name, one.time.wall_s));
            measured.push(one);
        }
        Ok((peaks, measured))
    }
}
