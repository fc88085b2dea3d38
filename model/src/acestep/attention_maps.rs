//! Cross-attention weights: the part of the condition that each moment of the song attends to.
//!
//! A few heads follow the lyrics as they are sung, so their weights give the time of each word.
//! Layers after the last requested one are not computed.
//!
//! Source: upstream `get_lyric_timestamp`, which runs its decoder with `output_attentions` and
//! `enable_early_exit`.

use std::fmt::Arguments;

use burn::tensor::Tensor;
use serde_json::Value;

use super::{Config, CrossAttended, Dit};
use crate::{Backend, ConfigError, Tap, config::require};

/// Query heads of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heads {
    /// The layer index, from 0.
    pub layer: usize,
    /// Its query heads, from 0; at least one.
    pub heads: Vec<usize>,
}

impl<B: Backend> Dit<B> {
    /// Returns the cross-attention weights of the heads `wanted` at time `t`, in their order.
    ///
    /// # Panics
    /// If a layer or head does not exist, or no head is requested.
    ///
    /// # Shapes
    /// - `xt`: `[B, T, C]`; `context`: `[B, T, 2 C]`; `t`: one per batch item
    /// - output: `[B, heads, P, L]` for each layer of `wanted`, f32, where `P = ceil(T / patch)`
    ///   and `L` is the length of the condition; each row sums to 1
    pub fn attention_maps(
        &self,
        xt: Tensor<B, 3>,
        context: Tensor<B, 3>,
        t: &[f32],
        condition: &CrossAttended<B>,
        wanted: &[Heads],
    ) -> Vec<Tensor<B, 4>> {
        let layers = wanted.iter().map(|of| of.layer + 1).max().unwrap_or(0);
        let mut entering = Entering { layers: vec![None; layers] };
        self.through(layers, xt, context, [t, t], condition, &mut entering);
        let maps = |of: &Heads| {
            let normed = entering.layers[of.layer].clone();
            let normed = normed.expect("every layer shows what enters its cross-attention");
            self.cross_attention_of(of.layer, normed, condition, &of.heads)
        };
        wanted.iter().map(maps).collect()
    }
}

/// The heads of the 2B models that follow the lyrics, from upstream's table.
const OF_2B: [(usize, &[usize]); 5] =
    [(2, &[6]), (3, &[10, 11]), (4, &[3]), (5, &[8, 9]), (6, &[8])];

const KEY: &str = "lyric_alignment_layers_config";

impl Config {
    /// Returns the heads whose attention follows the lyrics.
    ///
    /// `config.json` may name them; otherwise they are upstream's heads of the 2B models, if this
    /// model has the size of these.
    ///
    /// # Errors
    /// [`ConfigError::Unsupported`] if the heads of a model of this size are unknown, or the file
    /// names a head that does not exist.
    pub fn alignment_heads(&self) -> Result<Vec<Heads>, ConfigError> {
        let found = match &self.lyric_alignment_layers_config {
            Some(value) if !value.is_null() => self.named_heads(value)?,
            _ => {
                let is_2b = self.encoder_hidden_size.is_none()
                    && (self.num_hidden_layers, self.num_attention_heads) == (24, 16);
                let why = "only those of the 2B models are known without it; this model needs an \
                           object such as {\"2\": [6], \"3\": [10, 11]}";
                require(is_2b, KEY, None::<Value>, why)?;
                OF_2B.map(|(layer, heads)| Heads { layer, heads: heads.to_vec() }).to_vec()
            }
        };
        Ok(found)
    }

    fn named_heads(&self, value: &Value) -> Result<Vec<Heads>, ConfigError> {
        let index = |number: &Value| number.as_u64().and_then(|n| usize::try_from(n).ok());
        let of_layer = |(layer, heads): (&String, &Value)| {
            let heads = heads.as_array()?.iter().map(index).collect::<Option<Vec<_>>>()?;
            let layer = layer.parse().ok()?;
            let exists = layer < self.num_hidden_layers
                && !heads.is_empty()
                && heads.iter().all(|&head| head < self.num_attention_heads);
            exists.then_some(Heads { layer, heads })
        };
        let found: Option<Vec<_>> =
            value.as_object().and_then(|object| object.iter().map(of_layer).collect());
        match found {
            Some(heads) if !heads.is_empty() => Ok(heads),
            _ => Err(ConfigError::Unsupported {
                key: KEY,
                value: value.to_string(),
                why: "use an object from layers to lists of heads that this model has",
            }),
        }
    }
}

/// Stores the input of the cross attention of each layer.
struct Entering<B: Backend> {
    layers: Vec<Option<Tensor<B, 3>>>,
}

impl<B: Backend> Tap<B> for Entering<B> {
    fn tap<const D: usize>(&mut self, name: Arguments<'_>, activation: &Tensor<B, D>) {
        let name = name.to_string();
        let layer = name.strip_prefix("layer").and_then(|rest| rest.strip_suffix(".cross_attn.in"));
        let (Some(Ok(layer)), Ok(shape)) =
            (layer.map(str::parse::<usize>), <[usize; 3]>::try_from(&activation.dims()[..]))
        else {
            return;
        };
        self.layers[layer] = Some(activation.clone().reshape(shape));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(change: impl FnOnce(&mut Config)) -> Config {
        let text =
            include_str!("../../../tests/goldens/checkpoints_a/acestep-v15-base/config.json");
        let mut config = Config::from_json(text).expect("a configuration");
        change(&mut config);
        config
    }

    /// The expected values are upstream's table.
    #[test]
    fn a_model_of_the_size_of_2b_has_upstreams_seven_heads() {
        let heads = config(|config| {
            (config.num_hidden_layers, config.num_attention_heads) = (24, 16);
        })
        .alignment_heads()
        .expect("known");
        let flat: Vec<(usize, usize)> =
            heads.iter().flat_map(|of| of.heads.iter().map(|&head| (of.layer, head))).collect();
        assert_eq!(flat, [(2, 6), (3, 10), (3, 11), (4, 3), (5, 8), (5, 9), (6, 8)]);
    }

    #[test]
    fn other_sizes_need_the_key_and_a_wrong_one_is_refused() {
        let error = config(|_| ()).alignment_heads().expect_err("nothing is known");
        assert!(
            error.to_string().contains("`lyric_alignment_layers_config` is missing"),
            "{error}"
        );
        let with = |value| {
            config(|c| {
                (c.num_hidden_layers, c.num_attention_heads) = (4, 4);
                c.lyric_alignment_layers_config = Some(value);
            })
        };
        let heads = with(json!({"1": [3, 0], "3": [2]})).alignment_heads().expect("known");
        assert_eq!(heads[0], Heads { layer: 1, heads: vec![3, 0] });
        assert_eq!(heads[1], Heads { layer: 3, heads: vec![2] });
        for wrong in [json!([1]), json!({}), json!({"4": [0]}), json!({"0": [4]}), json!({"0": []})]
        {
            let error = with(wrong.clone()).alignment_heads().expect_err("wrong");
            assert!(error.to_string().contains(&wrong.to_string()), "{error}");
        }
    }
}
