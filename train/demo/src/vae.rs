//! Training of the autoencoder: sound to latents and back.
//!
//! The decoded sound should equal the input, and the latents should contain little information:
//! `distance + waveform mean |y - x| + kl mean(mu^2 + s^2 - 1 - ln s^2) / 2`.
//!
//! Source: Evans et al. 2024, arXiv:2404.10301, without its discriminator.

mod crops;

use acestep_model::oobleck::{Config, Decoder, Encoder, Posterior};
use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{
        Tensor, TensorData,
        backend::{AutodiffBackend, Backend},
    },
};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use acestep_train::random::normal;

use crate::spectrum::{Distance, distance};

pub use crops::Crops;

/// Encoder and decoder.
#[derive(Module, Debug)]
pub struct Autoencoder<B: acestep_model::Backend> {
    /// Sound to latents.
    pub encoder: Encoder<B>,
    /// Latents to sound.
    pub decoder: Decoder<B>,
}

impl<B: acestep_model::Backend> Autoencoder<B> {
    /// Returns a random autoencoder with quiet output.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let random =
            Self { encoder: Encoder::init(config, device), decoder: Decoder::init(config, device) };
        random.map(&mut Calm::default())
    }
}

/// Scales down the last layer of every residual branch and of each half, so that depth does not
/// amplify the signal, and all other weights a little.
#[derive(Default)]
struct Calm {
    path: Vec<String>,
}

impl<B: acestep_model::Backend> ModuleMapper<B> for Calm {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let is = |part: &str| self.path.iter().any(|name| name == part);
        let factor = if is("conv2") { 0.1 } else { 0.6 };
        let (id, value, mapper) = param.consume();
        Param::from_mapped_value(id, (value * factor).detach().require_grad(), mapper)
    }
}

/// Weights of the loss terms besides the spectra.
#[derive(Debug, Clone, Copy)]
pub struct Weights {
    /// Weight of the waveform term.
    pub waveform: f32,
    /// Weight of the latents' KL divergence from a normal distribution.
    pub kl: f64,
}

/// The terms of a loss.
#[derive(Debug, Clone, Copy, Default)]
pub struct Losses {
    /// Distance of the spectra.
    pub spectra: f32,
    /// Mean absolute difference of the waveforms.
    pub waveform: f32,
    /// KL divergence of the latents, in nats per value.
    pub kl: f32,
}

/// Returns the loss, `[1]`, of a batch of sounds, `items` times `[2, samples]`.
pub fn loss<B>(
    model: &Autoencoder<B>,
    sounds: &[f32],
    items: usize,
    weights: Weights,
    seed: u64,
    device: &B::Device,
) -> (Tensor<B, 1>, Losses)
where
    B: AutodiffBackend + acestep_model::Backend,
{
    let posterior = model.encoder.forward(batch(sounds, items, device));
    let std = posterior.std();
    let back = model.decoder.forward(drawn(&posterior, seed));
    let (of_sound, Losses { spectra, waveform, .. }) =
        loss_of_sound(back, sounds, items, weights.waveform);

    let variance = std.square();
    let kl = (posterior.mean.square() + variance.clone() - variance.log() - 1.0).mean() * 0.5;
    let nats = kl.clone().into_data().iter::<f32>().next().unwrap_or(f32::NAN);
    (of_sound + kl * weights.kl, Losses { spectra, waveform, kl: nats })
}

/// Returns the loss, `[1]`, of a decoder alone, with a fixed encoder. `waveform` is its
/// [weight](Weights::waveform).
pub fn loss_of_decoder<B>(
    (encoder, decoder): (&Encoder<B::InnerBackend>, &Decoder<B>),
    sounds: &[f32],
    items: usize,
    waveform: f32,
    seed: u64,
    device: &B::Device,
) -> (Tensor<B, 1>, Losses)
where
    B: AutodiffBackend + acestep_model::Backend,
    B::InnerBackend: acestep_model::Backend,
{
    let posterior = encoder.forward(batch(sounds, items, device));
    let latents = Tensor::from_inner(drawn(&posterior, seed));
    loss_of_sound(decoder.forward(latents), sounds, items, waveform)
}

/// Returns sounds as a tensor, `[B, 2, N]`.
fn batch<B: Backend>(sounds: &[f32], items: usize, device: &B::Device) -> Tensor<B, 3> {
    let shape = [items, 2, sounds.len() / (2 * items)];
    Tensor::from_data(TensorData::new(sounds.to_vec(), shape), device)
}

/// Samples latents from the encoder's distribution.
fn drawn<B: acestep_model::Backend>(posterior: &Posterior<B>, seed: u64) -> Tensor<B, 3> {
    let std = posterior.std();
    let mut random = Pcg64::seed_from_u64(seed);
    let shape = std.dims();
    let noise = normal(&mut random, shape.iter().product());
    let noise = Tensor::from_data(TensorData::new(noise, shape), &std.device());
    posterior.mean.clone() + std * noise
}

/// Returns the reconstruction loss of decoded sounds, `back`.
fn loss_of_sound<B: Backend>(
    back: Tensor<B, 3>,
    sounds: &[f32],
    items: usize,
    weight: f32,
) -> (Tensor<B, 1>, Losses) {
    let values = back.clone().into_data().iter::<f32>().collect::<Vec<f32>>();
    let Distance { value: spectra, mut gradient } = distance(&values, sounds, items);
    let count = values.len() as f32;
    let mut waveform = 0.0f64;
    for ((gradient, y), x) in gradient.iter_mut().zip(&values).zip(sounds) {
        waveform += f64::from((y - x).abs());
        let sign = if y == x { 0.0 } else { (y - x).signum() };
        *gradient += weight * sign / count;
    }
    let waveform = waveform as f32 / count;
    // ANCHOR: beside
    // Its derivative is the gradient that was computed outside the networks.
    let gradient = TensorData::new(gradient, back.dims());
    let gradient = Tensor::from_data(gradient, &back.device());
    let of_sound = (back * gradient).sum();
    // ANCHOR_END: beside
    (of_sound, Losses { spectra, waveform, kl: 0.0 })
}
