//! A stage of the decoder: snake, transposed convolution, three residual units.
//!
//! Source: upstream `Qwen3TTSTokenizerV2DecoderDecoderBlock`, `..DecoderDecoderResidualUnit`.
//! Checkpoint: `decoder.decoder.{1..}.block.*`.

use burn::{module::Module, tensor::Tensor};

use crate::{
    Backend,
    kernel::ConvGeometry,
    nn::{Archive, Conv1d, ConvState, ConvTranspose1d, ForeignState, SnakeBeta},
};

/// A stage: `S` samples of `2 channels` become `rate S` samples of `channels`.
#[derive(Module, Debug)]
pub(super) struct Block<B: Backend> {
    snake: SnakeBeta<B>,
    conv: ConvTranspose1d<B>,
    units: Vec<ResidualUnit<B>>,
}

/// `x + conv2(act2(conv1(act1(x))))`.
#[derive(Module, Debug)]
struct ResidualUnit<B: Backend> {
    act1: SnakeBeta<B>,
    conv1: Conv1d<B>,
    act2: SnakeBeta<B>,
    conv2: Conv1d<B>,
}

/// The past of a stage.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockState<B: Backend> {
    conv: ConvState<B>,
    units: [ConvState<B>; 3],
}

impl<B: Backend> Block<B> {
    pub(super) fn visit(
        &self,
        state: &mut BlockState<B>,
        archive: &mut Archive<'_, B>,
    ) -> Result<(), ForeignState> {
        self.conv.visit(&mut state.conv, archive)?;
        let mut units = self.units.iter().zip(&mut state.units);
        units.try_for_each(|(unit, state)| unit.conv1.visit(state, archive))
    }

    /// Creates a stage from `wide` channels to half of them.
    pub(super) fn init(wide: usize, rate: usize, device: &B::Device) -> Self {
        let (channels, taps) = (wide / 2, 2 * rate);
        let geometry = ConvGeometry::causal_transposed(taps, rate);
        let conv = |taps, dilation| {
            let geometry = ConvGeometry::causal(taps, dilation);
            Conv1d::init_with_bias([channels; 2], taps, geometry, device)
        };
        let unit = |dilation| ResidualUnit {
            act1: SnakeBeta::init(channels, device),
            conv1: conv(7, dilation),
            act2: SnakeBeta::init(channels, device),
            conv2: conv(1, 1),
        };
        Self {
            snake: SnakeBeta::init(wide, device),
            conv: ConvTranspose1d::init_with_bias([wide, channels], taps, geometry, device),
            units: [1, 3, 9].map(unit).into(),
        }
    }

    /// Returns the snake before the stage, which is fused into the stage before it.
    pub(super) fn snake(&self) -> &SnakeBeta<B> {
        &self.snake
    }

    pub(super) fn prepacked(self) -> Self {
        let unit = |unit: ResidualUnit<B>| ResidualUnit {
            conv1: unit.conv1.prepacked(),
            conv2: unit.conv2.prepacked(),
            ..unit
        };
        Self {
            snake: self.snake,
            conv: self.conv.prepacked(),
            units: self.units.into_iter().map(unit).collect(),
        }
    }

    /// Computes from the output of the snake before the stage. Returns the outputs of the stage
    /// and of `next`, the snake after it.
    ///
    /// # Shapes
    /// - `x`: `[1, 2 channels, S]`
    /// - outputs: `[1, channels, rate S]`
    pub(super) fn forward(
        &self,
        x: Tensor<B, 3>,
        next: &SnakeBeta<B>,
        state: &mut BlockState<B>,
    ) -> [Tensor<B, 3>; 2] {
        let x = self.conv.forward_next(x, &mut state.conv);
        let units = self.units.iter().zip(&mut state.units);
        let x = units.fold(x, |x, (unit, state)| {
            let y = unit.conv1.forward_next_fused(x.clone(), unit.act1.fused(), None, state);
            // One tap has no past.
            let past = &mut ConvState::default();
            unit.conv2.forward_next_fused(y, unit.act2.fused(), Some(x), past)
        });
        let active = next.forward(x.clone());
        [x, active]
    }
}
