//! A residual sum and Snake of it, compared with the CPU.

use acestep_model::{Backend, kernel};
use burn::tensor::{DType, Tensor};

use super::testing::{Operation, Plain, random, read, same_everywhere, sound};

struct AddSnake {
    shape: [usize; 3],
    /// For `x` and for `y`.
    channels_last: [bool; 2],
}

impl Operation for AddSnake {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let per_channel = |seed| random::<B, 3>([1, self.shape[1], 1], seed, dtype, device);
        let [x, y] = [0, 1]
            .map(|i| sound::<B>(self.shape, self.channels_last[i], i as u32 + 1, dtype, device));
        let outputs = kernel::add_snake(x, y, per_channel(3), per_channel(4));
        outputs.map(read).concat()
    }
}

#[test]
fn both_orders_of_both_inputs() {
    for shape in [[1, 1, 1], [2, 5, 64], [1, 7, 33], [2, 3, 0]] {
        for channels_last in [[false, false], [true, true], [false, true], [true, false]] {
            let name = format!("add_snake {shape:?}, channels last: {channels_last:?}");
            same_everywhere(&name, &AddSnake { shape, channels_last }, 1e-5);
        }
    }
}

/// Sums up to 80000, where the largest f16 is 65504.
#[test]
fn a_sum_stays_finite() {
    use burn_wgpu::WgpuDevice::DefaultDevice as card;

    let large = |device: &_| {
        Tensor::<Plain, 3>::from_data([[[40_000.0f32, -40_000.0, f32::NAN, 1.0]]], device)
            .cast(DType::F16)
    };
    let zero = Tensor::zeros([1, 1, 1], (&card, DType::F16));
    let [sum, active] = kernel::add_snake(large(&card), large(&card), zero.clone(), zero);
    let (sum, active) = (read(sum), read(active));
    assert_eq!((sum[0], sum[1], sum[3]), (65_504.0, -65_504.0, 2.0));
    assert!(sum[2].is_nan() && active[2].is_nan());
    // 2 + sin^2(2)
    assert!((active[3] - 2.826_8).abs() < 2e-3, "{active:?}");
}
