//! The audio codes.

use std::time::Duration;

use acestep_import::Part;
use acestep_model::acestep::AudioCodec;
use acestep_train::{
    codec::loss,
    course::{Course, Lesson, seed_of},
    demo::Sizes,
    learner::Habits,
    release::tensors_of,
};
use anyhow::Context;
use burn_flex::Flex;

use super::{Learning, Setting, corpus, tell};

/// Stretches of a step, of five codes each.
const ITEMS: usize = 64;

fn course(setting: &Setting<'_>, steps: usize) -> Course {
    Course {
        folder: setting.folder.join("codec"),
        seed: setting.seed,
        of: acestep_train::demo::DIT.to_owned(),
        habits: Habits {
            steps,
            rate: 1e-3,
            warm_up: 200,
            last: 0.02,
            betas: [0.9, 0.99],
            decay: 1e-2,
            longest: 1.0,
            average: 0.999,
        },
        save_every: Duration::from_secs(300),
    }
}

pub(super) fn run(setting: &Setting<'_>, steps: usize) -> anyhow::Result<bool> {
    let sizes = Sizes::demo()?;
    let Some(examples) = corpus::read(setting)? else { return Ok(false) };
    let (course, device) = (course(setting, steps), Default::default());
    let channels = sizes.dit.audio_acoustic_hidden_dim;
    let learned = course.run::<Learning, _, 1>(
        AudioCodec::init(&sizes.dit, &device),
        ["error"],
        &device,
        |step, model| {
            let loss =
                loss(model, &examples, channels, ITEMS, seed_of(setting.seed, step), &device);
            let error = loss.clone().into_data().iter::<f32>().next().unwrap_or(f32::NAN);
            Lesson { loss, parts: [error] }
        },
        &mut tell,
        setting.stop,
    )?;
    let Some(learned) = learned else { return Ok(false) };
    let path = setting.folder.join("codec/codec.safetensors");
    acestep_train::release::write_exactly(&path, &tensors_of(&learned, Part::AudioCodec))?;
    Ok(true)
}

/// The codec as its stage left it.
pub(super) fn read(setting: &Setting<'_>) -> anyhow::Result<AudioCodec<Flex>> {
    let path = setting.folder.join("codec/codec.safetensors");
    let codec = AudioCodec::init(&Sizes::demo()?.dit, &Default::default());
    acestep_train::release::filled(codec, Part::AudioCodec, &path)
        .context("the stage `codec` comes first")
}
