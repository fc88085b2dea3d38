//! `acestep adapter show`: the contents of a LoRA or similar adapter, and its fit to a model.

use acestep_import::Adapter;
use acestep_session::adapter::{self, Fit};
use anyhow::{Context, Result};

use crate::{
    args::{Global, adapter::Command},
    report, settings,
};

pub(crate) fn run(command: &Command, global: &Global) -> Result<()> {
    let Command::Show { path, model, json } = command;
    let report = global.report();
    let layout = settings::layout();
    let adapter = Adapter::find(path, &layout)?;
    let fit = |name: &String| -> Result<Fit> {
        let path = adapter.path().display();
        let fit = adapter::fit(&adapter, name, &layout)?;
        fit.with_context(|| format!("the adapter `{path}` was not measured"))
    };
    let fit = model.as_ref().map(fit).transpose()?;
    let notices = fit.as_ref().map_or_else(|| adapter.unused(), |fit| fit.notices.clone());
    notices.iter().for_each(|notice| report.note(notice));
    let mut object = adapter::to_json(&adapter, fit.as_ref());
    object["notices"] = notices.into();
    let lines = adapter::lines(&adapter, fit.as_ref()).into_iter();
    let lines: Vec<_> = lines.map(|(what, text)| format!("{what:<10}{text}")).collect();
    report::result(*json, &object, lines.join("\n") + "\n")
}
