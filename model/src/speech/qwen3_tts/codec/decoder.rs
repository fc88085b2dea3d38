//! The decoder: frames of codes to samples, in chunks of any sizes.
//!
//! Source: upstream `Qwen3TTSTokenizerV2Decoder`. Upstream decodes 300 frames at a time behind 25
//! frames of context, which is not the decode of the whole: the transformer looks back further. See
//! [`Decoder::forward`] for the whole, and a fresh [`DecoderState`] for each of upstream's chunks.
//! Checkpoint: `decoder.*` of the speech tokenizer.

use burn::{
    module::Module,
    tensor::{DType, Int, Tensor, TensorData},
};

use super::{
    DecoderConfig,
    block::{Block, BlockState},
    quantizer::Quantizer,
    transformer::{Past, Transformer},
    upsample::{Upsample, UpsampleState},
};
use crate::{
    Backend, NoTap, Place, Tap,
    kernel::{self, ConvGeometry},
    nn::{Archive, Conv1d, ConvState, ForeignState, SnakeBeta},
};

/// The decoder.
#[derive(Module, Debug)]
pub struct Decoder<B: Backend> {
    quantizer: Quantizer<B>,
    pre_conv: Conv1d<B>,
    pre_transformer: Transformer<B>,
    upsample: Vec<Upsample<B>>,
    conv_in: Conv1d<B>,
    blocks: Vec<Block<B>>,
    snake_out: SnakeBeta<B>,
    conv_out: Conv1d<B>,
}

// ANCHOR: state
/// The past of a signal. A copy continues the same signal a second time.
#[derive(Debug, Clone, Default)]
pub struct DecoderState<B: Backend> {
    pre_conv: ConvState<B>,
    pre_transformer: Past<B>,
    upsample: Vec<UpsampleState<B>>,
    conv_in: ConvState<B>,
    blocks: Vec<BlockState<B>>,
    conv_out: ConvState<B>,
}
// ANCHOR_END: state

impl<B: Backend> Decoder<B> {
    /// Creates a decoder of the configured size.
    pub fn init(config: &DecoderConfig, device: &B::Device) -> Self {
        let latent = config.latent_dim;
        let upsample = |&factor: &usize| Upsample::init(latent, factor, device);
        let block = |(index, &rate): (usize, &usize)| {
            Block::init(config.decoder_dim >> index, rate, device)
        };
        let narrow = config.decoder_dim >> config.upsample_rates.len();
        let conv = |channels, taps| {
            Conv1d::init_with_bias(channels, taps, ConvGeometry::causal(taps, 1), device)
        };
        Self {
            quantizer: Quantizer::init(config, device),
            pre_conv: conv([config.codebook_dim, latent], 3),
            pre_transformer: Transformer::init(config, device),
            upsample: config.upsampling_ratios.iter().map(upsample).collect(),
            conv_in: conv([latent, config.decoder_dim], 7),
            blocks: config.upsample_rates.iter().enumerate().map(block).collect(),
            snake_out: SnakeBeta::init(narrow, device),
            conv_out: conv([narrow, 1], 7),
        }
    }

    /// Returns the decoder with filters prepacked by
    /// [`kernel::pack_filter`](crate::kernel::pack_filter). The result cannot be cast or saved.
    pub fn prepacked(self) -> Self {
        Self {
            quantizer: self.quantizer.prepacked(),
            pre_conv: self.pre_conv.prepacked(),
            upsample: self.upsample.into_iter().map(Upsample::prepacked).collect(),
            conv_in: self.conv_in.prepacked(),
            blocks: self.blocks.into_iter().map(Block::prepacked).collect(),
            conv_out: self.conv_out.prepacked(),
            ..self
        }
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
        state.upsample.resize_with(self.upsample.len(), UpsampleState::default);
        state.blocks.resize_with(self.blocks.len(), BlockState::default);
        self.pre_conv.visit(&mut state.pre_conv, archive)?;
        self.pre_transformer.visit(&mut state.pre_transformer, place, archive)?;
        let mut stages = self.upsample.iter().zip(&mut state.upsample);
        stages.try_for_each(|(stage, state)| stage.visit(state, archive))?;
        self.conv_in.visit(&mut state.conv_in, archive)?;
        let mut blocks = self.blocks.iter().zip(&mut state.blocks);
        blocks.try_for_each(|(block, state)| block.visit(state, archive))?;
        self.conv_out.visit(&mut state.conv_out, archive)
    }

    /// Decodes the next frames of a signal. Frames in chunks of any sizes give the samples of all
    /// frames at once.
    ///
    /// # Panics
    /// If there is no frame.
    ///
    /// # Shapes
    /// - `codes`: `[G, F]`, less than the size of a codebook each
    /// - output: `[samples]`, f32, from -1 to 1
    pub fn forward(&self, codes: Tensor<B, 2, Int>, state: &mut DecoderState<B>) -> Tensor<B, 1> {
        self.forward_tapped(codes, state, &mut NoTap)
    }

    /// [`Self::forward`] that taps `quantized`, `pre_conv`, `tfm.out`, `up{i}.out`, `dec0`, `dec{i}`
    /// and `dec6.unclamped` (`6` for four stages).
    pub fn forward_tapped(
        &self,
        codes: Tensor<B, 2, Int>,
        state: &mut DecoderState<B>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 1> {
        state.upsample.resize_with(self.upsample.len(), UpsampleState::default);
        state.blocks.resize_with(self.blocks.len(), BlockState::default);
        let x = self.quantizer.forward(codes);
        tap.tap(format_args!("quantized"), &x);
        let x = self.pre_conv.forward_next(x, &mut state.pre_conv);
        tap.tap(format_args!("pre_conv"), &x);
        let mut x = self.pre_transformer.forward(x, &mut state.pre_transformer);
        tap.tap(format_args!("tfm.out"), &x.clone().swap_dims(1, 2));
        for (index, (stage, state)) in self.upsample.iter().zip(&mut state.upsample).enumerate() {
            x = stage.forward(x, state);
            tap.tap(format_args!("up{index}.out"), &x);
        }
        let x = self.conv_in.forward_next(x, &mut state.conv_in);
        tap.tap(format_args!("dec0"), &x);
        let snake = |index: usize| self.blocks.get(index).map_or(&self.snake_out, Block::snake);
        let mut active = snake(0).forward(x);
        for (index, (block, state)) in self.blocks.iter().zip(&mut state.blocks).enumerate() {
            let x;
            [x, active] = block.forward(active, snake(index + 1), state);
            tap.tap(format_args!("dec{}", index + 1), &x);
        }
        let x = self.conv_out.forward_next(active, &mut state.conv_out);
        tap.tap(format_args!("dec{}.unclamped", self.blocks.len() + 2), &x);
        let samples = x.dims()[2];
        kernel::clamp(x.cast(DType::F32), -1.0, 1.0).reshape([samples])
    }
}
