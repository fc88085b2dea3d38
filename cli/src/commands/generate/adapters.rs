//! Adapters of a run: from flags to changed weights, and their description as text and JSON.

use std::path::absolute;

use acestep_engine::Notice;
use acestep_import::{AceStep, Adapter, Fitted, Layout};
use acestep_music::Request;
use anyhow::Result;
use serde_json::{Value, json};

use super::describe::counted;
use crate::commands::adapter::kind;

/// Opens the adapters of `request` and applies them to `folder`. The request then names them by
/// absolute paths.
///
/// # Errors
/// Errors of the files; an adapter that does not fit the model.
pub(super) fn fit(
    request: &mut Request,
    folder: &mut AceStep,
    layout: &Layout,
) -> Result<Vec<Notice>> {
    let chosen = request.compute.adapters()?;
    if chosen.is_empty() {
        return Ok(vec![]);
    }
    let mut adapters = Vec::new();
    for (name, scale) in chosen {
        adapters.push((Adapter::find(&name, layout)?, scale));
    }
    let place = |(adapter, _): &(Adapter, f64)| {
        let path = adapter.path();
        absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
    };
    request.compute.adapter = Some(adapters.iter().map(place).collect());
    folder.adapt(adapters)?;
    Ok(list(folder).iter().flat_map(Fitted::notices).map(Notice).collect())
}

fn list(folder: &AceStep) -> &[Fitted] {
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
        let change = fitted.change().map(|x| format!(", {}", by(x))).unwrap_or_default();
        format!(
            "{} ({}): {}, scale {}, {matched} of {all} weights{change}",
            fitted.adapter().name(),
            fitted.path().display(),
            kind(fitted.adapter()),
            fitted.scale()
        )
    };
    list(folder).iter().map(line).collect()
}

/// Returns a text such as `changed by 1.23 %`.
fn by(change: f64) -> String {
    if change == 0.0 {
        return "not changed at all".to_owned();
    }
    let percent = 100.0 * change;
    let digits = if percent < 0.1 { 4 } else { 2 };
    format!("changed by {percent:.digits$} %")
}

/// Returns the effect of each adapter after the network was loaded, and notices about problems.
pub(super) fn outcome(folder: &AceStep) -> (Vec<String>, Vec<Notice>) {
    let mut said = Vec::new();
    let mut notices = Vec::new();
    for fitted in list(folder) {
        let Some(change) = fitted.change() else { continue };
        let name = fitted.adapter().name();
        let matched = fitted.matched().0;
        said.push(format!("adapter {name}: {} {}", counted(matched, "weight"), by(change)));
        // What its own settings make of it was said before.
        if change == 0.0 && fitted.scale() != 0.0 && !fitted.adapter().is_silent() {
            notices.push(Notice(format!(
                "the adapter {name} changes nothing: all its changes are zero, as before training"
            )));
        }
    }
    // If less than half of the change survives, the result is not the trained adapter.
    if let Some(arrived) = folder.adapters().and_then(|of| of.arrived()).filter(|of| *of < 0.5) {
        notices.push(Notice(format!(
            "only {:.0} % of the adapters' change survives the rounding of this type; with \
             --dtype f32 all of it does",
            100.0 * arrived
        )));
    }
    (said, notices)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_said_in_percent() {
        assert_eq!(by(0.0123), "changed by 1.23 %");
        assert_eq!(by(0.000_123), "changed by 0.0123 %");
        assert_eq!(by(0.0), "not changed at all");
    }
}
