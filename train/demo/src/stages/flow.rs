//! Stage of the diffusion transformer and its condition encoders.

use acestep_demo::{
    composer::REVISION,
    demo::{self, Sizes},
    flow::{Examples, PhaseSettings, Pieces, Singer, TaskMix},
};
use acestep_import::Network;
use acestep_model::{Backend, Place, acestep::AudioCodec};
use acestep_train::{
    learner::OptimizerConfig,
    release::{Tensors, Values, tensors_of, write_tensors},
    run::StepLoss,
    times::LogitNormal,
};
use burn::backend::Autodiff;

use super::{Setting, Taught, corpus, halves, product::Product, tell, words};

/// Latent frames per half step, over all its songs.
const FRAMES: usize = 8_000;

/// All times, to learn the instruments.
const ALL: LogitNormal = LogitNormal { mu: 0.0, sigma: 1.6 };

/// Early times, which decide the notes: the times of the configuration.
const EARLY: LogitNormal = LogitNormal { mu: 1.0, sigma: 1.4 };

/// Late times, at which the nearly finished song becomes clean.
const LATE: LogitNormal = LogitNormal { mu: -0.8, sigma: 1.6 };

/// PhaseSettings of the last phase.
pub(super) const LAST: PhaseSettings =
    PhaseSettings { times: &[EARLY, LATE], unknown_with_codes: 0.5 };

/// First step and emphasis of each phase.
const PHASES: &[(usize, PhaseSettings)] = &[
    (0, PhaseSettings { times: &[ALL], unknown_with_codes: 0.08 }),
    // From here on codes must tell key and tempo too, which were left to the text before.
    (3_500, PhaseSettings { times: &[EARLY], unknown_with_codes: 0.5 }),
    // With early times alone, the last steps are badly trained: sustained notes tremble.
    (6_500, LAST),
];

/// Probabilities of the tasks and omissions.
pub(super) const SHARES: TaskMix =
    TaskMix { from_text: 0.3, from_codes: 0.55, unconditional: 0.12, timbre: 0.15, unknown: 0.08 };

pub(super) const OPTIMIZER: OptimizerConfig = OptimizerConfig {
    steps: 14_000,
    rate: 2.5e-3,
    warm_up: 500,
    last: 0.02,
    betas: [0.9, 0.99],
    decay: 1e-2,
    longest: 1.0,
    average: 0.9995,
};

/// A training run of the transformer.
pub(super) struct FlowRun {
    pub(super) folder: &'static str,
    pub(super) seed: u64,
    pub(super) phases: &'static [(usize, PhaseSettings)],
    pub(super) shares: TaskMix,
    pub(super) optimizer_config: OptimizerConfig,
    /// Description of the weights it starts from; empty if random.
    pub(super) from: String,
    /// The released tensors that identify a finished run.
    pub(super) product: Product,
}

pub(super) fn run<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let sizes = Sizes::demo()?;
    let optimizer_config = taught.of(OPTIMIZER);
    let (folder, seed, from) = ("flow", setting.seed, String::new());
    // Not the whole file, because `polish` changes everything else in it.
    let product = setting.codes()?;
    let (phases, shares) = (PHASES, SHARES);
    let plan = FlowRun { folder, seed, phases, shares, optimizer_config, from, product };
    learn(setting, place, &plan, || {
        Ok(Singer::init(&sizes.text_encoder, &sizes.dit, &place.device))
    })
}

/// Trains the networks from `start`, and releases the result.
pub(super) fn learn<B: Backend>(
    setting: &Setting<'_>,
    place: &Place<B>,
    plan: &FlowRun,
    start: impl FnOnce() -> anyhow::Result<Singer<Autodiff<B>>>,
) -> anyhow::Result<bool> {
    let &FlowRun { folder, seed, phases, shares, .. } = plan;
    let sizes = Sizes::demo()?;
    drop(setting.vae()?);
    let codec = setting.codec(place)?;
    let of = format!(
        "{}{}, composer {REVISION}, {} pieces, {FRAMES} frames, {shares:?}, {phases:?}, encoder {}, codes {}{}",
        demo::DIT,
        demo::TEXT_ENCODER,
        setting.pieces,
        setting.encoder()?.digest()?,
        setting.codes()?.digest()?,
        plan.from,
    );
    let training = setting.training(folder, seed, of, plan.optimizer_config.clone());
    if plan.product.is_of(&training)? {
        return Ok(true);
    }

    let tokenizer = words::read(setting, words::FOLDERS[0])?;
    let Some(examples) = corpus::read(setting, place)? else { return Ok(false) };
    let silence = corpus::silence(setting, place)?;
    let examples = Examples::<Autodiff<B>> {
        pieces: Pieces::new(&examples),
        tokenizer: &tokenizer,
        codec: codec.clone(),
        silence: &silence,
        channels: sizes.dit.audio_acoustic_hidden_dim,
        timbre_frames: sizes.dit.timbre_fix_frame,
        shares,
        device: place.device.clone(),
    };
    let learned = training.run_in_parts::<Autodiff<B>, _, _, 1>(
        start()?,
        ["error"],
        |step| {
            let (_, emphasis) = phases[phases.partition_point(|(from, _)| *from <= step) - 1];
            halves(seed, step).into_iter().map(|seed| (emphasis, seed)).collect()
        },
        |(emphasis, seed), model| {
            let loss = examples.loss(model, FRAMES, emphasis, seed);
            let error = loss.clone().into_data().iter::<f32>().next().unwrap_or(f32::NAN);
            StepLoss { loss, parts: [error] }
        },
        &mut tell,
        setting.stop,
    )?;
    let Some(learned) = learned else { return Ok(false) };
    release(setting, &learned, &codec, &silence)?;
    plan.product.is_now_of(&training)?;
    Ok(true)
}

fn release<B: Backend>(
    setting: &Setting<'_>,
    learned: &Singer<B>,
    codec: &AudioCodec<B>,
    silence: &[f32],
) -> anyhow::Result<()> {
    let name = "acestep-v15-demo";
    let mut tensors = tensors_of(&learned.dit, Network::Dit);
    tensors.extend(tensors_of(&learned.conditioner, Network::Conditioner));
    tensors.extend(tensors_of(codec, Network::AudioCodec));
    setting.release(name, &tensors, demo::DIT)?;
    let channels = Sizes::demo()?.dit.audio_acoustic_hidden_dim;
    let frames = silence.len() / channels;
    let values = (0..channels)
        .flat_map(|channel| silence.iter().skip(channel).step_by(channels).copied())
        .collect();
    let silence = Values { shape: vec![1, channels, frames], values };
    let silence = Tensors::from([("silence_latent".to_owned(), silence)]);
    write_tensors(&setting.released(name)?.join("silence_latent.safetensors"), &silence)?;

    let text = tensors_of(&learned.text_encoder, Network::TextEncoder);
    setting.release(words::FOLDERS[0], &text, demo::TEXT_ENCODER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_begin_at_once_and_end_with_the_times_that_the_model_states() {
        let sizes = Sizes::demo().expect("sizes");
        let [first, .., (_, last)] = PHASES else { panic!("no phases") };
        assert_eq!((first.0, last.times[0]), (0, LogitNormal::of(&sizes.dit)));
        assert!(PHASES.is_sorted_by(|a, b| a.0 < b.0), "{PHASES:?}");
    }
}
