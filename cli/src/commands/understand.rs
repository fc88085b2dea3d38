//! `acestep understand`: describes a song in words.
//!
//! ```text
//! file -> sound -> latents -> audio codes -> language model -> caption, metadata, lyrics
//! ```

use std::path::Path;

use acestep_engine::{Notice, Unobserved, files::check_source};
use acestep_import::{Layout, TINY};
use acestep_music::codes;
use acestep_session::{
    language::{self, Choice},
    memory, outputs,
    texts::read_genres,
    understand::{self, UnderstandInput},
};
use anyhow::{Context, Result};

use super::{
    engine::{self, Started},
    text::{Stdin, text_or_file, write_bytes},
};
use crate::{
    args::{Global, plan::Understand},
    fields,
    progress::Progress,
    report, settings,
};

pub(crate) fn run(args: &Understand, global: &Global) -> Result<()> {
    let report = global.report();
    let existing = args.files.existing();
    if let Some(path) = &args.output {
        let codes = outputs::named_files([args.audio_codes.as_deref()]);
        let inputs = codes.chain(args.song.as_deref()).chain(args.drawing.genres.as_deref());
        outputs::check(path, inputs.chain(settings::loaded().file.as_deref()), existing)?;
    }
    args.song.as_deref().map_or(Ok(()), check_source)?;
    let Started { engine, kernels, mut notices } = engine::start(&args.place)?;
    let layout = settings::layout();

    let seed = args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let mut request = understand::request(seed);
    args.drawing.put_over(&mut request.language);
    let settings = understand::settings(&request, args.drawing.limits(), &mut notices)?;
    let genres = args.drawing.genres.as_deref().map(read_genres).transpose()?;

    let model = args.model.clone().unwrap_or_else(settings::model);
    let (asked, configured) = (request.language.lm_model.as_deref(), settings::lm_model());
    let choice = Choice { asked, model: &model, configured: configured.as_deref() };
    let folder = language::open(choice, &layout, engine)?;
    let source = read(args, &model, &layout, &mut notices)?;
    let of_model = source.model().map(|folder| folder.notices()).unwrap_or_default();
    notices.extend(folder.notices().into_iter().chain(of_model).map(Notice));
    if folder.name() == TINY {
        let text = "tiny is a random network: what it hears is nonsense, made to prove the program";
        notices.push(Notice(text.into()));
    }
    let (mut needs, prompt) = source.needs(engine)?;
    needs.extend(memory::language(&folder, &settings, prompt, None, false, engine)?);
    memory::check(&needs, false, engine)?;
    let hears = source.model().map(|model| model.name().to_owned());
    let models: Vec<String> = hears.into_iter().chain([language::label(&folder)]).collect();
    notices.extend(engine::first_run(&kernels, engine, &models));
    report.notes(&notices);
    let seed = settings.seeds.first().copied().unwrap_or_default();
    report.line(&format!("{} on {engine} · seed {seed}", folder.name()));

    let progress = Progress::new(report);
    let codes = source.codes(engine, &progress).context("cannot turn the sound into codes")?;
    let understood = language::understand(&codes, &settings, genres, &folder, engine, &progress)?;
    engine::remember(&kernels, engine, &models);
    notices.extend(progress.finish().notices);

    // Before the output: its reader may be gone, which ends the command.
    if let Some(path) = &args.output {
        write_bytes(path, understood.to_request(&codes).to_json().as_bytes(), existing)?;
        report.line(&format!("request {}", path.display()));
    }
    let mut object = understand::to_json(&understood, &codes, seed);
    object["notices"] = fields::texts(&notices).into();
    object["language_model"] = language::to_json(&folder, false, Some(&understood.timing));
    report::result(args.files.json, &object, understand::text(&understood))
}

/// Reads the codes or the song.
fn read(
    args: &Understand,
    model: &str,
    layout: &Layout,
    notices: &mut Vec<Notice>,
) -> Result<UnderstandInput> {
    if let Some(value) = &args.audio_codes {
        let text = text_or_file("--audio-codes", value, &mut Stdin::default())?;
        let codes = codes::parse(&text)?;
        if codes.is_empty() {
            let error = crate::error::CliError::usage("`--audio-codes` has no codes in it");
            return Err(error.hint("give codes as 17,4 or a file as @codes.txt").into());
        }
        return Ok(UnderstandInput::Codes(codes));
    }
    let path = args.song.as_deref().unwrap_or(Path::new(""));
    Ok(UnderstandInput::read(path, acestep_import::open(model, layout)?, notices, &Unobserved)?)
}
