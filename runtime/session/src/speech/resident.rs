//! Models of speech on a backend. Their networks and the state of their voices stay between requests.

use std::{rc::Rc, sync::Arc};

use acestep_engine::{Engine, Error, Notice, Observe};
use acestep_import::Layout;
use acestep_model::{Backend, Place};
use acestep_speech::Options;

use super::{Fields, Sink, SpeechInput, SpeechModel, dia2, magpie, qwen3_tts};

/// The most voices whose state stays in memory, and the most bytes of them.
pub(super) const VOICES: (usize, u64) = (8, 512 << 20);

/// Opens the model called `name` on a backend, and checks its files. Networks are loaded when they are
/// needed.
///
/// # Errors
/// [`Error::Checkpoint`].
pub fn open_on<B: Backend>(
    name: &str,
    layout: &Layout,
    place: Place<B>,
) -> Result<Rc<dyn SpeechOn<B>>, Error> {
    let mut fields = Fields::new();
    if let Some(model) = dia2::find(Some(name), &mut fields, layout) {
        return Ok(Rc::new(dia2::Resident::new(Arc::new(model?), place, true)?));
    }
    if let Some(model) = magpie::find(Some(name), &mut fields, layout) {
        return Ok(Rc::new(magpie::Resident::new(Arc::new(model?), place)?));
    }
    let model = qwen3_tts::find_with(Some(name), &mut fields, None, layout)?;
    Ok(Rc::new(qwen3_tts::Resident::new(Arc::new(model), place)?))
}

/// A model of speech with its networks, and with the state of the voices that it spoke with last.
pub trait SpeechOn<B: Backend> {
    /// The model.
    fn model(&self) -> &dyn SpeechModel;

    /// Loads the networks that every request needs.
    ///
    /// # Errors
    /// The errors of loading.
    fn load(&self) -> Result<(), Error>;

    /// Reads the files of a request and checks it, as [`SpeechModel::prepare`]. A voice whose state is in
    /// memory is not read again.
    ///
    /// # Errors
    /// An unusable field, voice or file.
    fn prepare(
        self: Rc<Self>,
        input: SpeechInput<'_>,
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn Ready>, Error>;
}

/// Speech that was checked.
pub trait Ready {
    /// Refuses a run that does not fit into memory.
    ///
    /// # Errors
    /// [`crate::SessionError::SpeechTooLarge`]; [`Error::Checkpoint`].
    fn check_memory(&self, engine: Engine, options: Options) -> Result<(), Error>;

    /// The request of the first text, with what the family decided.
    fn decided(&self) -> Fields;

    /// True if the state of the voice is in memory.
    fn has_voice(&self) -> bool;

    /// Brings the state of the voice into memory.
    ///
    /// # Errors
    /// The errors of the run.
    fn load_voice(&self, observe: &dyn Observe) -> Result<(), Error>;

    /// Speaks, and returns the notices of the texts. `more` is text that arrives meanwhile, for a model
    /// that can append.
    ///
    /// # Errors
    /// The errors of the run, of `more` and of `sink`.
    fn speak(
        &self,
        options: Options,
        more: Option<&mut dyn Arriving>,
        observe: &dyn Observe,
        sink: &mut dyn Sink,
    ) -> Result<Vec<Notice>, Error>;
}

/// Text that arrives while it is spoken.
pub trait Arriving {
    /// Waits for more text, which follows the text before it without a gap; none after the last one.
    ///
    /// # Errors
    /// [`Error::Cancelled`]; text that cannot be read.
    fn more(&mut self, observe: &dyn Observe) -> Result<Option<String>, Error>;
}

/// Refuses text that arrives, for a model that speaks whole texts.
pub(super) fn no_more(more: Option<&mut dyn Arriving>, model: &str) -> Result<(), Error> {
    match more {
        None => Ok(()),
        Some(_) => Err(Error::Conflict(format!("`{model}` takes no text while it speaks"))),
    }
}
