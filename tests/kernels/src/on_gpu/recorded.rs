//! Fusion of plain operations into one kernel, compared with the CPU's result.

use acestep_model::{Backend, kernel};
use burn::tensor::{DType, Tensor};

use super::testing::{Operation, random, read, same_everywhere};

/// Numbers that are bounded, and then repeated along the axis that threads read four at a time.
struct Bounded([usize; 3]);

impl Operation for Bounded {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let x = random::<B, 3>(self.0, 1, dtype, device);
        let number = random::<B, 3>([self.0[0], self.0[1], 1], 2, dtype, device); // [B, T, 1]
        let bounded = kernel::clamp(number, -0.25, 0.5);
        let twice = kernel::clamp(bounded.clone() * 2.0, -0.75, 0.75);
        read(x.clone() * bounded.sin() + x * twice)
    }
}

/// Mean and deviation of sound, spread over its length again as a voice's pooling does.
struct Pooled([usize; 3]);

impl Operation for Pooled {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let x = random::<B, 3>(self.0, 1, dtype, device);
        let even = Tensor::full(self.0, 1.0 / self.0[2] as f32, (device, dtype));
        let [mean, deviation] = kernel::moments(x.clone(), even, 1e-12);
        let [mean, deviation] = [mean, deviation].map(|y| y.expand(self.0));
        read(Tensor::cat(vec![x, mean, deviation], 1))
    }
}

#[test]
fn moments_are_repeated_over_time() {
    for shape in [[1, 6, 9], [2, 8, 64]] {
        same_everywhere(&format!("moments {shape:?}"), &Pooled(shape), 2e-6);
    }
}

#[test]
fn bounded_numbers_are_repeated() {
    for shape in [[1, 1, 4], [2, 3, 64], [1, 19, 6]] {
        same_everywhere(&format!("bounded {shape:?}"), &Bounded(shape), 2e-6);
    }
}
