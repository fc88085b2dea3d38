//! The speaker encoder: a mel spectrogram to a vector that stands for a voice.
//!
//! Source: Desplanques et al. 2020, arXiv:2005.07143 (ECAPA-TDNN), without batch norms; upstream
//! `Qwen3TTSSpeakerEncoder`.
//! Checkpoint: `speaker_encoder.*`.

use burn::{
    module::Module,
    tensor::{DType, Tensor, activation},
};

use super::SpeakerEncoderConfig;
use crate::{
    Backend, NoTap, Tap,
    kernel::{self, ConvGeometry},
    nn::Conv1d,
};

/// The smallest variance of the pooling.
const LEAST_VARIANCE: f32 = 1e-12;

/// The speaker encoder.
#[derive(Module, Debug)]
pub struct SpeakerEncoder<B: Backend> {
    tdnn: Same<B>,
    blocks: Vec<SqueezeExciteRes2Net<B>>,
    mfa: Same<B>,
    asp: AttentivePooling<B>,
    fc: Conv1d<B>,
    mel_dim: usize,
}

/// A convolution that keeps the length: the signal is reflected at its ends.
#[derive(Module, Debug)]
struct Same<B: Backend> {
    conv: Conv1d<B>,
    /// Samples that are added at each end.
    reach: usize,
}

#[derive(Module, Debug)]
struct SqueezeExciteRes2Net<B: Backend> {
    tdnn1: Same<B>,
    res2net_block: Vec<Same<B>>,
    tdnn2: Same<B>,
    se_block: [Conv1d<B>; 2],
}

#[derive(Module, Debug)]
struct AttentivePooling<B: Backend> {
    tdnn: Same<B>,
    conv: Conv1d<B>,
}

impl<B: Backend> SpeakerEncoder<B> {
    /// Creates an encoder of the configured size.
    pub fn init(config: &SpeakerEncoderConfig, device: &B::Device) -> Self {
        let (channels, taps) = (&config.enc_channels, &config.enc_kernel_sizes);
        let dilations = &config.enc_dilations;
        let block = |i: usize| SqueezeExciteRes2Net::init(config, i, device);
        let (joined, pooled) = (channels[1..4].iter().sum(), channels[4]);
        Self {
            tdnn: Same::init([config.mel_dim, channels[0]], taps[0], dilations[0], device),
            blocks: (1..4).map(block).collect(),
            mfa: Same::init([joined, pooled], taps[4], dilations[4], device),
            asp: AttentivePooling {
                tdnn: Same::init([3 * pooled, config.enc_attention_channels], 1, 1, device),
                conv: point([config.enc_attention_channels, pooled], device),
            },
            fc: point([2 * pooled, config.enc_dim], device),
            mel_dim: config.mel_dim,
        }
    }

    /// Returns the number of mel bands of the spectrogram that the network takes.
    pub fn bands(&self) -> usize {
        self.mel_dim
    }

    /// Returns the shortest spectrogram that can be reflected at its ends, in frames.
    pub fn least_frames(&self) -> usize {
        let inner = self.blocks.iter().flat_map(|block| &block.res2net_block);
        let reach = inner.chain([&self.tdnn, &self.mfa]).map(|conv| conv.reach).max();
        reach.unwrap_or(0) + 1
    }

    /// Computes the vector of a voice.
    ///
    /// # Panics
    /// If there are fewer frames than [`Self::least_frames`].
    ///
    /// # Shapes
    /// - `mel`: `[1, bands, frames]`
    /// - output: `[1, 1, enc_dim]`, in the type that the network computes in
    pub fn forward(&self, mel: Tensor<B, 3>) -> Tensor<B, 3> {
        self.forward_tapped(mel, &mut NoTap)
    }

    /// [`Self::forward`] that taps `blocks0`, `blocks{i}`, `mfa` and `asp`.
    pub fn forward_tapped(&self, mel: Tensor<B, 3>, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        let mut x = self.tdnn.forward_relu(mel);
        tap.tap(format_args!("blocks0"), &x);
        let mut outputs = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            x = block.forward(x);
            tap.tap(format_args!("blocks{}", index + 1), &x);
            outputs.push(x.clone());
        }
        let x = self.mfa.forward_relu(Tensor::cat(outputs, 1));
        tap.tap(format_args!("mfa"), &x);
        let x = self.asp.forward(x);
        tap.tap(format_args!("asp"), &x);
        self.fc.forward(x).swap_dims(1, 2)
    }
}

/// Creates a convolution of one tap.
fn point<B: Backend>(channels: [usize; 2], device: &B::Device) -> Conv1d<B> {
    Conv1d::init_with_bias(channels, 1, ConvGeometry::default(), device)
}

impl<B: Backend> Same<B> {
    fn init(channels: [usize; 2], taps: usize, dilation: usize, device: &B::Device) -> Self {
        let geometry = ConvGeometry { dilation, ..Default::default() };
        let conv = Conv1d::init_with_bias(channels, taps, geometry, device);
        Self { conv, reach: dilation * (taps - 1) / 2 }
    }

    /// Computes `relu(conv(x))`.
    ///
    /// # Shapes
    /// - `x`: `[1, in, frames]`
    /// - output: `[1, out, frames]`
    fn forward_relu(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let (reach, frames) = (self.reach, x.dims()[2]);
        let x = match reach {
            0 => x,
            _ => {
                // The end values themselves are not repeated.
                let left = x.clone().narrow(2, 1, reach).flip([2]);
                let right = x.clone().narrow(2, frames - 1 - reach, reach).flip([2]);
                Tensor::cat(vec![left, x, right], 2)
            }
        };
        activation::relu(self.conv.enter(x))
    }
}

impl<B: Backend> SqueezeExciteRes2Net<B> {
    fn init(config: &SpeakerEncoderConfig, index: usize, device: &B::Device) -> Self {
        let (before, channels) = (config.enc_channels[index - 1], config.enc_channels[index]);
        let (taps, dilation) = (config.enc_kernel_sizes[index], config.enc_dilations[index]);
        let part = channels / config.enc_res2net_scale;
        let inner = |_| Same::init([part; 2], taps, dilation, device);
        let squeezed = config.enc_se_channels;
        Self {
            tdnn1: Same::init([before, channels], 1, 1, device),
            res2net_block: (1..config.enc_res2net_scale).map(inner).collect(),
            tdnn2: Same::init([channels; 2], 1, 1, device),
            se_block: [point([channels, squeezed], device), point([squeezed, channels], device)],
        }
    }

    /// # Shapes
    /// - `x`, output: `[1, channels, frames]`
    fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let y = self.tdnn1.forward_relu(x.clone());
        let width = y.dims()[1] / (self.res2net_block.len() + 1);
        let part = |index: usize| y.clone().narrow(1, index * width, width);
        let mut parts = vec![part(0)];
        for (index, conv) in self.res2net_block.iter().enumerate() {
            // The first part goes past the convolutions.
            let input = match index {
                0 => part(1),
                _ => part(index + 1) + parts[index].clone(),
            };
            parts.push(conv.forward_relu(input));
        }
        let y = self.tdnn2.forward_relu(Tensor::cat(parts, 1));
        let [squeeze, excite] = &self.se_block;
        let scale = activation::relu(squeeze.forward(y.clone().mean_dim(2)));
        x + y * activation::sigmoid(excite.forward(scale))
    }
}

impl<B: Backend> AttentivePooling<B> {
    /// Returns the weighted mean and standard deviation over time.
    ///
    /// # Shapes
    /// - `x`: `[1, channels, frames]`
    /// - output: `[1, 2 channels, 1]`
    fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let (shape, dtype) = (x.dims(), x.dtype());
        let wide = x.clone().cast(DType::F32);
        let even = Tensor::full(shape, 1.0 / shape[2] as f32, (&x.device(), DType::F32));
        let [mean, deviation] = kernel::moments(wide.clone(), even, LEAST_VARIANCE);
        let spread = |y: Tensor<B, 3>| y.cast(dtype).expand(shape);
        let y = Tensor::cat(vec![x, spread(mean), spread(deviation)], 1);
        let y = self.conv.forward(self.tdnn.forward_relu(y).tanh());
        let weights = activation::softmax(y.cast(DType::F32), 2);
        Tensor::cat(kernel::moments(wide, weights, LEAST_VARIANCE).into(), 1).cast(dtype)
    }
}
