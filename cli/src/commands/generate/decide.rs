//! Turns flags and files into all decisions that precede the first network.

use std::{
    io::{self, IsTerminal},
    rc::Rc,
};

use acestep_engine::{Error, Notice, audio::format::Encoding};
use acestep_import::{DEMO, Network, TINY};
use acestep_music::{
    Plan, Request,
    plan::{self, singing},
};
use anyhow::Result;

use super::{
    Args, Job, adapters,
    after::{After, Named},
    composition::Composition,
    inputs::Inputs,
    memory,
    outputs::{self, Outputs},
    request::ResolvedRequest,
    run, sounds,
};
use crate::{
    args::generate::Sampling,
    commands::{
        engine::{self, Started},
        language,
    },
    error::CliError,
    report::Report,
    settings,
};

/// Reads the request and checks it against the model, the files and the disk.
pub(super) fn decide(args: &Args, report: &Report) -> Result<Job> {
    check_combination(args)?;
    let mut asked = ResolvedRequest::read(args)?;
    let format = outputs::format(
        args.sound.audio_format.as_deref(),
        args.output.output.as_deref(),
        args.output.template.as_deref(),
        &mut asked.request,
        &mut asked.notices,
    )?;
    let encoding = Encoding::resolve(asked.request.encoding(), format, &mut asked.notices)?;
    let Started { engine, kernels, notices } = engine::start(&args.compute.place)?;
    asked.notices.extend(notices);
    let layout = settings::layout();
    let mut folder =
        acestep_import::open(&asked.model, &layout).map_err(|error| asked.no_model(error))?;
    asked.notices.extend(adapters::fit(&mut asked.request, &mut folder, &layout)?);
    let info = run::model_info(&folder, engine)?;

    let mut inputs = Inputs::read(args)?;
    inputs.fill(&mut asked, &info);
    inputs.sounds = sounds::read(&asked.request, &info, &mut asked.notices)?;
    if run::needs_encoder(&inputs.sounds) {
        run::check_encoder(&folder, engine)?;
    }
    let resolve = |request: &Request| Plan::with_sounds(request, &info, &inputs.sounds);
    let (mut plan, mut notices) = resolve(&asked.request).inspect_err(|_| {
        // The notices may explain the error.
        asked.notices.iter().for_each(|notice| report.note(&notice.0));
    })?;
    if let Some(notice) =
        memory::tiling(&mut asked.request, &plan, &folder, engine, args.compute.residency())
            .map_err(Error::checkpoint)?
    {
        (plan, _) = resolve(&Request { seed: Some(plan.seeds.clone()), ..asked.request.clone() })?;
        asked.notices.push(notice);
    }
    inputs.fit(&mut plan)?;
    let composition = Composition::decide(args, &mut asked, &plan, folder.name(), &layout, engine)?;
    // Check early, so that the language model does not write codes that cannot be decoded.
    let writes_codes = composition.as_ref().is_some_and(|of| of.writes_codes);
    if writes_codes || plan.has_codes() || plan.is_cover() {
        folder.require(Network::AudioCodec)?;
    }
    let seeds = inputs.seeds(&plan);
    if seeds.is_none() && asked.request.seed.is_some() {
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
    let existing = args.output.existing();
    let named = Named { outputs: &outputs, seeds, existing };
    let mut after = After::decide(args, &named, &folder, &mut asked.notices)?;
    if composition.is_none() {
        after.find_judge(args, &mut asked, &plan, folder.name(), &layout, engine)?;
    }
    if let Some(folder) = &args.sampling.dump_conditioning {
        if plan.non_cover_prompt.is_some() {
            let message = "conditioning files hold one condition, but this song has a second one \
                           for the steps that leave its codes";
            return Err(CliError::usage(message).hint("pass --audio-cover-strength 1").into());
        }
        if plan.region.is_some() || plan.flow_edit.is_some() || plan.cover_noise_strength > 0.0 {
            let message = "conditioning files hold nothing of the song that is started from";
            return Err(CliError::usage(message).hint("leave --dump-conditioning out").into());
        }
        outputs::check_conditioning(folder, args.output.existing())?;
    }

    let mut all = std::mem::take(&mut asked.notices);
    all.extend(language::in_place_of(Some(&asked.model), folder.path()));
    all.extend(language::of_files(folder.notices()));
    all.extend(composition.iter().flat_map(|of| language::of_files(of.folder.notices())));
    let is_open = composition.as_ref().is_some_and(|c| c.decides_length(&asked.request));
    if args.output.dry_run && is_open {
        // The notice below says that this length is provisional.
        notices.retain(|notice| *notice != plan::no_duration());
        let length = plan.duration_s;
        let text = format!("the language model decides the length; {length} s stands for it here");
        all.push(Notice(text));
    }
    if folder.name() == TINY {
        let plain = asked.request.thinking.is_none() && !asked.request.has_codes();
        let more = if plain { "; it is planned only with --thinking" } else { "" };
        let text = "tiny is a random network: the sound is noise, made to prove the pipeline";
        all.push(Notice(format!("{text}{more}")));
    }
    let lyrics = asked.request.lyrics.as_deref();
    if folder.name() == DEMO && lyrics.is_some_and(|of| singing::least_seconds(of) > 0.0) {
        let text = "demo has never heard a voice: the words will not be sung";
        all.push(Notice(text.into()));
    }
    let mut job = Job {
        asked,
        plan,
        composition,
        metadata: None,
        timing: None,
        is_kept: false,
        is_stale: false,
        info,
        folder: Rc::new(folder),
        engine,
        residency: args.compute.residency(),
        kernels,
        widened: vec![],
        encoding,
        tagged: !args.output.no_tags,
        inputs,
        outputs,
        after,
        notices: all,
        plan_notices: notices,
    };
    if !args.output.dry_run {
        job.notices.extend(engine::first_run(&job.kernels, job.engine, &job.models()));
    }
    Ok(job)
}

/// Refuses invalid combinations of flags that the parser does not detect.
fn check_combination(args: &Args) -> Result<(), CliError> {
    let to_stdout = args.output.output.as_deref().is_some_and(outputs::is_stdout);
    if to_stdout && args.output.json {
        return Err(CliError::usage("`--output -` and `--json` both want standard output")
            .hint("name a file with --output"));
    }
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
