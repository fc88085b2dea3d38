//! Kept voices: made from recordings.

use acestep_engine::{Engine, Error, Observe, on_engine};
use acestep_import::{Layout, Qwen3Tts, SPEECH_MODELS};
use acestep_model::speech::qwen3_tts::Files as _;
use acestep_speech::{
    Options,
    qwen3_tts::{KeptVoice, Networks, Plan, Request, check_request, language_of},
};

use super::{
    super::{PreparedVoice, VoiceFile},
    check_memory,
    voice::{MOST_SECONDS, VoiceSource},
};

/// Text of the prompt from which the state of a voice is taken; the state does not depend on it.
const ANY_TEXT: &str = ".";

/// Opens the first installed base model.
///
/// # Errors
/// [`Error::Checkpoint`], which tells how to get one.
pub(in super::super) fn first_base(layout: &Layout) -> Result<Qwen3Tts, Error> {
    // A damaged one is told, and no other one is taken in its place.
    let here = base_here(layout).unwrap_or("qwen3-tts-0.6b-base");
    Qwen3Tts::find(Some(here), layout).map_err(Error::checkpoint)
}

/// Returns the name of the first installed base model.
pub(in super::super) fn base_here(layout: &Layout) -> Option<&'static str> {
    let mut base = SPEECH_MODELS.iter().filter(|model| model.name.ends_with("-base"));
    base.find(|own| layout.has(own)).map(|own| own.name)
}

/// Returns the request that a kept voice is made with, after a check that `model` takes it.
///
/// # Errors
/// The errors of [`check_request`].
pub(super) fn keep_request(language: Option<String>, model: &Qwen3Tts) -> Result<Request, Error> {
    // The file names the language as the model does.
    let own = |typed: String| language_of(&typed, model.config()).map_or(typed, str::to_owned);
    let language = language.map(own);
    let request = Request { text: ANY_TEXT.to_owned(), language, ..Request::default() };
    check_request(&request, true, model)?;
    Ok(request)
}

/// A recording whose voice will be kept.
pub(super) struct Recording<'a> {
    model: &'a Qwen3Tts,
    request: Request,
    source: VoiceSource,
}

impl<'a> Recording<'a> {
    /// The voice of `source`, a recording, for `request`: see [`keep_request`].
    ///
    /// # Errors
    /// The errors of [`check_memory`].
    pub(super) fn new(
        model: &'a Qwen3Tts,
        request: Request,
        source: VoiceSource,
        engine: Engine,
    ) -> Result<Self, Error> {
        let options = Options { batch_size: 1, ..Options::default() };
        check_memory(model, engine, options, MOST_SECONDS as usize * 13, source.recorded())?;
        Ok(Self { model, request, source })
    }
}

impl PreparedVoice for Recording<'_> {
    fn keep(&self, engine: Engine, observe: &dyn Observe) -> Result<Box<dyn VoiceFile>, Error> {
        let recording = self;
        let kept = on_engine!(engine,
        for<'a>(recording: &'a Recording<'a>, observe: &'a dyn Observe) -> Result<KeptVoice, Error>,
        |place: B| {
            let Recording { model, request, source } = recording;
            model.check::<B>(&place.device).map_err(Error::checkpoint)?;
            let networks = Networks::<B>::new(*model, place);
            let plan = Plan::new(request, source.load(&networks, observe)?.voice, 0, *model)?;
            let language = request.language.as_deref().unwrap_or("auto");
            let (seconds, _) = source.recorded().expect("the source is a recording");
            KeptVoice::new(&plan, language, seconds, &networks)
        })??;
        Ok(Box::new(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_model_that_is_damaged_is_told_and_not_the_lack_of_another() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("Qwen3-TTS-12Hz-1.7B-Base")).expect("a folder");
        let error = first_base(&Layout::new([folder.path().to_owned()])).expect_err("no model");
        assert!(error.to_string().contains("1.7B-Base"), "{error}");
    }
}
