//! Tokens of audio codes, compared with the CPU.

use acestep_model::{Backend, kernel};
use burn::tensor::{DType, Int, Tensor, TensorData};

use super::testing::{Operation, random, read, same_everywhere};

struct Codes {
    codes: Vec<i32>,
    levels: Vec<u32>,
    inside: usize,
    width: usize,
    window: usize,
    bias: bool,
}

impl Operation for Codes {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let &Self { inside, width, window, .. } = self;
        let count = self.codes.len();
        let codes = TensorData::new(self.codes.clone(), [count]);
        let codes = Tensor::<B, 1, Int>::from_data(codes, device);
        let map = |output: usize, input: usize, seed| {
            let bias = self.bias.then(|| random::<B, 1>([output], seed + 1, dtype, device));
            (random::<B, 2>([output, input], seed, dtype, device).into(), bias)
        };
        let (project, embed) = (map(inside, self.levels.len(), 1), map(width, inside, 3));
        let places = random::<B, 2>([window, width], 5, dtype, device);
        read(kernel::code_tokens(codes, &self.levels, project, embed, places))
    }
}

/// The released codebook and smaller ones, the first and the last code, more levels than one
/// pass handles.
#[test]
fn codes_of_every_book() {
    let released = vec![8, 8, 8, 5, 5, 5];
    let cases = [
        (vec![0, 1, 63_999, 12_800, 8, 4711], released.clone(), 64, 96, 5, true),
        (vec![5, 0], vec![2, 3], 7, 5, 2, false),
        (vec![511], vec![2; 9], 24, 16, 1, true),
        (vec![], released, 8, 8, 5, true),
    ];
    for (codes, levels, inside, width, window, bias) in cases {
        let name = format!("code_tokens {codes:?} of {levels:?}");
        let case = Codes { codes, levels, inside, width, window, bias };
        same_everywhere(&name, &case, 1e-5);
    }
}
