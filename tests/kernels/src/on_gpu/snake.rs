//! Snake, compared with the CPU.

use acestep_model::{Backend, kernel};
use burn::tensor::DType;

use super::testing::{Operation, random, read, same_everywhere, sound};

struct Snake {
    shape: [usize; 3],
    channels_last: bool,
}

impl Operation for Snake {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let x = sound::<B>(self.shape, self.channels_last, 1, dtype, device);
        let per_channel = |seed| random::<B, 3>([1, self.shape[1], 1], seed, dtype, device);
        read(kernel::snake(x, per_channel(2), per_channel(3)))
    }
}

#[test]
fn channels_and_samples_in_both_orders() {
    for shape in [[1, 1, 1], [2, 5, 64], [1, 7, 33], [3, 4, 6], [2, 128, 50], [2, 3, 0]] {
        for channels_last in [false, true] {
            let name = format!("snake {shape:?}, channels last: {channels_last}");
            same_everywhere(&name, &Snake { shape, channels_last }, 1e-5);
        }
    }
}
