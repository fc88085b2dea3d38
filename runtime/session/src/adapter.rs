//! A LoRA or similar adapter, in words and as JSON, and its fit to a model.

use acestep_engine::error::counted;
use acestep_import::{Adapter, Error, Layout};
use burn::tensor::DType;
use serde_json::{Value, json};

/// An adapter on a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The name of the model.
    pub name: String,
    /// Weights of the model that the adapter changes.
    pub matched: usize,
    /// All its weights that an adapter may change.
    pub all: usize,
    /// The share by which they change.
    pub change: f64,
    /// Notices about modules that do not fit.
    pub notices: Vec<String>,
}

/// Measures `adapter`, with strength 1, on the model `name`; `None` if there is nothing to measure.
///
/// # Errors
/// If the model or the adapter cannot be read, or the adapter does not fit.
pub fn fit(adapter: &Adapter, name: &str, layout: &Layout) -> Result<Option<Fit>, Error> {
    let mut folder = acestep_import::open(name, layout)?;
    folder.adapt(vec![(adapter.clone(), 1.0)])?;
    folder.measure_adapters(DType::F32)?;
    let fitted = folder.adapters().and_then(|adapters| adapters.list().first());
    Ok(fitted.and_then(|fitted| {
        let (change, (matched, all)) = (fitted.change()?, fitted.matched());
        let (name, notices) = (folder.name().to_owned(), fitted.notices());
        Some(Fit { name, matched, all, change, notices })
    }))
}

/// Describes `adapter`, one subject per line.
pub fn lines(adapter: &Adapter, fit: Option<&Fit>) -> Vec<(&'static str, String)> {
    let weights = counted(adapter.modules().count(), "weight");
    let mut lines = vec![
        ("file", adapter.path().display().to_string()),
        ("kind", adapter.description()),
        ("size", format!("{} numbers for {weights}", adapter.parameters())),
        ("for", adapter.fits().to_owned()),
    ];
    for ((name, shape), count) in &adapter.groups() {
        lines.push(("changes", format!("{count} x {name} {shape:?}")));
    }
    if let Some(Fit { name, matched, all, change, .. }) = fit {
        let percent = 100.0 * change;
        let text = format!("{name}: {matched} of {all} weights, changed by {percent:.4} %");
        lines.push(("model", text));
    }
    lines
}

/// Describes `adapter` as an object.
pub fn to_json(adapter: &Adapter, fit: Option<&Fit>) -> Value {
    let groups = adapter.groups();
    let changes = groups
        .iter()
        .map(|((name, shape), count)| json!({ "modules": name, "shape": shape, "count": count }));
    let model = fit.map(|Fit { name, matched, all, change, .. }| {
        json!({ "name": name, "weights": matched, "weights_of_model": all, "change": change })
    });
    json!({
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
    })
}
