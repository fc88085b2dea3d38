//! The exam of the demo model: compares its songs with their requests.
//!
//! The questions are pieces that are not training data, and the model gets only their labels.
//! The [`listener`](crate::listener) gets only the sound.

use std::{path::Path, time::Duration};

use acestep_engine::{Residency, Unobserved, audio::Audio};
use acestep_import::{AceStep, DEMO, Directory, LanguageModelDir, ModelPaths, VaeDir, built_in};
use acestep_model::Place;
use acestep_music::{
    ModelInfo, Networks, Plan, Request, generate,
    lm::{
        compose::{Composing, LmMode, compose, understand},
        metadata::Metadata,
    },
    sounds::{Sound as SourceSound, Sounds},
    tokenize::codes_of,
};
use burn::tensor::{DType, Tensor, TensorData};
use burn_flex::{Flex, FlexDevice};
use rayon::prelude::*;

use crate::{
    composer::{Band, Key, Mode, Piece, Stereo, Style, Wish},
    listener::{Faults, Features, Sound, Styles, faults, features, key, tempo},
};

/// The backend of all answers, which runs on the CPU.
type Cpu = Flex;

/// The only device of [`Cpu`].
const DEVICE: FlexDevice = FlexDevice;

/// Returns the properties of `model` that a plan needs.
fn info(model: &AceStep) -> ModelInfo {
    ModelInfo::new(model.name(), model.is_turbo(), model.configs())
}

/// Returns the plan of `request` with `model`.
fn plan(request: &Request, model: &AceStep) -> Plan {
    let (plan, _) = Plan::resolve(request, &info(model)).expect("a valid request");
    plan
}

/// Seed of the first question, far from the seeds of the training data.
const FIRST: u64 = u64::MAX / 2;

/// Offset from the seed of a cover's source to the seed of its caption.
const OTHERS: u64 = u64::MAX / 8;

/// Samples per second.
const SECOND: usize = 48_000;

/// Seed of the first piece from which the listener learns the styles.
const STYLES: u64 = u64::MAX / 4;

/// The number of pieces from which the listener learns the styles, for published results.
pub const LESSONS: u64 = 360;

/// The model under examination.
pub struct Student {
    /// The model.
    pub model: AceStep,
    /// Its language model.
    pub language_model: Option<LanguageModelDir>,
    /// Request fields that do not depend on the piece: steps, guidance, ..
    pub how: Request,
    /// The type of the weights: f32, bf16, or `I8` for int8.
    pub dtype: DType,
}

/// A request and its result.
pub struct Answer {
    /// The piece with the requested labels.
    pub asked: Piece,
    /// The sound.
    pub sound: Stereo,
}

/// Returns question number `index`, a piece of `seconds`.
pub fn question(index: u64, seconds: f64) -> Piece {
    let wish = Wish { duration_s: Some(seconds), band: Band::Same, ..Wish::default() };
    Piece::compose(FIRST + index, &wish)
}

/// Returns the same piece with a band of its own instead of [`Band::Same`].
pub fn composed(index: u64, seconds: f64) -> Piece {
    Piece::compose(FIRST + index, &Wish { duration_s: Some(seconds), ..Wish::default() })
}

/// Returns a piece of ten seconds in a style that only an adapter learns.
pub fn question_in(style: Style, index: u64) -> Piece {
    let band = Band::Same;
    let wish = Wish { duration_s: Some(10.0), style: Some(style), band, ..Wish::default() };
    Piece::compose(FIRST + index, &wish)
}

/// Opens the autoencoder in `folder`. (It is trained first, before the other networks exist.)
pub fn vae(folder: &Path) -> VaeDir {
    VaeDir::open(Directory::Disk(folder.join("vae"))).expect("an autoencoder")
}

/// Encodes and decodes a piece with the autoencoder.
pub fn after_vae(vae: &VaeDir, piece: &Piece) -> Stereo {
    let encoder = vae.encoder::<Cpu>(&Place::f32(DEVICE)).expect("an encoder");
    let decoder = vae.decoder::<Cpu>(&Place::f32(DEVICE)).expect("a decoder");
    let sound = TensorData::new(piece.render().concat(), [1, 2, piece.samples()]);
    let latents = encoder.forward(Tensor::from_data(sound, &DEVICE)).mean;
    let mut left: Vec<f32> = decoder.forward(latents).into_data().to_vec().expect("f32");
    let right = left.split_off(left.len() / 2);
    [left, right]
}

impl Student {
    /// Returns the model that is built into the program.
    pub fn built_in() -> Self {
        let model = built_in(DEMO).expect("the feature `demo`");
        Self {
            model: model.open().expect("a model"),
            language_model: Some(model.open_language_model().expect("a language model")),
            how: Request::default(),
            dtype: DType::F32,
        }
    }

    /// Opens the model in the output folder of training.
    ///
    /// The language model, which is trained last, may be missing. Methods that need it then panic.
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
        let open = |model| LanguageModelDir::open(model).expect("a language model");
        Self {
            model: AceStep::open(&paths).expect("a model"),
            language_model: language_model.map(open),
            how,
            dtype: DType::F32,
        }
    }

    fn place(&self) -> Place<Cpu> {
        Place { device: DEVICE, dtype: self.dtype }
    }

    fn language_model(&self) -> &LanguageModelDir {
        self.language_model.as_ref().expect("a language model")
    }

    /// Returns a request with all labels of a piece.
    fn request(&self, piece: &Piece, seed: u64) -> Request {
        self.how.clone().with(|r| {
            r.words.caption = Some(piece.caption.clone());
            r.words.lyrics = Some(piece.lyrics.clone());
            r.words.bpm = Some(piece.bpm.into());
            r.words.keyscale = Some(piece.keyscale.to_string());
            r.words.timesignature = Some(piece.timesignature.beats().to_string());
            r.words.duration = Some(piece.duration);
            r.noise.seed = Some(vec![seed]);
        })
    }

    /// Makes a song from all labels of a piece, without the language model.
    pub fn song(&self, piece: &Piece, seed: u64) -> Stereo {
        self.made(&plan(&self.request(piece, seed), &self.model))
    }

    /// Makes a song from all labels of a piece and the language model's audio codes.
    pub fn planned(&self, piece: &Piece, seed: u64) -> Stereo {
        let request = self.request(piece, seed).with(|r| r.language.thinking = Some(true));
        self.made(&plan(&self.outlined(&request, seed), &self.model))
    }

    /// Makes an instrumental song from a caption. Also returns the language model's request.
    pub fn of_caption(&self, caption: &str, seed: u64) -> (Stereo, Request) {
        let request = self.how.clone().with(|r| {
            r.words.caption = Some(caption.into());
            r.words.instrumental = Some(true);
            r.noise.seed = Some(vec![seed]);
            r.language.thinking = Some(true);
        });
        let outlined = self.outlined(&request, seed);
        (self.made(&plan(&outlined, &self.model)), outlined)
    }

    fn outlined(&self, request: &Request, seed: u64) -> Request {
        let settings =
            request.language.plan(&request.words, &[seed], &mut vec![]).expect("settings");
        let asked = Composing {
            request,
            mode: LmMode::Plan,
            writes_codes: true,
            settings: &settings,
            genres: None,
        };
        compose::<Cpu>(&asked, self.language_model(), &self.place(), &Unobserved)
            .expect("codes")
            .request
    }

    /// Makes a cover of a piece with the caption of another piece, whose style suits the tempo.
    ///
    /// The expected result has that style, and the tempo and key of the source. The request gives
    /// neither tempo nor key.
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
        let request = self.how.clone().with(|r| {
            r.source.task_type = Some("cover".into());
            r.words.caption = Some(asked.caption.clone());
            r.words.lyrics = Some(asked.lyrics.clone());
            r.noise.seed = Some(vec![seed]);
        });
        Answer { sound: self.made_from(source, &request), asked }
    }

    /// Repaints the middle ten seconds of twenty. Returns them, and the change of the rest.
    ///
    /// The change is relative: 0 is no change, 1 is as different as silence.
    pub fn repaint(&self, index: u64, seed: u64) -> (Answer, f64) {
        let piece = question(index, 20.0);
        let request = self.request(&piece, seed).with(|r| {
            r.source.task_type = Some("repaint".into());
            r.repaint.repainting_start = Some(5.0);
            r.repaint.repainting_end = Some(15.0);
            r.words.duration = None;
        });
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
        let source =
            SourceSound::from_audio(&audio, &info(&self.model), &Unobserved).expect("a sound");
        let sounds = Sounds { source: Some(source), references: vec![] };
        let (plan, _) = Plan::with_sounds(request, &info(&self.model), &sounds).expect("a plan");
        self.made(&plan)
    }

    fn made(&self, plan: &Plan) -> Stereo {
        let networks = Networks::new(&self.model, self.place(), Residency::WhileUsed);
        let mut songs = generate(plan, &networks, &Unobserved).expect("a song");
        songs.swap_remove(0).audio.channels.try_into().expect("two channels")
    }

    /// Returns the language model's description of a piece.
    pub fn understood(&self, piece: &Piece, seed: u64) -> Metadata {
        let audio = Audio { channels: piece.render().into(), sample_rate: 48_000 };
        let networks = Networks::<Cpu>::new(&self.model, self.place(), Residency::WhileUsed);
        let codes = codes_of(&audio, &networks, &Unobserved).expect("codes");
        // The same settings as the command `understand`.
        let request = Request::default().with(|r| {
            r.language.lm_temperature = Some(0.3);
            r.language.lm_top_p = Some(1.0);
        });
        let settings =
            request.language.plan(&request.words, &[seed], &mut vec![]).expect("settings");
        let language = self.language_model();
        understand::<Cpu>(&codes, &settings, None, language, &self.place(), &Unobserved)
            .expect("an answer")
            .metadata
    }
}

/// Fits the listener's styles to `examples` pieces of all styles, and to pieces of an extra style.
pub fn styles(examples: u64, more: Option<Style>) -> Styles {
    let example = |index: u64, style: Option<Style>| {
        let wish = Wish { duration_s: Some(10.0), style, ..Wish::default() };
        let piece = Piece::compose(STYLES + index, &wish);
        (piece.style.to_string(), features(&piece.render()))
    };
    let of_all = (0..examples).map(|index| (index, None));
    let share = examples / Style::ALL.len() as u64;
    let of_one = more
        .into_iter()
        .flat_map(|style| (examples..examples + share).map(move |index| (index, Some(style))));
    let wanted: Vec<(u64, Option<Style>)> = of_all.chain(of_one).collect();
    let examples: Vec<(String, Features)> =
        wanted.into_par_iter().map(|(index, style)| example(index, style)).collect();
    Styles::fit(&examples).expect("enough examples")
}

/// The listener's measurements of an answer.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Beats per minute.
    pub bpm: f64,
    /// Key.
    pub keyscale: Key,
    /// Style.
    pub style: String,
    /// Faults of the sound.
    pub faults: Faults,
}

/// Measures an answer.
pub fn heard<'a>(sound: impl Into<Sound<'a>>, styles: &Styles) -> Measured {
    let sound = sound.into();
    let told = key(sound);
    let mode = if told.minor { Mode::Minor } else { Mode::Major };
    Measured {
        bpm: tempo(sound).bpm,
        keyscale: Key::new(told.tonic, mode),
        style: styles.tell(&features(sound)).to_owned(),
        faults: faults(sound),
    }
}

/// True if the tempo is within 2 %. Twice and half the tempo are wrong.
fn is_tempo(bpm: f64, asked: f64) -> bool {
    (bpm / asked - 1.0).abs() <= 0.02
}

impl Measured {
    /// True if the sound is not clipped, has no long silence, and all samples are finite.
    pub fn is_whole(&self) -> bool {
        let Faults { clipped, not_finite, silence_s, .. } = self.faults;
        clipped == 0 && not_finite == 0 && silence_s < 1.0
    }
}

/// Counts of right answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Number of answers.
    pub of: usize,
    /// Answers with the right tempo.
    pub tempo: usize,
    /// Answers with the right key.
    pub key: usize,
    /// Answers with the right style.
    pub style: usize,
    /// Answers without faults.
    pub whole: usize,
}

impl Marks {
    /// Counts the language model's description of `piece`.
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
    pub fn add(&mut self, piece: &Piece, heard: &Measured) {
        self.of += 1;
        self.tempo += usize::from(is_tempo(heard.bpm, piece.bpm.into()));
        self.key += usize::from(heard.keyscale == piece.keyscale);
        self.style += usize::from(heard.style == piece.style.to_string());
        self.whole += usize::from(heard.is_whole());
    }
}

/// Duration of answers, and the time to make them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// Duration of the sound in seconds.
    pub sound: f64,
    /// Time to make it, in seconds.
    pub taken: f64,
}

impl Times {
    /// Counts an answer.
    pub fn add(&mut self, sound: f64, taken: Duration) {
        self.sound += sound;
        self.taken += taken.as_secs_f64();
    }
}
