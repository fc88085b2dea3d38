//! Adapters of a run: from names to changed weights, and their description as text and JSON.

use std::path::absolute;

use acestep_engine::{Error, Notice};
use acestep_import::{AceStep, Adapter, Adapters, Fitted, Layout};
use acestep_music::Request;
use serde_json::{Value, json};

/// Opens the adapters of `request`, each with its scale. The request then names them by absolute
/// paths.
///
/// # Errors
/// [`Error::Checkpoint`]; wrong scales.
pub fn find(request: &mut Request, layout: &Layout) -> Result<Vec<(Adapter, f64)>, Error> {
    let mut adapters = Vec::new();
    for (name, scale) in request.compute.adapters()? {
        adapters.push((Adapter::find(&name, layout).map_err(Error::checkpoint)?, scale));
    }
    if adapters.is_empty() {
        return Ok(adapters);
    }
    let place = |(adapter, _): &(Adapter, f64)| {
        let path = adapter.path();
        absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
    };
    request.compute.adapter = Some(adapters.iter().map(place).collect());
    Ok(adapters)
}

/// Applies adapters to `folder`, and returns notices about them.
///
/// # Errors
/// [`Error::Checkpoint`].
pub fn fit(adapters: Vec<(Adapter, f64)>, folder: &mut AceStep) -> Result<Vec<Notice>, Error> {
    if adapters.is_empty() {
        return Ok(vec![]);
    }
    folder.adapt(adapters).map_err(Error::checkpoint)?;
    Ok(list(folder).iter().flat_map(Fitted::notices).map(Notice).collect())
}

pub(super) fn list(folder: &AceStep) -> &[Fitted] {
    folder.adapters().map_or(&[], |adapters| adapters.list())
}

/// Returns ` + voice (0.8) + drums`, to follow the name of the model.
pub(super) fn names(folder: &AceStep) -> String {
    let name = |fitted: &Fitted| match fitted.scale() {
        1.0 => format!(" + {}", fitted.adapter().name()),
        scale => format!(" + {} ({scale})", fitted.adapter().name()),
    };
    list(folder).iter().map(name).collect()
}

/// Returns one line per adapter.
pub(super) fn lines(folder: &AceStep) -> Vec<String> {
    let line = |fitted: &Fitted| {
        let (matched, all) = fitted.matched();
        let change = fitted.effect().map(|effect| format!(", {effect}")).unwrap_or_default();
        format!(
            "{} ({}): {}, scale {}, {matched} of {all} weights{change}",
            fitted.adapter().name(),
            fitted.path().display(),
            fitted.adapter().description(),
            fitted.scale()
        )
    };
    list(folder).iter().map(line).collect()
}

/// Returns the effect of each adapter after the network was loaded, and notices about problems.
pub fn outcome(folder: &AceStep) -> (Vec<String>, Vec<Notice>) {
    let (said, notices) = folder.adapters().map(Adapters::outcome).unwrap_or_default();
    (said, notices.into_iter().map(Notice).collect())
}

/// Returns the adapters as a list; `change` is null until the network was loaded.
pub(super) fn to_json(folder: &AceStep) -> Value {
    let object = |fitted: &Fitted| {
        let adapter = fitted.adapter();
        let (matched, all) = fitted.matched();
        json!({
            "name": adapter.name(),
            "path": fitted.path().display().to_string(),
            "kind": adapter.kind(),
            "ranks": adapter.ranks().map(|(low, high)| [low, high]),
            "alphas": adapter.alphas().map(|(low, high)| [low, high]),
            "scale": fitted.scale(),
            "weights": matched,
            "weights_of_model": all,
            "unmatched": fitted.unmatched(),
            "change": fitted.change(),
        })
    };
    list(folder).iter().map(object).collect()
}
