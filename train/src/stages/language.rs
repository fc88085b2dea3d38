//! The language model.

use std::time::Duration;

use acestep_import::{Directory, LanguageFolder, Part};
use acestep_model::{
    Backend, Place,
    acestep::{AudioCodec, Config},
    qwen3::Causal,
};
use acestep_train::{
    corpus::Example,
    course::{Course, Lesson, digest},
    demo::{self, Sizes},
    language::{Coded, SHARES, Texts},
    learner::{Habits, awake},
    release::{tensors_of, write_tensors},
};
use burn::{
    backend::Autodiff,
    tensor::{Tensor, TensorData},
};

use super::{Setting, Taught, corpus, halves, tell, words, write};

/// Songs of half a step.
const ITEMS: usize = 8;

/// A course: its steps, its rate, and from which step on which share of the plans is short.
struct Plan {
    steps: usize,
    rate: f64,
    phases: &'static [(usize, f64)],
}

const COURSES: [Plan; 4] = [
    Plan { steps: 5_000, rate: 1e-3, phases: &[(0, 0.0)] },
    Plan { steps: 6_500, rate: 7e-4, phases: &[(0, 0.0), (4_500, 0.5)] },
    Plan { steps: 5_500, rate: 7e-4, phases: &[(0, 0.4)] },
    // The same on other pieces, of a composer that had changed.
    Plan { steps: 5_500, rate: 7e-4, phases: &[(0, 0.4)] },
];

/// How all courses learn.
const HABITS: Habits = Habits {
    steps: 0,
    rate: 0.0,
    warm_up: 300,
    last: 0.02,
    betas: [0.9, 0.98],
    decay: 5e-2,
    longest: 1.0,
    average: 0.999,
};

pub(super) fn run<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught<4>,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let start = match taught.index() {
        0 => Causal::init(&Sizes::demo()?.language_model, &place.device),
        _ => awake(released(setting, place)?),
    };
    learn(&setting.of(taught), taught, start, place)
}

/// The network as it was released.
fn released<B: Backend>(setting: &Setting<'_>, place: &Place<B>) -> anyhow::Result<Causal<B>> {
    let folder = setting.folder.join("model").join(words::FOLDERS[1]);
    Ok(LanguageFolder::open(Directory::Disk(folder))?.model(place)?)
}

/// Takes a course from `start`, and releases what came of it.
fn learn<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught<4>,
    start: Causal<Autodiff<B>>,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let Plan { steps, rate, phases } = COURSES[taught.index()];
    let steps = taught.steps.unwrap_or(steps);
    let sizes = Sizes::demo()?;
    let tokenizer = words::read(setting, words::FOLDERS[1])?;
    let Some(examples) = corpus::read(setting, place)? else { return Ok(false) };
    let codec = setting.codec(place)?;
    let coded: Vec<Coded> =
        examples.iter().map(|example| coded(example, &codec, &sizes.dit, place)).collect();
    drop(examples);
    let codes: Vec<u8> =
        coded.iter().flat_map(|song| &song.codes).flat_map(|code| code.to_le_bytes()).collect();
    let texts = Texts::new(&coded, &tokenizer)?;
    let course = Course {
        folder: setting.folder.join(taught.folder("language")),
        seed: setting.seed,
        // With other codes the same numbers mean other sounds. (Another device hears some differently: this
        // stage goes on where it began.)
        of: format!(
            "{}, {} pieces, {ITEMS} items, {SHARES:?}, {phases:?}, codes {}",
            demo::LANGUAGE_MODEL,
            setting.pieces,
            digest([codes.as_slice()])
        ),
        habits: Habits { steps, rate, ..HABITS },
        save_every: Duration::from_secs(300),
        at_once: !setting.device.is_card(),
    };
    let learned = course.run_in_parts::<Autodiff<B>, _, _, 1>(
        start,
        ["nats"],
        |step| {
            let (_, short) = phases[phases.partition_point(|(from, _)| *from <= step) - 1];
            halves(setting.seed, step).into_iter().map(|seed| (short, seed)).collect()
        },
        |(short, seed), model| {
            let loss = texts.loss(model, ITEMS, short, seed, &place.device);
            let nats = loss.clone().into_data().iter::<f32>().next().unwrap_or(f32::NAN);
            Lesson { loss, parts: [nats] }
        },
        &mut tell,
        setting.stop,
    )?;
    let Some(learned) = learned else { return Ok(false) };
    let folder = setting.released(words::FOLDERS[1])?;
    let tensors = tensors_of(&learned, Part::LanguageModel);
    write_tensors(&folder.join("model.safetensors"), &tensors)?;
    write(&folder.join("config.json"), demo::LANGUAGE_MODEL)?;
    Ok(true)
}

/// The codes of a piece; frames after the last whole group have none.
fn coded<B: Backend>(
    example: &Example,
    codec: &AudioCodec<B>,
    config: &Config,
    place: &Place<B>,
) -> Coded {
    let (channels, group) = (config.audio_acoustic_hidden_dim, config.pool_window_size);
    let frames = example.latents.len() / channels / group * group;
    let latents =
        TensorData::new(example.latents[..frames * channels].to_vec(), [1, frames, channels]);
    let latents = Tensor::<B, 3>::from_data(latents, &place.device);
    let (_, codes) = codec.tokenizer().forward(latents.clone(), latents);
    let codes = codes.into_data().iter::<i64>().map(|code| code as u32).collect();
    Coded { codes, labels: example.labels.clone() }
}
