//! First phase: flags and files become all decisions that need no network.

use std::{
    io::{self, IsTerminal},
    rc::Rc,
};

use acestep_engine::{
    Engine, Notice, Residency,
    audio::format::{Encoding, Format},
};
use acestep_import::{AceStep, DEMO, Network, TINY};
use acestep_music::{ModelInfo, Plan, Request, inputs::Inputs, plan, request::singing};
use anyhow::Result;

use super::{
    Args, adapters,
    after::{self, After, Named},
    composition::Composition,
    memory,
    outputs::{self, Outputs},
    request::ResolvedRequest,
    resolved::{Resolved, Setup},
    run, sounds,
};
use crate::{
    args::sampling::Sampling,
    commands::{
        engine::{self, Started},
        formats, language,
        target::Target,
    },
    error::CliError,
    report::Report,
    settings,
};

/// Reads the request and checks it against the model, the files and the disk.
pub(super) fn resolve(args: &Args, report: &Report) -> Result<Resolved> {
    check_combination(args)?;
    let mut asked = ResolvedRequest::read(args)?;
    let format = formats::format(
        args.sound.audio_format.as_deref(),
        args.output.output.as_deref(),
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
    asked.notices.extend(adapters::fit(&mut asked.request, &mut folder, &layout)?);
    let info = run::model_info(&folder, engine)?;
    let Sampling { noise, conditioning, .. } = &args.sampling;
    let ResolvedRequest { request, notices, .. } = &mut asked;
    let (noise, conditioning) = (noise.as_deref(), conditioning.as_deref());
    let inputs = Inputs::read(noise, conditioning, request, &info, notices)?;
    if inputs.sounds.have_audio() {
        run::check_encoder(&folder, engine)?;
    }
    let residency = args.compute.residency();
    let (plan, mut plan_notices) =
        planned(&mut asked, &info, &folder, &inputs, engine, residency, report)?;
    let model = folder.name();
    let composition = Composition::decide(args, &mut asked, &plan, model, &layout, engine)?;
    // Check early, so that the language model does not write codes that cannot be decoded.
    let writes_codes = composition.as_ref().is_some_and(|of| of.writes_codes);
    if writes_codes || plan.source.has_codes() || plan.source.is_cover() {
        folder.require(Network::AudioCodec)?;
    }
    let existing = args.output.existing();
    let outputs = outputs(args, &mut asked, &inputs, &plan, format)?;
    let seeds = inputs.seeds(&plan);
    let named = Named { outputs: &outputs, seeds, existing };
    let after = After::decide(args, &named, &folder, &mut asked.notices)?;
    let judge = match composition {
        None if after.judges => after::judge(args, &mut asked, &plan, model, &layout, engine)?,
        _ => None,
    };
    check_dump(args, &plan)?;

    let ResolvedRequest { request, model, mut notices, .. } = asked;
    notices.extend(language::in_place_of(Some(&model), folder.path()));
    notices.extend(language::of_files(folder.notices()));
    notices.extend(composition.iter().flat_map(|of| language::of_files(of.folder.notices())));
    let is_open = composition.as_ref().is_some_and(|of| of.decides_length(&request));
    if args.output.dry_run && is_open {
        // The notice below says that this length is provisional.
        plan_notices.retain(|notice| *notice != plan::no_duration());
        let length = plan.length.duration_s;
        let text = format!("the language model decides the length; {length} s stands for it here");
        notices.push(Notice(text));
    }
    notices.extend(of_built_in(&folder, &request));
    let setup = Setup {
        model,
        info,
        engine,
        residency,
        kernels,
        composition,
        judge,
        inputs,
        encoding,
        is_tagged: !args.output.no_tags,
        outputs,
        after,
        dump: args.sampling.dump_conditioning.clone(),
        existing,
    };
    let (setup, folder) = (Rc::new(setup), Rc::new(folder));
    let mut resolved =
        Resolved { setup, folder, request, plan, decided: None, notices, plan_notices };
    if !args.output.dry_run {
        let Setup { kernels, engine, .. } = &*resolved.setup;
        let first = engine::first_run(kernels, *engine, &resolved.models());
        resolved.notices.extend(first);
    }
    Ok(resolved)
}

/// Plans the song, with tiles of the VAE that fit into the memory of the device.
fn planned(
    asked: &mut ResolvedRequest,
    info: &ModelInfo,
    folder: &AceStep,
    inputs: &Inputs,
    engine: Engine,
    residency: Residency,
    report: &Report,
) -> Result<(Plan, Vec<Notice>)> {
    let (mut plan, notices) = inputs.plan(&asked.request, info).inspect_err(|_| {
        // The notices may explain the error.
        report.notes(&asked.notices);
    })?;
    if let Some(notice) = memory::tiling(&mut asked.request, &plan, folder, engine, residency)? {
        let seeded = asked.request.clone().with(|r| r.noise.seed = Some(plan.noise.seeds.clone()));
        (plan, _) = inputs.plan(&seeded, info)?;
        asked.notices.push(notice);
    }
    Ok((plan, notices))
}

/// Names the files of the songs, and checks that they can be written.
fn outputs(
    args: &Args,
    asked: &mut ResolvedRequest,
    inputs: &Inputs,
    plan: &Plan,
    format: Format,
) -> Result<Outputs> {
    let seeds = inputs.seeds(plan);
    if seeds.is_none() && asked.request.noise.seed.is_some() {
        let text = "the noise is from a file: a seed has no effect";
        if args.sampling.seed.is_some() {
            let hint =
                "leave --seed out; with --infer-method sde it decides the noise of the steps";
            return Err(CliError::usage(text).hint(hint).into());
        }
        asked.notices.push(Notice(text.into()));
    }
    let outputs = Outputs::decide(&args.output, format, plan.batch_size(), seeds)?;
    outputs.check(args.output.existing())?;
    if args.output.save_request {
        sounds::check_saved(&asked.request, outputs.files())?;
    }
    Ok(outputs)
}

/// Refuses conditioning files that could not hold this song's conditions, or could not be written.
fn check_dump(args: &Args, plan: &Plan) -> Result<()> {
    let Some(folder) = &args.sampling.dump_conditioning else { return Ok(()) };
    plan.check_conditioning()?;
    Ok(outputs::check_conditioning(folder, args.output.existing())?)
}

/// Returns notices about the limits of the built-in models.
fn of_built_in(folder: &AceStep, request: &Request) -> Option<Notice> {
    let lyrics = request.words.lyrics.as_deref();
    match folder.name() {
        TINY => {
            let plain = request.language.thinking.is_none() && !request.source.has_codes();
            let more = if plain { "; it is planned only with --thinking" } else { "" };
            let text = "tiny is a random network: the sound is noise, made to prove the pipeline";
            Some(Notice(format!("{text}{more}")))
        }
        DEMO if lyrics.is_some_and(|of| singing::least_seconds(of) > 0.0) => {
            let text = "demo has never heard a voice: the words will not be sung";
            Some(Notice(text.into()))
        }
        _ => None,
    }
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
