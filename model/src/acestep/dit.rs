//! The diffusion transformer, which computes the velocity from noise to music.
//!
//! `v = dit(x_t, t | context, condition)`. The context is the source latents and the mask of the
//! part to generate; the condition is lyrics, timbre and caption. Each position is two latent
//! frames. A layer is `x + gate1 attention(ada(x))`, `x + cross(norm(x))`, `x + gate2 mlp(ada(x))`,
//! where `ada(x) = norm(x) (1 + scale) + shift` and shift, scale and gate come from the time.
//!
//! Source: upstream `AceStepDiTModel`; adaptive norm: Peebles & Xie 2022, arXiv:2212.09748.
//! Checkpoint: `decoder.*`.

use std::sync::OnceLock;

use burn::{
    module::{Module, Param},
    tensor::{DType, Tensor},
};

use super::Config;
use crate::{
    Backend, NoTap, Tap,
    kernel::{ConvGeometry, Mask, Visibility},
    nn::{
        Attention, Conv1d, ConvTranspose1d, KeysValues, LayerSpec, Linear, Mlp, RmsNorm, Rope,
        TimestepEmbedding, place_of, random, rounded,
    },
};

/// The transformer.
#[derive(Module, Debug)]
pub struct Dit<B: Backend> {
    proj_in: Conv1d<B>,
    time_embed: TimestepEmbedding<B>,
    time_embed_r: TimestepEmbedding<B>,
    condition_embedder: Linear<B>,
    layers: Vec<DitLayer<B>>,
    norm_out: RmsNorm<B>,
    scale_shift_table: Param<Tensor<B, 3>>,
    proj_out: ConvTranspose1d<B>,
    patch_size: usize,
    head_dim: usize,
    rope_theta: f64,
    #[module(skip)]
    visibility: Vec<Visibility>,
}

#[derive(Module, Debug)]
struct DitLayer<B: Backend> {
    self_attn_norm: RmsNorm<B>,
    self_attn: Attention<B>,
    cross_attn_norm: RmsNorm<B>,
    cross_attn: Attention<B>,
    mlp_norm: RmsNorm<B>,
    mlp: Mlp<B>,
    scale_shift_table: Param<Tensor<B, 3>>,
}

/// Keys and values of the condition for each layer, computed once per song.
#[derive(Debug, Clone)]
pub struct CrossAttended<B: Backend> {
    layers: Vec<KeysValues<B>>,
    /// Number of positions and their rotary tables, cached by the first step: all steps have the
    /// same number.
    rope: OnceLock<(usize, Rope<B>)>,
}

impl<B: Backend> CrossAttended<B> {
    /// Returns the tables of `length` positions: the cached ones if the length matches, else those
    /// of `make`.
    fn rope(&self, length: usize, make: impl Fn() -> Rope<B>) -> Rope<B> {
        let (kept, rope) = self.rope.get_or_init(|| (length, make()));
        if *kept == length { rope.clone() } else { make() }
    }
}

impl<B: Backend> Dit<B> {
    /// Creates a transformer of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let shape = config.dit_shape();
        let (hidden, patch) = (shape.hidden, config.patch_size);
        let patches = ConvGeometry { stride: patch, ..Default::default() };
        let layers = 0..config.num_hidden_layers;
        Self {
            proj_in: Conv1d::init_with_bias([config.in_channels, hidden], patch, patches, device),
            time_embed: TimestepEmbedding::init(hidden, device),
            time_embed_r: TimestepEmbedding::init(hidden, device),
            condition_embedder: Linear::init_with_bias(
                config.encoder_shape().hidden(),
                hidden,
                device,
            ),
            visibility: layers.clone().map(|index| config.visibility(index)).collect(),
            layers: layers.map(|_| DitLayer::init(&LayerSpec::new(shape), device)).collect(),
            norm_out: RmsNorm::init(hidden, config.rms_norm_eps, device),
            scale_shift_table: random([1, 2, hidden], 0.35, device),
            proj_out: ConvTranspose1d::init_with_bias(
                [hidden, config.audio_acoustic_hidden_dim],
                patch,
                patches,
                device,
            ),
            patch_size: patch,
            head_dim: shape.head_dim,
            rope_theta: config.rope_theta,
        }
    }

    /// Returns the maps of all layers that adapters change, with their paths:
    /// `layers.0.self_attn.q_proj`.
    pub fn linears(&mut self) -> Vec<(String, &mut Linear<B>)> {
        let mut maps = Vec::new();
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let DitLayer { self_attn, cross_attn, mlp, .. } = layer;
            let own = self_attn.linears().map(|(name, map)| ("self_attn", name, map));
            let cross = cross_attn.linears().map(|(name, map)| ("cross_attn", name, map));
            let mixed = mlp.linears().map(|(name, map)| ("mlp", name, map));
            for (block, name, map) in own.into_iter().chain(cross).chain(mixed) {
                maps.push((format!("layers.{index}.{block}.{name}"), map));
            }
        }
        maps
    }

    /// Prepares a condition for [`Self::forward`].
    ///
    /// # Shapes
    /// - `condition`: `[B, L, encoder width]`
    pub fn attend_to(&self, condition: Tensor<B, 3>) -> CrossAttended<B> {
        self.attend_to_tapped(condition, &mut NoTap)
    }

    /// [`Self::attend_to`] that taps `condition_embedder.out`.
    pub fn attend_to_tapped(
        &self,
        condition: Tensor<B, 3>,
        tap: &mut impl Tap<B>,
    ) -> CrossAttended<B> {
        let embedded = self.condition_embedder.enter(condition);
        tap.tap(format_args!("condition_embedder.out"), &embedded);
        let source = |layer: &DitLayer<B>| layer.cross_attn.keys_values(embedded.clone());
        let layers = self.layers.iter().map(source).collect();
        CrossAttended { layers, rope: OnceLock::new() }
    }

    /// Returns both time embeddings, for verification: of `t`, and of `t - r` with the second
    /// set of weights.
    ///
    /// # Shapes
    /// - output: twice `[B, H]` and `[B, 6, H]`
    pub fn time_embeddings(
        &self,
        t: &[f32],
        since_r: &[f32],
        device: &B::Device,
    ) -> [(Tensor<B, 2>, Tensor<B, 3>); 2] {
        let as_f32 =
            |(a, b): (Tensor<B, 2>, Tensor<B, 3>)| (a.cast(DType::F32), b.cast(DType::F32));
        self.times([t, since_r], device).map(as_f32)
    }

    /// [`Self::time_embeddings`] in the computation type.
    fn times(
        &self,
        [t, since_r]: [&[f32]; 2],
        device: &B::Device,
    ) -> [(Tensor<B, 2>, Tensor<B, 3>); 2] {
        [self.time_embed.forward(t, device), self.time_embed_r.forward(since_r, device)]
    }

    /// Computes the velocity at time `t`.
    ///
    /// There is no padding mask: padded rows of the condition are attended to, as in upstream.
    ///
    /// # Shapes
    /// - `xt`: `[B, T, C]`, noisy latents
    /// - `context`: `[B, T, 2 C]`, source latents and mask, of the same type
    /// - `t`, `r`: one per batch item, in `[0, 1]`; sampling uses `r = t`
    /// - output: `[B, T, C]`
    pub fn forward(
        &self,
        xt: Tensor<B, 3>,
        context: Tensor<B, 3>,
        [t, r]: [&[f32]; 2],
        condition: &CrossAttended<B>,
    ) -> Tensor<B, 3> {
        B::on_pool(|| self.forward_tapped(xt, context, [t, r], condition, &mut NoTap))
    }

    /// [`Self::forward`] that taps `proj_in.out` and the steps of each layer.
    pub fn forward_tapped(
        &self,
        xt: Tensor<B, 3>,
        context: Tensor<B, 3>,
        [t, r]: [&[f32]; 2],
        condition: &CrossAttended<B>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 3> {
        let [batch, frames, channels] = xt.dims();
        let layers = self.layers.len();
        let (x, embedded) = self.through(layers, xt, context, [t, r], condition, tap);

        let table = self.scale_shift_table.val() + embedded.unsqueeze_dim::<3>(1); // [B, 2, H]
        let (shift, scale) = (table.clone().narrow(1, 0, 1), table.narrow(1, 1, 1));
        let x = self.norm_out.forward_modulated(x, shift, scale);
        let velocity = self.proj_out.forward(x.swap_dims(1, 2)).swap_dims(1, 2); // [B, T', C]
        velocity.slice([0..batch, 0..frames, 0..channels]).cast(DType::F32)
    }

    /// Returns the hidden state after the first `layers` layers, `[B, P, H]`, and the embedded
    /// time, `[B, H]`.
    pub(super) fn through(
        &self,
        layers: usize,
        xt: Tensor<B, 3>,
        context: Tensor<B, 3>,
        [t, r]: [&[f32]; 2],
        condition: &CrossAttended<B>,
        tap: &mut impl Tap<B>,
    ) -> (Tensor<B, 3>, Tensor<B, 2>) {
        let device = xt.device();
        let dtype = self.condition_embedder.dtype();
        let since = |(&t, &r): (&f32, &f32)| rounded(t, dtype) - rounded(r, dtype);
        let since_r: Vec<f32> = t.iter().zip(r).map(since).collect();
        let [(embedded, projected), (embedded_r, projected_r)] = self.times([t, &since_r], &device);
        let (embedded, projected) = (embedded + embedded_r, projected + projected_r);

        let x = pad_frames(Tensor::cat(vec![context, xt], 2), self.patch_size); // [B, T', 3 C]
        let x = self.proj_in.enter(x.swap_dims(1, 2)).swap_dims(1, 2); // [B, P, H]
        // Made contiguous, because every layer reads it row by row.
        let x = x.clone().reshape(x.dims());
        tap.tap(format_args!("proj_in.out"), &x);

        let length = x.dims()[1];
        let place = place_of(&x);
        let tables = || Rope::new(length, self.head_dim, self.rope_theta, &place);
        let rope = condition.rope(length, tables);
        let mut x = x;
        let seen = self.visibility.iter().map(|&rule| Mask::by_position(rule));
        for (index, ((layer, mask), source)) in
            self.layers.iter().zip(seen).zip(&condition.layers).take(layers).enumerate()
        {
            let about = Surroundings { time: &projected, rope: &rope, mask: &mask, source };
            x = layer.forward(x, &about, index, tap);
        }
        (x, embedded)
    }

    /// Returns the cross-attention weights of one layer, see [`super::attention_maps`].
    ///
    /// # Shapes
    /// - `normed`: `[B, P, H]`, the input of the cross attention
    /// - output: `[B, heads, P, L]`
    pub(super) fn cross_attention_of(
        &self,
        layer: usize,
        normed: Tensor<B, 3>,
        condition: &CrossAttended<B>,
        heads: &[usize],
    ) -> Tensor<B, 4> {
        self.layers[layer].cross_attn.weights_cross(normed, &condition.layers[layer], heads)
    }
}

/// Inputs of a layer besides the hidden state.
struct Surroundings<'a, B: Backend> {
    time: &'a Tensor<B, 3>,
    rope: &'a Rope<B>,
    mask: &'a Mask<B>,
    source: &'a KeysValues<B>,
}

impl<B: Backend> DitLayer<B> {
    fn init(spec: &LayerSpec, device: &B::Device) -> Self {
        let hidden = spec.shape.hidden;
        let norm = || RmsNorm::init(hidden, spec.shape.epsilon, device);
        Self {
            self_attn_norm: norm(),
            self_attn: Attention::init(spec, device),
            cross_attn_norm: norm(),
            cross_attn: Attention::init(spec, device),
            mlp_norm: norm(),
            mlp: Mlp::init(spec, device),
            scale_shift_table: random([1, 6, hidden], 0.35, device),
        }
    }

    /// # Shapes
    /// - `x`, output: `[B, P, H]`
    fn forward(
        &self,
        x: Tensor<B, 3>,
        about: &Surroundings<'_, B>,
        index: usize,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 3> {
        let table = self.scale_shift_table.val() + about.time.clone(); // [B, 6, H]
        let row = |i: usize| table.clone().narrow(1, i, 1);
        tap.tap(format_args!("layer{index}.in"), &x);

        // ANCHOR: layer
        let ada = self.self_attn_norm.forward_modulated(x.clone(), row(0), row(1));
        let mixed = self.self_attn.mixed(ada, Some(about.rope), about.mask, None);
        let name = format_args!("layer{index}.self_attn.out");
        let x = self.self_attn.add_output(x, Some(row(2)), mixed, name, tap);
        tap.tap(format_args!("layer{index}.after_self_attn"), &x);

        let normed = self.cross_attn_norm.forward(x.clone());
        tap.tap(format_args!("layer{index}.cross_attn.in"), &normed);
        let mixed = self.cross_attn.mixed_cross(normed, about.source);
        let name = format_args!("layer{index}.cross_attn.out");
        let x = self.cross_attn.add_output(x, None, mixed, name, tap);
        tap.tap(format_args!("layer{index}.after_cross_attn"), &x);

        let ada = self.mlp_norm.forward_modulated(x.clone(), row(3), row(4));
        let name = format_args!("layer{index}.mlp.out");
        let x = self.mlp.forward_added(x, Some(row(5)), ada, name, tap);
        tap.tap(format_args!("layer{index}.out"), &x);
        x
        // ANCHOR_END: layer
    }
}

/// Appends zero frames up to a multiple of `patch`.
fn pad_frames<B: Backend>(x: Tensor<B, 3>, patch: usize) -> Tensor<B, 3> {
    let [batch, frames, channels] = x.dims();
    let short = (patch - frames % patch) % patch;
    if short == 0 {
        return x;
    }
    let zeros = Tensor::zeros([batch, short, channels], (&x.device(), x.dtype()));
    Tensor::cat(vec![x, zeros], 1)
}
