//! Products without matrix units, compared with the CPU.

use acestep_model::kernel::variants;
use burn::tensor::{DType, Tensor};

use super::testing::{Plain, primitive, random, read, same, tensor};

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
