//! The backbone: one step of all channels to the logits of an action and of the first code.
//!
//! `x = text(main, second) + sum of the codes' vectors`; layers; a norm; two heads.
//!
//! The slot of a step in the cache is the number of steps before it. Its rotary position is an
//! argument: after the prefix of a voice they differ by one.
//!
//! Source: nari-labs/dia2 `core/transformer.py`.
//! Checkpoint: `transformer.*`.

use burn::{
    module::Module,
    tensor::{DType, Tensor},
};

use super::{
    Config, Function,
    layer::{self, Applied, Mlp},
    text::TextEmbed,
};
use crate::{
    Backend, NoTap, Place, Tap,
    nn::{Cache, LayerShape, Linear, LookupTable, RmsNorm, ids_in_rows},
};

/// The backbone.
#[derive(Module, Debug)]
pub struct Backbone<B: Backend> {
    /// One table for each codebook.
    audio_embeds: Vec<LookupTable<B>>,
    text_embed: TextEmbed<B>,
    layers: Vec<BackboneLayer<B>>,
    norm: RmsNorm<B>,
    action_head: Linear<B>,
    cb0_head: Linear<B>,
    #[module(skip)]
    shape: LayerShape,
    #[module(skip)]
    functions: [Function; 2],
    #[module(skip)]
    timescales: [f64; 2],
}

/// A layer of the backbone.
#[derive(Module, Debug)]
struct BackboneLayer<B: Backend> {
    pre_norm: RmsNorm<B>,
    attn: Attention<B>,
    post_norm: RmsNorm<B>,
    mlp: Mlp<B>,
}

#[derive(Module, Debug)]
struct Attention<B: Backend> {
    q_proj: Linear<B>,
    k_proj: Linear<B>,
    v_proj: Linear<B>,
    o_proj: Linear<B>,
    q_norm: RmsNorm<B>,
    k_norm: RmsNorm<B>,
}

/// Keys and values of all steps of one run.
///
/// A plain value: a copy continues the run a second time. Tensors are shared until one of both
/// changes.
#[derive(Debug, Clone)]
pub struct BackboneState<B: Backend> {
    cache: Cache<B>,
}

/// Results of a step.
#[derive(Debug, Clone)]
pub struct BackboneOutput<B: Backend> {
    /// The hidden state after the last norm, `[rows, 1, D]`.
    pub hidden: Tensor<B, 3>,
    /// Logits of the action, `[rows, A]`, f32.
    pub action: Tensor<B, 2>,
    /// Logits of the first code and the marks, `[rows, V]`, f32.
    pub cb0: Tensor<B, 2>,
}

impl<B: Backend> BackboneState<B> {
    /// Returns the number of steps that it holds.
    pub fn steps(&self) -> usize {
        self.cache.length(0)
    }

    /// Returns the largest number of steps.
    pub fn capacity(&self) -> usize {
        self.cache.capacity()
    }

    /// Returns the number of sequences.
    pub fn rows(&self) -> usize {
        self.cache.rows()
    }

    /// Returns the bytes of all keys and values, with those of steps that are not filled.
    pub fn bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Drops the steps after the first `steps`, so that the run continues from there.
    pub fn truncate(&mut self, steps: usize) {
        (0..self.rows()).for_each(|row| self.cache.truncate(row, steps));
    }

    /// Returns keys and values of every layer of a row, `[1, kv_heads, steps, head width]` each,
    /// keys after their rotation.
    pub fn row(&self, row: usize) -> Vec<[Tensor<B, 4>; 2]> {
        self.cache.row(row)
    }

    /// Replaces a row by a result of [`Self::row`], of this backbone.
    ///
    /// # Panics
    /// If the content is from another network, or has no room.
    pub fn set_row(&mut self, row: usize, content: Vec<[Tensor<B, 4>; 2]>) {
        self.cache.set_row(row, content);
    }
}

impl<B: Backend> Backbone<B> {
    /// Creates a backbone of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let Config { data, model, .. } = config;
        let shape = model.of_decoder();
        let width = shape.hidden;
        let table = |_| LookupTable::init(data.audio_vocab_size, width, device);
        let inner = model.decoder.low_rank_dim.unwrap_or(width);
        let text = (data.text_vocab_size, [inner, width], data.text_pad_token_id);
        Self {
            audio_embeds: (0..data.codebooks()).map(table).collect(),
            text_embed: TextEmbed::init(text.0, text.1, text.2, device),
            layers: (0..model.decoder.n_layer)
                .map(|_| BackboneLayer::init(&shape, device))
                .collect(),
            norm: RmsNorm::init(width, shape.epsilon, device),
            action_head: Linear::init(width, data.action_vocab_size, device),
            cb0_head: Linear::init(width, data.audio_vocab_size, device),
            shape,
            functions: model.linear.mlp_activations,
            timescales: [model.rope_min_timescale, model.rope_max_timescale],
        }
    }

    /// Creates an empty state for `rows` sequences of at most `capacity` steps.
    pub fn state(&self, rows: usize, capacity: usize, place: &Place<B>) -> BackboneState<B> {
        BackboneState { cache: Cache::new(&self.shape, self.layers.len(), rows, capacity, place) }
    }

    /// Returns the type of the layers' weights.
    pub fn dtype(&self) -> DType {
        self.cb0_head.dtype()
    }

    /// Computes the next step of every sequence: main text, second text, then a code of each
    /// codebook.
    ///
    /// # Panics
    /// If the number of rows is not the state's, a row has not `2 + K` tokens, or the state
    /// has no room.
    pub fn step(
        &self,
        tokens: &[Vec<u32>],
        position: usize,
        state: &mut BackboneState<B>,
    ) -> BackboneOutput<B> {
        self.step_tapped(tokens, position, state, &mut NoTap)
    }

    /// [`Self::step`] that taps `text_embed` and, of every layer, `layer{i}.in`, `layer{i}.q_norm`,
    /// `layer{i}.k_norm`, `layer{i}.attn_out` and `layer{i}.mlp_out`.
    pub fn step_tapped(
        &self,
        tokens: &[Vec<u32>],
        position: usize,
        state: &mut BackboneState<B>,
        tap: &mut impl Tap<B>,
    ) -> BackboneOutput<B> {
        let (rows, channels) = (state.rows(), 2 + self.audio_embeds.len());
        assert!(
            tokens.len() == rows && tokens.iter().all(|row| row.len() == channels),
            "{rows} rows of {channels} tokens"
        );
        let device = self.norm.weight().device();
        let text: Vec<_> = tokens.iter().map(|row| [row[0], row[1]]).collect();
        let text = self.text_embed.forward(&text, &device);
        tap.tap(format_args!("text_embed"), &text);
        let x = self.audio_embeds.iter().enumerate().fold(text, |sum, (codebook, table)| {
            let ids = tokens.iter().map(|row| row[2 + codebook]);
            sum + table.forward(ids_in_rows(ids, rows, &device))
        });
        let layers: Vec<_> = self.layers.iter().map(|layer| self.applied(layer)).collect();
        let rotation = Some((position, self.timescales));
        let x = layer::forward(&layers, x, rotation, &mut state.cache, tap);
        let hidden = self.norm.forward(x);
        let logits =
            |head: &Linear<B>| head.forward(hidden.clone()).cast(DType::F32).squeeze_dim::<2>(1);
        BackboneOutput {
            action: logits(&self.action_head),
            cb0: logits(&self.cb0_head),
            hidden: hidden.clone(),
        }
    }

    fn applied<'a>(&self, layer: &'a BackboneLayer<B>) -> Applied<'a, B> {
        let BackboneLayer { pre_norm, attn, post_norm, mlp } = layer;
        Applied {
            norms: [pre_norm, &attn.q_norm, &attn.k_norm, post_norm],
            attention: [&attn.q_proj, &attn.k_proj, &attn.v_proj, &attn.o_proj].map(Linear::weight),
            mlp: mlp.weights(),
            shape: self.shape,
            functions: self.functions,
        }
    }
}

impl<B: Backend> BackboneLayer<B> {
    fn init(shape: &LayerShape, device: &B::Device) -> Self {
        let &LayerShape { hidden, heads, kv_heads, head_dim, epsilon, .. } = shape;
        let norm = |width| RmsNorm::init(width, epsilon, device);
        Self {
            pre_norm: norm(hidden),
            attn: Attention {
                q_proj: Linear::init(hidden, heads * head_dim, device),
                k_proj: Linear::init(hidden, kv_heads * head_dim, device),
                v_proj: Linear::init(hidden, kv_heads * head_dim, device),
                o_proj: Linear::init(heads * head_dim, hidden, device),
                q_norm: norm(head_dim),
                k_norm: norm(head_dim),
            },
            post_norm: norm(hidden),
            mlp: Mlp::init(shape, device),
        }
    }
}
