//! The condition of the diffusion transformer: lyrics, timbre and caption as one sequence.
//!
//! `packed = [lyrics | timbre | caption | padding]`, each `H` wide.
//!
//! Source: upstream `AceStepConditionEncoder`. Checkpoint: `encoder.*`, `null_condition_emb`.

use burn::{
    module::{Module, Param},
    tensor::{DType, Int, Tensor, TensorData},
};

use super::{Config, Padded, encoder::Encoder, pack};
use crate::{
    Backend, NoTap, Tap, kernel,
    nn::{Linear, random},
};

/// The encoders of text, lyrics and timbre.
#[derive(Module, Debug)]
pub struct ConditionEncoder<B: Backend> {
    text_projector: Linear<B>,
    lyric_encoder: Encoder<B>,
    timbre_encoder: Encoder<B>,
}

/// The encoders, and the null condition of guidance.
#[derive(Module, Debug)]
pub struct Conditioner<B: Backend> {
    encoder: ConditionEncoder<B>,
    null_condition_emb: Param<Tensor<B, 3>>,
}

/// Inputs of the condition encoder, for a batch.
#[derive(Debug, Clone)]
pub struct ConditionInputs<B: Backend> {
    /// The text encoder's output for the caption prompts, `[B, Lt, text]`.
    pub text: Padded<B>,
    /// Rows of the text encoder's embedding table for the lyric prompts, `[B, Ll, text]`.
    pub lyrics: Padded<B>,
    /// Latents of all references of the batch, `[R, T, C]` with `R` at least 1.
    pub timbre: Tensor<B, 3>,
    /// The batch item of each reference, below `B`, in any order. References of one item keep their
    /// order; an item may have none.
    pub timbre_item: Vec<usize>,
}

impl<B: Backend> Conditioner<B> {
    /// Creates encoders of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let shape = config.encoder_shape();
        let (text, hidden) = (config.text_hidden_dim, shape.hidden());
        let [lyric, timbre] =
            [config.num_lyric_encoder_hidden_layers, config.num_timbre_encoder_hidden_layers];
        let encoder = ConditionEncoder {
            text_projector: Linear::init(text, hidden, device),
            lyric_encoder: Encoder::init(text, lyric, &shape, device),
            timbre_encoder: Encoder::init(config.timbre_hidden_dim, timbre, &shape, device)
                .with_token(config.timbre_has_class_token(), device),
        };
        Self { encoder, null_condition_emb: random([1, 1, hidden], 0.7, device) }
    }

    /// Returns the null condition of guidance: the same vector at every position.
    ///
    /// # Shapes
    /// - output: `[1, 1, H]`
    pub fn null_condition(&self) -> Tensor<B, 3> {
        self.null_condition_emb.val().cast(DType::F32)
    }

    /// Encodes a batch; see the module's formula.
    ///
    /// # Shapes
    /// - output: `[B, Ll + timbres + Lt, H]`
    pub fn forward(&self, inputs: ConditionInputs<B>) -> Padded<B> {
        self.forward_tapped(inputs, &mut NoTap)
    }

    /// [`Self::forward`] with the taps of its steps.
    pub fn forward_tapped(&self, inputs: ConditionInputs<B>, tap: &mut impl Tap<B>) -> Padded<B> {
        let ConditionInputs { text, lyrics, timbre, timbre_item } = inputs;
        let voices = self.encode_timbre(timbre);
        let start = self.lyrics_and_timbre(lyrics, voices, &timbre_item, tap);
        self.with_caption(start, text, tap)
    }

    // ANCHOR: condition
    /// Encodes references, `[R, T, C]`, to one vector each, `[R, H]`.
    pub fn encode_timbre(&self, references: Tensor<B, 3>) -> Tensor<B, 2> {
        self.encoder.timbre_encoder.first_of(references)
    }

    /// Encodes lyrics, and appends the vectors of the references.
    ///
    /// Taps `lyric_encoder.out`, `timbre.unpacked` and `timbre.mask`, `[B, most references of an
    /// item]`: 1 = a reference, 0 = padding.
    pub fn lyrics_and_timbre(
        &self,
        lyrics: Padded<B>,
        voices: Tensor<B, 2>,
        timbre_item: &[usize],
        tap: &mut impl Tap<B>,
    ) -> Padded<B> {
        let keys = kernel::flags(&lyrics.mask, &lyrics.hidden.device());
        let hidden = self.encoder.lyric_encoder.forward(lyrics.hidden, keys);
        let lyrics = Padded { hidden, ..lyrics };
        tap.tap(format_args!("lyric_encoder.out"), &lyrics.hidden);

        let timbre = by_item(voices, timbre_item, lyrics.mask.len());
        tap.tap(format_args!("timbre.unpacked"), &timbre.hidden);
        tap.tap(format_args!("timbre.mask"), &as_floats(&timbre));
        pack(lyrics, timbre)
    }

    /// Appends the caption, `[B, Lt, text]`. Taps `text_projector.out`.
    pub fn with_caption(
        &self,
        start: Padded<B>,
        text: Padded<B>,
        tap: &mut impl Tap<B>,
    ) -> Padded<B> {
        let hidden = self.encoder.text_projector.enter(text.hidden).cast(DType::F32);
        tap.tap(format_args!("text_projector.out"), &hidden);
        pack(start, Padded { hidden, ..text })
    }
    // ANCHOR_END: condition
}

/// Collects the references of each batch item in one row; shorter rows are padded with zeros.
///
/// # Shapes
/// - `voices`: `[R, H]`
/// - output: `[B, most references of an item, H]`
fn by_item<B: Backend>(voices: Tensor<B, 2>, item: &[usize], batch: usize) -> Padded<B> {
    let [count, width] = voices.dims();
    let device = voices.device();
    let own: Vec<Vec<usize>> =
        (0..batch).map(|b| (0..count).filter(|&voice| item[voice] == b).collect()).collect();
    let most = own.iter().map(Vec::len).max().unwrap_or(0);
    let filled = (0..batch * most).map(|i| own[i / most].get(i % most).copied());
    // A row of zeros after the last voice serves as padding.
    let order: Vec<i64> = filled.map(|voice| voice.unwrap_or(count) as i64).collect();
    let order = Tensor::<B, 1, Int>::from_data(TensorData::new(order, [batch * most]), &device);
    let voices = Tensor::cat(vec![voices, Tensor::zeros([1, width], &device)], 0);
    let hidden = voices.select(0, order).reshape([batch, most, width]);
    let mask = own.iter().map(|own| (0..most).map(|i| i < own.len()).collect()).collect();
    Padded { hidden, mask }
}

/// Returns the mask as floats.
fn as_floats<B: Backend>(packed: &Padded<B>) -> Tensor<B, 2> {
    let [batch, length, _] = packed.hidden.dims();
    let flags: Vec<f32> = packed.mask.iter().flatten().map(|&real| real.into()).collect();
    Tensor::from_data(TensorData::new(flags, [batch, length]), &packed.hidden.device())
}

#[cfg(test)]
mod tests {
    use burn_flex::Flex;

    use super::*;

    fn unpacked(item: &[usize], batch: usize) -> (Vec<f32>, Vec<f32>) {
        let voices = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let voices = Tensor::<Flex, 1>::from_floats(voices, &Default::default());
        let packed = by_item(voices.reshape([3, 2]), item, batch);
        let mask = as_floats(&packed).into_data().to_vec().expect("f32");
        (packed.hidden.into_data().to_vec().expect("f32"), mask)
    }

    #[test]
    fn an_item_without_a_reference_gets_zeros_and_no_flag() {
        let (hidden, mask) = unpacked(&[0, 2, 2], 3);
        assert_eq!(hidden, [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(mask, [1.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn references_in_any_order_come_to_their_items() {
        let (hidden, mask) = unpacked(&[1, 0, 1], 2);
        assert_eq!(hidden, [3.0, 4.0, 0.0, 0.0, 1.0, 2.0, 5.0, 6.0]);
        assert_eq!(mask, [1.0, 0.0, 1.0, 1.0]);
    }
}
