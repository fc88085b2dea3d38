//! Generates a song with the library alone: plan, generate, print progress, write a file.
//!
//! ```text
//! cargo run --release -p acestep-music --example song -- "jazz trio, slow" song.flac
//! cargo run --release -p acestep-music --example song -- "jazz trio, slow" song.flac turbo ~/models
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example speaks for itself")]

use std::{
    error::Error,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use acestep_engine::{
    BackendWork, Device, Engine, Event, Observe, Residency,
    audio::{
        format::{Encoding, Format},
        write,
    },
    device::dtype::Dtype,
    files::Existing,
};
use acestep_import::{AceStep, LanguageModelDir, Layout, built_in};
use acestep_model::{Backend, Place};
use acestep_music::{ModelInfo, Networks, Plan, Request, Song, generate, lm::compose};

// ANCHOR: watch
/// Prints progress, and cancels the run after a deadline.
struct Watcher {
    until: Instant,
}

impl Observe for Watcher {
    fn event(&self, event: Event) {
        match event {
            Event::Finished { stage, elapsed } => println!("{}: {elapsed:.1?}", stage.name),
            Event::Noticed(notice) => println!("note: {notice}"),
            _ => (),
        }
    }

    /// Called between steps: a cancelled run ends with `Error::Cancelled`.
    fn cancelled(&self) -> bool {
        Instant::now() > self.until
    }
}
// ANCHOR_END: watch

// ANCHOR: work
/// The work to do on any device.
struct Make<'a> {
    request: Request,
    model: &'a AceStep,
    language_model: &'a LanguageModelDir,
    watcher: Watcher,
}

impl BackendWork for Make<'_> {
    type Output = Result<Vec<Song>, acestep_engine::Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { request, model, language_model, watcher } = self;
        let mut notices = Vec::new();
        let seeds = request.noise.seed.clone().unwrap_or_default();
        let settings = request.language.plan(&request.words, &seeds, &mut notices)?;
        let wanted = compose::Composing {
            request: &request,
            mode: compose::LmMode::of(&request),
            writes_codes: true,
            settings: &settings,
            genres: None,
        };
        // The language model is freed before the first network of the song is loaded.
        let composed = compose::compose(&wanted, language_model, &place, &watcher)?;
        notices.extend(composed.changes);

        let configs = model.configs();
        let info = ModelInfo::new(model.name(), model.is_turbo(), configs);
        let (plan, more) = Plan::resolve(&composed.request, &info)?;
        notices.extend(more);
        notices.iter().for_each(|notice| println!("note: {notice}"));
        generate(&plan, &Networks::new(model, place, Residency::LastUsed), &watcher)
    }
}
// ANCHOR_END: work

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let caption = args.next().ok_or("what shall it sound like?")?;
    let output = args.next().ok_or("and where shall it be written?")?;
    let output = Path::new(&output);
    let format = Format::of(output).ok_or("`song.flac` or `song.wav` says what to write")?;
    let model = args.next().unwrap_or_else(|| "demo".to_owned());
    let layout = Layout::new(args.next().map(Into::into));

    // ANCHOR: open
    let (model, language_model) = match built_in(&model) {
        Some(inside) => (inside.open()?, inside.open_language_model()?),
        None => {
            let language_model = acestep_import::open_language_model(None, &layout)?;
            (acestep_import::open(&model, &layout)?, language_model)
        }
    };
    let (device, notices) = Device::open("auto")?;
    notices.iter().for_each(|notice| println!("note: {notice}"));
    let engine = Engine { device, dtype: Dtype::Auto.resolve(device)? };
    let songs = engine.run(Make {
        request: Request::default().with(|r| {
            r.words.caption = Some(caption);
            r.words.duration = Some(10.0);
            r.noise.seed = Some(vec![7]);
        }),
        model: &model,
        language_model: &language_model,
        watcher: Watcher { until: Instant::now() + Duration::from_secs(600) },
    })??;
    for song in songs {
        write::save(output, &song.audio, &Encoding::new(format), None, Existing::Replace)?;
        println!("seed {}: {}", song.seed, output.display());
    }
    // ANCHOR_END: open
    Ok(())
}
