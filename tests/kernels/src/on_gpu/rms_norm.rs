//! The norm of rows, compared with the CPU.

use acestep_model::{Backend, kernel};
use burn::tensor::DType;

use super::testing::{Operation, random, read, same_everywhere, same_with_shuffles};

struct Norm([usize; 2]);

impl Operation for Norm {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let x = random::<B, 2>(self.0, 1, dtype, device);
        let weight = random::<B, 1>([self.0[1]], 2, dtype, device);
        read(kernel::rms_norm(x, weight, 1e-6))
    }
}

/// Widths that vectors divide and that they do not, one lane and many, rows that do not fill a
/// cube.
#[test]
fn rows_of_every_width() {
    for shape in [[1, 1], [3, 5], [7, 64], [33, 128], [5, 1024], [2, 2560], [300, 96], [0, 8]] {
        same_everywhere(&format!("rms_norm {shape:?}"), &Norm(shape), 2e-6);
        same_with_shuffles(&format!("rms_norm {shape:?}"), &Norm(shape), 2e-6);
    }
}
