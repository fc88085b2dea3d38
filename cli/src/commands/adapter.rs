//! `acestep adapter show`: the contents of a LoRA or similar adapter, and its fit to a model.

use std::process::ExitCode;

use acestep_engine::error::counted;
use acestep_import::{Adapter, Layout};
use anyhow::Result;
use burn::tensor::DType;
use serde_json::{Value, json};

use crate::{
    args::{Global, adapter::Command},
    settings,
};

pub(crate) fn run(command: &Command, global: &Global) -> Result<ExitCode> {
    let Command::Show { path, model: wanted, json } = command;
    let report = global.report();
    let layout = settings::layout();
    let adapter = Adapter::find(path, &layout)?;
    let groups = adapter.groups();
    let mut notices = adapter.unused();
    let mut lines = vec![
        ("file", adapter.path().display().to_string()),
        ("kind", adapter.description()),
        (
            "size",
            format!(
                "{} numbers for {}",
                adapter.parameters(),
                counted(adapter.modules().count(), "weight")
            ),
        ),
        ("for", adapter.fits().to_owned()),
    ];
    for ((name, shape), count) in &groups {
        lines.push(("changes", format!("{count} x {name} {shape:?}")));
    }
    let mut model = Value::Null;
    if let Some(name) = wanted {
        let on = fit(&adapter, name, &layout)?;
        let percent = 100.0 * on.change;
        lines.push((
            "model",
            format!("{}: {} of {} weights, changed by {percent:.4} %", on.name, on.matched, on.all),
        ));
        model = json!({
            "name": on.name, "weights": on.matched, "weights_of_model": on.all,
            "change": on.change,
        });
        notices = on.notices;
    }
    for notice in &notices {
        report.note(notice);
    }
    if *json {
        let changes = groups.iter().map(
            |((name, shape), count)| json!({ "modules": name, "shape": shape, "count": count }),
        );
        let object = json!({
            "path": adapter.path().display().to_string(),
            "name": adapter.name(),
            "kind": adapter.kind(),
            "ranks": adapter.ranks().map(|(low, high)| [low, high]),
            "alphas": adapter.alphas().map(|(low, high)| [low, high]),
            "parameters": adapter.parameters(),
            "weights": adapter.modules().count(),
            "for": adapter.fits(),
            "changes": changes.collect::<Vec<_>>(),
            "model": model,
            "notices": notices,
        });
        report.output(&format!("{object:#}"))?;
    } else {
        let text: Vec<_> =
            lines.into_iter().map(|(what, text)| format!("{what:<10}{text}")).collect();
        report.output(&text.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Result of an adapter on a model.
struct On {
    name: String,
    matched: usize,
    all: usize,
    change: f64,
    notices: Vec<String>,
}

/// Measures `adapter`, with strength 1, on the model `name`.
fn fit(adapter: &Adapter, name: &str, layout: &Layout) -> Result<On> {
    let mut folder = acestep_import::open(name, layout)?;
    folder.adapt(vec![(adapter.clone(), 1.0)])?;
    folder.measure_adapters(DType::F32)?;
    let fitted = folder.adapters().and_then(|adapters| adapters.list().first());
    let Some((fitted, change)) = fitted.and_then(|fitted| Some((fitted, fitted.change()?))) else {
        anyhow::bail!("the adapter `{}` was not measured", adapter.path().display());
    };
    let (matched, all) = fitted.matched();
    let (name, notices) = (folder.name().to_owned(), fitted.notices());
    Ok(On { name, matched, all, change, notices })
}
