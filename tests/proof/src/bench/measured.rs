//! The measurement of one stage, beside the ceilings of the device.

use acestep_engine::{allocator, process};
use anyhow::Result;
use burn::tensor::DType;
use serde::{Deserialize, Serialize};

use crate::{
    families,
    measure::{
        BenchStage, Rate, Run,
        ceilings::{Binds, Ceilings, Floor, Weights},
        clock::{self, Time},
    },
};

/// Measurement of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measurement {
    #[serde(deserialize_with = "families::stage")]
    pub(crate) stage: &'static BenchStage,
    /// Description of one run.
    pub(crate) unit: String,
    #[serde(flatten)]
    pub(crate) time: Time,
    /// The usual metric of the stage.
    pub(crate) rate: Rate,
    pub(crate) flop: f64,
    pub(crate) weight_bytes: f64,
    pub(crate) flop_per_s: f64,
    pub(crate) weight_bytes_per_s: f64,
    pub(crate) flop_share_of_ceiling: f64,
    pub(crate) bytes_share_of_ceiling: f64,
    /// The minimum seconds that the ceilings allow for this work.
    pub(crate) floor_s: f64,
    /// The ceiling that determines the minimum.
    pub(crate) binds: Binds,
    /// The floor as a share of the time: 1 is as fast as the device allows.
    pub(crate) share_of_floor: f64,
    /// The stage's peak of host memory; `None` if the system does not report it.
    pub(crate) peak_bytes: Option<u64>,
}

/// Runs `work` with weights in `dtype`, and returns its result with its floor and its peak memory.
///
/// # Errors
/// Errors of `work`.
pub(crate) fn measure(
    stage: &'static BenchStage,
    dtype: DType,
    ceilings: Ceilings,
    work: impl FnOnce() -> Result<Run>,
) -> Result<Measurement> {
    // What the stage before left behind is not this stage's.
    allocator::return_freed_memory();
    let peak_is_ours = clock::reset_peak();
    let Run { unit, cost, time, rate } = work()?;
    let peak_bytes = process::peak().filter(|_| peak_is_ours);
    let bytes = cost.weights * Weights::of(dtype).bytes();
    let (flop_per_s, weight_bytes_per_s) = (cost.flop / time.wall_s, bytes / time.wall_s);
    let Floor { seconds: floor_s, binds } = ceilings.floor(cost.flop, bytes);
    Ok(Measurement {
        stage,
        unit,
        time,
        rate,
        flop: cost.flop,
        weight_bytes: bytes,
        flop_per_s,
        weight_bytes_per_s,
        flop_share_of_ceiling: flop_per_s / ceilings.flop_per_s,
        bytes_share_of_ceiling: weight_bytes_per_s / ceilings.bytes_per_s,
        floor_s,
        binds,
        share_of_floor: floor_s / time.wall_s,
        peak_bytes,
    })
}

impl Measurement {
    /// Returns `of()`, or `-` if there is no floor, because loading only moves data.
    pub(crate) fn floored(&self, of: impl FnOnce() -> String) -> String {
        if self.floor_s > 0.0 { of() } else { "-".to_owned() }
    }

    /// Returns the same measurement against other ceilings.
    pub(crate) fn against(&self, ceilings: Ceilings) -> Self {
        let Floor { seconds: floor_s, binds } = ceilings.floor(self.flop, self.weight_bytes);
        Self {
            flop_share_of_ceiling: self.flop_per_s / ceilings.flop_per_s,
            bytes_share_of_ceiling: self.weight_bytes_per_s / ceilings.bytes_per_s,
            floor_s,
            binds,
            share_of_floor: floor_s / self.time.wall_s,
            ..self.clone()
        }
    }
}
