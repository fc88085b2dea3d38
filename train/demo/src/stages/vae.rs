//! Stage of the autoencoder.

use acestep_demo::{
    composer::{Piece, REVISION, Wish},
    demo::{self, Sizes},
    vae::{Autoencoder, Crops, Weights, loss},
};
use acestep_import::Network;
use acestep_model::{Backend, Place};
use acestep_train::{
    learner::OptimizerConfig,
    release::{Tensors, tensors_of, weight_normed, write_tensors},
    run::StepLoss,
};
use burn::{
    backend::Autodiff,
    tensor::{Tensor, TensorData},
};

use super::{Setting, Taught, halves, tell, write};

/// Excerpts per step.
pub(super) const ITEMS: usize = 4;

/// Latent frames per excerpt: 0.8 s.
pub(super) const FRAMES: usize = 160;

/// Optimizer configuration of this stage and of `decoder`.
pub(super) const OPTIMIZER: OptimizerConfig = OptimizerConfig {
    steps: 8_000,
    rate: 5e-4,
    warm_up: 400,
    last: 0.02,
    betas: [0.8, 0.99],
    decay: 1e-3,
    longest: 1.0,
    average: 0.999,
};

pub(super) const WEIGHTS: Weights = Weights { waveform: 1.0, kl: 1.5e-2 };

/// File name of the weights.
pub(super) const FILE: &str = "diffusion_pytorch_model.safetensors";

/// Number of pieces whose latents are measured at the end.
const MEASURED: u64 = 24;

pub(super) fn run<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let training = setting.training("vae", setting.seed, what_is_made(), taught.of(OPTIMIZER));
    let encoder = setting.encoder()?;
    if encoder.is_of(&training)? {
        return Ok(true);
    }

    let sizes = Sizes::demo()?;
    let device = &place.device;
    let mut crops = Crops::new(training.seed, ITEMS, FRAMES * sizes.vae.hop());
    let learned = training.run_in_parts::<Autodiff<B>, _, _, 3>(
        Autoencoder::init(&sizes.vae, device),
        ["spectra", "waveform", "kl"],
        |step| parts(&mut crops, training.seed, step),
        |(sounds, seed): (Vec<f32>, u64), model| {
            let (loss, losses) = loss(model, &sounds, ITEMS / 2, WEIGHTS, seed, device);
            StepLoss { loss, parts: [losses.spectra, losses.waveform, losses.kl] }
        },
        &mut tell,
        setting.stop,
    )?;
    let Some(learned) = learned else { return Ok(false) };

    let spread = spread(&learned, setting.seed, place);
    let mut tensors = tensors_of(&learned.encoder, Network::VaeEncoder);
    tensors.extend(tensors_of(&learned.decoder, Network::VaeDecoder));
    even_out(&mut tensors, &spread);
    release(setting, &weight_normed(tensors))?;
    encoder.is_now_of(&training)?;
    Ok(true)
}

/// Describes network sizes and training data.
pub(super) fn what_is_made() -> String {
    format!("{}, composer {REVISION}", demo::VAE)
}

/// Returns the excerpts of both halves of a step, each with a seed.
pub(super) fn parts(crops: &mut Crops, seed: u64, step: usize) -> Vec<(Vec<f32>, u64)> {
    let sounds = crops.of_step(step);
    let half = sounds.chunks_exact(sounds.len() / 2).map(<[f32]>::to_vec);
    half.zip(halves(seed, step)).collect()
}

pub(super) fn release(setting: &Setting<'_>, tensors: &Tensors) -> anyhow::Result<()> {
    let folder = setting.released("vae")?;
    write_tensors(&folder.join(FILE), tensors)?;
    write(&folder.join("config.json"), demo::VAE)
}

/// Returns the root mean square of each channel of the latents, over some pieces.
fn spread<B: Backend>(learned: &Autoencoder<B>, seed: u64, place: &Place<B>) -> Vec<f32> {
    let mut squares: Vec<f64> = Vec::new();
    let mut frames = 0;
    for piece in 0..MEASURED {
        let wish = Wish { duration_s: Some(8.0), ..Wish::default() };
        let piece = Piece::compose(seed.wrapping_sub(1 + piece), &wish);
        let [left, right] = piece.render();
        let sound = TensorData::new([left, right].concat(), [1, 2, piece.samples()]);
        let mean = learned.encoder.forward(Tensor::from_data(sound, &place.device)).mean;
        let [_, channels, length] = mean.dims();
        squares.resize(channels, 0.0);
        frames += length;
        let values: Vec<f32> = mean.into_data().iter::<f32>().collect();
        for (square, row) in squares.iter_mut().zip(values.chunks_exact(length)) {
            *square += row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
        }
    }
    squares.into_iter().map(|square| (square / frames as f64).sqrt() as f32).collect()
}

/// Scales every channel of the latents to the same RMS, 1, which flow matching expects: divides the
/// encoder's output weights and multiplies the decoder's input weights.
fn even_out(tensors: &mut Tensors, spread: &[f32]) {
    let channels = spread.len();
    for (name, tensor) in tensors {
        match name.as_str() {
            "encoder.conv2.weight" | "encoder.conv2.bias" => {
                let row = tensor.values.len() / (2 * channels);
                // The second half are standard deviations on a nearly logarithmic scale.
                let is_bias = name.ends_with("bias");
                for (index, values) in tensor.values.chunks_exact_mut(row).enumerate() {
                    let of = spread[index % channels];
                    match (index < channels, is_bias) {
                        (true, _) => values.iter_mut().for_each(|x| *x /= of),
                        (false, true) => values.iter_mut().for_each(|x| *x -= of.ln()),
                        (false, false) => {}
                    }
                }
            }
            "decoder.conv1.weight" => {
                let taps = tensor.shape[2];
                for (index, values) in tensor.values.chunks_exact_mut(taps).enumerate() {
                    values.iter_mut().for_each(|x| *x *= spread[index % channels]);
                }
            }
            _ => {}
        }
    }
}
