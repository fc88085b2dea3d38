//! The gate, compared with the CPU.

use acestep_model::{Backend, kernel};
use burn::tensor::DType;

use super::testing::{Operation, random, read, same_everywhere};

struct Gate([usize; 3]);

impl Operation for Gate {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let [a, b, c] = self.0;
        // Large values too, for which `e^-x` overflows.
        let gate = random::<B, 3>([a, b, c], 1, dtype, device) * 200.0;
        let up = random::<B, 3>([a, c, b], 2, dtype, device).swap_dims(1, 2);
        read(kernel::swiglu(gate, up))
    }
}

/// The same operation, with both inputs as parts of one product.
struct Parts([usize; 2]);

impl Operation for Parts {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let [rows, width] = self.0;
        let both = random::<B, 2>([rows, 2 * width], 1, dtype, device);
        let [gate, up] = [0, width].map(|start| both.clone().narrow(1, start, width));
        read(kernel::swiglu(gate, up))
    }
}

#[test]
fn values_of_every_size_and_order() {
    for shape in [[1, 1, 1], [2, 3, 5], [1, 7, 64], [2, 33, 96]] {
        same_everywhere(&format!("swiglu {shape:?}"), &Gate(shape), 2e-6);
    }
    for shape in [[1, 8], [5, 7], [9, 64], [0, 8]] {
        same_everywhere(&format!("swiglu of halves {shape:?}"), &Parts(shape), 2e-6);
    }
}
