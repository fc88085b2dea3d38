//! Starts the engine of `--device`, `--dtype` and `--threads`, with the folder of kernels of the settings.

use acestep_engine::{Engine, Error, Notice, device::kernels::Kernels};
use acestep_session::start;
pub(crate) use acestep_session::start::{Started, remember};

use crate::{args::device::Where, settings};

/// Selects device and type, before anything else is read. Starts no device.
pub(crate) fn start(place: &Where) -> Result<Started, Error> {
    let (threads, kept) = (place.threads.or_else(settings::threads), settings::kernels_dir());
    start::start(&place.device, &place.dtype, threads, kept.as_deref())
}

/// Like [`start()`], for networks that belong to no model.
pub(crate) fn open(place: &Where) -> Result<(Engine, Vec<Notice>), Error> {
    Ok(start(place)?.without_model())
}

/// Returns the notice for `models` whose kernels must be compiled.
pub(crate) fn first_run(
    kernels: &Kernels,
    engine: Engine,
    models: &[impl AsRef<str>],
) -> Option<Notice> {
    let Notice(mut text) = start::first_run(kernels, engine, models)?;
    if kernels.folder.is_some() {
        text += ", and `acestep warmup` does it ahead";
    }
    Some(Notice(text))
}
