//! The norm of heads and their rotation, compared with the CPU.

use acestep_model::{Backend, kernel};
use burn::tensor::DType;

use super::testing::{
    Operation, Plain, Recorded, random, read, same_everywhere, same_with_shuffles,
};

struct NormRotate {
    shape: [usize; 4],
    positions: usize,
}

impl Operation for NormRotate {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let [batch, length, heads, width] = self.shape;
        // Heads in another memory order.
        let x = random::<B, 4>([batch, heads, length, width], 1, dtype, device);
        let weight = random::<B, 1>([width], 2, dtype, device);
        let table = |seed| random::<B, 2>([self.positions, width / 2], seed, dtype, device);
        let x = x.swap_dims(1, 2);
        let y = kernel::norm_rotate(x, weight, 1e-6, table(3), table(4));
        assert_eq!(y.dims(), [batch, heads, length, width]);
        read(y)
    }
}

/// Sequences, batches of them, and steps of one token with one position each.
#[test]
fn heads_and_positions_of_every_number() {
    let cases = [
        ([1, 1, 1, 2], 1),
        ([1, 5, 2, 6], 5),
        ([2, 7, 3, 64], 7),
        ([3, 33, 8, 128], 33),
        ([3, 1, 16, 128], 3),
        ([4, 1, 2, 10], 1),
    ];
    for (shape, positions) in cases {
        let name = format!("norm_rotate {shape:?} at {positions} positions");
        same_everywhere(&name, &NormRotate { shape, positions }, 2e-6);
        same_with_shuffles(&name, &NormRotate { shape, positions }, 2e-6);
    }
}

#[test]
fn no_heads_at_all() {
    let nothing = NormRotate { shape: [0, 3, 2, 8], positions: 3 };
    let device = burn_wgpu::WgpuDevice::DefaultDevice;
    assert!(nothing.run::<Plain>(DType::F16, &device).is_empty());
    assert!(nothing.run::<Recorded>(DType::F16, &device).is_empty());
}
