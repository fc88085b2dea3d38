//! Kept voices: made from recordings.

use acestep_engine::{Audio, Engine, Error, Observe, on_engine};
use acestep_import::{Layout, Qwen3Tts, SPEECH_MODELS};
use acestep_model::speech::qwen3_tts::Files as _;
use acestep_speech::{
    Options,
    qwen3_tts::{KeptVoice, Networks, Plan, Request, Voice, check_request, language_of},
};

use super::check_memory;
use crate::SessionError;

/// Text of the prompt from which the state of a voice is taken; the state does not depend on it.
const ANY_TEXT: &str = ".";

/// The longest recording of a kept voice: its state grows with it.
const MOST_SECONDS: f64 = 120.0;

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

/// Refuses a model that does not fit into memory while it keeps the voice of a recording and its words.
///
/// # Errors
/// The errors of [`check_memory`].
pub(super) fn check_keep(
    (recording, transcript): (&Audio, Option<&str>),
    model: &Qwen3Tts,
    engine: Engine,
) -> Result<(), Error> {
    let options = Options { batch_size: 1, ..Options::default() };
    let recorded = Some((recording.seconds(), transcript.is_some()));
    check_memory(model, engine, options, MOST_SECONDS as usize * 13, recorded)
}

/// Refuses a recording that would make a kept voice too large.
///
/// # Errors
/// [`SessionError::LongRecording`].
pub(super) fn check_recording(recording: &Audio) -> Result<(), Error> {
    match recording.seconds() > MOST_SECONDS {
        true => Err(SessionError::LongRecording { most: MOST_SECONDS }.into()),
        false => Ok(()),
    }
}

/// Makes a kept voice of a recording and its words.
///
/// # Errors
/// The errors of [`Voice::of_recording`] and [`KeptVoice::new`]; [`Error::NoDevice`].
pub(super) fn keep(
    request: &Request,
    (recording, transcript): (&Audio, Option<&str>),
    model: &Qwen3Tts,
    engine: Engine,
    observe: &dyn Observe,
) -> Result<KeptVoice, Error> {
    on_engine!(engine,
    for<'a>(request: &'a Request, recording: &'a Audio, transcript: Option<&'a str>,
            model: &'a Qwen3Tts, observe: &'a dyn Observe)
        -> Result<KeptVoice, Error>,
    |place: B| {
        model.check::<B>(&place.device).map_err(Error::checkpoint)?;
        let networks = Networks::<B>::new(model, place);
        let voice = Voice::of_recording(recording, transcript, &networks, observe)?;
        let plan = Plan::new(request, Some(voice), 0, model)?;
        let language = request.language.as_deref().unwrap_or("auto");
        KeptVoice::new(&plan, language, recording.seconds(), &networks)
    })?
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
