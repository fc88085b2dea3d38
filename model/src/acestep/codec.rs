//! Audio codes: latents at 25 Hz to codes at 5 Hz and back.
//!
//! A group of five frames is pooled into one vector and quantised. To decode, the vector of a code
//! is expanded to five frames. Groups do not attend to each other.
//!
//! Source: upstream `AceStepAudioTokenizer`, `AudioTokenDetokenizer`.
//! Checkpoint: `tokenizer.*`, `detokenizer.*`.

use burn::{
    module::{Module, Param},
    tensor::{DType, Int, Tensor, TensorData},
};

use super::{Config, EncoderShape, Fsq, Quantizer, encoder::Encoder};
use crate::{
    Backend, kernel,
    nn::{Layer, Linear, RmsNorm, random},
};

/// Tokenizer and detokenizer, which share the projections of the codebook.
#[derive(Module, Debug)]
pub struct AudioCodec<B: Backend> {
    tokenizer: AudioTokenizer<B>,
    detokenizer: Detokenizer<B>,
}

/// The tokenizer: latents to codes.
#[derive(Module, Debug)]
pub struct AudioTokenizer<B: Backend> {
    audio_acoustic_proj: Linear<B>,
    attention_pooler: Encoder<B>,
    quantizer: Quantizer<B>,
    pool_window: usize,
}

/// The detokenizer: code vectors to latents.
#[derive(Module, Debug)]
pub struct Detokenizer<B: Backend> {
    embed_tokens: Linear<B>,
    special_tokens: Param<Tensor<B, 3>>,
    layers: Vec<Layer<B>>,
    norm: RmsNorm<B>,
    proj_out: Linear<B>,
    #[module(skip)]
    shape: EncoderShape,
}

impl<B: Backend> AudioCodec<B> {
    /// Creates a codec of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let shape = config.encoder_shape();
        let (width, channels) = (shape.hidden(), config.audio_acoustic_hidden_dim);
        // Upstream uses the pooler's layer count for the detokenizer.
        let (layers, window) = (config.num_attention_pooler_hidden_layers, config.pool_window_size);
        let fsq = Fsq::new(config.fsq_input_levels.clone());
        let tokenizer = AudioTokenizer {
            audio_acoustic_proj: Linear::init_with_bias(channels, width, device),
            attention_pooler: Encoder::init(width, layers, &shape, device).with_token(true, device),
            quantizer: Quantizer::init(config.fsq_dim, fsq, device),
            pool_window: window,
        };
        let detokenizer = Detokenizer {
            embed_tokens: Linear::init_with_bias(config.fsq_dim, width, device),
            special_tokens: random([1, window, width], 0.7, device),
            layers: shape.layers(layers, device),
            norm: shape.norm(device),
            proj_out: Linear::init_with_bias(width, channels, device),
            shape,
        };
        Self { tokenizer, detokenizer }
    }

    /// Returns the codebook.
    pub fn fsq(&self) -> &Fsq {
        self.tokenizer.quantizer.fsq()
    }

    /// Returns the tokenizer (latents to codes).
    pub fn tokenizer(&self) -> &AudioTokenizer<B> {
        &self.tokenizer
    }

    /// Returns the detokenizer (code vectors to latents).
    pub fn detokenizer(&self) -> &Detokenizer<B> {
        &self.detokenizer
    }

    /// Decodes code indices to latents, five frames each.
    ///
    /// # Shapes
    /// - `codes`: `B` rows of `N`, each below [`Fsq::codes`]
    /// - output: `[B, 5 N, C]`
    pub fn decode(&self, codes: &[Vec<u32>], device: &B::Device) -> Tensor<B, 3> {
        let count = codes.first().map_or(0, Vec::len);
        let indices: Vec<i32> = codes.iter().flatten().map(|&code| code as i32).collect();
        let indices = TensorData::new(indices, [codes.len() * count]);
        let tokens = kernel::code_tokens(
            Tensor::<B, 1, Int>::from_data(indices, device),
            self.fsq().levels(),
            self.tokenizer.quantizer.projection(),
            self.detokenizer.embed_tokens.parts(),
            self.detokenizer.special_tokens.val().squeeze_dim::<2>(0),
        );
        self.detokenizer.latents(tokens, codes.len())
    }

    /// Converts latents to codes and back; a cover keeps this part of its source.
    ///
    /// # Shapes
    /// - `latents`: `[B, T, C]`; `silence`: `[1, at least 4, C]`, pads the last group
    /// - output: `[B, T, C]`
    pub fn round_trip(&self, latents: Tensor<B, 3>, silence: Tensor<B, 3>) -> Tensor<B, 3> {
        let frames = latents.dims()[1];
        let (vectors, _) = self.tokenizer.forward(latents, silence);
        self.detokenizer.forward(vectors).narrow(1, 0, frames)
    }
}

impl<B: Backend> AudioTokenizer<B> {
    /// Computes one vector per group of five frames, before quantisation.
    ///
    /// # Shapes
    /// - `latents`: `[B, T, C]`; `silence`: `[1, at least 4, C]`, pads the last group
    /// - output: `[B, N, H]`
    pub fn pool(&self, latents: Tensor<B, 3>, silence: Tensor<B, 3>) -> Tensor<B, 3> {
        let [batch, frames, channels] = latents.dims();
        let short = (self.pool_window - frames % self.pool_window) % self.pool_window;
        let latents = if short == 0 {
            latents
        } else {
            let filler = silence.cast(latents.dtype()).narrow(1, 0, short);
            let filler = filler.expand([batch, short, channels]);
            Tensor::cat(vec![latents, filler], 1)
        };
        // ANCHOR: pool
        let groups = (frames + short) / self.pool_window;
        let grouped = latents.reshape([batch * groups, self.pool_window, channels]);
        let pooled = self.attention_pooler.first_of(self.audio_acoustic_proj.enter(grouped));
        let width = pooled.dims()[1];
        pooled.reshape([batch, groups, width])
        // ANCHOR_END: pool
    }

    /// Quantises latents.
    ///
    /// # Shapes
    /// - `latents`, `silence`: see [`Self::pool`]
    /// - output: code vectors `[B, N, H]` and indices `[B, N]`
    pub fn forward(
        &self,
        latents: Tensor<B, 3>,
        silence: Tensor<B, 3>,
    ) -> (Tensor<B, 3>, Tensor<B, 2, Int>) {
        self.quantizer.forward(self.pool(latents, silence))
    }

    /// Returns the quantizer.
    pub fn quantizer(&self) -> &Quantizer<B> {
        &self.quantizer
    }
}

impl<B: Backend> Detokenizer<B> {
    /// # Shapes
    /// - `vectors`: `[B, N, H]`
    /// - output: `[B, 5 N, C]`
    pub fn forward(&self, vectors: Tensor<B, 3>) -> Tensor<B, 3> {
        let [batch, codes, _] = vectors.dims();
        // ANCHOR: spread
        let embedded = self.embed_tokens.enter(vectors);
        let width = embedded.dims()[2];
        let places = self.special_tokens.val();
        let window = places.dims()[1];
        let spread =
            embedded.reshape([batch * codes, 1, width]).expand([batch * codes, window, width]);
        self.latents(spread + places, batch)
        // ANCHOR_END: spread
    }

    /// Computes latents from tokens, one window of tokens for each code of `batch` rows.
    ///
    /// # Shapes
    /// - `tokens`: `[B N, window, H]`
    /// - output: `[B, window N, C]`
    fn latents(&self, tokens: Tensor<B, 3>, batch: usize) -> Tensor<B, 3> {
        let [groups, window, _] = tokens.dims();
        let x = self.shape.run(&self.layers, tokens, None);
        let latents = self.proj_out.forward(self.norm.forward(x));
        let channels = latents.dims()[2];
        latents.reshape([batch, groups / batch.max(1) * window, channels]).cast(DType::F32)
    }
}
