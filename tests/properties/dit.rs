//! The transformer works on patches of two frames, but must accept any number of frames.

use acestep_engine::host::to_host;
use acestep_model::{Checkpoint, acestep::Dit};
use acestep_music::flow::noise::NoiseSource;
use acestep_tests::{Cpu, DEVICE, largest_difference, place, turbo};
use burn::tensor::{Tensor, TensorData};

const CHANNELS: usize = 16;
const CONDITION: usize = 64;

/// Returns reproducible values of any shape.
fn values(seed: u64, shape: [usize; 3]) -> Tensor<Cpu, 3> {
    let values = NoiseSource::default().initial_noise(seed, shape[0] * shape[1], shape[2]);
    Tensor::from_data(TensorData::new(values, shape), &DEVICE)
}

fn velocity(dit: &Dit<Cpu>, xt: Tensor<Cpu, 3>, context: Tensor<Cpu, 3>) -> Vec<f32> {
    let condition = dit.attend_to(values(3, [1, 11, CONDITION]));
    to_host(dit.forward(xt, context, [&[0.75], &[0.75]], &condition))
}

fn with_a_zero_frame(x: Tensor<Cpu, 3>) -> Tensor<Cpu, 3> {
    let [batch, _, channels] = x.dims();
    Tensor::cat(vec![x, Tensor::zeros([batch, 1, channels], &DEVICE)], 1)
}

#[test]
fn an_odd_number_of_frames_is_the_even_one_with_a_zero_frame_cut_off() {
    let dit: Dit<Cpu> = turbo().dit(&place()).expect("the built-in transformer");
    for frames in [1, 3, 25, 63, 127] {
        let xt = values(1, [1, frames, CHANNELS]);
        let context = values(2, [1, frames, 2 * CHANNELS]);
        let odd = velocity(&dit, xt.clone(), context.clone());
        assert_eq!(odd.len(), frames * CHANNELS, "{frames} frames");
        let even = velocity(&dit, with_a_zero_frame(xt), with_a_zero_frame(context));
        let change = largest_difference(odd.iter().zip(&even));
        assert!(change < 1e-6, "{frames} frames: {change}");
    }
}

#[test]
fn an_item_of_a_batch_does_not_hear_the_others() {
    let dit: Dit<Cpu> = turbo().dit(&place()).expect("the built-in transformer");
    let (xt, context) = (values(1, [3, 31, CHANNELS]), values(2, [3, 31, 2 * CHANNELS]));
    let heard = values(3, [3, 11, CONDITION]);
    let times = [0.9, 0.5, 0.1];
    let together =
        dit.forward(xt.clone(), context.clone(), [&times, &times], &dit.attend_to(heard.clone()));
    for (item, &time) in times.iter().enumerate() {
        let own = |x: &Tensor<Cpu, 3>| x.clone().narrow(0, item, 1);
        let condition = dit.attend_to(own(&heard));
        let alone = dit.forward(own(&xt), own(&context), [&[time], &[time]], &condition);
        let (alone, together) = (to_host(alone), to_host(own(&together)));
        let change = largest_difference(alone.iter().zip(&together));
        assert!(change < 2e-5, "item {item}: {change}");
    }
}
