//! `acestep config`: shows the settings and their sources, and writes a settings file.

use std::path::PathBuf;

use acestep_session::settings::{KEYS, SetBy, ValueType, explained};
use anyhow::Result;
use serde_json::{Value, json};

use super::text::write_bytes;
use crate::{
    args::{Global, config::Command, files::existing},
    environment,
    error::CliError,
    report::{self, Report},
    settings,
};

pub(crate) fn run(command: &Command, global: &Global) -> Result<()> {
    let report = global.report();
    match command {
        Command::Show { json } => show(*json, &report),
        Command::Path => Ok(report::path(&file(global)?)?),
        Command::Init { force } => {
            let path = file(global)?;
            let existing = existing(*force);
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory).map_err(|error| {
                    let message = format!("cannot make the directory `{}`", directory.display());
                    CliError::new(message).because(error).hint("name another file with --config")
                })?;
            }
            write_bytes(&path, template().as_bytes(), existing)?;
            Ok(report::path(&path)?)
        }
    }
}

/// Returns the path of the configuration file, even if it does not exist.
fn file(global: &Global) -> Result<PathBuf, CliError> {
    global.config.clone().or_else(settings::config_file).ok_or_else(|| {
        CliError::new("there is no home directory for a configuration")
            .hint("name a file with --config or ACESTEP_CONFIG")
    })
}

/// Prints all keys with value and origin, and the configured defaults of requests.
fn show(json: bool, report: &Report) -> Result<()> {
    let loaded = settings::loaded();
    let mut rows: Vec<(String, Value, SetBy)> = Vec::new();
    for key in &KEYS {
        let (value, origin) = match loaded.get(key.name) {
            Some(value) => (value.text.clone(), value.origin.clone()),
            None => (default_of(key.name).unwrap_or(key.default.to_owned()), SetBy::Default),
        };
        let value = match key.kind {
            ValueType::Flag => json!(value == "true"),
            _ => value.into(),
        };
        rows.push((key.name.to_owned(), value, origin));
    }
    if let Some(hub) = settings::hub() {
        let mut names = ["HF_HUB_CACHE", "HF_HOME"].into_iter();
        let origin = names.find(|name| environment::set(name).is_some());
        let origin = origin.map_or(SetBy::Default, |name| SetBy::Variable(name.to_owned()));
        rows.push(("hub".to_owned(), json!(hub.cache()), origin));
    }
    for (name, value) in loaded.of_requests() {
        rows.push((format!("request.{name}"), value.text.clone(), value.origin.clone()));
    }
    // Check now that the defaults can be used, not at the next song.
    loaded.check_requests()?;
    let (mut settings, mut lines) = (Vec::new(), Vec::new());
    for (key, value, origin) in &rows {
        settings.push(json!({ "key": key, "value": value, "origin": origin.to_string() }));
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        lines.push(format!("{key:<24} {value:<32} {origin}"));
    }
    let is_there = loaded.file.as_ref().is_some_and(|path| path.exists());
    let object = json!({ "file": loaded.file, "exists": is_there, "settings": settings });
    report::result(json, &object, lines.join("\n") + "\n")?;
    if let Some(path) = loaded.file.as_ref().filter(|_| !is_there && !json) {
        report.line(&format!("\nthere is no `{}`: acestep config init writes one", path.display()));
    }
    Ok(())
}

/// Returns a default that depends on the machine.
fn default_of(name: &str) -> Option<String> {
    let path = match name {
        "models_dir" => settings::models_dir()?,
        "cache_dir" => settings::kernels_dir()?.parent()?.to_owned(),
        _ => return None,
    };
    Some(path.display().to_string())
}

/// Returns the file that `config init` writes.
fn template() -> String {
    [BEGINNING, &explained(), END].concat()
}

/// Beginning of that file.
const BEGINNING: &str = "\
# Settings of acestep. A flag has priority over the variable of a key, and a variable
# over this file. `acestep config show` shows every value and its source.
";

/// End of that file.
const END: &str = "
# Defaults of songs that are made without --request. The keys are those of a request file,
# as --save-request writes it. Each is also a variable, such as ACESTEP_AUDIO_FORMAT.
[request]
# inference_steps = 8
# audio_format = \"flac\"
# vocal_language = \"en\"
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_can_be_read_as_it_is_and_so_can_the_lines_of_its_end() {
        let table: toml::Table = template().parse().expect("TOML");
        assert_eq!(table, "[request]".parse().expect("TOML"));
        let (_, lines) = END.split_once("[request]\n").expect("a section");
        let request: toml::Table = lines.replace("# ", "").parse().expect("TOML");
        assert_eq!(request["inference_steps"].as_integer(), Some(8));
    }
}
