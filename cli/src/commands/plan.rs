//! `acestep plan`, and its presets `inspire` and `format`: runs the language model alone.
//!
//! ```text
//! flags, file -> Request -> language model -> Request -> files -> one line
//! ```

mod outputs;

use std::time::Instant;

use acestep_engine::{Error, Observe, error::counted};
use acestep_music::{
    SongError,
    lm::{compose::LmMode, settings},
    plan::of_seeds,
};
use acestep_session::{
    language::{self, Choice},
    outputs::named_files,
    texts::read_genres,
    writing::Writing,
};
use anyhow::Result;
use outputs::Outputs;
use serde_json::json;

use super::{
    engine::{self, Started},
    text::{Stdin, Typed},
};
use crate::{
    args::{
        Global,
        generate::Words as TypedWords,
        plan::{Common, Plan, Text},
        sampling::put_songs,
        values::put,
    },
    error::CliError,
    fields,
    progress::{self, Progress},
    settings as environment,
};

/// Runs `acestep plan`.
pub(crate) fn plan(args: &Plan, global: &Global) -> Result<()> {
    let (words, mut typed) = read(&args.words)?;
    args.decisions.put_over(&mut typed.request.language);
    let own = args.system.clone().zip(args.user.clone());
    let mode = match own {
        Some((system, user)) => LmMode::Custom { system, user },
        // An empty caption is no description.
        None if typed.request.words.are_blank() => {
            return Err(Error::from(SongError::NothingAsked).into());
        }
        None => settings::lm_mode(&typed.request)?,
    };
    run("plan", (words, typed), mode, !args.no_codes, &args.common, global)
}

/// Runs `acestep inspire`.
pub(crate) fn inspire(args: &Text, global: &Global) -> Result<()> {
    if args.words.lyrics.is_some() {
        let hint = "acestep plan plans a song of your lyrics, acestep format puts them in order";
        return Err(CliError::usage("`--lyrics` has no place: inspire writes the lyrics")
            .hint(hint)
            .into());
    }
    run("inspire", read(&args.words)?, LmMode::Inspire, args.codes, &args.common, global)
}

/// Runs `acestep format`.
pub(crate) fn format(args: &Text, global: &Global) -> Result<()> {
    run("format", read(&args.words)?, LmMode::Format, args.codes, &args.common, global)
}

fn read(words: &TypedWords) -> Result<(&TypedWords, Typed)> {
    let mut stdin = Stdin::default();
    let typed = Typed::read(words, &mut stdin)?;
    stdin.check()?;
    Ok((words, typed))
}

fn run(
    verb: &str,
    (words, typed): (&TypedWords, Typed),
    mode: LmMode,
    writes_codes: bool,
    common: &Common,
    global: &Global,
) -> Result<()> {
    let report = global.report();
    let Typed { mut request, notices } = typed;
    put_songs(common.seed.as_ref(), common.batch_size, &mut request.noise);
    common.drawing.put_over(&mut request.language);
    common.outline.put_over(&mut request.language);
    put(&mut request.compute.model, common.model.as_ref());
    let mut task = Writing::new(request, mode, writes_codes, common.drawing.limits(), notices)?;
    let seeds = task.seeds.clone();
    let genres = common.drawing.genres.as_deref().map(read_genres).transpose()?;
    let outputs = Outputs::decide(common, verb, if writes_codes { seeds.len() } else { 0 })?;
    let inputs = named_files([words.lyrics.as_deref()]).chain(common.drawing.genres.as_deref());
    let files = words.request.iter().chain(&environment::loaded().file).map(|path| &**path);
    outputs.check(inputs.chain(files), common.files.existing())?;
    let Started { engine, kernels, notices } = engine::start(&common.place)?;
    task.notices.extend(notices);
    let model = task.request.compute.model.clone().or_else(environment::configured_model);
    let model = model.unwrap_or_default();
    let asked = task.request.language.lm_model.as_deref();
    let configured = environment::lm_model();
    let choice = Choice { asked, model: &model, configured: configured.as_deref() };
    let folder = language::open(choice, &environment::layout(), engine)?;
    task.check(&folder, engine)?;
    let label = language::label(&folder);
    task.notices.extend(engine::first_run(&kernels, engine, &[&label]));
    report.notes(&task.notices);
    report.line(&format!("{} on {engine} · {}", folder.name(), of_seeds(&seeds)));

    let start = Instant::now();
    let progress = Progress::new(report);
    let asked = [(task.composing(genres), &progress as &dyn Observe)];
    let composed =
        language::compose_all(&asked, &folder, engine).and_then(|mut composed| composed.remove(0));
    task.notices.extend(progress.finish().notices);
    let mut composed = composed
        .or_else(|error| outputs.save_failed(error, common.files.existing(), common.files.json))?;
    engine::remember(&kernels, engine, &[&label]);
    let request = task.finished(&mut composed);
    report.notes(&composed.changes);
    let written = outputs.write(&request, &composed, common.files.existing(), common.files.json)?;
    let elapsed = start.elapsed();
    if common.files.json {
        let object = json!({
            "request": serde_json::from_str::<serde_json::Value>(&request.to_json())?,
            "metadata": composed.metadata,
            "text": composed.text,
            "outputs": written,
            "notices": fields::texts(task.notices.iter().chain(&composed.changes)),
            "language_model": language::to_json(&folder, writes_codes, Some(&composed.timing)),
            "elapsed": elapsed.as_secs_f64(),
        });
        report.object(&object)?;
    }
    report.line(&format!(
        "{} · {} of text, {} in {} · {}",
        of_seeds(&seeds),
        counted(composed.timing.text_tokens, "token"),
        counted(composed.request.source.audio_codes.iter().flatten().map(Vec::len).sum(), "code"),
        progress::seconds(elapsed),
        written.join(", "),
    ));
    Ok(())
}
