//! Products without matrix units, compared with the CPU.

use acestep_model::{
    Backend,
    kernel::{self, variants},
};
use burn::tensor::{DType, Tensor};

use super::testing::{Operation, Plain, primitive, random, read, same, same_everywhere, tensor};

/// Queries and keys of some heads; the keys are transposed.
struct Batches {
    heads: usize,
    rows: usize,
    terms: usize,
    columns: usize,
}

impl Operation for Batches {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let &Self { heads, rows, terms, columns } = self;
        let left = random::<B, 4>([2, heads, rows, terms], 1, dtype, device);
        let right = random::<B, 4>([2, heads, columns, terms], 2, dtype, device);
        read(kernel::batched_product(left, right.swap_dims(2, 3)))
    }
}

/// NVIDIA's matrix units would round f32 to tf32, which is two hundred times further off.
#[test]
fn products_of_batches_keep_their_type() {
    for (heads, rows, terms, columns) in [(1, 1, 64, 9), (3, 70, 64, 80), (2, 64, 128, 64)] {
        let name = format!("{heads} heads, {rows} x {terms} to {columns}");
        same_everywhere(&name, &Batches { heads, rows, terms, columns }, 2e-6);
    }
}

/// The path of NVIDIA GPUs in f32, on any GPU. Weights are transposed, as in the networks.
#[test]
fn products_by_plain_units() {
    for [rows, terms, columns] in [[5, 24, 7], [70, 100, 33], [16, 300, 65], [130, 512, 96]] {
        let left = |device: &_| random::<Plain, 2>([rows, terms], 1, DType::F32, device);
        let right = |device: &_| random::<Plain, 2>([columns, terms], 2, DType::F32, device);
        let card = burn_wgpu::WgpuDevice::DefaultDevice;
        let product =
            variants::product_by_units(primitive(left(&card)), primitive(right(&card).transpose()));
        let got = read::<Plain, 2>(tensor(product));
        let cpu = burn_flex::FlexDevice;
        let left = random::<burn_flex::Flex, 2>([rows, terms], 1, DType::F32, &cpu);
        let right: Tensor<_, 2> = random([columns, terms], 2, DType::F32, &cpu);
        let expected = read(left.matmul(right.transpose()));
        same(&format!("{rows} x {terms} to {columns}"), &expected, &got, 2e-6);
    }
}
