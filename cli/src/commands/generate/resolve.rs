//! First phase: flags and files become all decisions that need no network.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use acestep_engine::{Encoding, Error, Format, Notice};
use acestep_import::TINY;
use acestep_music::{
    Request,
    request::{self, Words},
};
use acestep_session::{
    outputs::{check_conditioning, check_inputs, check_lasting, named_files, song_format, sources},
    song::{ExtraOptions, Order, Planned, adapters},
    texts::read_genres,
};
use anyhow::Result;

use super::{
    Args,
    after::{Files, Named},
    composition::without,
    outputs::Outputs,
    request::ResolvedRequest,
    song::{Places, SongTask},
};
use crate::{
    args::{language::Language, sampling::Sampling},
    commands::{
        engine::{self, Started},
        target::{Target, is_stdout},
    },
    error::CliError,
    progress::Progress,
    report::Report,
    settings,
};

/// Reads the request and checks it against the model, the files and the disk.
pub(super) fn resolve(args: &Args, report: &Report) -> Result<SongTask> {
    check_combination(args)?;
    let mut asked = ResolvedRequest::read(args)?;
    let format = song_format(
        args.sound.audio_format.as_deref(),
        args.output.output.as_deref().filter(|path| !is_stdout(path)),
        args.output.template.as_deref(),
        &mut asked.request,
        &mut asked.notices,
    )?;
    let encoding = Encoding::resolve(asked.request.output.encoding(), format, &mut asked.notices)?;
    let Started { engine, kernels, notices } = engine::start(&args.compute.place)?;
    asked.notices.extend(notices);
    let layout = settings::layout();
    let mut folder =
        acestep_import::open(&asked.model, &layout).map_err(|error| asked.no_model(error))?;
    let found = adapters::find(&mut asked.request, &layout)?;
    asked.notices.extend(adapters::fit(found, &mut folder)?);
    let Language { drawing, .. } = &args.language;
    let genres = drawing.genres.as_deref().map(read_genres).transpose()?;
    let language_model = settings::lm_model();
    let ResolvedRequest { request, model, notices, .. } = asked;
    let order = Order {
        request,
        model,
        notices,
        noise: args.sampling.noise.as_deref(),
        conditioning: args.sampling.conditioning.as_deref(),
        limits: drawing.limits(),
        genres,
        language_model: language_model.as_deref(),
        engine,
        residency: args.compute.residency(),
        layout: &layout,
    };
    let mut planned = order.plan(Arc::new(folder), &Progress::new(*report)).map_err(|failed| {
        // The notices may explain the error.
        report.notes(&failed.notices);
        failed.error
    })?;
    if planned.composition.is_none() {
        // Typed flags are checked anyway; values from a file must not stop the song.
        let mut typed = request::Language::default();
        args.language.put_over(&mut typed);
        let seeds = &planned.plan.noise.seeds;
        drawing.limits().bound(typed.plan(&Words::default(), seeds, &mut vec![])?)?;
        planned.order.notices.extend(without(args, &planned.order.request));
    }
    let existing = args.output.existing();
    let outputs = outputs(args, &mut planned, format)?;
    let flags = &args.after;
    let options = ExtraOptions::new(flags.wants_lines(), flags.score, flags.score_scale)?;
    let named = Named { outputs: &outputs, seeds: planned.seeds(), existing };
    let extras = Files::decide(flags, &named)?;
    check_sources(args, &planned.order.request, extras.all())?;
    let mut resolved = planned.resolve(options, args.output.dry_run)?;
    if args.sampling.dump_conditioning.is_some() {
        resolved.plan.check_conditioning()?;
    }

    let Request { language, source, .. } = &resolved.request;
    if resolved.folder.name() == TINY && language.thinking.is_none() && !source.has_codes() {
        // The library's notice about this model is the last one.
        if let Some(Notice(text)) = resolved.notices.last_mut() {
            *text += "; it is planned only with --thinking";
        }
    }
    if !args.output.dry_run {
        resolved.notices.extend(engine::first_run(&kernels, engine, &resolved.models()));
    }
    let places = Places {
        kernels,
        encoding,
        is_tagged: !args.output.no_tags,
        outputs,
        extras,
        dump: args.sampling.dump_conditioning.clone(),
        existing,
    };
    Ok(SongTask { resolved, places: Rc::new(places) })
}

/// Names the files of the songs, and checks that they can be written.
fn outputs(args: &Args, planned: &mut Planned<'_>, format: Format) -> Result<Outputs> {
    if planned.seeds().is_none() && planned.order.request.noise.seed.is_some() {
        let text = "the noise is from a file: a seed has no effect";
        if args.sampling.seed.is_some() {
            let hint =
                "leave --seed out; with --infer-method sde it decides the noise of the steps";
            return Err(CliError::usage(text).hint(hint).into());
        }
        planned.order.notices.push(Notice(text.into()));
    }
    let songs = planned.plan.batch_size();
    let outputs = Outputs::decide(&args.output, format, songs, planned.seeds())?;
    let request = &planned.order.request;
    if outputs.request.is_some() {
        check_lasting(request.source.files().map(Path::new))?;
    }
    check_sources(args, request, outputs.all())?;
    outputs.check(args.output.existing())?;
    Ok(outputs)
}

/// Refuses an output that would overwrite a file that the song is made from, and conditioning files that could
/// not be written.
fn check_sources<'a>(
    args: &Args,
    request: &Request,
    mut outputs: impl Iterator<Item = &'a Path>,
) -> Result<(), Error> {
    let Args { song, sampling, language, .. } = args;
    let (lyrics, codes) = (song.words.lyrics.as_deref(), song.audio_codes.as_deref());
    let texts = [lyrics, codes, sampling.sampler.source_lyrics()];
    let (noise, conditioning) = (&sampling.noise, &sampling.conditioning);
    let files = [noise, conditioning, &language.drawing.genres, &settings::loaded().file];
    let files = files.into_iter().flatten().map(PathBuf::as_path);
    let inputs: Vec<&Path> = sources(request).chain(named_files(texts)).chain(files).collect();
    outputs.try_for_each(|path| check_inputs(path, inputs.iter().copied()))?;
    let dump = sampling.dump_conditioning.as_deref();
    dump.map_or(Ok(()), |folder| check_conditioning(folder, &inputs, args.output.existing()))
}

/// Refuses invalid combinations of flags that the parser does not detect.
fn check_combination(args: &Args) -> Result<(), CliError> {
    let output = args.output.output.clone().map(|path| Target::new(path, args.output.json));
    let to_stdout = output.transpose()? == Some(Target::Stdout);
    if to_stdout && args.output.save_request {
        return Err(CliError::usage("`--save-request` writes beside the song, which has no place")
            .hint("name a file with --output"));
    }
    if to_stdout && !args.output.dry_run && io::stdout().is_terminal() {
        return Err(CliError::usage("standard output is a terminal, which cannot play a song")
            .hint("pipe it to a player, e.g. `| aplay`, or name a file with --output"));
    }
    if args.song.audio_codes.is_some() && args.thinking.typed() == Some(true) {
        return Err(CliError::usage("`--thinking` writes the codes that `--audio-codes` gives")
            .hint("leave one of them out"));
    }
    let Sampling { noise, conditioning, .. } = &args.sampling;
    for (flag, input) in [("--noise", noise), ("--conditioning", conditioning)] {
        if input.is_some() && args.output.save_request {
            return Err(CliError::usage(format!("a request cannot hold what `{flag}` reads"))
                .hint("leave --save-request out, and keep those files"));
        }
    }
    Ok(())
}
