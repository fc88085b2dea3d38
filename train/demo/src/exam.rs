//! The demo model's examination: is what it plays what was asked for?
//!
//! The questions are pieces that it never learned from; only their labels are asked for, and the
//! [`listener`](crate::listener), which is given nothing but the sound, says what it hears.

use std::{path::Path, time::Duration};

use crate::composer::{Band, Key, Mode, Piece, Stereo, Style, Wish};
use acestep_import::{DEMO, Directory, Folder, LanguageFolder, ModelPaths, VaeFolder, built_in};
use acestep_model::{Checkpoint, Place};
use acestep_runtime::{
    ModelInfo, Parts, Plan, Request, Residency, Unobserved,
    audio::Audio,
    generate,
    listen::codes_of,
    lm::{
        compose::{Ask, Job, compose, understand},
        metadata::Metadata,
        settings::Settings,
    },
    sounds::{Sound as SourceSound, Sounds},
};
use burn::tensor::{Tensor, TensorData};
use burn_flex::{Flex, FlexDevice};

use crate::listener::{Faults, Features, Sound, Styles, faults, features, key, tempo};

/// The backend of every answer: the CPU's.
type Cpu = Flex;

/// Its only device.
const DEVICE: FlexDevice = FlexDevice;

/// Where networks are put.
fn place() -> Place<Cpu> {
    Place::f32(DEVICE)
}

/// What a plan must know of `model`.
fn info(model: &Folder) -> ModelInfo {
    ModelInfo::new(model.name(), model.is_turbo(), Checkpoint::<Cpu>::configs(model))
}

/// What `model` would do for `request`.
fn plan(request: &Request, model: &Folder) -> Plan {
    let (plan, _) = Plan::resolve(request, &info(model)).expect("a valid request");
    plan
}

/// Seed of the first question; those of what is learned from are far away.
const FIRST: u64 = u64::MAX / 2;

/// How far from its source the seed of a cover's caption is.
const OTHERS: u64 = u64::MAX / 8;

/// Samples of a second.
const SECOND: usize = 48_000;

/// Seed of the first piece that the listener learns the styles from.
const STYLES: u64 = u64::MAX / 4;

/// Pieces that the listener learns the styles from, for marks that are to be published.
pub const LESSONS: u64 = 360;

/// Who is examined.
pub struct Student {
    /// The model.
    pub model: Folder,
    /// Its language model.
    pub language_model: Option<LanguageFolder>,
    /// What a request has beside what is said of a piece: steps, guidance, ..
    pub how: Request,
}

/// What was asked for, and what came of it.
pub struct Answer {
    /// Of these labels the sound shall be.
    pub asked: Piece,
    /// The sound.
    pub sound: Stereo,
}

/// A piece that is asked for, of `seconds`.
pub fn question(index: u64, seconds: f64) -> Piece {
    let wish = Wish { duration_s: Some(seconds), band: Band::Same, ..Wish::default() };
    Piece::compose(FIRST + index, &wish)
}

/// The same piece, played by a band of its own.
pub fn composed(index: u64, seconds: f64) -> Piece {
    Piece::compose(FIRST + index, &Wish { duration_s: Some(seconds), ..Wish::default() })
}

/// A piece of ten seconds in a style that is taught later.
pub fn question_in(style: Style, index: u64) -> Piece {
    let band = Band::Same;
    let wish = Wish { duration_s: Some(10.0), style: Some(style), band, ..Wish::default() };
    Piece::compose(FIRST + index, &wish)
}

/// The autoencoder in that folder, which is trained first.
pub fn vae(folder: &Path) -> VaeFolder {
    VaeFolder::open(Directory::Disk(folder.join("vae"))).expect("an autoencoder")
}

/// What is left of a piece after the autoencoder.
pub fn after_vae(vae: &VaeFolder, piece: &Piece) -> Stereo {
    let encoder = vae.encoder::<Cpu>(&place()).expect("an encoder");
    let decoder = vae.decoder::<Cpu>(&place()).expect("a decoder");
    let sound = TensorData::new(piece.render().concat(), [1, 2, piece.samples()]);
    let latents = encoder.forward(Tensor::from_data(sound, &DEVICE)).mean;
    let mut left: Vec<f32> = decoder.forward(latents).into_data().to_vec().expect("f32");
    let right = left.split_off(left.len() / 2);
    [left, right]
}

impl Student {
    /// The model inside the program.
    pub fn built_in() -> Self {
        let model = built_in(DEMO).expect("the feature `demo`");
        Self {
            model: model.open().expect("a model"),
            language_model: Some(model.open_language_model().expect("a language model")),
            how: Request::default(),
        }
    }

    /// The model in the folder that training releases into. Its language model, which is trained last,
    /// may be missing: then nothing may be asked of it.
    pub fn of(folder: &Path, how: Request) -> Self {
        let paths = ModelPaths {
            name: "demo".into(),
            dit: folder.join("acestep-v15-demo"),
            vae: folder.join("vae"),
            text_encoder: folder.join("Qwen3-Embedding-0.6B"),
            pieces: Vec::new(),
        };
        let language_model = folder.join("acestep-5Hz-lm-0.6B");
        let has_learned = language_model.join("model.safetensors").is_file();
        let language_model = has_learned.then_some(Directory::Disk(language_model));
        let open = |model| LanguageFolder::open(model).expect("a language model");
        Self {
            model: Folder::open(&paths).expect("a model"),
            language_model: language_model.map(open),
            how,
        }
    }

    fn language_model(&self) -> &LanguageFolder {
        self.language_model.as_ref().expect("a language model")
    }

    /// Everything that is said of a piece.
    fn request(&self, piece: &Piece, seed: u64) -> Request {
        Request {
            caption: Some(piece.caption.clone()),
            lyrics: Some(piece.lyrics.clone()),
            bpm: Some(piece.bpm.into()),
            keyscale: Some(piece.keyscale.to_string()),
            timesignature: Some(piece.timesignature.beats().to_string()),
            duration: Some(piece.duration),
            seed: Some(vec![seed]),
            ..self.how.clone()
        }
    }

    /// The song that is asked for by everything that is said of a piece.
    pub fn song(&self, piece: &Piece, seed: u64) -> Stereo {
        self.made(&plan(&self.request(piece, seed), &self.model))
    }

    /// The same, as the language model outlines it.
    pub fn planned(&self, piece: &Piece, seed: u64) -> Stereo {
        let request = Request { thinking: Some(true), ..self.request(piece, seed) };
        self.made(&plan(&self.outlined(&request, seed), &self.model))
    }

    /// The instrumental song of a caption alone, and what the language model made of it.
    pub fn of_caption(&self, caption: &str, seed: u64) -> (Stereo, Request) {
        let request = Request {
            caption: Some(caption.into()),
            instrumental: Some(true),
            seed: Some(vec![seed]),
            thinking: Some(true),
            ..self.how.clone()
        };
        let outlined = self.outlined(&request, seed);
        (self.made(&plan(&outlined, &self.model)), outlined)
    }

    fn outlined(&self, request: &Request, seed: u64) -> Request {
        let settings = Settings::resolve(request, &[seed], &mut vec![]).expect("settings");
        let job =
            Job { request, ask: Ask::Plan, writes_codes: true, settings: &settings, genres: None };
        compose::<Cpu, _>(&job, self.language_model(), &place(), &Unobserved)
            .expect("codes")
            .request
    }

    /// A cover of a piece. The caption is that of another piece, in a style that is played so fast; what
    /// is asked for is that style, and the tempo and key of the source, of which nothing is said.
    pub fn cover(&self, source: &Piece, seed: u64) -> Answer {
        let wish = Wish {
            bpm: Some(source.bpm),
            key: Some(source.keyscale),
            meter: Some(source.timesignature),
            duration_s: Some(source.duration),
            style: None,
            band: source.band,
        };
        let asked = Piece::compose(source.seed.wrapping_add(OTHERS), &wish);
        let request = Request {
            task_type: Some("cover".into()),
            caption: Some(asked.caption.clone()),
            lyrics: Some(asked.lyrics.clone()),
            seed: Some(vec![seed]),
            ..self.how.clone()
        };
        Answer { sound: self.made_from(source, &request), asked }
    }

    /// The middle ten seconds of twenty, which were made anew, and how far the rest is from the
    /// source, where 0 is the source and 1 as far as silence.
    pub fn repaint(&self, index: u64, seed: u64) -> (Answer, f64) {
        let piece = question(index, 20.0);
        let request = Request {
            task_type: Some("repaint".into()),
            repainting_start: Some(5.0),
            repainting_end: Some(15.0),
            duration: None,
            ..self.request(&piece, seed)
        };
        let sound = self.made_from(&piece, &request);
        let middle = 5 * SECOND..15 * SECOND;
        let (mut apart, mut power) = (0.0, 0.0);
        for (ours, source) in sound.iter().zip(piece.render()) {
            for (index, (a, b)) in ours.iter().zip(&source).enumerate() {
                if !middle.contains(&index) {
                    apart += f64::from(a - b).powi(2);
                    power += f64::from(*b).powi(2);
                }
            }
        }
        let sound = sound.map(|channel| channel[middle.clone()].to_vec());
        (Answer { asked: piece, sound }, (apart / power).sqrt())
    }

    fn made_from(&self, piece: &Piece, request: &Request) -> Stereo {
        let audio = Audio { channels: piece.render().into(), sample_rate: 48_000 };
        let source = SourceSound::heard(&audio, &info(&self.model)).expect("a sound");
        let sounds = Sounds { source: Some(source), references: vec![] };
        let (plan, _) = Plan::with_sounds(request, &info(&self.model), &sounds).expect("a plan");
        self.made(&plan)
    }

    fn made(&self, plan: &Plan) -> Stereo {
        let parts = Parts::new(&self.model, place(), Residency::WhileUsed);
        let mut songs = generate(plan, &parts, &Unobserved).expect("a song");
        songs.swap_remove(0).audio.channels.try_into().expect("two channels")
    }

    /// What the language model says of a piece.
    pub fn understood(&self, piece: &Piece, seed: u64) -> Metadata {
        let audio = Audio { channels: piece.render().into(), sample_rate: 48_000 };
        let parts = Parts::<Cpu, Folder>::new(&self.model, place(), Residency::WhileUsed);
        let codes = codes_of(&audio, &parts, &Unobserved).expect("codes");
        // As the command does.
        let request =
            Request { lm_temperature: Some(0.3), lm_top_p: Some(1.0), ..Request::default() };
        let settings = Settings::resolve(&request, &[seed], &mut vec![]).expect("settings");
        let language = self.language_model();
        understand::<Cpu, _>(&codes, &settings, None, language, &place(), &Unobserved)
            .expect("an answer")
            .metadata
    }
}

/// A listener that has heard so many pieces of all styles, and its share of one more.
pub fn styles(lessons: u64, more: Option<Style>) -> Styles {
    let lesson = |index: u64, style: Option<Style>| {
        let wish = Wish { duration_s: Some(10.0), style, ..Wish::default() };
        let piece = Piece::compose(STYLES + index, &wish);
        (piece.style.to_string(), features(&piece.render()))
    };
    let of_all = (0..lessons).map(|index| lesson(index, None));
    let share = lessons / Style::ALL.len() as u64;
    let of_one = more
        .into_iter()
        .flat_map(|style| (lessons..lessons + share).map(move |index| lesson(index, Some(style))));
    let lessons: Vec<(String, Features)> = of_all.chain(of_one).collect();
    Styles::fit(&lessons).expect("enough lessons")
}

/// What was heard of an answer.
#[derive(Debug, Clone)]
pub struct Heard {
    /// Beats a minute.
    pub bpm: f64,
    /// Key.
    pub keyscale: Key,
    /// Style.
    pub style: String,
    /// What is broken.
    pub faults: Faults,
}

/// Hears an answer.
pub fn heard<'a>(sound: impl Into<Sound<'a>>, styles: &Styles) -> Heard {
    let sound = sound.into();
    let told = key(sound);
    let mode = if told.minor { Mode::Minor } else { Mode::Major };
    Heard {
        bpm: tempo(sound).bpm,
        keyscale: Key::new(told.tonic, mode),
        style: styles.tell(&features(sound)).to_owned(),
        faults: faults(sound),
    }
}

/// Within two in a hundred; twice and half as fast are wrong.
fn is_tempo(bpm: f64, asked: f64) -> bool {
    (bpm / asked - 1.0).abs() <= 0.02
}

impl Heard {
    /// Neither clipped nor silent, and every sample a number.
    pub fn is_whole(&self) -> bool {
        let Faults { clipped, not_finite, silence_s, .. } = self.faults;
        clipped == 0 && not_finite == 0 && silence_s < 1.0
    }
}

/// How many of the answers were right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Answers.
    pub of: usize,
    /// With the tempo.
    pub tempo: usize,
    /// In the key.
    pub key: usize,
    /// In the style.
    pub style: usize,
    /// Without faults.
    pub whole: usize,
}

impl Marks {
    /// Counts what was said of `piece`.
    pub fn add_said(&mut self, piece: &Piece, said: &Metadata) {
        let is = |right: bool| usize::from(right);
        let asked = f64::from(piece.bpm);
        let names = |caption: &str| {
            let caption = caption.to_lowercase();
            piece.style.names().iter().any(|name| caption.contains(name))
        };
        self.of += 1;
        self.tempo += is(said.bpm().is_some_and(|bpm| is_tempo(bpm as f64, asked)));
        self.key += is(said.keyscale.as_ref() == Some(&piece.keyscale.to_string()));
        self.style += is(said.caption.as_deref().is_some_and(names));
        self.whole += 1;
    }

    /// Counts an answer to `piece`.
    pub fn add(&mut self, piece: &Piece, heard: &Heard) {
        self.of += 1;
        self.tempo += usize::from(is_tempo(heard.bpm, piece.bpm.into()));
        self.key += usize::from(heard.keyscale == piece.keyscale);
        self.style += usize::from(heard.style == piece.style.to_string());
        self.whole += usize::from(heard.is_whole());
    }
}

/// How long answers took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// Seconds of sound.
    pub sound: f64,
    /// Seconds that they took.
    pub taken: f64,
}

impl Times {
    /// Counts an answer.
    pub fn add(&mut self, sound: f64, taken: Duration) {
        self.sound += sound;
        self.taken += taken.as_secs_f64();
    }
}
