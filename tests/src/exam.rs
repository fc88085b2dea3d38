//! The demo model's examination: is what it plays what was asked for?
//!
//! The questions are pieces that it never learned from; only their labels are asked for, and the
//! [`listener`](crate::listener), which knows nothing of composer and model, says what it hears.

use std::{path::Path, time::Duration};

use acestep_import::{Directory, Folder, LanguageFolder, ModelPaths, VaeFolder};
use acestep_runtime::{
    Parts, Plan, Request, Residency, Unobserved,
    audio::Audio,
    listen::codes_of,
    lm::{
        compose::{Ask, Job, compose, understand},
        metadata::Metadata,
        settings::Settings,
    },
    sounds::{Sound as SourceSound, Sounds},
};
use acestep_train::composer::{Key, Mode, Piece, Stereo, Wish};
use burn::tensor::{Tensor, TensorData};

use crate::listener::{Faults, Features, Sound, Styles, faults, features, key, tempo};
use crate::{Cpu, DEVICE, info, place, plan, songs};

/// Seed of the first question; those of what is learned from are far away.
const FIRST: u64 = u64::MAX / 2;

/// Seed of the first piece that the listener learns the styles from.
const STYLES: u64 = u64::MAX / 4;

/// Pieces that the listener learns the styles from.
const LESSONS: u64 = 360;

/// Who is examined.
pub struct Student {
    /// The model.
    pub model: Folder,
    /// Its language model.
    pub language_model: Option<LanguageFolder>,
    /// What a request has beside what is said of a piece: steps, guidance, ..
    pub how: Request,
}

/// A piece that is asked for, of `seconds`.
pub fn question(index: u64, seconds: f64) -> Piece {
    let wish = Wish { duration_s: Some(seconds), ..Wish::default() };
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
        let language_model = Directory::Disk(folder.join("acestep-5Hz-lm-0.6B"));
        Self {
            model: Folder::open(&paths).expect("a model"),
            language_model: LanguageFolder::open(language_model).ok(),
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
        let settings = Settings::resolve(&request, &[seed], &mut vec![]).expect("settings");
        let job = Job {
            request: &request,
            ask: Ask::Plan,
            writes_codes: true,
            settings: &settings,
            genres: None,
        };
        let composed =
            compose::<Cpu, _>(&job, self.language_model(), &place(), &Unobserved).expect("codes");
        self.made(&plan(&composed.request, &self.model))
    }

    /// A cover of a piece, called what another one is called, whose words may contradict it.
    pub fn cover(&self, piece: &Piece, seed: u64) -> Stereo {
        let other = question(seed + 1, piece.duration);
        let request = Request {
            task_type: Some("cover".into()),
            caption: Some(other.caption),
            lyrics: Some(piece.lyrics.clone()),
            seed: Some(vec![seed]),
            ..self.how.clone()
        };
        self.made_from(piece, &request)
    }

    /// A piece of which the seconds from 3 to 6 are made anew.
    pub fn repaint(&self, piece: &Piece, seed: u64) -> Stereo {
        let request = Request {
            task_type: Some("repaint".into()),
            repainting_start: Some(3.0),
            repainting_end: Some(6.0),
            duration: None,
            ..self.request(piece, seed)
        };
        self.made_from(piece, &request)
    }

    fn made_from(&self, piece: &Piece, request: &Request) -> Stereo {
        let audio = Audio { channels: piece.render().into(), sample_rate: 48_000 };
        let source = SourceSound::heard(&audio, &info(&self.model)).expect("a sound");
        let sounds = Sounds { source: Some(source), references: vec![] };
        let (plan, _) = Plan::with_sounds(request, &info(&self.model), &sounds).expect("a plan");
        self.made(&plan)
    }

    fn made(&self, plan: &Plan) -> Stereo {
        let mut songs = songs(plan, &self.model).expect("a song");
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

/// A listener that has heard pieces of every style.
pub fn styles() -> Styles {
    let wish = Wish { duration_s: Some(10.0), ..Wish::default() };
    let lesson = |index: u64| {
        let piece = Piece::compose(STYLES + index, &wish);
        (piece.style.to_string(), features(&piece.render()))
    };
    let lessons: Vec<(String, Features)> = (0..LESSONS).map(lesson).collect();
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
