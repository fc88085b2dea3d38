//! The diffusion transformer and the encoders it listens to.

use std::time::Duration;

use acestep_import::{Directory, DitFolder, Part, TextEncoderFolder};
use acestep_model::{Backend, Place};
use acestep_train::{
    composer::REVISION,
    course::{Course, Lesson},
    demo::{self, Sizes},
    flow::{Emphasis, Lessons, Shares, Singer, Times, by_length},
    learner::{Habits, awake},
    release::{Tensors, Values, tensors_of, write_tensors},
};
use burn::backend::Autodiff;

use super::{Setting, Taught, corpus, halves, tell, words, write};

/// Latent frames of half a step, over all its songs.
const FRAMES: usize = 8_000;

/// At all times, when instruments are learned.
const ALL: Times = Times { mu: 0.0, sigma: 1.6 };

/// When it is decided what they play: the times of the configuration.
const EARLY: Times = Times { mu: 1.0, sigma: 1.4 };

/// When what is nearly done becomes clean.
const LATE: Times = Times { mu: -0.8, sigma: 1.6 };

/// A course: its steps, its rate, and from which step on what is dwelt on.
struct Plan {
    steps: usize,
    rate: f64,
    warm_up: usize,
    phases: &'static [(usize, Emphasis)],
}

const COURSES: [Plan; 4] = [
    Plan {
        steps: 9_000,
        rate: 2.5e-3,
        warm_up: 500,
        phases: &[
            (0, Emphasis { times: &[ALL], unknown_with_codes: 0.08 }),
            (5_000, Emphasis { times: &[EARLY], unknown_with_codes: 0.08 }),
            // That codes tell key and tempo too, which was left to the text.
            (6_000, Emphasis { times: &[EARLY], unknown_with_codes: 0.5 }),
        ],
    },
    Plan {
        steps: 8_500,
        rate: 1.2e-3,
        warm_up: 300,
        phases: &[(0, Emphasis { times: &[EARLY], unknown_with_codes: 0.5 })],
    },
    // Two courses at early times left the last steps of a song to chance: below 0.1 the error was larger
    // than if nothing had been removed, and what sounds on trembled.
    Plan {
        steps: 7_000,
        rate: 1.2e-3,
        warm_up: 300,
        phases: &[(0, Emphasis { times: &[EARLY, LATE], unknown_with_codes: 0.5 })],
    },
    // The same, on pieces of a composer that had changed: quiet styles were lost on the way.
    Plan {
        steps: 7_000,
        rate: 1.2e-3,
        warm_up: 300,
        phases: &[(0, Emphasis { times: &[EARLY, LATE], unknown_with_codes: 0.5 })],
    },
];

/// How all courses learn.
const HABITS: Habits = Habits {
    steps: 0,
    rate: 0.0,
    warm_up: 0,
    last: 0.02,
    betas: [0.9, 0.99],
    decay: 1e-2,
    longest: 1.0,
    average: 0.9995,
};

pub(super) fn run<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught<4>,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let start = match taught.index() {
        0 => {
            let sizes = Sizes::demo()?;
            Singer::init(&sizes.text_encoder, &sizes.dit, &place.device)
        }
        _ => awake(released(setting, place)?),
    };
    learn(&setting.of(taught), taught, start, place)
}

/// The networks as they were released.
fn released<B: Backend>(setting: &Setting<'_>, place: &Place<B>) -> anyhow::Result<Singer<B>> {
    let folder = |name| Directory::Disk(setting.folder.join("model").join(name));
    let text = TextEncoderFolder::open(folder(words::FOLDERS[0]))?;
    let dit = DitFolder::open(folder("acestep-v15-demo"))?;
    Ok(Singer {
        text_encoder: text.model(place)?,
        conditioner: dit.conditioner(place)?,
        dit: dit.dit(place)?,
    })
}

/// Takes a course from `start`, and releases what came of it.
fn learn<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught<4>,
    start: Singer<Autodiff<B>>,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let Plan { steps, rate, warm_up, phases } = COURSES[taught.index()];
    let steps = taught.steps.unwrap_or(steps);
    let sizes = Sizes::demo()?;
    let tokenizer = words::read(setting, words::FOLDERS[0])?;
    let Some(examples) = corpus::read(setting, place)? else { return Ok(false) };
    let silence = corpus::silence(setting, place)?;
    let codec = setting.codec(place)?;
    let channels = sizes.dit.audio_acoustic_hidden_dim;
    let lessons = Lessons::<Autodiff<B>> {
        by_length: by_length(&examples),
        corpus: &examples,
        tokenizer: &tokenizer,
        codec: codec.clone(),
        silence: &silence,
        channels,
        timbre_frames: sizes.dit.timbre_fix_frame,
        shares: Shares {
            from_text: 0.3,
            from_codes: 0.55,
            untold: 0.12,
            timbre: 0.15,
            unknown: 0.08,
        },
        device: place.device.clone(),
    };
    let course = Course {
        folder: setting.folder.join(taught.folder("flow")),
        seed: setting.seed,
        of: format!(
            "{}{}, composer {REVISION}, {} pieces, {FRAMES} frames, {:?}, {phases:?}",
            demo::DIT,
            demo::TEXT_ENCODER,
            setting.pieces,
            lessons.shares
        ),
        habits: Habits { steps, rate, warm_up, ..HABITS },
        save_every: Duration::from_secs(300),
        at_once: !setting.device.is_card(),
    };
    let learned = course.run_in_parts::<Autodiff<B>, _, _, 1>(
        start,
        ["error"],
        |step| {
            let (_, emphasis) = phases[phases.partition_point(|(from, _)| *from <= step) - 1];
            halves(setting.seed, step).into_iter().map(|seed| (emphasis, seed)).collect()
        },
        |(emphasis, seed), model| {
            let loss = lessons.loss(model, FRAMES, emphasis, seed);
            let error = loss.clone().into_data().iter::<f32>().next().unwrap_or(f32::NAN);
            Lesson { loss, parts: [error] }
        },
        &mut tell,
        setting.stop,
    )?;
    let Some(learned) = learned else { return Ok(false) };

    let folder = setting.released("acestep-v15-demo")?;
    let mut tensors = tensors_of(&learned.dit, Part::Dit);
    tensors.extend(tensors_of(&learned.conditioner, Part::Conditioner));
    tensors.extend(tensors_of(&codec, Part::AudioCodec));
    write_tensors(&folder.join("model.safetensors"), &tensors)?;
    write(&folder.join("config.json"), demo::DIT)?;
    let frames = silence.len() / channels;
    let values = (0..channels)
        .flat_map(|channel| silence.iter().skip(channel).step_by(channels).copied())
        .collect();
    let silence = Values { shape: vec![1, channels, frames], values };
    let silence = Tensors::from([("silence_latent".to_owned(), silence)]);
    write_tensors(&folder.join("silence_latent.safetensors"), &silence)?;

    let folder = setting.released(words::FOLDERS[0])?;
    let text = tensors_of(&learned.text_encoder, Part::TextEncoder);
    write_tensors(&folder.join("model.safetensors"), &text)?;
    write(&folder.join("config.json"), demo::TEXT_ENCODER)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_begin_at_once_and_end_with_the_times_that_the_model_states() {
        let sizes = Sizes::demo().expect("sizes");
        for Plan { phases, .. } in COURSES {
            let [first, ..] = phases else { panic!("no phase") };
            let [.., (_, last)] = phases else { panic!("no phase") };
            assert_eq!((first.0, last.times[0]), (0, Times::of(&sizes.dit)));
            assert!(phases.is_sorted_by(|a, b| a.0 < b.0), "{phases:?}");
        }
    }
}
