//! `acestep adapter show`: the contents of a LoRA or similar adapter, and its fit to a model.

use std::{collections::BTreeMap, process::ExitCode};

use acestep_import::{Adapter, Layout};
use anyhow::Result;
use burn::tensor::DType;
use serde_json::{Value, json};

use crate::{
    args::{
        Global,
        adapter::{Args, Command, Show},
    },
    commands::generate::counted,
    settings,
};

/// Runs the command.
pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let Command::Show(show) = &args.command;
    let report = global.report();
    let layout = settings::layout();
    let adapter = Adapter::find(&show.path, &layout)?;
    let groups = groups(&adapter);
    let mut notices = adapter.unused();
    let mut lines = vec![
        ("file", adapter.path().display().to_string()),
        ("kind", kind(&adapter)),
        (
            "size",
            format!(
                "{} numbers for {}",
                adapter.parameters(),
                counted(adapter.modules().count(), "weight")
            ),
        ),
        ("for", fits(&adapter).to_owned()),
    ];
    for ((name, shape), count) in &groups {
        lines.push(("changes", format!("{count} x {name} {shape:?}")));
    }
    let mut model = Value::Null;
    if let Some(name) = &show.model {
        let on = fit(&adapter, name, show, &layout)?;
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
    if show.json {
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
            "for": fits(&adapter),
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
fn fit(adapter: &Adapter, name: &str, show: &Show, layout: &Layout) -> Result<On> {
    let mut folder = acestep_import::open(name, layout)?;
    folder.adapt(vec![(adapter.clone(), 1.0)])?;
    folder.measure_adapters(DType::F32)?;
    let fitted = folder.adapters().and_then(|adapters| adapters.list().first());
    let Some((fitted, change)) = fitted.and_then(|fitted| Some((fitted, fitted.change()?))) else {
        anyhow::bail!("the adapter `{}` was not measured", show.path);
    };
    let (matched, all) = fitted.matched();
    let (name, notices) = (folder.name().to_owned(), fitted.notices());
    Ok(On { name, matched, all, change, notices })
}

/// Returns a text such as `LoRA with DoRA, rank 16, alpha 32`.
pub(super) fn kind(adapter: &Adapter) -> String {
    let mut text = adapter.kind();
    match adapter.ranks() {
        Some((low, high)) if low == high => text += &format!(", rank {low}"),
        Some((low, high)) => text += &format!(", ranks {low} to {high}"),
        None => (),
    }
    match adapter.alphas() {
        // Print as f32, the stored type: 0.1 and not 0.10000000149011612.
        Some((low, high)) if low == high => text += &format!(", alpha {}", low as f32),
        Some((low, high)) => text += &format!(", alphas {} to {}", low as f32, high as f32),
        None => (),
    }
    text
}

/// Counts modules by shape and by name, with `*` for the layer number.
fn groups(adapter: &Adapter) -> BTreeMap<(String, Vec<usize>), usize> {
    let mut groups = BTreeMap::new();
    for (name, shape) in adapter.modules() {
        *groups.entry((without_layer(&name), shape.to_vec())).or_default() += 1;
    }
    groups
}

/// Replaces the number in `layers.3.mlp` or `layers_3_mlp` by `*`.
fn without_layer(name: &str) -> String {
    const LAYERS: &str = "layers";
    let Some(at) = name.find(LAYERS).map(|at| at + LAYERS.len() + 1) else {
        return name.to_owned();
    };
    let (before, rest) = name.split_at_checked(at).unwrap_or((name, ""));
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if after.len() == rest.len() { name.to_owned() } else { format!("{before}*{after}") }
}

/// Names the released models whose weights have matching sizes.
fn fits(adapter: &Adapter) -> &'static str {
    let has = |width: usize| adapter.modules().any(|(_, shape)| shape.contains(&width));
    // An XL model also has 2048 somewhere, because its condition is as wide as in the other models.
    if has(2560) {
        "the XL models (xl-turbo, xl-base, xl-sft), by its sizes"
    } else if has(2048) {
        "the models of 2B (turbo, base, sft and theirs), by its sizes"
    } else {
        "no released model, by its sizes"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_layer_is_left_out() {
        for (name, group) in [
            ("base_model.model.layers.12.mlp.up_proj", "base_model.model.layers.*.mlp.up_proj"),
            ("lycoris_layers_3_self_attn_q_proj", "lycoris_layers_*_self_attn_q_proj"),
            ("time_embed.linear_1", "time_embed.linear_1"),
            ("layers", "layers"),
        ] {
            assert_eq!(without_layer(name), group);
        }
    }
}
