//! The decoder: frames of codes to samples, in chunks of any sizes.
//!
//! Source: transformers `MimiModel._decode_frame`; the window as in transformers 5 and in Moshi.
//! Checkpoint: `quantizer.*`, `upsample.*`, `decoder_transformer.*` and `decoder.*` of Mimi.

use burn::{
    module::Module,
    tensor::{DType, Int, Tensor, TensorData},
};

use super::{
    Config,
    quantizer::Dequantizer,
    seanet_decoder::{SeaNetDecoder, SeaNetDecoderState},
    transformer::{self, Settings},
};
use crate::{
    Backend, NoTap, Place, Tap,
    kernel::{ConvGeometry, Precision},
    nn::{Archive, Cache, ConvState, ConvTranspose1d, ForeignState, Layer},
};

/// Taps and stride of the first up-sampling, from 12.5 Hz to 25 Hz.
const UPSAMPLE: (usize, usize) = (4, 2);

/// The decoder.
#[derive(Module, Debug)]
pub struct Decoder<B: Backend> {
    quantizer: Dequantizer<B>,
    /// One filter for each channel.
    upsample: ConvTranspose1d<B>,
    decoder_transformer: Vec<Layer<B>>,
    decoder: SeaNetDecoder<B>,
    #[module(skip)]
    settings: Settings,
    samples_per_frame: usize,
}

/// The past of a signal. A copy continues the same signal a second time.
#[derive(Debug, Clone, Default)]
pub struct DecoderState<B: Backend> {
    upsample: ConvState<B>,
    decoder_transformer: Option<Cache<B>>,
    decoder: SeaNetDecoderState<B>,
}

impl<B: Backend> Decoder<B> {
    /// Creates a decoder of the configured size, with the first `codebooks` codebooks and the
    /// configured window.
    pub fn init(config: &Config, codebooks: usize, device: &B::Device) -> Self {
        let (taps, stride) = UPSAMPLE;
        let width = config.hidden_size;
        let whole = ConvGeometry::causal_transposed(taps, stride);
        let geometry = ConvGeometry { groups: width, ..whole };
        Self {
            quantizer: Dequantizer::init(config, codebooks, device),
            upsample: ConvTranspose1d::init([width; 2], taps, geometry, device),
            decoder_transformer: transformer::init(config, device),
            decoder: SeaNetDecoder::init(config, device),
            settings: Settings::of(config, config.sliding_window),
            samples_per_frame: config.samples_per_frame(),
        }
    }

    /// Sets the number of positions that a position of the transformer sees, its own included;
    /// `None` for all before it, as transformers before version 5 decodes.
    #[must_use]
    pub fn with_window(mut self, window: Option<usize>) -> Self {
        self.settings.window = window;
        self
    }

    /// Returns the decoder with filters prepacked by
    /// [`kernel::pack_filter`](crate::kernel::pack_filter) for this precision. The result cannot be cast or
    /// saved.
    pub fn prepacked(self, precision: Precision) -> Self {
        let (quantizer, decoder) = (self.quantizer.prepacked(), self.decoder.prepacked(precision));
        Self { quantizer, decoder, ..self }
    }

    /// Returns the number of samples of a frame.
    pub fn samples_per_frame(&self) -> usize {
        self.samples_per_frame
    }

    /// Decodes the next frames of a signal. Frames in chunks of any sizes give the samples of all
    /// frames at once. Without the codes of the last codebooks the sound is coarser, as in the reference.
    ///
    /// # Panics
    /// No frame; fewer codebooks than the semantic ones; more than the decoder has.
    ///
    /// # Shapes
    /// - `codes`: `[G, F]`, less than the size of a codebook each
    /// - output: `[samples]`, f32, which may be beyond -1 and 1
    pub fn forward(&self, codes: Tensor<B, 2, Int>, state: &mut DecoderState<B>) -> Tensor<B, 1> {
        self.forward_tapped(codes, state, &mut NoTap)
    }

    /// [`Self::forward`] that taps `latent`, `upsample`, `tfm.layer{i}` and `seanet{i}`. The layers
    /// are tapped as those of a signal that begins here.
    pub fn forward_tapped<T: Tap<B>>(
        &self,
        codes: Tensor<B, 2, Int>,
        state: &mut DecoderState<B>,
        tap: &mut T,
    ) -> Tensor<B, 1> {
        let x = self.quantizer.forward(codes);
        tap.tap(format_args!("latent"), &x);
        let x = self.upsample.forward_next(x, &mut state.upsample);
        tap.tap(format_args!("upsample"), &x);
        let (layers, x) = (&self.decoder_transformer, x.swap_dims(1, 2));
        if T::LOOKS {
            let _ = transformer::forward_whole(layers, &self.settings, x.clone(), tap);
        }
        let past = &mut state.decoder_transformer;
        let x = self.settings.forward_next(layers, x, past, |x| x, |x| x).swap_dims(1, 2);
        let x = self.decoder.forward(x, &mut state.decoder, tap);
        let samples = x.dims()[2];
        x.cast(DType::F32).reshape([samples])
    }

    /// Returns the tensors of a state that is not fresh, on the host.
    pub fn state_to_data(&self, state: &DecoderState<B>, place: &Place<B>) -> Vec<TensorData> {
        Archive::write(|archive| self.visit(&mut state.clone(), place, archive))
    }

    /// Returns a state from the tensors of [`Self::state_to_data`].
    ///
    /// # Errors
    /// [`ForeignState`] if they are from a decoder of other sizes.
    pub fn state_from_data(
        &self,
        tensors: Vec<TensorData>,
        place: &Place<B>,
    ) -> Result<DecoderState<B>, ForeignState> {
        let mut state = DecoderState::default();
        Archive::read(tensors, place, |archive| self.visit(&mut state, place, archive))?;
        Ok(state)
    }

    fn visit(
        &self,
        state: &mut DecoderState<B>,
        place: &Place<B>,
        archive: &mut Archive<'_, B>,
    ) -> Result<(), ForeignState> {
        self.upsample.visit(&mut state.upsample, archive)?;
        let layers = (self.decoder_transformer.len(), place);
        self.settings.visit(&mut state.decoder_transformer, layers, archive)?;
        self.decoder.visit(&mut state.decoder, archive)
    }
}
