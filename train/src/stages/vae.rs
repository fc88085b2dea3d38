//! The autoencoder.

use std::{path::Path, time::Duration};

use acestep_import::Part;
use acestep_model::{Backend, Place, oobleck::Decoder};
use acestep_train::{
    composer::{Piece, REVISION, Wish},
    course::{Course, Lesson, digest},
    demo::{self, Sizes},
    learner::{Habits, awake},
    release::{Tensors, read_tensors, tensors_of, weight_normed, write_tensors},
    vae::{Autoencoder, Crops, Weights, loss, loss_of_decoder},
};
use burn::{
    backend::Autodiff,
    tensor::{Tensor, TensorData},
};

use super::{Setting, Taught, halves, tell, write};

/// Stretches of a step.
const ITEMS: usize = 4;

/// Latent frames of a stretch: 0.8 s.
const FRAMES: usize = 160;

/// Steps of both halves, and again of the decoder alone.
const STEPS: usize = 8_000;

/// One of so many pieces of those for the decoder is played by the band that the later networks know.
const SAME: usize = 2;

/// How both learn.
const HABITS: Habits = Habits {
    steps: STEPS,
    rate: 5e-4,
    warm_up: 400,
    last: 0.02,
    betas: [0.8, 0.99],
    decay: 1e-3,
    longest: 1.0,
    average: 0.999,
};

const WEIGHTS: Weights = Weights { waveform: 1.0, kl: 1.5e-2 };

/// Where the weights lie.
const FILE: &str = "diffusion_pytorch_model.safetensors";

/// Pieces whose latents are measured in the end.
const MEASURED: u64 = 24;

pub(super) fn run<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let habits = Habits { steps: taught.steps.unwrap_or(STEPS), ..HABITS };
    let course = |folder: &str, seed: u64, of: String| Course {
        folder: setting.folder.join(folder),
        seed,
        of,
        habits: habits.clone(),
        save_every: Duration::from_secs(300),
        at_once: setting.at_once(),
    };
    let of = format!("{}, composer {REVISION}", demo::VAE);
    let first = course("vae", setting.seed, of.clone());
    let file = setting.released("vae")?.join(FILE);
    // Released once: computed again, latents might differ in their last bits from those that others learned from.
    let is_released = first.is_finished()? && file.is_file();
    if !is_released && !both(setting, &first, place)? {
        return Ok(false);
    }
    let encoder = digest_of_encoder(&file)?;
    let of = format!("{of}, decoder, {SAME}, encoder {encoder}");
    decoder(setting, &course("vae-decoder", setting.seed.wrapping_add(1), of), place)
}

/// What an encoder is known by.
fn digest_of_encoder(file: &Path) -> anyhow::Result<String> {
    let tensors = read_tensors(file)?;
    let of_encoder = tensors.iter().filter(|(name, _)| name.starts_with("encoder."));
    let values: Vec<u8> =
        of_encoder.flat_map(|(_, of)| &of.values).flat_map(|x| x.to_le_bytes()).collect();
    Ok(digest([values.as_slice()]))
}

/// The course of both halves.
fn both<B: Backend>(
    setting: &Setting<'_>,
    course: &Course,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let sizes = Sizes::demo()?;
    let device = &place.device;
    let mut crops = Crops::new(course.seed, ITEMS, FRAMES * sizes.vae.hop());
    let learned = course.run_in_parts::<Autodiff<B>, _, _, 3>(
        Autoencoder::init(&sizes.vae, device),
        ["spectra", "waveform", "kl"],
        |step| parts(&mut crops, course.seed, step),
        |(sounds, seed): (Vec<f32>, u64), model| {
            let (loss, losses) = loss(model, &sounds, ITEMS / 2, WEIGHTS, seed, device);
            Lesson { loss, parts: [losses.spectra, losses.waveform, losses.kl] }
        },
        &mut tell,
        setting.stop,
    )?;
    let Some(learned) = learned else { return Ok(false) };

    let spread = spread(&learned, setting.seed, place);
    let mut tensors = tensors_of(&learned.encoder, Part::VaeEncoder);
    tensors.extend(tensors_of(&learned.decoder, Part::VaeDecoder));
    even_out(&mut tensors, &spread);
    release(setting, weight_normed(tensors))
}

/// The course of the decoder alone: latents stay what they are, and so everything that other networks
/// know of them.
fn decoder<B: Backend>(
    setting: &Setting<'_>,
    course: &Course,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let sizes = Sizes::demo()?;
    let device = &place.device;
    let released = setting.vae()?;
    let encoder = released.encoder(place)?;
    let start = awake::<Autodiff<B>, Decoder<Autodiff<B>>>(released.decoder(place)?);
    let mut crops = Crops::new(course.seed, ITEMS, FRAMES * sizes.vae.hop()).with_same_band(SAME);
    let learned = course.run_in_parts::<Autodiff<B>, _, _, 2>(
        start,
        ["spectra", "waveform"],
        |step| parts(&mut crops, course.seed, step),
        |(sounds, seed): (Vec<f32>, u64), model| {
            let halves = (&encoder, model);
            let (loss, losses) =
                loss_of_decoder(halves, &sounds, ITEMS / 2, WEIGHTS.waveform, seed, device);
            Lesson { loss, parts: [losses.spectra, losses.waveform] }
        },
        &mut tell,
        setting.stop,
    )?;
    let Some(learned) = learned else { return Ok(false) };

    // Rounded once more the encoder would be another one.
    let mut tensors = read_tensors(&setting.released("vae")?.join(FILE))?;
    tensors.retain(|name, _| name.starts_with("encoder."));
    tensors.extend(weight_normed(tensors_of(&learned, Part::VaeDecoder)));
    release(setting, tensors)
}

/// The stretches of both halves of a step, each with a seed.
fn parts(crops: &mut Crops, seed: u64, step: usize) -> Vec<(Vec<f32>, u64)> {
    let sounds = crops.of_step(step);
    let half = sounds.chunks_exact(sounds.len() / 2).map(<[f32]>::to_vec);
    half.zip(halves(seed, step)).collect()
}

fn release(setting: &Setting<'_>, tensors: Tensors) -> anyhow::Result<bool> {
    let folder = setting.released("vae")?;
    write_tensors(&folder.join(FILE), &tensors)?;
    write(&folder.join("config.json"), demo::VAE)?;
    Ok(true)
}

/// How far the latents of pieces are from zero: the root of the mean square of each channel.
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

/// Gives every channel of the latents the same spread, 1, which is what flow matching starts from:
/// what leaves the encoder is divided, what enters the decoder multiplied.
fn even_out(tensors: &mut Tensors, spread: &[f32]) {
    let channels = spread.len();
    for (name, tensor) in tensors {
        match name.as_str() {
            "encoder.conv2.weight" | "encoder.conv2.bias" => {
                let row = tensor.values.len() / (2 * channels);
                // The second half are spreads on a scale that is nearly logarithmic.
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
