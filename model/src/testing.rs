//! Random values for tests, the same in every run.

use std::cell::RefCell;

use burn::{
    module::{Param, ParamId},
    tensor::{Distribution, Shape, Tensor, TensorData},
};
use burn_flex::Flex;
use rand::{SeedableRng, rngs::StdRng};

use crate::{Backend, Place};

thread_local! {
    // Each test has a thread of its own. Burn's generator is one of all threads, begun with the
    // system's randomness: a test that fails once in a hundred runs could not be repeated.
    static RNG: RefCell<StdRng> = RefCell::new(StdRng::seed_from_u64(1));
}

/// Returns values of a normal distribution, mean 0 and standard deviation 1, in f32.
pub(crate) fn random<const D: usize>(shape: [usize; D]) -> Tensor<Flex, D> {
    Tensor::from_data(normal(shape.into(), 1.0), &Default::default())
}

/// Returns a parameter with such values, allocated on first use.
pub(crate) fn param<B: Backend, const D: usize>(
    shape: [usize; D],
    std: f64,
    device: &B::Device,
) -> Param<Tensor<B, D>> {
    let init = move |device: &B::Device, requires_grad| {
        let of = Tensor::from_data(normal(shape.into(), std), device);
        if requires_grad { of.require_grad() } else { of }
    };
    Param::uninitialized(ParamId::new(), init, device.clone(), true, shape.into())
}

/// Returns the values of a tensor in f32.
pub(crate) fn values<const D: usize>(x: Tensor<Flex, D>) -> Vec<f32> {
    x.into_data().to_vec().expect("f32")
}

/// Asserts that each value differs by less than `most`.
#[track_caller]
pub(crate) fn assert_close(ours: &[f32], expected: &[f32], most: f32) {
    assert_eq!(ours.len(), expected.len());
    for (ours, expected) in ours.iter().zip(expected) {
        assert!((ours - expected).abs() < most, "{ours} is not {expected}");
    }
}

/// Returns the device and type of the tests.
pub(crate) fn place() -> Place<Flex> {
    Place::f32(Default::default())
}

fn normal(shape: Shape, std: f64) -> TensorData {
    RNG.with_borrow_mut(|rng| {
        TensorData::random::<f32, _, _>(shape, Distribution::Normal(0.0, std), rng)
    })
}
