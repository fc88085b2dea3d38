//! The memory of a run; the VAE's tiles that fit.

use acestep_engine::{
    Device, Engine, Error, Notice, Residency, device::memory::MemoryNeed, tiling::Tiling,
};
use acestep_import::AceStep;
use acestep_music::{Plan, Request, needs};

use super::{Resolved, Setup};
use crate::memory::sizes;

/// Returns the memory needs of each stage, in the order of the run.
pub(super) fn needs(resolved: &Resolved) -> Result<Vec<MemoryNeed>, Error> {
    let Resolved { plan, folder, setup, .. } = resolved;
    let Setup { composition, engine, extras, inputs, .. } = &**setup;
    let mut needs = match composition {
        Some(composition) => composition.needs(&resolved.request, plan, *engine)?,
        None => vec![],
    };
    let has_condition = inputs.conditioning.is_some();
    needs.extend(sizes(folder, *engine).song(plan, extras.alignment, has_condition)?);
    if let Some((judge, _)) = resolved.judge() {
        let size = judge.size().map_err(Error::checkpoint)?.parameters;
        needs.push(needs::judge(judge.config(), size, plan, engine.widths()));
    }
    Ok(needs)
}

/// Chooses the VAE's tiles for the free memory of the device, unless the user chose them, and
/// returns a notice about it. A CPU uses upstream's tiles, because it can swap.
pub(super) fn tiling(
    request: &mut Request,
    plan: &Plan,
    folder: &AceStep,
    engine: Engine,
    residency: Residency,
) -> Result<Option<Notice>, Error> {
    if request.compute.vae_chunk.is_some() || engine.device == Device::Cpu {
        return Ok(None);
    }
    let chosen = sizes(folder, engine).tiling(plan, residency)?;
    if chosen == Tiling::default() {
        return Ok(None);
    }
    request.compute.vae_chunk = i64::try_from(chosen.chunk).ok();
    Ok(Some(Notice(format!(
        "the VAE decodes {} frames at once, for the memory of {}; `vae_chunk` decides otherwise",
        chosen.chunk, engine.device
    ))))
}
