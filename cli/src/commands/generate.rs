//! `acestep generate`: a request to songs.
//!
//! ```text
//! flags, file -> Request -> Plan -> what is written where
//!             -> language model -> Request -> Plan -> songs -> files -> one line
//! ```
//!
//! Everything that can be refused is refused before the first network is read.

mod adapters;
mod after;
mod composition;
mod describe;
mod ending;
mod inputs;
mod memory;
pub(super) mod outputs;
mod request;
mod requests;
pub(super) mod run;
mod sounds;
mod together;

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    rc::Rc,
};

use acestep_import::{Folder, Layout, TINY};
use acestep_runtime::{
    Engine, Error, ModelInfo, Notice, Plan, Request, Residency, Song,
    audio::{format::Encoding, tags::Tags, write},
    device::kernels::Kernels,
    exchange::Array3,
    files::Existing,
    latents,
    lm::{
        compose::{Composed, Timing},
        metadata::Metadata,
    },
};
use anyhow::Result;
use serde_json::{Value, json};

pub(crate) use crate::args::generate::Args;
use crate::args::generate::Sampling;
use crate::{
    args::Global,
    commands::{
        engine::{self, Started},
        language,
    },
    error::Refusal,
    interrupt,
    progress::Progress,
    report::{self, Report},
    settings,
};
use after::{After, Named};
use composition::Composition;
use describe::Resources;
pub(crate) use describe::counted;
use inputs::Inputs;
use outputs::{Outputs, Target};
use request::Asked;
use together::Together;

/// Everything that is decided before the first network is read.
struct Job {
    asked: Asked,
    /// The song; without the language model's part until that is done.
    plan: Plan,
    /// What the language model is asked.
    composition: Option<Composition>,
    /// What it decided, once it has answered.
    metadata: Option<Metadata>,
    /// How long it took, once it has answered.
    timing: Option<Timing>,
    /// Whether the request was written as soon as it had.
    is_kept: bool,
    /// Whether the plan is another than it was then.
    is_stale: bool,
    info: ModelInfo,
    /// The model; requests of one run that have it in common share it.
    folder: Rc<Folder>,
    engine: Engine,
    residency: Residency,
    kernels: Kernels,
    /// Networks that were run again in f32, as noun phrases.
    widened: Vec<&'static str>,
    encoding: Encoding,
    /// Whether songs say what they are.
    tagged: bool,
    inputs: Inputs,
    outputs: Outputs,
    /// What is made of the songs.
    after: After,
    notices: Vec<Notice>,
    /// Of the plan alone.
    plan_notices: Vec<Notice>,
}

/// Makes the songs of every request, or says what would be made.
///
/// # Errors
/// Whatever stands in the way, with its remedy. What can be refused before any work is; of several
/// requests one that fails later is said, and stops no other.
pub(crate) fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    let requests = requests::of(&args)?;
    let mut jobs = Vec::with_capacity(requests.len());
    for args in &requests {
        let job = decide(args, &report).map_err(|error| requests::named(error, args, &requests))?;
        job.notices.iter().for_each(|notice| report.note(&notice.0));
        jobs.push(job);
    }
    requests::check(&jobs, &args)?;
    if args.output.dry_run {
        return plan_only(&mut jobs, &args, &report);
    }
    for (job, own) in jobs.iter().zip(&requests) {
        memory::check(job, args.compute.residency())
            .map_err(|error| requests::named(error, own, &requests))?;
    }
    let mut run = Together::new(jobs, &args, report);
    let ended = run.run();
    run.report(ended)
}

/// Says what would be made, and makes nothing.
fn plan_only(jobs: &mut [Job], args: &Args, report: &Report) -> Result<ExitCode> {
    let mut objects = Vec::new();
    for job in jobs.iter_mut() {
        job.say_plan(report);
        job.folder.measure_adapters(job.engine.dtype)?;
        job.say_adapters(report);
        let resources = Resources::of(job, args.compute.residency())?;
        if args.output.json {
            let mut object = describe::to_json(job, &resources);
            object["dry_run"] = true.into();
            objects.push(object);
        } else {
            report.always(&describe::text(job, &resources));
        }
    }
    if args.output.json {
        report.output(&format!("{:#}", requests::one_or_all(objects, jobs.len())))?;
    }
    jobs.iter().try_for_each(|job| memory::check(job, args.compute.residency()))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes songs and throws them away: everything is loaded and computed as it would be.
///
/// # Errors
/// As [`run()`].
pub(crate) fn rehearse(args: &Args, report: Report) -> Result<()> {
    let mut job = decide(args, &report)?;
    memory::check(&job, args.compute.residency())?;
    let progress = Progress::new(report);
    if job.compose(&report, &progress)? {
        memory::check(&job, args.compute.residency())?;
    }
    report.line(&describe::headline(&job));
    let made = run::songs(&[(&job, progress.of(0))], args, |_, rendered| rendered.map(drop));
    progress.finish();
    made?;
    engine::remember(&job.kernels, job.engine, &job.models());
    Ok(())
}

/// Reads what was asked and checks it against the model, the files and the disk.
fn decide(args: &Args, report: &Report) -> Result<Job> {
    check_combination(args)?;
    let mut asked = Asked::read(args)?;
    let format = outputs::format(
        args.sound.audio_format.as_deref(),
        args.output.output.as_deref(),
        &mut asked.request,
        &mut asked.notices,
    )?;
    let encoding = Encoding::resolve(&asked.request, format)?;
    let Started { engine, kernels, notices } = engine::start(&args.compute.place)?;
    asked.notices.extend(notices);
    let models = args.compute.models_dir.clone().or_else(settings::models_dir);
    let layout = Layout::new(models);
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
    let (mut plan, notices) = resolve(&asked.request).inspect_err(|_| {
        // What was left unread in the request may be why it cannot be a plan.
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
    let seeds = inputs.seeds(&plan);
    if seeds.is_none() && asked.request.seed.is_some() {
        let text = "the noise is from a file: a seed has no effect";
        if args.sampling.seed.is_some() {
            let hint =
                "leave --seed out; with --infer-method sde it decides the noise of the steps";
            return Err(Refusal::usage(text).hint(hint).into());
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
            return Err(Refusal::usage(message).hint("pass --audio-cover-strength 1").into());
        }
        if plan.region.is_some() || plan.flow_edit.is_some() || plan.cover_noise_strength > 0.0 {
            let message = "conditioning files hold nothing of the song that is started from";
            return Err(Refusal::usage(message).hint("leave --dump-conditioning out").into());
        }
        outputs::check_conditioning(folder, args.output.existing())?;
    }

    let mut all = std::mem::take(&mut asked.notices);
    all.extend(language::in_place_of(Some(&asked.model), folder.path()));
    all.extend(language::of_files(folder.notices()));
    all.extend(composition.iter().flat_map(|of| language::of_files(of.folder.notices())));
    let is_open = composition.as_ref().is_some_and(|c| c.decides_length(&asked.request));
    if args.output.dry_run && is_open {
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

/// Refuses flags that make no sense together and that the parser does not see.
fn check_combination(args: &Args) -> Result<(), Refusal> {
    let to_stdout = args.output.output.as_deref().is_some_and(outputs::is_stdout);
    if to_stdout && args.output.json {
        return Err(Refusal::usage("`--output -` and `--json` both want standard output")
            .hint("name a file with --output"));
    }
    if to_stdout && args.output.save_request {
        return Err(Refusal::usage("`--save-request` writes beside the song, which has no place")
            .hint("name a file with --output"));
    }
    if to_stdout && !args.output.dry_run && io::stdout().is_terminal() {
        return Err(Refusal::usage("standard output is a terminal, which cannot play a song")
            .hint("pipe it to a player, e.g. `| aplay`, or name a file with --output"));
    }
    if args.song.audio_codes.is_some() && args.thinking.typed() == Some(true) {
        return Err(Refusal::usage("`--thinking` writes the codes that `--audio-codes` gives")
            .hint("leave one of them out"));
    }
    let Sampling { noise, conditioning, .. } = &args.sampling;
    for (flag, input) in [("--noise", noise), ("--conditioning", conditioning)] {
        if input.is_some() && args.output.save_request {
            return Err(Refusal::usage(format!("a request cannot hold what `{flag}` reads"))
                .hint("leave --save-request out, and keep those files"));
        }
    }
    Ok(())
}

/// A song that lies on the disk, or went to standard output.
#[derive(Debug)]
struct Written {
    target: Target,
    /// `None` if it decided nothing.
    seed: Option<u64>,
    seconds: f64,
    samples: usize,
    sample_rate: u32,
    channels: usize,
}

impl Written {
    fn to_json(&self) -> serde_json::Map<String, Value> {
        let object = json!({
            "path": self.target.to_string(),
            "seed": self.seed,
            "seconds": self.seconds,
            "samples": self.samples,
            "sample_rate": self.sample_rate,
            "channels": self.channels,
        });
        object.as_object().cloned().unwrap_or_default()
    }
}

impl Job {
    /// The seeds, if they decide anything.
    fn seeds(&self) -> Option<&[u64]> {
        self.inputs.seeds(&self.plan)
    }

    /// The models whose kernels are used.
    fn models(&self) -> Vec<String> {
        let language = self.composition.as_ref().map(|of| language::label(&of.folder));
        [self.folder.name().to_owned()].into_iter().chain(language).collect()
    }

    /// Lets the language model complete the request, and plans the song anew; whether it did.
    ///
    /// # Errors
    /// Those of the language model; what it decided can be refused as what was asked can.
    fn compose(&mut self, report: &Report, progress: &Progress) -> Result<bool> {
        let Some(composition) = &self.composition else { return Ok(false) };
        let composed = composition.run(&self.asked.request, self.engine, progress)?;
        self.take(composed, report)?;
        Ok(true)
    }

    /// Takes over what the language model decided.
    ///
    /// # Errors
    /// What it decided can be refused as what was asked can.
    fn take(&mut self, composed: Composed, report: &Report) -> Result<()> {
        for notice in composed.changes {
            report.note(&notice.0);
            self.notices.push(notice);
        }
        self.metadata = Some(composed.metadata);
        self.timing = Some(composed.timing);
        // Drawn seeds stay, as the songs' names have them.
        let request = Request { seed: Some(self.plan.seeds.clone()), ..composed.request };
        let (mut plan, notices) = Plan::with_sounds(&request, &self.info, &self.inputs.sounds)?;
        self.inputs.fit(&mut plan)?;
        self.asked.request = request;
        (self.plan, self.plan_notices) = (plan, notices);
        Ok(())
    }

    /// Writes the request, if it is saved, with what the language model decided: the song may yet
    /// fail or be interrupted.
    fn keep(&mut self, existing: Existing) -> Result<()> {
        if let (Some(_), Some(path)) = (&self.composition, &self.outputs.request) {
            self.asked.save(&self.plan, &self.folder, path, existing)?;
            self.is_kept = true;
        }
        Ok(())
    }

    /// Says what is wrong with what the adapters did, and gives what they did.
    fn say_adapters(&mut self, report: &Report) -> Vec<String> {
        let (lines, notices) = adapters::outcome(&self.folder);
        for notice in notices {
            report.note(&notice.0);
            self.notices.push(notice);
        }
        lines
    }

    /// Says what is worth saying about the plan, once there is no other.
    fn say_plan(&mut self, report: &Report) {
        for notice in self.plan_notices.drain(..) {
            report.note(&notice.0);
            self.notices.push(notice);
        }
    }

    /// Writes what the songs were decoded from, if it is kept.
    fn write_latents(&self, songs: &[Array3], existing: Existing) -> Result<(), Error> {
        let Some((paths, format)) = &self.outputs.latents else { return Ok(()) };
        paths.iter().zip(songs).try_for_each(|(path, song)| {
            interrupt::whole(|| latents::save(path, song, *format, existing))
        })
    }

    /// What song `index` says about itself.
    fn tags(&self, index: usize) -> Tags {
        const SHOWN: usize = 200;
        let plan = &self.plan;
        let is_kept = self.inputs.noise.is_none() && self.inputs.conditioning.is_none();
        let seed = self.seeds().map(|seeds| format!("seed {} · ", seeds[index]));
        Tags {
            title: plan.caption.chars().take(SHOWN).collect(),
            comment: format!(
                "{} · {}{} · {}",
                plan.caption,
                seed.unwrap_or_default(),
                self.folder.name(),
                describe::counted(plan.steps(), "step"),
            ),
            software: concat!("acestep ", env!("CARGO_PKG_VERSION")).to_owned(),
            // A request cannot hold what was read from other files.
            request: match is_kept {
                true => self.asked.of_song(plan, &self.folder, index).to_json(),
                false => String::new(),
            },
        }
    }

    /// Writes the songs, each told to `written`, and, if asked for, the request; then names the files,
    /// unless JSON will.
    fn write(&self, songs: &[Song], existing: Existing, written: &mut Vec<Written>) -> Result<()> {
        let mut paths = Vec::new();
        let result = self.write_all(songs, existing, &mut paths, written);
        // Also when a later one failed: these files are there.
        if !self.outputs.json {
            paths.into_iter().try_for_each(report::path)?;
        }
        result
    }

    fn write_all<'a>(
        &'a self,
        songs: &[Song],
        existing: Existing,
        paths: &mut Vec<&'a std::path::Path>,
        written: &mut Vec<Written>,
    ) -> Result<()> {
        for (index, (target, song)) in self.outputs.songs.iter().zip(songs).enumerate() {
            if interrupt::was_pressed() {
                return Err(Error::Cancelled.into());
            }
            let (audio, encoding) = (&song.audio, &self.encoding);
            let tags = self.tagged.then(|| self.tags(index));
            match target {
                Target::File(path) => {
                    interrupt::whole(|| {
                        write::save(path, audio, encoding, tags.as_ref(), existing)
                    })?;
                    paths.push(path);
                }
                Target::Stdout => {
                    report::bytes(&write::to_bytes(audio, encoding, tags.as_ref())?)?;
                }
            }
            written.push(Written {
                target: target.clone(),
                seed: self.seeds().map(|_| song.seed),
                seconds: song.audio.seconds(),
                samples: song.audio.samples(),
                sample_rate: song.audio.sample_rate,
                channels: song.audio.channels.len(),
            });
        }
        if let Some((latents, _)) = &self.outputs.latents {
            paths.extend(latents.iter().map(PathBuf::as_path));
        }
        if let Some(path) = &self.outputs.request {
            if !self.is_kept {
                self.asked.save(&self.plan, &self.folder, path, existing)?;
            }
            paths.push(path);
        }
        Ok(())
    }
}
