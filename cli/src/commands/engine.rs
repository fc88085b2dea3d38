//! Creates the engine from `--device` and `--dtype`, with its folder of kernels.

use acestep_engine::{
    Device, Engine, Notice,
    device::{
        Dtype, dtype,
        kernels::{self, Kernels},
    },
};
use anyhow::Result;

use crate::{args::device::Where, settings};

/// Notice for a GPU without any stored kernels.
const FIRST_RUN: &str = "first run on this device: its kernels are compiled and tuned, which may take \
     minutes; later runs of the same start at once";

/// An engine, and the folder of its kernels.
pub(crate) struct Started {
    pub(crate) engine: Engine,
    pub(crate) kernels: Kernels,
    pub(crate) notices: Vec<Notice>,
}

/// Selects device and type, before anything else is read. Starts no device.
pub(crate) fn start(place: &Where) -> Result<Started> {
    let dtype: Dtype = place.dtype.parse()?;
    let (device, mut notices) = Device::open(&place.device)?;
    #[cfg(feature = "cpu")]
    start_threads(place.threads)?;
    // Set the folder first: the backend reads its settings only once.
    let kernels = kernels::keep(settings::kernels_dir().as_deref(), device);
    let engine = Engine { device, dtype: dtype.resolve(device)? };
    notices.extend(kernels.notice.clone());
    Ok(Started { engine, kernels, notices })
}

/// Starts the threads of the CPU: as many as typed, as set, or the default.
#[cfg(feature = "cpu")]
fn start_threads(typed: Option<std::num::NonZero<usize>>) -> Result<()> {
    use acestep_engine::threads;

    use crate::cli_error::CliError;

    let wanted = typed.or_else(settings::threads).unwrap_or_else(threads::default_threads);
    threads::start_threads(wanted).map_err(|error| {
        let message = format!("{wanted} threads for computing cannot be started");
        let hint = "ask for fewer threads with --threads, or close other programs";
        CliError::new(message).because(error).hint(hint).into()
    })
}

/// Like [`start`], for networks that belong to no model.
pub(crate) fn open(place: &Where) -> Result<(Engine, Vec<Notice>)> {
    let Started { engine, kernels, mut notices } = start(place)?;
    if kernels.is_first {
        notices.push(Notice(FIRST_RUN.into()));
    }
    Ok((engine, notices))
}

/// Returns the notice for `models` whose kernels must be compiled.
pub(crate) fn first_run(
    kernels: &Kernels,
    engine: Engine,
    models: &[impl AsRef<str>],
) -> Option<Notice> {
    let models = models.iter().map(AsRef::as_ref);
    let new: Vec<&str> = models.filter(|model| kernels.lacks(model, engine.dtype)).collect();
    if new.is_empty() {
        return None;
    }
    let later = match kernels.folder {
        Some(_) => {
            "; later runs with it, for songs of about this length, start at once, and `acestep \
             warmup` does it ahead"
        }
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
pub(crate) fn remember(kernels: &Kernels, engine: Engine, models: &[impl AsRef<str>]) {
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
        assert!(text.ends_with("`acestep warmup` does it ahead"), "{text}");
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
