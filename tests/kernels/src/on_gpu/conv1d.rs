//! Convolution as a product of columns, compared with the CPU.

use acestep_model::{
    Backend,
    kernel::{self, ConvGeometry, variants},
};
use burn::tensor::{DType, Tensor};
use burn_flex::{Flex, FlexDevice};
use burn_wgpu::WgpuRuntime;

use super::testing::{
    Operation, Plain, primitive, random, read, same, same_everywhere, sound, tensor,
};

struct Convolution {
    batch: usize,
    channels: [usize; 2],
    samples: usize,
    taps: usize,
    geometry: ConvGeometry,
    bias: bool,
    channels_last: bool,
}

impl Convolution {
    fn inputs<B: Backend>(
        &self,
        dtype: DType,
        device: &B::Device,
    ) -> (Tensor<B, 3>, Tensor<B, 3>, Option<Tensor<B, 1>>) {
        let &Self { batch, channels: [input, output], samples, taps, .. } = self;
        let x = sound::<B>([batch, input, samples], self.channels_last, 1, dtype, device);
        let weight = random::<B, 3>([output, input, taps], 2, dtype, device);
        (x, weight, self.bias.then(|| random::<B, 1>([output], 3, dtype, device)))
    }
}

impl Operation for Convolution {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let (x, weight, bias) = self.inputs::<B>(dtype, device);
        let y = kernel::conv1d(x, weight, bias, self.geometry);
        // The formula of the front's documentation.
        let &Self { batch, channels: [_, output], samples, taps, .. } = self;
        let ConvGeometry { stride, padding: [left, right], dilation, .. } = self.geometry;
        let outputs = (samples + left + right - dilation * (taps - 1) - 1) / stride + 1;
        assert_eq!(y.dims(), [batch, output, outputs]);
        read(y)
    }
}

/// Calls `check` with the filters of the networks: wide and dilated, one tap, patches, and strided.
fn for_each_filter(check: impl Fn(&str, &Convolution)) {
    let cases = [
        (7, 1, [3, 3], 1),
        (7, 1, [9, 9], 3),
        (7, 1, [27, 27], 9),
        (1, 1, [0, 0], 1),
        (2, 2, [0, 0], 1),
        (20, 10, [5, 5], 1),
        (3, 2, [2, 2], 3),
        (7, 1, [18, 0], 3),
        (4, 2, [2, 1], 1),
    ];
    for (index, (taps, stride, padding, dilation)) in cases.into_iter().enumerate() {
        for channels_last in [false, true] {
            let case = Convolution {
                batch: 1 + index % 2,
                channels: [[16, 24], [16, 24], [6, 5]][index % 3],
                samples: [40, 33, 36][index % 3],
                taps,
                geometry: ConvGeometry { stride, padding, dilation, groups: 1 },
                bias: index % 4 != 1,
                channels_last,
            };
            let name = format!("conv1d k {taps} s {stride} d {dilation}, {channels_last}");
            check(&name, &case);
        }
    }
}

#[test]
fn every_filter_of_the_networks() {
    for_each_filter(|name, case| same_everywhere(name, case, 1e-5));
}

/// By columns, which drivers in software do not use.
#[test]
fn every_filter_by_columns() {
    let device = burn_wgpu::WgpuDevice::DefaultDevice;
    for_each_filter(|name, case| {
        let expected = case.run::<Flex>(DType::F32, &FlexDevice);
        let (x, weight, bias) = case.inputs::<Plain>(DType::F32, &device);
        let ([x, weight], bias) = ([x, weight].map(primitive), bias.map(primitive));
        let y = variants::conv1d::<WgpuRuntime>(x, weight, bias, case.geometry);
        same(&format!("{name} by columns"), &expected, &read::<Plain, 3>(tensor(y)), 1e-5);
    });
}

/// Blocks of 8 by 8 outputs, with rows and columns that fill no block.
#[test]
fn a_large_filter() {
    let case = Convolution {
        batch: 1,
        channels: [20, 10],
        samples: 1203,
        taps: 7,
        geometry: ConvGeometry { padding: [9; 2], dilation: 3, ..Default::default() },
        bias: true,
        channels_last: true,
    };
    same_everywhere("a large filter", &case, 1e-5);
}

/// Tiles join without errors, down to one sample each.
#[test]
fn tiles_are_one_whole() {
    let device = burn_wgpu::WgpuDevice::DefaultDevice;
    let x = random::<Plain, 3>([2, 6, 31], 1, DType::F32, &device);
    let weight = random::<Plain, 3>([5, 6, 7], 2, DType::F32, &device);
    let bias = random::<Plain, 1>([5], 3, DType::F32, &device);
    let run = |samples: usize| {
        let y = variants::conv1d_in_tiles::<WgpuRuntime>(
            primitive(x.clone()),
            primitive(weight.clone()),
            Some(primitive(bias.clone())),
            ConvGeometry { padding: [9; 2], dilation: 3, ..Default::default() },
            samples * 6 * 7 * size_of::<f32>(),
        );
        read::<Plain, 3>(tensor(y))
    };
    let whole = run(100);
    for samples in [1, 4, 16] {
        let worst = whole.iter().zip(run(samples)).map(|(a, b)| (a - b).abs());
        let worst = worst.fold(0.0, f32::max);
        assert!(worst < 1e-5, "{samples} samples a tile: {worst}");
    }
}
