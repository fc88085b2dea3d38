//! `acestep voice`: keeps voices of recordings.

use std::collections::BTreeSet;

use acestep_engine::{Error, error::size};
use acestep_session::{
    SessionError, outputs,
    speech::{self, KeptVoiceInfo},
};
use acestep_speech::Voices;
use anyhow::Result;
use serde_json::json;

use super::{
    engine::{self, Started},
    text::{Stdin, spoken_or_file},
};
use crate::{
    args::{
        Global,
        voice::{Command, Make},
    },
    error::during,
    fields, interrupt,
    progress::Progress,
    report::{self, Report},
    settings,
};

/// Runs the command.
///
/// # Errors
/// If a name, a recording, a model, the device or a file is unusable. Errors carry a hint.
pub(crate) fn run(command: &Command, global: &Global) -> Result<()> {
    let report = global.report();
    match command {
        Command::Make(args) => make(args, &report),
        Command::List { json } => list(*json, &report),
        Command::Show { name, json } => show(name, *json),
        Command::Remove { names } => remove(names, &report),
    }
}

/// Returns the folder of kept voices.
pub(super) fn voices() -> Result<Voices, Error> {
    settings::voices_dir().map(Voices::new).ok_or_else(|| SessionError::NoVoices.into())
}

fn make(args: &Make, report: &Report) -> Result<()> {
    let voices = voices()?;
    let path = voices.path(&args.name)?;
    speech::check_name(&args.name, &settings::layout())?;
    voices.create()?;
    outputs::check(&path, settings::loaded().file.as_deref(), args.files.existing())?;
    let read = |text: &String| spoken_or_file("--transcript", text, &mut Stdin::default());
    let transcript = args.transcript.as_ref().map(read).transpose()?;
    let fields = args.fields(transcript)?;
    speech::check_files(&fields)?;
    let Started { engine, kernels, mut notices } = engine::start(&args.place)?;
    let model = speech::open_to_keep(args.model.as_deref(), &fields, &settings::layout())?;
    notices.extend(model.notices());
    let prepared = model.prepare_voice(fields, engine, &interrupt::STOP, &mut notices)?;
    report.notes(&notices);
    report.line(&format!("{} on {engine}", model.name()));
    let progress = Progress::new(*report);
    let file = prepared.keep(engine, &progress);
    let file = file.map_err(|error| during(error, "cannot make the voice"))?;
    engine::remember(&kernels, engine, &[model.name().to_owned()]);
    notices.extend(progress.finish().notices);
    let existing = args.files.existing();
    interrupt::whole(|| file.write(&path, existing))?;
    let kept = file.describe();
    if args.files.json {
        let mut object = kept.to_json(&args.name, &path);
        object["notices"] = json!(fields::texts(&notices));
        report.object(&object)?;
    } else {
        report::path(&path)?;
    }
    report.line(&line(&args.name, &kept));
    Ok(())
}

fn list(json: bool, report: &Report) -> Result<()> {
    let voices = voices()?;
    let (mut objects, mut lines) = (Vec::new(), Vec::new());
    for name in voices.names()? {
        match speech::read_kept(&voices, &name) {
            Ok(kept) => {
                objects.push(kept.to_json(&name, &voices.path(&name)?));
                lines.push(line(&name, &kept));
            }
            // One damaged file does not hide the others.
            Err(error) => {
                lines.push(format!("{name:<16} {error}"));
                objects.push(json!({ "name": name, "error": error.to_string() }));
            }
        }
    }
    if lines.is_empty() && !json {
        report.line("no voice is kept yet; `acestep voice make` makes one");
        return Ok(());
    }
    let folder = voices.folder().display().to_string();
    let object = json!({ "voices_dir": folder, "voices": objects });
    report::result(json, &object, lines.join("\n") + "\n")
}

fn show(name: &str, json: bool) -> Result<()> {
    let voices = voices()?;
    let kept = speech::read_kept(&voices, name)?;
    let object = kept.to_json(name, &voices.path(name)?);
    let text = |key: &str| object[key].as_str().unwrap_or("none").to_owned();
    let rows = [
        ("name", name.to_owned()),
        ("model", text("model")),
        ("language", text("language")),
        ("recording", format!("{:.1} s", kept.seconds)),
        ("words", kept.words()),
        ("file", text("path")),
        ("size", size(object["bytes"].as_u64().unwrap_or_default())),
    ];
    let rows = rows.map(|(name, value)| format!("{name:<10} {value}"));
    report::result(json, &object, rows.join("\n") + "\n")
}

fn remove(names: &[String], report: &Report) -> Result<()> {
    let voices = voices()?;
    // All names are checked before the first file is deleted.
    let names: BTreeSet<&String> = names.iter().collect();
    names.iter().try_for_each(|name| voices.existing(name).map(drop))?;
    for name in names {
        voices.remove(name)?;
        report.line(&format!("{name} is deleted"));
    }
    Ok(())
}

fn line(name: &str, kept: &KeptVoiceInfo) -> String {
    let words = if kept.transcripts.is_empty() { "without words" } else { "with its words" };
    let speakers = if kept.transcripts.len() > 1 { "two speakers, " } else { "" };
    let KeptVoiceInfo { model, seconds, .. } = kept;
    format!("{name:<16} {seconds:>5.1} s of recording, {speakers}{words}, by {model}")
}
