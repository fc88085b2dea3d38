//! Transfers between device and host: tensors to values and back.

use acestep_model::Backend;
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::audio::Audio;

/// Copies sound `[B, channels, S]` to the host, one song per batch item.
pub fn audio_from_sound<B: Backend>(sound: Tensor<B, 3>, sample_rate: u32) -> Vec<Audio> {
    let [_, channels, samples] = sound.dims();
    let values = to_host(sound);
    values
        .chunks(channels * samples)
        .map(|song| Audio {
            channels: song.par_chunks(samples).map(<[f32]>::to_vec).collect(),
            sample_rate,
        })
        .collect()
}

/// Returns the values of a batch as a tensor `[B, T, C]`.
pub fn from_host<B: Backend>(
    values: Vec<f32>,
    frames: usize,
    channels: usize,
    device: &B::Device,
) -> Tensor<B, 3> {
    let batch = values.len() / (frames * channels);
    Tensor::from_data(TensorData::new(values, [batch, frames, channels]), device)
}

/// Copies a tensor of any shape to the host as f32, row-major.
///
/// # Panics
/// If the device fails.
pub fn to_host<B: Backend, const D: usize>(x: Tensor<B, D>) -> Vec<f32> {
    let data = x.into_data().convert::<f32>();
    data.into_vec().expect("converted to f32 just above")
}
