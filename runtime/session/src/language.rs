//! The language model alone: opened, asked, described.

use std::{path::Path, sync::Arc};

use acestep_engine::{Engine, Error, Notice, Observe, on_engine};
use acestep_import::{LanguageModelDir, Layout, ModelFormat, Origin, built_in};
use acestep_model::{Backend, LanguageCheckpoint, Place};
use acestep_music::{
    Composed, LmSettings, Understood,
    lm::{
        self, CachedModel,
        compose::{self, Composing, Timing},
        constrain::genres::GenreVocabulary,
    },
};
use serde_json::{Value, json};

/// The user's limits of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenLimits {
    /// The most tokens of an answer.
    pub max_tokens: Option<i64>,
    /// The most tokens of a prompt and its answer.
    pub max_seq: Option<i64>,
}

impl TokenLimits {
    /// Returns `settings` with these limits.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn bound(self, settings: LmSettings) -> Result<LmSettings, Error> {
        settings.bounded(self.max_tokens, self.max_seq)
    }
}

/// Selects a language model.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// The user's choice.
    pub asked: Option<&'a str>,
    /// The model of the sound; a built-in one has its own language model.
    pub model: &'a str,
    /// The choice if there is no other.
    pub configured: Option<&'a str>,
}

/// Opens the language model: the asked one, else the one of the built-in model, else the configured
/// one, else the first that is installed. Compares its headers with the network; reads no weight.
///
/// # Errors
/// [`Error::Checkpoint`]; [`Error::NoDevice`].
pub fn open(
    choice: Choice<'_>,
    layout: &Layout,
    engine: Engine,
) -> Result<LanguageModelDir, Error> {
    let Choice { asked, model, configured } = choice;
    let choice = asked.or(built_in(model).map(|model| model.name)).or(configured);
    let folder = acestep_import::open_language_model(choice, layout).map_err(Error::checkpoint)?;
    check(&folder, engine)?.map_err(Error::checkpoint)?;
    Ok(folder)
}

fn check(
    folder: &LanguageModelDir,
    engine: Engine,
) -> Result<Result<(), acestep_import::Error>, Error> {
    on_engine!(engine,
    for<'a>(folder: &'a LanguageModelDir) -> Result<(), acestep_import::Error>,
    |place: B| {
        folder.check::<B>(&place.device)?;
        // Report tokenizer errors before anything else is read.
        folder.tokenizer().map(drop)
    })
}

/// Returns `: GGUF, Q8_0` for files in another program's layout.
pub fn whose(origin: &Origin) -> String {
    match origin.format {
        ModelFormat::Released | ModelFormat::BuiltIn => String::new(),
        _ => format!(": {origin}"),
    }
}

/// Returns a notice if `used` replaces the GGUF file that `choice` names.
pub fn in_place_of(choice: Option<&str>, used: &Path) -> Option<Notice> {
    let choice = choice.filter(|choice| choice.ends_with(".gguf"))?;
    let is_it = used.file_name() == Path::new(choice).file_name();
    (!is_it && !choice.contains(['/', '\\'])).then(|| {
        let used = used.display();
        Notice(format!("`{choice}` is not here: `{used}`, the same model, is used in its place"))
    })
}

/// Returns the label of its kernels; needed because a built-in language model shares its name with
/// a model.
pub fn label(folder: &LanguageModelDir) -> String {
    format!("{} {}", lm::NAME, folder.name())
}

/// A request for the language model, and its observer.
pub type ComposeRun<'a> = (Composing<'a>, &'a dyn Observe);

/// Completes many requests; loads the model once. A failed request does not stop the others.
///
/// # Errors
/// [`Error::NoDevice`].
pub fn compose_all(
    runs: &[ComposeRun<'_>],
    folder: &LanguageModelDir,
    engine: Engine,
) -> Result<Vec<Result<Composed, Error>>, Error> {
    on_engine!(engine,
    for<'a>(runs: &'a [ComposeRun<'a>], folder: &'a LanguageModelDir)
        -> Vec<Result<Composed, Error>>,
    |place: B| {
        match runs {
            // The model of a single request need not stay.
            [_] => compose_all_with(runs, folder, &place),
            _ => compose_all_with(runs, &CachedModel::<B>::new(folder), &place),
        }
    })
}

/// As [`compose_all`], with the caller's language model: [`CachedModel`], to keep it.
pub fn compose_all_with<B: Backend>(
    runs: &[ComposeRun<'_>],
    language: &dyn LanguageCheckpoint<B>,
    place: &Place<B>,
) -> Vec<Result<Composed, Error>> {
    let composed =
        runs.iter().map(|(asked, observe)| compose::compose(asked, language, place, *observe));
    composed.collect()
}

/// Describes codes with the language model. [`compose::understand`] does it with the caller's.
///
/// # Errors
/// The errors of [`compose::understand`]; [`Error::NoDevice`].
pub fn understand(
    codes: &[u32],
    settings: &LmSettings,
    genres: Option<Arc<GenreVocabulary>>,
    folder: &LanguageModelDir,
    engine: Engine,
    observe: &dyn Observe,
) -> Result<Understood, Error> {
    on_engine!(engine,
    for<'a>(codes: &'a [u32], settings: &'a LmSettings, genres: Option<Arc<GenreVocabulary>>,
            folder: &'a LanguageModelDir, observe: &'a dyn Observe)
        -> Result<Understood, Error>,
    |place: B| {
        compose::understand::<B>(codes, settings, genres, folder, &place, observe)
    })?
}

/// Returns the language model as JSON, with its timing after a run.
pub fn to_json(folder: &LanguageModelDir, writes_codes: bool, timing: Option<&Timing>) -> Value {
    let mut object = json!({
        "model": folder.name(),
        "model_path": folder.directory().root().display().to_string(),
        "model_format": folder.origin().format.to_string(),
        "model_types": folder.origin().types,
        "writes_codes": writes_codes,
    });
    if let (Some(Value::Object(more)), Value::Object(object)) =
        (timing.map(timing_json), &mut object)
    {
        object.extend(more);
    }
    object
}

fn timing_json(timing: &Timing) -> Value {
    let rate = |tokens: usize, seconds: f64| (seconds > 0.0).then(|| tokens as f64 / seconds);
    let (text, codes) = (timing.text.as_secs_f64(), timing.codes.as_secs_f64());
    json!({
        "first_token": timing.first_token.as_secs_f64(),
        "text": text,
        "text_tokens": timing.text_tokens,
        "text_tokens_per_second": rate(timing.text_tokens, text),
        "codes": codes,
        "code_tokens": timing.code_tokens,
        "code_tokens_per_second": rate(timing.code_tokens, codes),
        "total": text + codes,
    })
}
