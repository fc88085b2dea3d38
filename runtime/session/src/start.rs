//! The start of a run: its device, the type of the weights, threads, and the kernels that are kept.

use std::{num::NonZero, path::Path};

use acestep_engine::{
    Device, Engine, Error, Notice,
    device::{
        Dtype, dtype,
        kernels::{self, Kernels},
    },
};

/// Notice for a GPU without any stored kernels.
const FIRST_RUN: &str = "first run on this device: its kernels are compiled and tuned, which may take \
     minutes; later runs of the same start at once";

/// An engine, and the folder of its kernels.
#[derive(Debug)]
pub struct Started {
    /// The device and the type of the weights.
    pub engine: Engine,
    /// The folder of compiled kernels.
    pub kernels: Kernels,
    /// Notices about them.
    pub notices: Vec<Notice>,
}

impl Started {
    /// Returns the engine for networks that belong to no model, and all notices.
    pub fn without_model(self) -> (Engine, Vec<Notice>) {
        let Self { engine, kernels, mut notices } = self;
        if kernels.is_first {
            notices.push(Notice(FIRST_RUN.into()));
        }
        (engine, notices)
    }
}

/// Selects the device and the type that a user names, before anything else is read. Starts no device.
/// The CPU computes with as many `threads`, or with the default number. Compiled kernels are kept in
/// the folder `kept`.
///
/// # Errors
/// [`Error::BadValue`]; [`Error::NoDevice`]; [`SessionError::Threads`](crate::SessionError::Threads).
pub fn start(
    device: &str,
    dtype: &str,
    threads: Option<NonZero<usize>>,
    kept: Option<&Path>,
) -> Result<Started, Error> {
    let dtype: Dtype = dtype.parse()?;
    let (device, mut notices) = Device::open(device)?;
    start_threads(threads)?;
    // Set the folder first: the backend reads its settings only once.
    let kernels = kernels::keep(kept, device);
    let engine = Engine { device, dtype: dtype.resolve(device)? };
    notices.extend(kernels.notice.clone());
    Ok(Started { engine, kernels, notices })
}

/// Starts the threads of the CPU: as many as `wanted`, or the default.
#[cfg(feature = "cpu")]
fn start_threads(wanted: Option<NonZero<usize>>) -> Result<(), Error> {
    use acestep_engine::threads;

    let count = wanted.unwrap_or_else(threads::default_threads);
    threads::start_threads(count)
        .map_err(|error| crate::SessionError::Threads { count, source: error.into() }.into())
}

/// Starts nothing: without kernels for CPUs there are no threads that compute.
#[cfg(not(feature = "cpu"))]
fn start_threads(_: Option<NonZero<usize>>) -> Result<(), Error> {
    Ok(())
}

/// Returns the notice for `models` whose kernels must be compiled.
pub fn first_run(kernels: &Kernels, engine: Engine, models: &[impl AsRef<str>]) -> Option<Notice> {
    let models = models.iter().map(AsRef::as_ref);
    let new: Vec<&str> = models.filter(|model| kernels.lacks(model, engine.dtype)).collect();
    if new.is_empty() {
        return None;
    }
    let later = match kernels.folder {
        Some(_) => "; later runs with it, for songs of about this length, start at once",
        None => "",
    };
    Some(Notice(format!(
        "first run of {} in {} on {}: kernels are compiled and tuned, which may take minutes{later}",
        new.join(" and "),
        dtype::name(engine.dtype),
        engine.device
    )))
}

/// Records that `models` have completed a run.
pub fn remember(kernels: &Kernels, engine: Engine, models: &[impl AsRef<str>]) {
    models.iter().for_each(|model| kernels.remember(model.as_ref(), engine.dtype));
}

#[cfg(test)]
mod tests {
    use burn::tensor::DType;

    use super::*;

    #[test]
    fn a_first_run_is_said_for_each_model_and_type_until_it_has_been_through() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = Some(folder.path().to_owned());
        let kernels = Kernels { folder: path, ..Kernels::default() };
        let engine = |dtype| Engine { device: Device::Cuda(0), dtype };
        let said = |dtype, models: &[&str]| {
            first_run(&kernels, engine(dtype), models).map(|notice| notice.0)
        };
        let text = said(DType::BF16, &["turbo", "lm-0.6b"]).expect("a note");
        assert!(text.starts_with("first run of turbo and lm-0.6b in bf16 on cuda:0: "), "{text}");
        assert!(text.ends_with(" start at once"), "{text}");
        remember(&kernels, engine(DType::BF16), &["turbo", "lm-0.6b"]);
        assert_eq!(said(DType::BF16, &["lm-0.6b", "turbo"]), None);
        let text = said(DType::BF16, &["base", "lm-0.6b"]).expect("a note");
        assert!(text.starts_with("first run of base in bf16"), "{text}");
        let text = said(DType::F32, &["tiny"]).expect("a note");
        assert!(text.starts_with("first run of tiny in f32"), "{text}");
    }

    #[test]
    fn nothing_is_promised_of_kernels_that_are_not_kept() {
        let kernels = Kernels { is_first: true, ..Kernels::default() };
        let engine = Engine { device: Device::Wgpu(0), dtype: DType::F32 };
        remember(&kernels, engine, &["turbo"]);
        let text = first_run(&kernels, engine, &["turbo"]).expect("a note").0;
        assert!(text.ends_with("which may take minutes"), "{text}");
        // The CPU's kernels are part of the program.
        assert_eq!(first_run(&Kernels::default(), engine, &["turbo"]), None);
    }
}
