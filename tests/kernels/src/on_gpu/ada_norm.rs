//! The norm with a scale and a shift, compared with the CPU.

use acestep_model::{Backend, kernel};
use burn::tensor::DType;

use super::testing::{Operation, random, read, same_everywhere};

struct AdaNorm {
    shape: [usize; 3],
    /// The number of shift and scale rows: one for all items, or one each.
    items: usize,
}

impl Operation for AdaNorm {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let [_, positions, width] = self.shape;
        // With swapped axes, as the networks may pass it.
        let [batch, ..] = self.shape;
        let x = random::<B, 3>([positions, batch, width], 1, dtype, device).swap_dims(0, 1);
        let weight = random::<B, 1>([width], 2, dtype, device);
        let table = random::<B, 3>([self.items, 6, width], 3, dtype, device);
        let [shift, scale] = [1, 4].map(|row| table.clone().narrow(1, row, 1));
        read(kernel::ada_norm(x, weight, 1e-6, shift, scale))
    }
}

/// Widths that vectors divide and that they do not, one item and several, no rows at all.
#[test]
fn rows_of_every_width() {
    for shape in [[1, 1, 1], [2, 3, 5], [3, 7, 64], [2, 33, 128], [3, 2, 1024], [0, 2, 8]] {
        for items in [1, shape[0].max(1)] {
            let name = format!("ada_norm {shape:?}, {items} of each");
            same_everywhere(&name, &AdaNorm { shape, items }, 2e-6);
        }
    }
}
