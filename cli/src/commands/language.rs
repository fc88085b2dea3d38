//! Shared code of the commands that use the language model: find, run, report.

use std::{path::Path, sync::Arc};

use acestep_engine::{Engine, Error, Notice, Observe, on_engine};
use acestep_import::{Format, LanguageModelDir, Layout, Origin, built_in};
use acestep_music::lm::{
    self, Held,
    compose::{self, Composed, Timing, Understood},
    constrain::genres::GenreVocabulary,
    settings::Settings,
};
use anyhow::Result;
use serde_json::{Value, json};

use super::text::{read_file, utf8};
use crate::{progress, settings as environment};

/// Opens the language model: `choice`, else the one of the built-in `model`, else the configured
/// one, else the first that is installed. Compares its headers with the network; reads no weight.
pub(crate) fn open(
    choice: Option<&str>,
    model: &str,
    layout: &Layout,
    engine: Engine,
) -> Result<LanguageModelDir> {
    let configured = environment::lm_model();
    let choice = choice.or(built_in(model).map(|model| model.name)).or(configured.as_deref());
    let folder = acestep_import::open_language_model(choice, layout)?;
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
pub(crate) fn whose(origin: &Origin) -> String {
    match origin.format {
        Format::Released | Format::BuiltIn => String::new(),
        _ => format!(": {origin}"),
    }
}

/// Returns a notice if `used` replaces the GGUF file that `choice` names.
pub(crate) fn in_place_of(choice: Option<&str>, used: &Path) -> Option<Notice> {
    let choice = choice.filter(|choice| choice.ends_with(".gguf"))?;
    let is_it = used.file_name() == Path::new(choice).file_name();
    (!is_it && !choice.contains(['/', '\\'])).then(|| {
        let used = used.display();
        Notice(format!("`{choice}` is not here: `{used}`, the same model, is used in its place"))
    })
}

/// Converts notices about model files.
pub(crate) fn of_files(notices: Vec<String>) -> impl Iterator<Item = Notice> {
    notices.into_iter().map(Notice)
}

/// Returns the label of its kernels; needed because a built-in language model shares its name with
/// a model.
pub(crate) fn label(folder: &LanguageModelDir) -> String {
    format!("{} {}", lm::NAME, folder.name())
}

/// Completes many requests, each with its own observer; loads the model once. A failed request does
/// not stop the others.
pub(crate) fn compose_all(
    jobs: &[(compose::Composing<'_>, progress::Of<'_>)],
    folder: &LanguageModelDir,
    engine: Engine,
) -> Result<Vec<Result<Composed, Error>>, Error> {
    on_engine!(engine,
    for<'a>(jobs: &'a [(compose::Composing<'a>, progress::Of<'a>)], folder: &'a LanguageModelDir)
        -> Vec<Result<Composed, Error>>,
    |place: B| {
        if let [(job, observe)] = jobs {
            return vec![compose::compose::<B>(job, folder, &place, observe)];
        }
        let held = Held::<B>::new(folder);
        let composed = jobs.iter().map(|(job, observe)| {
            compose::compose::<B>(job, &held, &place, observe)
        });
        composed.collect()
    })
}

/// Describes codes with the language model.
pub(crate) fn understand(
    codes: &[u32],
    settings: &Settings,
    genres: Option<Arc<GenreVocabulary>>,
    folder: &LanguageModelDir,
    engine: Engine,
    observe: &dyn Observe,
) -> Result<Understood, Error> {
    on_engine!(engine,
    for<'a>(codes: &'a [u32], settings: &'a Settings, genres: Option<Arc<GenreVocabulary>>,
            folder: &'a LanguageModelDir, observe: &'a dyn Observe)
        -> Result<Understood, Error>,
    |place: B| {
        compose::understand::<B>(codes, settings, genres, folder, &place, observe)
    })?
}

/// Reads genres, one per line; empty lines and `# comments` are skipped.
pub(crate) fn read_genres(path: &Path) -> Result<Arc<GenreVocabulary>> {
    let text = utf8(read_file(path)?, &format!("`{}`", path.display()))?;
    let genres = GenreVocabulary::parse(&text);
    if genres.is_empty() {
        let message = format!("`{}` names no genre", path.display());
        let hint = "write one genre a line, such as lo-fi hip hop";
        return Err(crate::error::CliError::new(message).hint(hint).into());
    }
    Ok(Arc::new(genres))
}

/// Returns the language model as JSON, with its timing after a run.
pub(crate) fn to_json(
    folder: &LanguageModelDir,
    writes_codes: bool,
    timing: Option<&Timing>,
) -> Value {
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
