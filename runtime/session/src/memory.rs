//! Checks before loading whether a run fits into memory.

use acestep_engine::{
    Device, DeviceTarget, Engine, Error,
    device::{
        dtype::of_others,
        memory::{self, MemoryNeed, bytes_of},
    },
    machine,
};
use acestep_import::{AceStep, LanguageModelDir, PartSize};
use acestep_music::{
    LmSettings,
    needs::{self, ModelSizes},
};

use crate::SessionError;

/// Returns the sizes that the needs of a model's networks are computed from.
pub fn sizes(folder: &AceStep, engine: Engine) -> ModelSizes<'_> {
    let parameters =
        |network| folder.size(network).map(|size| size.parameters).map_err(Error::checkpoint);
    let device = engine.device;
    let target = DeviceTarget { device, memory: machine::memory_of(device) };
    ModelSizes::new(folder.configs(), parameters, engine.widths(), target)
}

/// Returns the needs of the language model's text stage, and of its code stage if `writes_codes`.
/// `prompt` is the prompt length in tokens, and `seconds` the song length if it is known.
///
/// # Errors
/// [`Error::Checkpoint`].
pub fn language(
    folder: &LanguageModelDir,
    settings: &LmSettings,
    prompt: usize,
    seconds: Option<f64>,
    writes_codes: bool,
    engine: Engine,
) -> Result<Vec<MemoryNeed>, Error> {
    let size = folder.size().map_err(Error::checkpoint)?.parameters;
    let (config, widths) = (folder.config(), engine.widths());
    Ok(needs::composition(config, size, settings, prompt, seconds, writes_codes, widths))
}

/// Returns the parameters of a network, and true if its tables are read in their file.
pub(crate) fn with_tables(size: PartSize, engine: Engine) -> (u64, bool) {
    let bytes = bytes_of(of_others(engine.dtype)) * size.parameters;
    (size.parameters, engine.device == Device::Cpu && size.file_bytes == bytes)
}

/// [`check`] for networks of speech, which all stay in memory.
///
/// # Errors
/// [`SessionError::SpeechTooLarge`].
pub(crate) fn check_speech(needs: &[MemoryNeed], engine: Engine) -> Result<(), Error> {
    check(needs, true, engine).map_err(|error| SessionError::SpeechTooLarge(Box::new(error)).into())
}

/// Refuses a run that cannot fit.
///
/// # Errors
/// The need, the available memory, and a remedy.
pub fn check(needs: &[MemoryNeed], kept: bool, engine: Engine) -> Result<(), Error> {
    let name = match engine.device {
        Device::Cpu => "this machine".to_owned(),
        device => device.to_string(),
    };
    memory::check(needs, kept, &machine::memory_of(engine.device), &name)
}
