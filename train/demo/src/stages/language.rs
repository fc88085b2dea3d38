//! Stage of the language model.

use acestep_demo::{
    corpus::Example,
    demo::{self, Sizes},
    language::{Coded, SHARES, Texts},
};
use acestep_import::Network;
use acestep_model::{
    Backend, Place,
    acestep::{AudioCodec, Config},
    qwen3::Causal,
};
use acestep_train::{
    learner::OptimizerConfig,
    release::tensors_of,
    run::{StepLoss, digest},
};
use burn::{
    backend::Autodiff,
    tensor::{Tensor, TensorData},
};

use super::{Setting, Taught, corpus, halves, tell, words};

/// Songs per half step.
const ITEMS: usize = 8;

/// Share of short plans.
const SHORT: f64 = 0.4;

const OPTIMIZER: OptimizerConfig = OptimizerConfig {
    steps: 14_000,
    rate: 1e-3,
    warm_up: 300,
    last: 0.02,
    betas: [0.9, 0.98],
    decay: 5e-2,
    longest: 1.0,
    average: 0.999,
};

pub(super) fn run<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught,
    place: &Place<B>,
) -> anyhow::Result<bool> {
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
    // With another codec, the same codes mean other sounds. (Another device computes some codes
    // differently, so this stage must resume on the device where it began.)
    let of = format!(
        "{}, {} pieces, {ITEMS} items, {SHARES:?}, {SHORT}, codes {}",
        demo::LANGUAGE_MODEL,
        setting.pieces,
        digest([codes.as_slice()])
    );
    let training = setting.training("language", setting.seed, of, taught.of(OPTIMIZER));
    let learned = training.run_in_parts::<Autodiff<B>, _, _, 1>(
        Causal::init(&sizes.language_model, &place.device),
        ["nats"],
        |step| halves(setting.seed, step),
        |seed, model| {
            let loss = texts.loss(model, ITEMS, SHORT, seed, &place.device);
            let nats = loss.clone().into_data().iter::<f32>().next().unwrap_or(f32::NAN);
            StepLoss { loss, parts: [nats] }
        },
        &mut tell,
        setting.stop,
    )?;
    let Some(learned) = learned else { return Ok(false) };
    let tensors = tensors_of(&learned, Network::LanguageModel);
    setting.release(words::FOLDERS[1], &tensors, demo::LANGUAGE_MODEL)?;
    Ok(true)
}

/// Returns the codes of a piece; frames after the last whole group are dropped.
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
