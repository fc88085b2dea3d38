//! Stages that are measured at full size, and the same stages as tasks for PyTorch.

use acestep_engine::{
    device::dtype::{name, of_others},
    tiling::Tiling,
};
use acestep_model::{Backend, Place};
use anyhow::Result;
use burn::tensor::DType;
use serde_json::{Value, json};

use super::{
    part::{Item, Tell},
    results::{Ceiling, Line, Speed},
};
use crate::commands::bench::{
    ceilings::Ceilings,
    language, measure,
    presets::{self, Preset},
    stages::{self, CAPTION_TOKENS, LYRIC_TOKENS, Measured, Song, Stage},
    typed,
};

/// One stage of one preset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Task {
    preset: Preset,
    stage: Stage,
    seconds: f64,
}

/// Song lengths in seconds for diffusion steps and decoding.
const LENGTHS: [f64; 3] = [10.0, 60.0, 240.0];

/// Returns the tasks of `presets`, or of all presets if that is empty.
pub(super) fn tasks(quick: bool, presets: &[Preset]) -> Vec<Task> {
    let task = |preset, stage, seconds| Task { preset, stage, seconds };
    let mut tasks = Vec::new();
    if quick {
        tasks.push(task(Preset::TextEncoder, Stage::TextEncoder, 1.0));
        tasks.push(task(Preset::Vae, Stage::Vae, 0.2));
    } else {
        for preset in [Preset::Turbo, Preset::Base, Preset::Xl] {
            tasks.extend(LENGTHS.map(|seconds| task(preset, Stage::Dit, seconds)));
        }
        tasks.extend(LENGTHS.map(|seconds| task(Preset::Vae, Stage::Vae, seconds)));
        tasks.push(task(Preset::TextEncoder, Stage::TextEncoder, 30.0));
        for preset in [Preset::Lm06b, Preset::Lm17b, Preset::Lm4b] {
            for stage in [Stage::LmPrefill, Stage::LmDecode, Stage::LmDecodeCfg] {
                tasks.push(task(preset, stage, 30.0));
            }
        }
    }
    tasks.retain(|task| presets.is_empty() || presets.contains(&task.preset));
    tasks
}

/// Returns the ceilings and every task; tasks of one preset may share a process.
pub(super) fn items(tasks: &[Task]) -> Vec<Item> {
    let ceilings = Item { name: "what the device can do at most".to_owned(), group: 0 };
    let task = |task: &Task| Item { name: task.id(), group: 1 + task.preset as usize };
    std::iter::once(ceilings).chain(tasks.iter().map(task)).collect()
}

/// Measures one item.
///
/// # Errors
/// If the task cannot be measured.
pub(super) fn run<B: Backend>(
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
    let ceilings = ceilings.unwrap_or_else(|| measure::ceilings(&others));
    let place = if task.stage.is_kept_as_asked() { place } else { &others };
    let song = Song { preset: task.preset, duration_s: task.seconds };
    let measured = stages::run(task.stage, song, ceilings, place)?;
    tell(Line::Speed(Speed::new(task.id(), place.dtype, &measured)));
    Ok(())
}

fn measure_ceilings<B: Backend>(place: &Place<B>, tell: &Tell) {
    let bytes_per_s = measure::memory_ceiling(&Place::<B>::f32(place.device.clone()));
    // Measure only types that are used; tuning products of other types takes time.
    let others = of_others(place.dtype);
    for dtype in [DType::F32, others].into_iter().skip(usize::from(others == DType::F32)) {
        let place = Place::<B> { device: place.device.clone(), dtype };
        let flop_per_s = measure::product_ceiling(&place);
        let measured = Ceilings { flop_per_s, bytes_per_s };
        tell(Line::Ceiling(Ceiling { dtype: name(dtype).to_owned(), measured }));
    }
}

impl Speed {
    fn new(id: String, dtype: DType, measured: &Measured) -> Self {
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
    /// Returns a name such as `turbo dit 30 s` or `lm-4b lm-decode-cfg`.
    pub(super) fn id(self) -> String {
        let (preset, stage) = (typed(self.preset), typed(self.stage));
        let name = if preset == stage { preset } else { format!("{preset} {stage}") };
        match self.stage {
            Stage::Dit | Stage::Vae => format!("{name} {} s", self.seconds),
            _ => name,
        }
    }

    /// Returns the task for `torch_speed.py`: the configuration and the shapes.
    ///
    /// # Errors
    /// If the built-in released configuration cannot be read, which is a bug.
    pub(super) fn for_torch(self) -> Result<Value> {
        let song = Song { preset: self.preset, duration_s: self.seconds };
        let mut task = match self.stage {
            Stage::Dit => {
                let config = presets::dit(self.preset)?;
                let windows: Vec<Option<usize>> = (0..config.num_hidden_layers)
                    .map(|layer| match config.visibility(layer) {
                        acestep_model::kernel::Visibility::Window(reach) => Some(reach),
                        _ => None,
                    })
                    .collect();
                json!({
                    "kind": "dit",
                    "config": presets::dit_values(self.preset),
                    "windows": windows,
                    "encoder_width": config.encoder_shape().hidden(),
                    "batch": song.rows(),
                    "frames": song.frames(),
                    "condition": CAPTION_TOKENS + LYRIC_TOKENS + 1,
                })
            }
            Stage::Vae => json!({
                "kind": "vae",
                "config": presets::vae_values(),
                "tiles": Tiling::default().windows(song.frames())?,
            }),
            Stage::TextEncoder => json!({
                "kind": "text-encoder",
                "config": presets::text_encoder_values(),
                "tokens": CAPTION_TOKENS,
            }),
            Stage::LmPrefill => json!({
                "kind": "lm-prefill",
                "config": presets::language_model_values(self.preset),
                "tokens": language::PROMPT,
                "scores": language::CODES.len() + 1,
            }),
            Stage::LmDecode | Stage::LmDecodeCfg => json!({
                "kind": "lm-decode",
                "config": presets::language_model_values(self.preset),
                "rows": if self.stage == Stage::LmDecode { 1 } else { 2 },
                "before": language::middle(song),
                "scores": language::CODES.len() + 1,
            }),
            Stage::Condition | Stage::Codes | Stage::VaeEncode | Stage::Load => {
                json!({ "kind": "none" })
            }
        };
        task["id"] = self.id().into();
        Ok(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_asked_for_is_measured() {
        let ids: Vec<String> = tasks(false, &[]).into_iter().map(Task::id).collect();
        assert_eq!(ids.len(), 3 * 3 + 3 + 1 + 3 * 3);
        for id in ["turbo dit 10 s", "base dit 60 s", "xl dit 240 s", "vae 240 s", "text-encoder"] {
            assert!(ids.iter().any(|own| own == id), "{id} in {ids:?}");
        }
        assert!(ids.contains(&"lm-4b lm-decode-cfg".to_owned()), "{ids:?}");
        let mut once = ids.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), ids.len(), "every name once");
        assert!(tasks(false, &[Preset::Xl]).iter().all(|task| task.preset == Preset::Xl));
    }

    /// 30 s are 750 frames, in tiles of 448 and 430, with a condition of 238 positions. Guidance
    /// has two rows, after 256 tokens and half of the song's 150 codes.
    #[test]
    fn torch_is_given_the_same_shapes() {
        let task =
            |preset, stage| Task { preset, stage, seconds: 30.0 }.for_torch().expect("a task");
        let dit = task(Preset::Base, Stage::Dit);
        assert_eq!(
            (&dit["batch"], &dit["frames"], &dit["condition"]),
            (&json!(2), &json!(750), &json!(238))
        );
        assert_eq!((&dit["windows"][0], &dit["windows"][1]), (&json!(128), &Value::Null));
        assert_eq!(task(Preset::Xl, Stage::Dit)["encoder_width"], 2048);
        assert_eq!(task(Preset::Vae, Stage::Vae)["tiles"], json!([448, 430]));
        let decode = task(Preset::Lm4b, Stage::LmDecodeCfg);
        assert_eq!((&decode["rows"], &decode["before"]), (&json!(2), &json!(331)));
        assert_eq!(decode["scores"], 64_001);
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
