//! Embedding of the diffusion time.
//!
//! `e = (cos(1000 t f), sin(1000 t f))` with `f_k = 10000^(-k/128)`, `k < 128`: cosines first.
//! Then `h = linear_2(silu(linear_1(e)))` and, for the layers, `time_proj(silu(h))`.
//!
//! Source: upstream `TimestepEmbedding`; the sinusoid is Ho et al. 2020, arXiv:2006.11239.
//! Checkpoint: `decoder.time_embed{,_r}.{linear_1,linear_2,time_proj}`.

use burn::{
    module::Module,
    tensor::{DType, Tensor, TensorData, bf16, f16},
};

use super::Linear;
use crate::{Backend, kernel};

/// Width of the sinusoid; fixed by upstream, not in any configuration.
const WIDTH: usize = 256;

/// One of the two time embeddings of the DiT.
#[derive(Module, Debug)]
pub struct TimestepEmbedding<B: Backend> {
    linear_1: Linear<B>,
    linear_2: Linear<B>,
    time_proj: Linear<B>,
}

impl<B: Backend> TimestepEmbedding<B> {
    /// Creates an embedding of width `hidden`, with six times as many values for the layers.
    pub fn init(hidden: usize, device: &B::Device) -> Self {
        Self {
            linear_1: Linear::init_with_bias(WIDTH, hidden, device),
            linear_2: Linear::init_with_bias(hidden, hidden, device),
            time_proj: Linear::init_with_bias(hidden, 6 * hidden, device),
        }
    }

    /// Embeds one time in `[0, 1]` per batch item.
    ///
    /// # Shapes
    /// - output: `[B, H]` for the last norm, `[B, 6, H]` for the layers, in the type that they
    ///   compute in
    pub(crate) fn forward(&self, t: &[f32], device: &B::Device) -> (Tensor<B, 2>, Tensor<B, 3>) {
        let sinusoid = timestep_sinusoid(t, self.linear_1.dtype());
        let sinusoid = TensorData::new(sinusoid, [t.len(), WIDTH]);
        let dtype = B::computes_in(self.linear_1.dtype());
        let sinusoid = Tensor::<B, 2>::from_data(sinusoid, (device, dtype));
        let hidden = kernel::silu(self.linear_1.forward(sinusoid));
        let embedded = self.linear_2.forward(hidden);
        let projected = self.time_proj.forward(kernel::silu(embedded.clone()));
        let [batch, width] = embedded.dims();
        (embedded, projected.reshape([batch, 6, width]))
    }
}

/// Returns the sinusoid of each time, row by row: 128 cosines, then 128 sines.
///
/// `dtype` is the type of the network's weights, see [`scaled_time`].
pub fn timestep_sinusoid(t: &[f32], dtype: DType) -> Vec<f32> {
    let half = WIDTH / 2;
    let frequency: Vec<f32> = (0..half).map(|k| frequency(k, half)).collect();
    t.iter()
        .flat_map(|&t| {
            // ANCHOR: sinusoid
            let scaled = scaled_time(t, dtype);
            let angles: Vec<f32> = frequency.iter().map(|f| scaled * f).collect();
            let cosines: Vec<f32> = angles.iter().map(|a| a.cos()).collect();
            cosines.into_iter().chain(angles.into_iter().map(f32::sin))
            // ANCHOR_END: sinusoid
        })
        .collect()
}

/// Returns `1000 t` with the reference's rounding: the product is computed in `dtype`.
///
/// In bf16 the time 0.75 becomes 752 instead of 750, which changes the sound by a third.
pub fn scaled_time(t: f32, dtype: DType) -> f32 {
    rounded(rounded(t, dtype) * 1000.0, dtype)
}

/// Rounds `x` to `dtype`.
pub(crate) fn rounded(x: f32, dtype: DType) -> f32 {
    match dtype {
        // With int8 weights, the other networks are bf16.
        DType::BF16 | DType::I8 => bf16::from_f32(x).to_f32(),
        DType::F16 => f16::from_f32(x).to_f32(),
        _ => x,
    }
}

/// The only index at which PyTorch's f32 `exp`, exact to one unit in the last place, returns the
/// upper neighbour although the lower one is nearer (0.479 units away).
///
/// The angle is a thousand times the frequency, so this bit matters: without it the goldens
/// `dit_time.sinusoid` differ by 2.8e-5.
const ROUNDED_UP: usize = 12;

/// Returns `10000^(-k/half)` with the reference's f32 rounding.
fn frequency(k: usize, half: usize) -> f32 {
    let exponent = -(10_000f64.ln() as f32) * k as f32 / half as f32;
    let nearest = f64::from(exponent).exp() as f32;
    if k == ROUNDED_UP { nearest.next_up() } else { nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `t = 0.75`: in bf16 1000 t rounds to 752 (goldens `bf16_time.t1000_bf16`).
    #[test]
    fn bf16_rounds_the_time_before_the_sinusoid() {
        let scaled = [DType::F32, DType::BF16, DType::I8].map(|dtype| scaled_time(0.75, dtype));
        assert_eq!(scaled, [750.0, 752.0, 752.0]);
        // 0.7 is 0.7001953 in f16, and f16 values between 512 and 1024 are 0.5 apart.
        assert_eq!(scaled_time(0.7, DType::F16), 700.0);
        assert_eq!(timestep_sinusoid(&[0.75], DType::BF16)[0], 752f32.cos());
        assert_eq!(timestep_sinusoid(&[0.75], DType::F32)[0], 750f32.cos());
    }

    #[test]
    fn time_zero_is_all_cosines_one_and_all_sines_zero() {
        let e = timestep_sinusoid(&[0.0], DType::F32);
        assert_eq!((e[0], e[127], e[128], e[255]), (1.0, 1.0, 0.0, 0.0));
    }
}
