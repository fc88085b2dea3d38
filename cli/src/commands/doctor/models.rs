//! Checks which released models are installed, found as `generate` finds them.

use std::path::Path;

use acestep_import::{
    DIALOGUE_MODELS, Error, MAGPIE_MODELS, ModelFormat, Origin, SPEECH_MODELS,
    acestep::{LANGUAGE_MODELS, MODELS},
};
use acestep_session::doctor::{Check, Status};
use serde_json::json;

use crate::{hint, settings};

/// Returns one check for each installed model, and one for all others.
pub(super) fn all() -> Vec<Check> {
    let (dir, layout) = (settings::models_dir(), settings::layout());
    let mut checks = Vec::new();
    let mut absent = Vec::new();
    let songs = MODELS.iter().chain(&LANGUAGE_MODELS);
    let speech = SPEECH_MODELS.iter().chain(&DIALOGUE_MODELS).chain(&MAGPIE_MODELS);
    for model in songs.chain(speech) {
        if !layout.has(model) {
            absent.push(model.name);
            continue;
        }
        checks.push(match acestep_import::place_of(model, &layout) {
            Ok((path, origin)) => found(model.name, &path, &origin),
            Err(error) => broken(model.name, &error),
        });
    }
    if !absent.is_empty() {
        let place = dir.map_or("nowhere".into(), |dir| dir.display().to_string());
        let check = Check::new(Status::Missing, "model", "others", absent.join(", "))
            .with(json!({ "models_dir": place, "models": absent }));
        // If no model is installed, show how to get the first.
        let remedy = || hint::remedy(&acestep_import::open(MODELS[0].name, &layout).err()?);
        let hint = if checks.is_empty() { remedy() } else { None };
        checks.push(check.hint(hint));
    }
    checks
}

fn found(name: &str, path: &Path, origin: &Origin) -> Check {
    let detail = match origin.format {
        ModelFormat::Released => path.display().to_string(),
        _ => format!("{} ({origin})", path.display()),
    };
    let figures = json!({
        "path": path, "format": origin.format.to_string(), "types": origin.types,
    });
    Check::new(Status::Ok, "model", name, detail).with(figures)
}

fn broken(name: &str, error: &Error) -> Check {
    let first = error.to_string().lines().next().unwrap_or_default().to_owned();
    Check::new(Status::Broken, "model", name, first).hint(hint::remedy(error))
}
