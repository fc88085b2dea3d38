//! `acestep understand`: describes a song in words.
//!
//! ```text
//! file -> sound -> latents -> audio codes -> language model -> caption, metadata, lyrics
//! ```

use std::{path::Path, process::ExitCode};

use acestep_engine::{
    Engine, Error, Notice, Observe, Residency,
    audio::{Audio, read},
    device::memory::MemoryNeed,
    files::check_target,
    on_engine,
};
use acestep_import::{AceStep, Layout, Network, TINY};
use acestep_music::{Networks, Request, codes, lm::compose::Understood, needs, tokenize};
use anyhow::{Context, Result};
use serde_json::json;

use super::{
    engine::{self, Started},
    language, memory,
    text::{Stdin, text_or_file, write_text},
};
use crate::{
    args::{Global, plan::Understand},
    fields,
    progress::Progress,
    report, settings,
};

pub(crate) fn run(args: &Understand, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    let existing = args.files.existing();
    args.output.as_deref().map(|path| check_target(path, existing)).transpose()?;
    let Started { engine, kernels, mut notices } = engine::start(&args.place)?;
    let layout = settings::layout();

    // Upstream's temperature for this task, without top-p.
    let mut request = Request::default().with(|r| {
        r.language.lm_temperature = Some(0.3);
        r.language.lm_top_p = Some(1.0);
        r.noise.seed = Some(vec![args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()))]);
    });
    args.drawing.put_over(&mut request.language);
    let seeds = request.noise.seed.clone().unwrap_or_default();
    let settings = request.language.plan(&request.words, &seeds, &mut notices)?;
    let settings = args.drawing.bound(settings)?;
    let genres = args.drawing.genres.as_deref().map(language::read_genres).transpose()?;

    let model = args.model.clone().unwrap_or_else(settings::model);
    let folder = language::open(request.language.lm_model.as_deref(), &model, &layout, engine)?;
    let source = Source::read(args, &model, &layout, &mut notices)?;
    notices.extend(language::of_files(folder.notices()));
    if let Source::Sound { folder, .. } = &source {
        notices.extend(language::of_files(folder.notices()));
    }
    if folder.name() == TINY {
        let text = "tiny is a random network: what it hears is nonsense, made to prove the program";
        notices.push(Notice(text.into()));
    }
    let (mut needs, length) = source.needs(engine)?;
    let prompt = needs::prompt_tokens(0) + length;
    needs.extend(memory::language(&folder, &settings, prompt, None, false, engine)?);
    memory::check(&needs, false, engine)?;
    let models: Vec<String> =
        source.model().map(str::to_owned).into_iter().chain([language::label(&folder)]).collect();
    notices.extend(engine::first_run(&kernels, engine, &models));
    report.notes(&notices);
    let seed = settings.seeds.first().copied().unwrap_or_default();
    report.line(&format!("{} on {engine} · seed {seed}", folder.name()));

    let progress = Progress::new(report);
    let codes = source.codes(engine, &progress)?;
    let understood = language::understand(&codes, &settings, genres, &folder, engine, &progress)?;
    engine::remember(&kernels, engine, &models);
    notices.extend(progress.finish().notices);

    if args.files.json {
        // The first keys are those of upstream's object.
        let mut object = json!(understood.metadata);
        object["lyrics"] = understood.lyrics.clone().into();
        object["audio_codes"] = codes::to_list(&codes).into();
        object["text"] = understood.text.clone().into();
        object["seed"] = seed.into();
        object["notices"] = fields::texts(&notices).into();
        object["language_model"] = language::to_json(&folder, false, Some(&understood.timing));
        report.output(&format!("{object:#}"))?;
    } else {
        report::bytes(printable(&text(&understood)).as_bytes())?;
    }
    if let Some(path) = &args.output {
        write_text(path, &understood.to_request(&codes).to_json(), existing)?;
        report.line(&format!("request {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The input: audio codes or sound.
enum Source {
    Codes(Vec<u32>),
    Sound { audio: Audio, folder: Box<AceStep> },
}

impl Source {
    fn read(
        args: &Understand,
        model: &str,
        layout: &Layout,
        notices: &mut Vec<Notice>,
    ) -> Result<Self> {
        if let Some(value) = &args.audio_codes {
            let text = text_or_file("--audio-codes", value, &mut Stdin::default())?;
            let codes = codes::parse(&text)?;
            if codes.is_empty() {
                let refusal = crate::error::CliError::usage("`--audio-codes` has no codes in it");
                return Err(refusal.hint("give codes as 17,4 or a file as @codes.txt").into());
            }
            return Ok(Self::Codes(codes));
        }
        let path = args.song.as_deref().unwrap_or(Path::new(""));
        let folder = Box::new(acestep_import::open(model, layout)?);
        folder.require(Network::AudioCodec)?;
        let (audio, more) = read::song(path, folder.configs().vae.frames_per_second().recip())?;
        notices.extend(more);
        Ok(Self::Sound { audio, folder })
    }

    /// The model that turns sound into codes; `None` for codes.
    fn model(&self) -> Option<&str> {
        match self {
            Self::Codes(_) => None,
            Self::Sound { folder, .. } => Some(folder.name()),
        }
    }

    /// The memory needed to make the codes, and the number of codes.
    fn needs(&self, engine: Engine) -> Result<(Vec<MemoryNeed>, usize), Error> {
        match self {
            Self::Codes(codes) => Ok((vec![], codes.len())),
            Self::Sound { audio, folder } => {
                let configs = folder.configs();
                let samples = audio.seconds() * f64::from(configs.vae.sampling_rate);
                let frames = (samples / configs.vae.hop() as f64).ceil() as usize;
                let codes = frames.div_ceil(configs.dit.pool_window_size);
                Ok((memory::sizes(folder, engine).listening(frames)?, codes))
            }
        }
    }

    fn codes(self, engine: Engine, observe: &dyn Observe) -> Result<Vec<u32>> {
        match self {
            Self::Codes(codes) => Ok(codes),
            Self::Sound { audio, folder } => {
                let (audio, folder) = (&audio, &*folder);
                on_engine!(engine,
                for<'a>(audio: &'a Audio, folder: &'a AceStep, observe: &'a dyn Observe)
                    -> Result<Vec<u32>, Error>,
                |place: B| {
                    let needed = [Network::VaeEncoder, Network::AudioCodec];
                    folder.check::<B>(&place.device, &needed).map_err(Error::checkpoint)?;
                    let networks =
                        Networks::<B>::new(folder, place, Residency::WhileUsed);
                    tokenize::codes_of(audio, &networks, observe)
                })?
                .context("cannot turn the sound into codes")
            }
        }
    }
}

/// `text` without control characters, which could move a terminal's cursor.
fn printable(text: &str) -> String {
    text.chars().filter(|&c| c == '\n' || !c.is_control()).collect()
}

/// One value per line, the lyrics last.
fn text(understood: &Understood) -> String {
    let Understood { metadata, lyrics, .. } = understood;
    let lines = [
        ("caption", metadata.caption.clone()),
        ("bpm", metadata.bpm.as_ref().map(ToString::to_string)),
        ("keyscale", metadata.keyscale.clone()),
        ("timesignature", metadata.timesignature.clone()),
        ("duration", metadata.duration.as_ref().map(ToString::to_string)),
        ("language", metadata.language.clone()),
        ("genres", metadata.genres.clone()),
    ];
    let known = lines.into_iter().filter_map(|(what, value)| Some((what, value?)));
    let mut text: String = known.map(|(what, value)| format!("{what:<15}{value}\n")).collect();
    if !lyrics.is_empty() {
        text += &format!("\n{lyrics}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_says_cannot_move_the_cursor() {
        assert_eq!(printable("a\x1b[2Jb\r\u{9b}c\nd\té\0"), "a[2Jbc\ndé");
    }
}
