//! The encoder: sound to frames of codes, whole or in chunks.
//!
//! Source: transformers `MimiModel._encode_frame`. Before version 5 its transformer is causal without
//! a window: the configured window is not applied there. Codes of Mimi alone use the window.
//! Checkpoint: `encoder.*` of the speech tokenizer.

use burn::{
    module::Module,
    tensor::{Int, Tensor},
};

use super::{
    Config,
    padding::{Padding, next, padded, strided},
    quantizer::Quantizer,
    seanet::{SeaNet, SeaNetState},
    transformer::{self, Settings},
};
use crate::{
    Backend, NoTap, Tap,
    nn::{Cache, Conv1d, ConvState, Layer},
};

/// Taps and stride of the last down-sampling, from 25 Hz to 12.5 Hz.
const DOWNSAMPLE: (usize, usize) = (4, 2);

/// The encoder.
#[derive(Module, Debug)]
pub struct Encoder<B: Backend> {
    encoder: SeaNet<B>,
    encoder_transformer: Vec<Layer<B>>,
    downsample: Conv1d<B>,
    quantizer: Quantizer<B>,
    #[module(skip)]
    settings: Settings,
    samples_per_frame: usize,
}

/// The past of a signal. A copy continues the same signal a second time.
#[derive(Debug, Clone, Default)]
pub struct EncoderState<B: Backend> {
    encoder: SeaNetState<B>,
    encoder_transformer: Option<Cache<B>>,
    downsample: ConvState<B>,
    has_begun: bool,
}

impl<B: Backend> Encoder<B> {
    /// Creates an encoder of the configured size, with the first `codebooks` codebooks, whose
    /// transformer has no window.
    pub fn init(config: &Config, codebooks: usize, device: &B::Device) -> Self {
        let (taps, stride) = DOWNSAMPLE;
        Self {
            encoder: SeaNet::init(config, device),
            encoder_transformer: transformer::init(config, device),
            downsample: Conv1d::init([config.hidden_size; 2], taps, strided(stride), device),
            quantizer: Quantizer::init(config, codebooks, device),
            settings: Settings::of(config, None),
            samples_per_frame: config.samples_per_frame(),
        }
    }

    /// Sets the number of positions that a position of the transformer sees, its own included;
    /// `None` for all before it.
    #[must_use]
    pub fn with_window(mut self, window: Option<usize>) -> Self {
        self.settings.window = window;
        self
    }

    /// Encodes a whole signal.
    ///
    /// # Panics
    /// If there is no sample.
    ///
    /// # Shapes
    /// - `samples`: `[S]`, mono
    /// - output: `[G, ceil(S / samples per frame)]`
    pub fn forward(&self, samples: Tensor<B, 1>) -> Tensor<B, 2, Int> {
        self.forward_tapped(samples, &mut NoTap)
    }

    /// [`Self::forward`] that taps `seanet{i}`, `tfm.layer{i}`, `downsample`, `semantic_in` and
    /// `acoustic_in`.
    pub fn forward_tapped(
        &self,
        samples: Tensor<B, 1>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 2, Int> {
        let x = self.encoder.forward(samples.unsqueeze_dims(&[0, 0]), tap).swap_dims(1, 2);
        let x = transformer::forward_whole(&self.encoder_transformer, &self.settings, x, tap);
        let x = padded(&self.downsample, x.swap_dims(1, 2), DOWNSAMPLE, Padding::Replicate);
        tap.tap(format_args!("downsample"), &x);
        self.quantizer.forward(x, tap)
    }

    /// Encodes the next samples of a signal, whole frames. Chunks of any numbers of frames give the
    /// codes of the whole signal.
    ///
    /// # Panics
    /// If the samples are no whole frames.
    ///
    /// # Shapes
    /// - `samples`: `[S]`, mono
    /// - output: `[G, S / samples per frame]`
    pub fn forward_next(
        &self,
        samples: Tensor<B, 1>,
        state: &mut EncoderState<B>,
    ) -> Tensor<B, 2, Int> {
        let (count, frame) = (samples.dims()[0], self.samples_per_frame);
        assert!(count > 0 && count.is_multiple_of(frame), "{count} samples, a frame has {frame}");
        let x = self.encoder.forward_next(samples.unsqueeze_dims(&[0, 0]), &mut state.encoder);
        let (layers, past) = (&self.encoder_transformer, &mut state.encoder_transformer);
        let x = self.settings.forward_next(layers, x.swap_dims(1, 2), past, |x| x, |x| x);
        let is_first = !state.has_begun;
        state.has_begun = true;
        let past = (is_first, &mut state.downsample);
        let x = next(&self.downsample, x.swap_dims(1, 2), DOWNSAMPLE, Padding::Replicate, past);
        self.quantizer.forward(x, &mut NoTap)
    }
}
