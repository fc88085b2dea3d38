//! Stage of the audio codes.

use acestep_demo::{
    codes::{Moments, Scribe, Written},
    composer::REVISION,
    corpus::{self, Example},
    demo::{self, Sizes},
    sheet::sheet,
};
use acestep_import::Network;
use acestep_model::{Backend, Place};
use acestep_train::{learner::OptimizerConfig, release::tensors_of, run::StepLoss};
use burn::{backend::Autodiff, tensor::Tensor};

use super::{Setting, Taught, corpus as pieces, halves, tell};

/// Moments per half step.
const MOMENTS: usize = 96;

const OPTIMIZER: OptimizerConfig = OptimizerConfig {
    steps: 4_000,
    rate: 2e-3,
    warm_up: 200,
    last: 0.02,
    betas: [0.9, 0.99],
    decay: 1e-2,
    longest: 1.0,
    average: 0.998,
};

pub(super) fn run<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let sizes = Sizes::demo()?;
    drop(setting.vae()?);
    let of = format!(
        "{}, composer {REVISION}, {} pieces, {MOMENTS} moments, encoder {}",
        demo::DIT,
        setting.pieces,
        setting.encoder()?.digest()?
    );
    let training = setting.training("codes", setting.seed, of, taught.of(OPTIMIZER));
    let codes = setting.codes()?;
    if codes.is_of(&training)? {
        return Ok(true);
    }

    let Some(examples) = pieces::read(setting, place)? else { return Ok(false) };
    let shape = [sizes.dit.pool_window_size, sizes.dit.audio_acoustic_hidden_dim];
    let written: Vec<Written> = examples
        .into_iter()
        .enumerate()
        .map(|(index, Example { latents, .. })| {
            let moments = latents.len() / (shape[0] * shape[1]);
            Written { sheet: sheet(&corpus::piece(setting.seed, index), moments), latents }
        })
        .collect();
    let moments = Moments::new(&written, shape);
    let device = &place.device;
    let learned = training.run_in_parts::<Autodiff<B>, _, _, 6>(
        Scribe::init(&sizes.dit, device),
        ["harmony", "bass", "rhythm", "harmony heard", "bass heard", "rhythm heard"],
        |step| halves(setting.seed, step),
        |seed, model| {
            let [unknown, unheard] = moments.unknown(model, MOMENTS, seed, device);
            let number = |x: &Tensor<Autodiff<B>, 1>| x.clone().into_data().iter::<f32>().next();
            let all = [0, 1].map(|i| [&unknown, &unheard][i]).into_iter().flatten();
            let parts: Vec<f32> = all.map(|x| number(x).unwrap_or(f32::NAN)).collect();
            let parts = parts.try_into().expect("three kinds, twice");
            let weighted = |[harmony, bass, rhythm]: [_; 3]| harmony + bass * 0.5 + rhythm;
            StepLoss { loss: weighted(unknown) + weighted(unheard), parts }
        },
        &mut tell,
        setting.stop,
    )?;
    let Some(learned) = learned else { return Ok(false) };
    let tensors = tensors_of(&learned.codec, Network::AudioCodec);
    setting.release("acestep-v15-demo", &tensors, demo::DIT)?;
    codes.is_now_of(&training)?;
    Ok(true)
}
