//! Stages that are measured at full size, and the same stages as tasks for PyTorch.

use acestep_engine::device::dtype::{name, of_others};
use acestep_model::{Backend, Place};
use anyhow::Result;
use burn::tensor::DType;
use serde_json::Value;

use crate::{
    bench::{Measurement, measured},
    families::{self, PRESETS, Preset, Work},
    measure::{BenchStage, ceilings::Ceilings, clock},
    rows::{Ceiling, Item, Line, Speed, Tell},
};

/// One stage of one preset.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Task {
    /// Name such as `turbo dit 30 s` or `lm-4b lm-decode-cfg`.
    id: String,
    /// Number of the preset.
    preset: usize,
    stage: &'static BenchStage,
    work: Work,
    seconds: f64,
}

/// Length in seconds of a task that has none in its name.
const SECONDS: f64 = 30.0;

/// Returns the tasks of `presets` in their order, or of all presets if that is empty.
pub(crate) fn tasks(quick: bool, presets: &[&Preset]) -> Vec<Task> {
    let mut tasks = Vec::new();
    for timed in families::timed(quick) {
        let found = PRESETS.iter().copied().enumerate().find(|(_, own)| own.name == timed.preset);
        let Some((number, preset)) = found else { continue };
        let Some(work) = preset.work(timed.stage) else { continue };
        if !presets.is_empty() && !presets.contains(&preset) {
            continue;
        }
        let name = match (preset.name, timed.stage.name) {
            (preset, stage) if preset == stage => stage.to_owned(),
            (preset, stage) => format!("{preset} {stage}"),
        };
        let task = |id, seconds| Task { id, preset: number, stage: timed.stage, work, seconds };
        if timed.lengths.is_empty() {
            tasks.push(task(name.clone(), SECONDS));
        }
        tasks.extend(timed.lengths.iter().map(|&s| task(format!("{name} {s} s"), s)));
    }
    // If time runs out, those that were named last are missing.
    tasks.sort_by_key(|task| presets.iter().position(|&own| own == PRESETS[task.preset]));
    tasks
}

/// Returns the ceilings and every task; tasks of one preset may share a process.
pub(crate) fn items(tasks: &[Task]) -> Vec<Item> {
    let ceilings = Item { name: "what the device can do at most".to_owned(), group: 0 };
    let task = |task: &Task| Item { name: task.id.clone(), group: 1 + task.preset };
    std::iter::once(ceilings).chain(tasks.iter().map(task)).collect()
}

/// Measures one item.
///
/// # Errors
/// If the task cannot be measured.
pub(crate) fn run<B: Backend>(
    index: usize,
    tasks: &[Task],
    ceilings: Option<Ceilings>,
    place: &Place<B>,
    tell: &Tell,
) -> Result<()> {
    let Some(task) = index.checked_sub(1).and_then(|index| tasks.get(index)) else {
        measure_ceilings(place, tell);
        return Ok(());
    };
    let others = Place::<B> { device: place.device.clone(), dtype: of_others(place.dtype) };
    // The first process measures the ceilings for all; a task alone must measure its own.
    let ceilings = ceilings.unwrap_or_else(|| clock::ceilings(&others));
    let place = if task.stage.is_kept_as_asked { place } else { &others };
    let work = || task.work.run(task.seconds, place);
    let measured = measured::measure(task.stage, place.dtype, ceilings, work)?;
    tell(Line::Speed(Speed::new(task.id.clone(), place.dtype, &measured)));
    Ok(())
}

fn measure_ceilings<B: Backend>(place: &Place<B>, tell: &Tell) {
    let bytes_per_s = clock::memory_ceiling(&Place::<B>::f32(place.device.clone()));
    // Measure only types that are used; tuning products of other types takes time.
    let others = of_others(place.dtype);
    for dtype in [DType::F32, others].into_iter().skip(usize::from(others == DType::F32)) {
        let place = Place::<B> { device: place.device.clone(), dtype };
        let flop_per_s = clock::product_ceiling(&place);
        let measured = Ceilings { flop_per_s, bytes_per_s };
        tell(Line::Ceiling(Ceiling { dtype: name(dtype).to_owned(), measured }));
    }
}

impl Speed {
    fn new(id: String, dtype: DType, measured: &Measurement) -> Self {
        Self {
            id,
            unit: measured.unit.clone(),
            dtype: name(dtype).to_owned(),
            wall_s: measured.time.wall_s,
            median_s: measured.time.median_s,
            flop: measured.flop,
            weight_bytes: measured.weight_bytes,
            floor_s: measured.floor_s,
            share_of_floor: measured.share_of_floor,
            rate: measured.rate.value,
            rate_unit: measured.rate.unit.clone(),
        }
    }
}

impl Task {
    /// Returns the task for `torch_speed.py`: the configuration and the shapes.
    ///
    /// # Errors
    /// If a released configuration cannot be read, which is a bug.
    pub(crate) fn for_torch(&self) -> Result<Value> {
        let mut task = self.work.for_torch(self.seconds)?;
        task["id"] = self.id.as_str().into();
        Ok(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preset(name: &str) -> &'static Preset {
        PRESETS.iter().copied().find(|preset| preset.name == name).expect("a preset")
    }

    #[test]
    fn everything_that_was_asked_for_is_measured() {
        let ids: Vec<String> = tasks(false, &[]).into_iter().map(|task| task.id).collect();
        assert_eq!(ids.len(), 3 * 3 + 3 + 1 + 3 * 3);
        for id in ["turbo dit 10 s", "base dit 60 s", "xl dit 240 s", "vae 240 s", "text-encoder"] {
            assert!(ids.iter().any(|own| own == id), "{id} in {ids:?}");
        }
        assert!(ids.contains(&"lm-4b lm-decode-cfg".to_owned()), "{ids:?}");
        let mut once = ids.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), ids.len(), "every name once");
        let of_xl = tasks(false, &[preset("xl")]);
        assert!(of_xl.iter().all(|task| task.id.starts_with("xl dit ")), "{of_xl:?}");
        assert_eq!(of_xl[0].for_torch().expect("a task")["id"], "xl dit 10 s");
    }

    #[test]
    fn presets_are_measured_in_the_order_in_which_they_are_named() {
        let ids: Vec<String> = tasks(true, &[preset("vae"), preset("text-encoder")])
            .into_iter()
            .map(|task| task.id)
            .collect();
        assert_eq!(ids, ["vae 0.2 s", "text-encoder"]);
    }

    #[test]
    fn a_preset_has_a_process_of_its_own() {
        let items = items(&tasks(false, &[]));
        let groups: Vec<usize> = items.iter().map(|item| item.group).collect();
        assert_eq!(groups[0], 0);
        assert_eq!(groups[1], groups[3]);
        assert_ne!(groups[3], groups[4]);
    }
}
