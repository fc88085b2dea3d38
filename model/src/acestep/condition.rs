//! What the diffusion transformer listens to: lyrics, timbre and caption as one sequence.
//!
//! `packed = [lyrics | timbre | caption | padding]`, each `H` wide.
//!
//! Source: upstream `AceStepConditionEncoder`. Checkpoint: `encoder.*`, `null_condition_emb`.

use burn::{
    module::{Module, Param},
    tensor::Tensor,
};

use super::{Config, Packed, encoder::Encoder, pack};
use crate::{
    Backend, Quiet, Tap, kernel,
    nn::{Linear, random},
};

/// The encoders of text, lyrics and timbre.
#[derive(Module, Debug)]
pub struct ConditionEncoder<B: Backend> {
    text_projector: Linear<B>,
    lyric_encoder: Encoder<B>,
    timbre_encoder: Encoder<B>,
    timbre_has_class_token: bool,
}

/// The encoders and the condition that stands for "none" in guidance.
#[derive(Module, Debug)]
pub struct Conditioner<B: Backend> {
    encoder: ConditionEncoder<B>,
    null_condition_emb: Param<Tensor<B, 3>>,
}

/// What a batch is conditioned on.
#[derive(Debug, Clone)]
pub struct ConditionInputs<B: Backend> {
    /// The text encoder's output for the caption prompts, `[B, Lt, text]`.
    pub text: Packed<B>,
    /// Rows of its embedding table for the lyric prompts, `[B, Ll, text]`.
    pub lyrics: Packed<B>,
    /// Latents of all references of the batch, `[R, T, C]`.
    pub timbre: Tensor<B, 3>,
    /// The batch item of each reference, ascending; every item needs one.
    pub timbre_item: Vec<usize>,
}

impl<B: Backend> Conditioner<B> {
    /// Encoders of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let shape = config.encoder_shape();
        let (text, hidden) = (config.text_hidden_dim, shape.hidden());
        let [lyric, timbre] =
            [config.num_lyric_encoder_hidden_layers, config.num_timbre_encoder_hidden_layers];
        let encoder = ConditionEncoder {
            text_projector: Linear::init(text, hidden, device),
            lyric_encoder: Encoder::init(text, lyric, &shape, device),
            timbre_encoder: Encoder::init_with_token(
                config.timbre_hidden_dim,
                timbre,
                &shape,
                device,
            ),
            timbre_has_class_token: config.timbre_has_class_token(),
        };
        Self { encoder, null_condition_emb: random([1, 1, hidden], 0.7, device) }
    }

    /// The condition that guidance steers away from: the same vector at every position.
    ///
    /// # Shapes
    /// - output: `[1, 1, H]`
    pub fn null_condition(&self) -> Tensor<B, 3> {
        self.null_condition_emb.val()
    }

    /// Encodes a batch; see the module's formula.
    ///
    /// # Shapes
    /// - output: `[B, Ll + timbres + Lt, H]`
    pub fn forward(&self, inputs: ConditionInputs<B>) -> Packed<B> {
        self.forward_tapped(inputs, &mut Quiet)
    }

    /// [`Self::forward`], showing `text_projector.out`, `lyric_encoder.out`, `timbre.unpacked`.
    pub fn forward_tapped(&self, inputs: ConditionInputs<B>, tap: &mut impl Tap<B>) -> Packed<B> {
        let encoder = &self.encoder;
        let ConditionInputs { text, lyrics, timbre, timbre_item } = inputs;
        let batch = text.mask.len();

        // ANCHOR: condition
        let text = Packed { hidden: encoder.text_projector.forward(text.hidden), ..text };
        tap.tap(format_args!("text_projector.out"), &text.hidden);

        let keys = kernel::flags(&lyrics.mask, &lyrics.hidden.device());
        let hidden = encoder.lyric_encoder.forward(lyrics.hidden, keys);
        let lyrics = Packed { hidden, ..lyrics };
        tap.tap(format_args!("lyric_encoder.out"), &lyrics.hidden);

        let voices = encoder.timbre_encoder.first_of(timbre, encoder.timbre_has_class_token);
        let timbre = by_item(voices, &timbre_item, batch);
        tap.tap(format_args!("timbre.unpacked"), &timbre.hidden);

        pack(pack(lyrics, timbre), text)
        // ANCHOR_END: condition
    }
}

/// One row of references per batch item, the shorter rows filled with zeros.
///
/// # Shapes
/// - `voices`: `[R, H]`
/// - output: `[B, most references of an item, H]`
fn by_item<B: Backend>(voices: Tensor<B, 2>, item: &[usize], batch: usize) -> Packed<B> {
    let width = voices.dims()[1];
    let counts: Vec<usize> = (0..batch).map(|b| item.iter().filter(|&&i| i == b).count()).collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    let mut taken = 0;
    let rows = counts.iter().map(|&count| {
        let own = voices.clone().narrow(0, taken, count).unsqueeze::<3>();
        taken += count;
        let filler = Tensor::zeros([1, most - count, width], &voices.device());
        if count == most { own } else { Tensor::cat(vec![own, filler], 1) }
    });
    let hidden = Tensor::cat(rows.collect(), 0);
    let mask = counts.iter().map(|&count| (0..most).map(|i| i < count).collect()).collect();
    Packed { hidden, mask }
}
