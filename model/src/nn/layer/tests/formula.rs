//! A layer by its formula, in f64 and with loops.

use std::collections::BTreeMap;

use burn::{
    module::{ModuleVisitor, Param},
    tensor::Tensor,
};
use burn_flex::Flex;

use super::{EPSILON, Layer, LayerShape, LayerSpec};
use crate::nn::{Activation, NormKind};

/// The parameters of a layer by their paths.
#[derive(Default)]
struct Parameters {
    values: BTreeMap<String, Vec<f64>>,
    path: Vec<String>,
}

impl ModuleVisitor<Flex> for Parameters {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<Flex, D>>) {
        let values = numbers(param.val());
        self.values.insert(self.path.join("."), values);
    }

    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }
}

fn numbers<const D: usize>(x: Tensor<Flex, D>) -> Vec<f64> {
    x.into_data().to_vec::<f32>().expect("f32").into_iter().map(f64::from).collect()
}

/// One vector per position.
pub(super) type Rows = Vec<Vec<f64>>;

pub(super) fn rows(x: Tensor<Flex, 3>) -> Rows {
    let width = x.dims()[2];
    numbers(x).chunks(width).map(<[f64]>::to_vec).collect()
}

pub(super) fn sum(a: Rows, b: Rows) -> Rows {
    let add = |(a, b): (Vec<f64>, Vec<f64>)| a.into_iter().zip(b).map(|(a, b)| a + b).collect();
    a.into_iter().zip(b).map(add).collect()
}

/// A layer by its formula.
pub(super) struct Formula<'a> {
    spec: LayerSpec,
    values: BTreeMap<String, Vec<f64>>,
    rope_theta: Option<f64>,
    sees: &'a dyn Fn(usize, usize) -> bool,
}

impl Formula<'_> {
    pub(super) fn of<'a>(
        layer: &Layer<Flex>,
        spec: LayerSpec,
        rope_theta: Option<f64>,
        sees: &'a dyn Fn(usize, usize) -> bool,
    ) -> Formula<'a> {
        let mut parameters = Parameters::default();
        burn::module::Module::visit(layer, &mut parameters);
        Formula { spec, values: parameters.values, rope_theta, sees }
    }

    fn linear(&self, x: &Rows, name: &str) -> Rows {
        let weight = &self.values[&format!("{name}.weight")];
        let map = |x: &Vec<f64>| {
            let out = |w: &[f64]| -> f64 { w.iter().zip(x).map(|(w, x)| w * x).sum() };
            weight.chunks(x.len()).map(out).collect()
        };
        x.iter().map(map).collect()
    }

    fn rms(&self, x: &[f64], name: &str) -> Vec<f64> {
        let square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let scale = (square + EPSILON).sqrt().recip();
        x.iter().zip(&self.values[name]).map(|(x, w)| x * scale * w).collect()
    }

    fn norm(&self, x: &Rows, name: &str) -> Rows {
        let NormKind::Layer { bias } = self.spec.norm else {
            return x.iter().map(|x| self.rms(x, &format!("{name}.weight"))).collect();
        };
        let weight = &self.values[&format!("{name}.weight")];
        let none = vec![0.0; weight.len()];
        let bias = if bias { &self.values[&format!("{name}.bias")] } else { &none };
        let one = |x: &Vec<f64>| {
            let mean = x.iter().sum::<f64>() / x.len() as f64;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
            let value = |((x, w), b): ((&f64, &f64), &f64)| {
                (x - mean) / (variance + EPSILON).sqrt() * w + b
            };
            x.iter().zip(weight).zip(bias).map(value).collect()
        };
        x.iter().map(one).collect()
    }

    /// Normalises and rotates one head at a position.
    fn head(&self, x: &[f64], name: &str, position: Option<usize>) -> Vec<f64> {
        let x = match self.spec.head_norms {
            true => self.rms(x, &format!("{name}.weight")),
            false => x.to_vec(),
        };
        let (Some(position), Some(theta)) = (position, self.rope_theta) else { return x };
        let half = x.len() / 2;
        let angle = |j: usize| position as f64 / theta.powf((2 * j) as f64 / x.len() as f64);
        let first = |j: usize| x[j] * angle(j).cos() - x[j + half] * angle(j).sin();
        let second = |j: usize| x[j + half] * angle(j).cos() + x[j] * angle(j).sin();
        (0..half).map(first).chain((0..half).map(second)).collect()
    }

    pub(super) fn attention(&self, x: &Rows, source: &Rows, is_self: bool) -> Rows {
        let LayerShape { heads, kv_heads, head_dim: width, .. } = self.spec.shape;
        let scale = (width as f64).powf(-0.5);
        let map = |x: &Rows, part: &str| self.linear(x, &format!("self_attn.{part}"));
        let (q, k, v) = (map(x, "q_proj"), map(source, "k_proj"), map(source, "v_proj"));
        let place = |position: usize| is_self.then_some(position);
        let mixed = q.iter().enumerate().map(|(i, q)| {
            let mut out = Vec::new();
            for head in 0..heads {
                let of_kv = head / (heads / kv_heads) * width;
                let q = self.head(&q[head * width..][..width], "self_attn.q_norm", place(i));
                let weight = |(j, k): (usize, &Vec<f64>)| {
                    let k = self.head(&k[of_kv..][..width], "self_attn.k_norm", place(j));
                    let score: f64 = q.iter().zip(&k).map(|(q, k)| q * k).sum();
                    let is_seen = !is_self || (self.sees)(i, j);
                    if is_seen { (score * scale).exp() } else { 0.0 }
                };
                let weights: Vec<f64> = k.iter().enumerate().map(weight).collect();
                let total: f64 = weights.iter().sum();
                let column = |d: usize| -> f64 {
                    weights.iter().zip(&v).map(|(w, v)| w * v[of_kv + d] / total).sum()
                };
                out.extend((0..width).map(column));
            }
            out
        });
        map(&mixed.collect(), "o_proj")
    }

    fn mlp(&self, x: &Rows) -> Rows {
        let up = self.linear(x, "mlp.up_proj");
        let each = |x: Rows, f: fn(f64) -> f64| -> Rows {
            x.into_iter().map(|x| x.into_iter().map(f).collect()).collect()
        };
        let inner = match self.spec.activation {
            Activation::SwiGlu => {
                let gate = each(self.linear(x, "mlp.gate_proj"), |x| x / (1.0 + (-x).exp()));
                let times = |(a, b): (Vec<f64>, Vec<f64>)| {
                    a.into_iter().zip(b).map(|(a, b)| a * b).collect()
                };
                gate.into_iter().zip(up).map(times).collect()
            }
            Activation::Gelu => each(up, |x| x * 0.5 * (1.0 + erf(x / 2.0f64.sqrt()))),
        };
        self.linear(&inner, "mlp.down_proj")
    }

    /// Multiplies each channel by its factor, if the layer has factors.
    fn scaled(&self, x: Rows, name: &str) -> Rows {
        let Some(scale) = self.values.get(&format!("{name}.scale")) else {
            assert!(!self.spec.layer_scale, "{name}");
            return x;
        };
        let one = |x: Vec<f64>| x.into_iter().zip(scale).map(|(x, scale)| x * scale).collect();
        x.into_iter().map(one).collect()
    }

    pub(super) fn layer(&self, x: Rows) -> Rows {
        let normed = self.norm(&x, "input_layernorm");
        let mixed = self.attention(&normed, &normed, true);
        let x = sum(x, self.scaled(mixed, "self_attn_layer_scale"));
        let normed = self.norm(&x, "post_attention_layernorm");
        let mixed = self.mlp(&normed);
        sum(x, self.scaled(mixed, "mlp_layer_scale"))
    }
}

/// The error function by its series, exact to 1e-9 for `|x| < 4`.
fn erf(x: f64) -> f64 {
    if x.abs() >= 4.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..90 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn the_error_function_has_its_values() {
    assert!((erf(0.5) - 0.520_499_877_813_046_5).abs() < 1e-12);
    assert!((erf(-2.0) + 0.995_322_265_018_952_7).abs() < 1e-12);
}
