//! Between a device and the host: tensors to values and back.

use acestep_model::Backend;
use burn::tensor::{Tensor, TensorData};

use crate::audio::Audio;

/// Takes sound `[B, channels, S]` to the host, one song an item.
pub fn audio_from_sound<B: Backend>(sound: Tensor<B, 3>, sample_rate: u32) -> Vec<Audio> {
    let [_, channels, samples] = sound.dims();
    let values = to_host(sound);
    values
        .chunks(channels * samples)
        .map(|song| Audio {
            channels: song.chunks(samples).map(<[f32]>::to_vec).collect(),
            sample_rate,
        })
        .collect()
}

/// Values of a batch, item by item, as a tensor `[B, T, C]`.
pub(crate) fn from_host<B: Backend>(
    values: Vec<f32>,
    frames: usize,
    channels: usize,
    device: &B::Device,
) -> Tensor<B, 3> {
    let batch = values.len() / (frames * channels);
    Tensor::from_data(TensorData::new(values, [batch, frames, channels]), device)
}

/// A tensor's values, of any shape, as f32 on the host: the last axis is the fastest.
///
/// # Panics
/// If the device fails, which nothing here can mend.
pub fn to_host<B: Backend, const D: usize>(x: Tensor<B, D>) -> Vec<f32> {
    let data = x.into_data().convert::<f32>();
    data.to_vec().expect("converted to f32 just above")
}
