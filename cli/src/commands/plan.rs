//! `acestep plan`, and its presets `inspire` and `format`: runs the language model alone.
//!
//! ```text
//! flags, file -> Request -> language model -> Request -> files -> one line
//! ```

mod outputs;

use std::{process::ExitCode, time::Instant};

use acestep_engine::{Engine, Error, Notice, device::memory::MemoryNeed};
use acestep_import::{LanguageModelDir, TINY};
use acestep_music::{
    Request, SongError,
    lm::{
        compose::{Ask, Composed, Composing},
        settings::{self, Settings},
    },
    lyrics::is_sung,
    needs,
    plan::{VOICE_AND_NONE, of_seeds},
    request::{Words, singing},
};
use anyhow::Result;
use outputs::Outputs;
use serde_json::json;

use super::{
    engine::{self, Started},
    language, memory,
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

/// Task for the language model.
struct Task<'a> {
    common: &'a Common,
    request: Request,
    ask: Ask,
    notices: Vec<Notice>,
}

/// Runs `acestep plan`.
pub(crate) fn plan(args: &Plan, global: &Global) -> Result<ExitCode> {
    let mut typed = read(&args.words)?;
    args.decisions.put_over(&mut typed.request.language);
    let own = args.system.clone().zip(args.user.clone());
    let ask = match own {
        Some((system, user)) => Ask::Custom { system, user },
        // An empty caption is no description.
        None if typed.request.words.are_blank() => {
            return Err(Error::from(SongError::NothingAsked).into());
        }
        None => settings::ask(&typed.request)?,
    };
    run("plan", typed, ask, !args.no_codes, &args.common, global)
}

/// Runs `acestep inspire`.
pub(crate) fn inspire(args: &Text, global: &Global) -> Result<ExitCode> {
    if args.words.lyrics.is_some() {
        let hint = "acestep plan plans a song of your lyrics, acestep format puts them in order";
        return Err(CliError::usage("`--lyrics` has no place: inspire writes the lyrics")
            .hint(hint)
            .into());
    }
    run("inspire", read(&args.words)?, Ask::Inspire, args.codes, &args.common, global)
}

/// Runs `acestep format`.
pub(crate) fn format(args: &Text, global: &Global) -> Result<ExitCode> {
    run("format", read(&args.words)?, Ask::Format, args.codes, &args.common, global)
}

fn read(words: &TypedWords) -> Result<Typed> {
    let mut stdin = Stdin::default();
    let typed = Typed::read(words, &mut stdin)?;
    stdin.check()?;
    Ok(typed)
}

fn run(
    verb: &str,
    typed: Typed,
    ask: Ask,
    writes_codes: bool,
    common: &Common,
    global: &Global,
) -> Result<ExitCode> {
    let report = global.report();
    let mut task = Task { common, request: typed.request, ask, notices: typed.notices };
    let seeds = task.seeds()?;
    common.drawing.put_over(&mut task.request.language);
    common.outline.put_over(&mut task.request.language);
    put(&mut task.request.compute.model, common.model.as_ref());
    task.check_words()?;
    if task.request.source.has_codes() {
        let what = if writes_codes { "gets new ones" } else { "is planned again, without codes" };
        let text = format!("the request's audio codes are not used: it {what}");
        task.notices.push(Notice(text));
    }
    task.request.source.audio_codes = None;
    let kind = task.request.source.task()?;
    if writes_codes && kind.has_source() {
        let message =
            format!("`{}` follows a song, and has no use for a plan's codes", kind.name());
        return Err(CliError::usage(message).hint("pass --no-codes, or leave --codes out").into());
    }
    // Text and metadata are sampled once for all songs.
    let drawn = if writes_codes { &seeds[..] } else { seeds.get(..1).unwrap_or_default() };
    let Request { language: asked, words, .. } = &task.request;
    let settings = asked.plan(words, drawn, &mut task.notices)?;
    let settings = common.drawing.bound(settings)?;
    if writes_codes {
        settings.check_lengths(&task.request, &task.ask)?;
    }
    let genres = common.drawing.genres.as_deref().map(language::read_genres).transpose()?;
    let outputs = Outputs::decide(common, verb, if writes_codes { seeds.len() } else { 0 })?;
    outputs.check(common.files.existing())?;
    let Started { engine, kernels, notices } = engine::start(&common.place)?;
    task.notices.extend(notices);
    let model = task.request.compute.model.clone().or_else(environment::configured_model);
    let model = model.unwrap_or_default();
    let choice = task.request.language.lm_model.as_deref();
    let folder = language::open(choice, &model, &environment::layout(), engine)?;
    task.notices.extend(language::in_place_of(choice, folder.directory().root()));
    task.notices.extend(language::of_files(folder.notices()));
    if folder.name() == TINY {
        let text =
            "tiny is a random network: what it writes is nonsense, made to prove the program";
        task.notices.push(Notice(text.into()));
    }
    let needs = task.needs(&folder, &settings, writes_codes, engine)?;
    memory::check(&needs, false, engine)?;
    let label = language::label(&folder);
    task.notices.extend(engine::first_run(&kernels, engine, &[&label]));
    report.notes(&task.notices);
    report.line(&format!("{} on {engine} · {}", folder.name(), of_seeds(&seeds)));

    let start = Instant::now();
    let progress = Progress::new(report);
    let composing = Composing {
        request: &task.request,
        ask: task.ask.clone(),
        writes_codes,
        settings: &settings,
        genres,
    };
    let composed = language::compose_all(&[(composing, progress.of(0))], &folder, engine)
        .and_then(|mut composed| composed.remove(0));
    task.notices.extend(progress.finish().notices);
    let mut composed = composed
        .or_else(|error| outputs.save_failed(error, common.files.existing(), common.files.json))?;
    engine::remember(&kernels, engine, &[&label]);
    let request = finished(&composed, &seeds);
    if let (Some(lyrics), Some(seconds)) = (&request.words.lyrics, request.words.duration) {
        composed.changes.extend(singing::notice(lyrics, seconds));
    }
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
        report.output(&format!("{object:#}"))?;
    }
    report.line(&format!(
        "{} · {} tokens of text, {} codes in {} · {}",
        of_seeds(&seeds),
        composed.timing.text_tokens,
        composed.request.source.audio_codes.iter().flatten().map(Vec::len).sum::<usize>(),
        progress::seconds(elapsed),
        written.join(", "),
    ));
    Ok(ExitCode::SUCCESS)
}

/// Returns the request for `generate`, without keys that only steer the language model.
fn finished(composed: &Composed, seeds: &[u64]) -> Request {
    composed.request.without_language_model().with(|r| r.noise.seed = Some(seeds.to_vec()))
}

impl Task<'_> {
    /// Returns one seed for each song, counted as in `generate`.
    fn seeds(&mut self) -> Result<Vec<u64>> {
        let Common { seed, batch_size, .. } = self.common;
        let noise = &mut self.request.noise;
        put_songs(seed.as_ref(), *batch_size, noise);
        Ok(noise.seeds()?)
    }

    /// Returns the memory needs of the language model.
    fn needs(
        &self,
        folder: &LanguageModelDir,
        settings: &Settings,
        writes_codes: bool,
        engine: Engine,
    ) -> Result<Vec<MemoryNeed>, Error> {
        let Words { caption, lyrics, duration, .. } = &self.request.words;
        let own = match &self.ask {
            Ask::Custom { system, user } => system.len() + user.len(),
            Ask::Plan | Ask::Inspire | Ask::Format => 0,
        };
        let words: usize = [caption, lyrics].into_iter().flatten().map(String::len).sum();
        let prompt = needs::prompt_tokens(words + own);
        memory::language(folder, settings, prompt, *duration, writes_codes, engine)
    }

    /// Refuses an empty request, and a request with both a voice and none.
    fn check_words(&self) -> Result<()> {
        let words = &self.request.words;
        let is_sung = words.lyrics.as_deref().is_some_and(is_sung);
        if words.instrumental == Some(true) && is_sung && self.ask != Ask::Inspire {
            return Err(Error::Conflict(VOICE_AND_NONE.into()).into());
        }
        match self.ask {
            Ask::Custom { .. } => Ok(()),
            Ask::Inspire if words.caption.as_deref().is_none_or(|of| of.trim().is_empty()) => {
                Err(CliError::usage("there is no description to be inspired by")
                    .hint("write acestep inspire \"a soft love song for a quiet evening\"")
                    .into())
            }
            _ if words.are_blank() => Err(Error::from(SongError::NothingAsked).into()),
            _ => Ok(()),
        }
    }
}
