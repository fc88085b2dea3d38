//! Products of few rows, compared with the CPU.

use acestep_model::{Backend, kernel};
use burn::tensor::DType;

use super::testing::{Operation, random, read, same_everywhere, same_with_shuffles};

struct Product {
    rows: usize,
    width: usize,
    outputs: usize,
}

impl Operation for Product {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let x = random::<B, 2>([self.width, self.rows], 1, dtype, device).transpose();
        let weight = random::<B, 2>([self.outputs, self.width], 2, dtype, device);
        read(kernel::linear(x, weight, None))
    }
}

/// Row counts around the limit of one pass; outputs that do not fill a cube; various widths.
#[test]
fn products_of_every_size() {
    let cases = [
        (1, 1, 1),
        (1, 1024, 96),
        (2, 1024, 33),
        (2, 136, 4099),
        (3, 7, 5),
        (4, 200, 4097),
        (4, 1040, 65),
        (5, 64, 40),
        (2, 64, 0),
    ];
    for (rows, width, outputs) in cases {
        let name = format!("product of {rows} rows, {width} to {outputs}");
        same_everywhere(&name, &Product { rows, width, outputs }, 1e-5);
        same_with_shuffles(&name, &Product { rows, width, outputs }, 1e-5);
    }
}
