//! `acestep understand`: a song to words about it.
//!
//! ```text
//! file -> sound -> latents -> audio codes -> language model -> caption, metadata, lyrics
//! ```

use std::{path::Path, process::ExitCode};

use acestep_import::{Folder, KNOWN_MODELS, Layout, Part, TINY};
use acestep_model::Backend;
use acestep_runtime::{
    Device, Error, Notice, Observe, Parts, Request, Residency,
    audio::{Audio, read},
    codes,
    files::{Existing, check_target, write_whole},
    listen,
    lm::{compose::Understood, settings::Settings},
};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    language,
    text::{Stdin, text_or_file},
};
use crate::{
    args::{Global, plan::Understand},
    interrupt,
    progress::Progress,
    report, settings,
};

/// Runs the command.
///
/// # Errors
/// Whatever stands in the way, with its remedy.
pub(crate) fn run(args: &Understand, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    args.output.as_deref().map(|path| check_target(path, existing)).transpose()?;
    let device: Device = args.place.device.parse()?;
    let layout = Layout::new(args.place.models_dir.clone().or_else(settings::models_dir));

    // Upstream's temperature for this, and all tokens.
    let mut request = Request {
        lm_temperature: Some(0.3),
        lm_top_p: Some(1.0),
        seed: Some(vec![args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()))]),
        ..Request::default()
    };
    args.drawing.put_over(&mut request);
    let seeds = request.seed.clone().unwrap_or_default();
    let mut notices = Vec::new();
    let settings = Settings::resolve(&request, &seeds, &mut notices)?;
    let settings = args.drawing.bound(settings)?;
    let genres = args.drawing.genres.as_deref().map(language::read_genres).transpose()?;

    let model = args.model.clone().unwrap_or_else(|| KNOWN_MODELS[0].name.to_owned());
    let folder = language::open(request.lm_model.as_deref(), &model, &layout, device)?;
    let source = Source::read(args, &model, &layout, &mut notices)?;
    if folder.name() == TINY {
        let text = "tiny is a random network: what it hears is nonsense, made to prove the program";
        notices.push(Notice(text.into()));
    }
    notices.iter().for_each(|notice| report.note(&notice.0));
    let seed = settings.seeds.first().copied().unwrap_or_default();
    report.line(&format!("{} on {device} · seed {seed}", folder.name()));

    let progress = Progress::new(report);
    let codes = source.codes(device, &progress)?;
    let understood = language::understand(&codes, &settings, genres, &folder, device, &progress)?;
    drop(progress);

    if let Some(path) = &args.output {
        save(path, &request_of(&understood, &codes), existing)?;
    }
    if args.json {
        let mut object = to_json(&understood);
        object["audio_codes"] = codes::to_list(&codes).into();
        object["text"] = understood.text.clone().into();
        object["seed"] = seed.into();
        object["notices"] = notices.iter().map(|notice| notice.0.clone()).collect();
        object["language_model"] = language::to_json(&folder, &understood.timing);
        report.output(&format!("{object:#}"))?;
    } else {
        report::bytes(text(&understood).as_bytes())?;
    }
    if let Some(path) = &args.output {
        report.line(&format!("request {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is to be understood.
enum Source {
    Codes(Vec<u32>),
    Sound { audio: Audio, folder: Box<Folder> },
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
                let refusal = crate::error::Refusal::usage("`--audio-codes` has no codes in it");
                return Err(refusal.hint("give codes as 17,4 or a file as @codes.txt").into());
            }
            return Ok(Self::Codes(codes));
        }
        let path = args.song.as_deref().unwrap_or(Path::new(""));
        let (audio, more) = read::read(path)?;
        notices.extend(more);
        let folder = Box::new(acestep_import::open(model, layout)?);
        Ok(Self::Sound { audio, folder })
    }

    fn codes(self, device: Device, observe: &dyn Observe) -> Result<Vec<u32>> {
        match self {
            Self::Codes(codes) => Ok(codes),
            Self::Sound { audio, folder } => device
                .run(Listen { audio: &audio, folder: &folder, observe })?
                .context("cannot turn the sound into codes"),
        }
    }
}

struct Listen<'a> {
    audio: &'a Audio,
    folder: &'a Folder,
    observe: &'a dyn Observe,
}

impl acestep_runtime::Job for Listen<'_> {
    type Output = Result<Vec<u32>, Error>;

    fn run<B: Backend>(self, device: B::Device) -> Self::Output {
        let parts = [Part::VaeEncoder, Part::AudioCodec];
        self.folder.check::<B>(&device, &parts).map_err(Error::checkpoint)?;
        let parts = Parts::<B, Folder>::new(self.folder, device, Residency::WhileUsed);
        listen::codes_of(self.audio, &parts, self.observe)
    }
}

/// The song as a request.
fn request_of(understood: &Understood, codes: &[u32]) -> Request {
    let metadata = &understood.metadata;
    Request {
        caption: metadata.caption.clone(),
        lyrics: Some(understood.lyrics.clone()),
        bpm: metadata.bpm().filter(|bpm| (30..=300).contains(bpm)),
        keyscale: metadata.keyscale.clone(),
        timesignature: metadata.timesignature.clone(),
        vocal_language: metadata.language.clone(),
        audio_codes: Some(vec![codes.to_vec()]),
        ..Request::default()
    }
}

fn save(path: &Path, request: &Request, existing: Existing) -> Result<(), Error> {
    use std::io::Write;
    interrupt::whole(|| {
        write_whole(path, existing, |file| {
            file.write_all(request.to_json().as_bytes()).map_err(|source| Error::File {
                action: acestep_runtime::Action::Write,
                path: path.to_owned(),
                source,
            })
        })
    })
}

/// Upstream's dictionary.
fn to_json(understood: &Understood) -> Value {
    let mut object = json!(understood.metadata);
    object["lyrics"] = understood.lyrics.clone().into();
    object
}

/// One subject a line, the lyrics last.
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
