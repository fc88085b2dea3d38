//! The depformer: from the backbone's hidden state and the first code of a frame to the other codes.
//!
//! A frame is a short sequence of stages. Stage `s` reads code `s` and writes code `s + 1`. Stages
//! with the same number in the schedule share their input and attention maps; all stages share
//! norms and feed-forward blocks.
//!
//! Source: nari-labs/dia2 `core/depformer.py`.
//! Checkpoint: `depformer.*`, whose numbers of weights are those of the schedule.

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

/// The depformer.
#[derive(Module, Debug)]
pub struct Depformer<B: Backend> {
    /// The table that stage `s` reads is number `s`.
    audio_embeds: Vec<LookupTable<B>>,
    /// The head of stage `s` is number `s`.
    logits: Vec<Linear<B>>,
    norm: RmsNorm<B>,
    text_embed: Option<TextEmbed<B>>,
    /// One map for each number of the schedule, in ascending order.
    depformer_in: Vec<Linear<B>>,
    layers: Vec<DepformerLayer<B>>,
    /// Index of the weights of each stage.
    #[module(skip)]
    weights: Vec<usize>,
    #[module(skip)]
    shape: LayerShape,
    #[module(skip)]
    functions: [Function; 2],
    /// `None` if queries and keys are not rotated.
    #[module(skip)]
    timescales: Option<[f64; 2]>,
    /// Number of logits that stand for codes.
    codes: usize,
}

/// A layer of the depformer.
#[derive(Module, Debug)]
struct DepformerLayer<B: Backend> {
    pre_norm: RmsNorm<B>,
    self_attention: Attention<B>,
    post_norm: RmsNorm<B>,
    mlp: Mlp<B>,
}

#[derive(Module, Debug)]
struct Attention<B: Backend> {
    /// Queries, keys and values in one map, for each number of the schedule.
    in_proj: Vec<Linear<B>>,
    out_proj: Vec<Linear<B>>,
    q_norm: RmsNorm<B>,
    k_norm: RmsNorm<B>,
}

/// Keys and values of the stages of one frame. Stage 0 empties it.
#[derive(Debug, Clone)]
pub struct DepformerState<B: Backend> {
    cache: Cache<B>,
}

impl<B: Backend> DepformerState<B> {
    /// Returns the number of stages that it holds.
    pub fn stages(&self) -> usize {
        self.cache.length(0)
    }

    /// Returns the number of sequences.
    pub fn rows(&self) -> usize {
        self.cache.rows()
    }
}

impl<B: Backend> Depformer<B> {
    /// Creates a depformer of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let Config { data, model, .. } = config;
        let shape = model.of_depformer();
        let width = shape.hidden;
        let (schedule, ids) = (config.schedule(), config.weight_ids());
        let stages = || 0..schedule.len();
        let table = |_| LookupTable::init(data.audio_vocab_size, width, device);
        let head = |_| Linear::init(width, data.audio_vocab_size, device);
        let text = || {
            let (rows, pad) = (data.text_vocab_size, data.text_pad_token_id);
            TextEmbed::init(rows, [width, width], pad, device)
        };
        let index = |id| ids.binary_search(id).unwrap_or_default();
        Self {
            audio_embeds: stages().map(table).collect(),
            logits: stages().map(head).collect(),
            norm: RmsNorm::init(width, shape.epsilon, device),
            text_embed: model.depformer.text_embedding.then(text),
            depformer_in: ids
                .iter()
                .map(|_| Linear::init(model.decoder.n_embd, width, device))
                .collect(),
            layers: (0..model.depformer.n_layer)
                .map(|_| DepformerLayer::init(&shape, ids.len(), device))
                .collect(),
            weights: schedule.iter().map(index).collect(),
            shape,
            functions: model.depformer.mlp_activations,
            timescales: model
                .depformer
                .apply_rope
                .then_some([model.rope_min_timescale, model.rope_max_timescale]),
            codes: data.codes(),
        }
    }

    /// Returns the number of stages, `K - 1`.
    pub fn stages(&self) -> usize {
        self.weights.len()
    }

    /// Returns the number of codes that a stage chooses from.
    pub fn codes(&self) -> usize {
        self.codes
    }

    /// Creates an empty state for `rows` sequences.
    pub fn state(&self, rows: usize, place: &Place<B>) -> DepformerState<B> {
        let (layers, stages) = (self.layers.len(), self.stages());
        DepformerState { cache: Cache::new(&self.shape, layers, rows, stages, place) }
    }

    /// Computes the logits of code `stage + 1` after code `stage`, which is `previous` in all rows.
    /// Stage 0 begins a new frame. There `text` is the main and the second token of this step, which
    /// is read if the network has a text table.
    ///
    /// # Panics
    /// If there is no such stage, or the stage before it was not the last one.
    ///
    /// # Shapes
    /// - `hidden`: `[rows, 1, D]`, of the backbone after its last norm
    /// - output: `[rows, codes]`, f32
    pub fn stage(
        &self,
        stage: usize,
        hidden: Tensor<B, 3>,
        previous: u32,
        text: Option<(u32, u32)>,
        state: &mut DepformerState<B>,
    ) -> Tensor<B, 2> {
        self.stage_tapped((stage, previous, text), hidden, state, &mut NoTap)
    }

    /// [`Self::stage`] of a stage, its previous code and the text that taps, of every layer,
    /// `layer{i}.in`, `layer{i}.q_norm`, `layer{i}.k_norm`, `layer{i}.attn_out` and
    /// `layer{i}.mlp_out`.
    pub fn stage_tapped(
        &self,
        (stage, previous, text): (usize, u32, Option<(u32, u32)>),
        hidden: Tensor<B, 3>,
        state: &mut DepformerState<B>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 2> {
        let rows = state.rows();
        if stage == 0 {
            (0..rows).for_each(|row| state.cache.truncate(row, 0));
        }
        assert_eq!(state.stages(), stage, "stages follow each other");
        let (weights, device) = (self.weights[stage], hidden.device());
        let code = self.audio_embeds[stage].forward(ids_in_rows([previous], 1, &device));
        let mut x = self.depformer_in[weights].forward(hidden);
        x = x + code.expand([rows, 1, self.shape.hidden]);
        if let (0, Some(table)) = (stage, &self.text_embed) {
            let (main, second) = text.expect("the text of this step");
            let text = table.forward(&[[main, second]], &device);
            x = x + text.expand([rows, 1, self.shape.hidden]);
        }
        let layers: Vec<_> = self.layers.iter().map(|layer| self.applied(layer, weights)).collect();
        let rotation = self.timescales.map(|timescales| (stage, timescales));
        let x = layer::forward(&layers, x, rotation, &mut state.cache, tap);
        let logits = self.logits[stage].forward(self.norm.forward(x));
        logits.cast(DType::F32).squeeze_dim::<2>(1).narrow(1, 0, self.codes)
    }

    fn applied<'a>(&self, layer: &'a DepformerLayer<B>, weights: usize) -> Applied<'a, B> {
        let DepformerLayer { pre_norm, self_attention: attn, post_norm, mlp } = layer;
        let fused = attn.in_proj[weights].weight();
        let width = self.shape.heads * self.shape.head_dim;
        let part = |index: usize| fused.clone().rows(index * width..(index + 1) * width);
        Applied {
            norms: [pre_norm, &attn.q_norm, &attn.k_norm, post_norm],
            attention: [part(0), part(1), part(2), attn.out_proj[weights].weight()],
            mlp: mlp.weights(),
            shape: self.shape,
            functions: self.functions,
        }
    }
}

impl<B: Backend> DepformerLayer<B> {
    /// Creates a layer with attention maps for `count` numbers of the schedule.
    fn init(shape: &LayerShape, count: usize, device: &B::Device) -> Self {
        let &LayerShape { hidden, heads, head_dim, epsilon, .. } = shape;
        let norm = |width| RmsNorm::init(width, epsilon, device);
        let width = heads * head_dim;
        Self {
            pre_norm: norm(hidden),
            self_attention: Attention {
                in_proj: (0..count).map(|_| Linear::init(hidden, 3 * width, device)).collect(),
                out_proj: (0..count).map(|_| Linear::init(width, hidden, device)).collect(),
                q_norm: norm(head_dim),
                k_norm: norm(head_dim),
            },
            post_norm: norm(hidden),
            mlp: Mlp::init(shape, device),
        }
    }
}
