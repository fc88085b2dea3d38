//! The bidirectional encoder shared by lyrics, timbre, the pooler and the detokenizer.
//!
//! A linear map to the hidden width, layers that alternate between windowed and full attention, a
//! norm.
//!
//! Source: upstream `modeling_acestep_v15_*.py`, which defines each of the four separately.

use burn::{
    module::{Module, Param},
    tensor::{Bool, DType, Tensor},
};

use crate::{
    Backend,
    kernel::{Mask, Visibility},
    nn::{Context, Layer, LayerShape, LayerSpec, Linear, RmsNorm, Rope, place_of, random},
};

/// The sizes and settings of all encoders of one checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderShape {
    /// Sizes of a layer.
    pub layer: LayerShape,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// Visibility of each layer, by index; as many as the deepest encoder has layers.
    pub visibility: Vec<Visibility>,
}

impl EncoderShape {
    /// Returns the width of the encoders.
    pub fn hidden(&self) -> usize {
        self.layer.hidden
    }

    pub(super) fn layers<B: Backend>(&self, count: usize, device: &B::Device) -> Vec<Layer<B>> {
        (0..count).map(|_| Layer::init(&LayerSpec::new(self.layer), device)).collect()
    }

    pub(super) fn norm<B: Backend>(&self, device: &B::Device) -> RmsNorm<B> {
        RmsNorm::init(self.layer.hidden, self.layer.epsilon, device)
    }

    /// Applies `layers` to `x`, from position 0.
    ///
    /// # Shapes
    /// - `x`, output: `[B, L, H]`
    /// - `keys`: `[B, L]`, true = not padding
    pub(super) fn run<B: Backend>(
        &self,
        layers: &[Layer<B>],
        x: Tensor<B, 3>,
        keys: Option<Tensor<B, 2, Bool>>,
    ) -> Tensor<B, 3> {
        let rope = self.rope(&x);
        self.run_at(&rope, layers, x, keys)
    }

    /// Computes [`Self::run`] without padding at position 0 alone, `[B, 1, H]`.
    fn run_to_first<B: Backend>(&self, layers: &[Layer<B>], x: Tensor<B, 3>) -> Tensor<B, 3> {
        let Some((last, others)) = layers.split_last() else { return x.narrow(1, 0, 1) };
        let rope = self.rope(&x);
        let x = self.run_at(&rope, others, x, None);
        let mask = Mask::by_position(self.visibility[others.len()]);
        last.forward_first(x, &Context { rope: Some(&rope), mask: &mask })
    }

    fn rope<B: Backend>(&self, x: &Tensor<B, 3>) -> Rope<B> {
        Rope::new(x.dims()[1], self.layer.head_dim, self.rope_theta, &place_of(x))
    }

    fn run_at<B: Backend>(
        &self,
        rope: &Rope<B>,
        layers: &[Layer<B>],
        x: Tensor<B, 3>,
        keys: Option<Tensor<B, 2, Bool>>,
    ) -> Tensor<B, 3> {
        let mut mask = Mask { visibility: Visibility::Full, keys };
        layers.iter().zip(&self.visibility).fold(x, |x, (layer, &visibility)| {
            mask.visibility = visibility;
            layer.forward(x, &Context { rope: Some(rope), mask: &mask }, None)
        })
    }
}

/// An encoder with or without a learned token before its input. Some checkpoints store a token that
/// is not used.
#[derive(Module, Debug)]
pub struct Encoder<B: Backend> {
    embed_tokens: Linear<B>,
    special_token: Option<Param<Tensor<B, 3>>>,
    reads_token: bool,
    layers: Vec<Layer<B>>,
    norm: RmsNorm<B>,
    #[module(skip)]
    shape: EncoderShape,
}

impl<B: Backend> Encoder<B> {
    /// Creates an encoder of `input` values per position.
    pub fn init(input: usize, layers: usize, shape: &EncoderShape, device: &B::Device) -> Self {
        Self {
            embed_tokens: Linear::init_with_bias(input, shape.hidden(), device),
            special_token: None,
            reads_token: false,
            layers: shape.layers(layers, device),
            norm: shape.norm(device),
            shape: shape.clone(),
        }
    }

    /// Adds a learned token, which [`Self::first_of`] puts first if it `is_read`. Else the checkpoint
    /// stores it, but the encoder does not use it.
    #[must_use]
    pub fn with_token(self, is_read: bool, device: &B::Device) -> Self {
        let token = random([1, 1, self.shape.hidden()], 0.7, device);
        Self { special_token: Some(token), reads_token: is_read, ..self }
    }

    /// Encodes every position.
    ///
    /// # Shapes
    /// - `x`: `[B, L, in]`
    /// - `keys`: `[B, L]`, true = not padding
    /// - output: `[B, L, H]`
    pub fn forward(&self, x: Tensor<B, 3>, keys: Option<Tensor<B, 2, Bool>>) -> Tensor<B, 3> {
        let x = self.shape.run(&self.layers, self.embed_tokens.enter(x), keys);
        self.norm.forward(x).cast(DType::F32)
    }

    /// Encodes and returns the vector at position 0, which represents the whole sequence.
    ///
    /// That position is the learned token if it is used, else the first position of `x`.
    ///
    /// # Shapes
    /// - `x`: `[B, L, in]`
    /// - output: `[B, H]`
    pub fn first_of(&self, x: Tensor<B, 3>) -> Tensor<B, 2> {
        let embedded = self.embed_tokens.enter(x);
        let [batch, _, width] = embedded.dims();
        let embedded = match &self.special_token {
            Some(token) if self.reads_token => {
                Tensor::cat(vec![token.val().expand([batch, 1, width]), embedded], 1)
            }
            Some(_) | None => embedded,
        };
        let first = self.norm.forward(self.shape.run_to_first(&self.layers, embedded));
        first.reshape([batch, width]).cast(DType::F32)
    }
}

#[cfg(test)]
mod tests {
    use burn_flex::Flex;

    use super::*;
    use crate::testing::{assert_close, random, values};

    const LAYER: LayerShape = LayerShape {
        hidden: 4,
        intermediate: 4,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        epsilon: 1e-6,
    };

    /// The last layer sees a part of the positions.
    #[test]
    fn the_first_vector_is_the_first_of_all() {
        let visibility = vec![Visibility::Full, Visibility::Window(2)];
        let shape = EncoderShape { layer: LAYER, rope_theta: 1e4, visibility };
        let encoder = Encoder::<Flex>::init(3, 2, &shape, &Default::default());
        let x = random([2, 9, 3]);
        let all = values(encoder.forward(x.clone(), None).narrow(1, 0, 1));
        assert_close(&values(encoder.first_of(x)), &all, 1e-5);
    }

    #[test]
    fn only_a_token_that_is_read_stands_at_position_0() {
        let device = Default::default();
        // With no layers, positions do not affect each other.
        let shape = EncoderShape { layer: LAYER, rope_theta: 1e4, visibility: Vec::new() };
        let encoder = || Encoder::<Flex>::init(3, 0, &shape, &device);
        let depends = |encoder: Encoder<Flex>| {
            let first = |x: f32| encoder.first_of(Tensor::full([1, 2, 3], x, &device)).into_data();
            first(1.0) != first(-1.0)
        };
        assert!(depends(encoder()));
        assert!(depends(encoder().with_token(false, &device)));
        assert!(!depends(encoder().with_token(true, &device)));
    }
}
