//! Transposed convolution as a product of columns, compared with the CPU.

use acestep_model::{
    Backend,
    kernel::{self, ConvGeometry, variants},
};
use burn::tensor::{DType, Tensor};
use burn_wgpu::WgpuRuntime;

use super::testing::{Operation, Plain, primitive, random, read, same_everywhere, sound, tensor};

struct Transposed {
    batch: usize,
    channels: [usize; 2],
    frames: usize,
    taps: usize,
    stride: usize,
    padding: [usize; 2],
    bias: bool,
    channels_last: bool,
}

impl Transposed {
    fn geometry(&self) -> ConvGeometry {
        ConvGeometry { stride: self.stride, padding: self.padding, ..Default::default() }
    }

    fn inputs<B: Backend>(
        &self,
        dtype: DType,
        device: &B::Device,
    ) -> (Tensor<B, 3>, Tensor<B, 3>, Option<Tensor<B, 1>>) {
        let &Self { batch, channels: [input, output], frames, taps, .. } = self;
        let shape = [batch, input, frames];
        let x = sound::<B>(shape, self.channels_last, 1, dtype, device);
        let weight = random::<B, 3>([input, output, taps], 2, dtype, device);
        (x, weight, self.bias.then(|| random::<B, 1>([output], 3, dtype, device)))
    }
}

impl Operation for Transposed {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let (x, weight, bias) = self.inputs::<B>(dtype, device);
        read(kernel::conv_transpose1d(x, weight, bias, self.geometry()))
    }
}

/// Oobleck's five strides and the patches of the transformer, with fewer channels.
fn cases() -> Vec<Transposed> {
    let both = [(20, 10, 5), (12, 6, 3), (8, 4, 2), (4, 2, 1), (2, 2, 0), (7, 3, 2)];
    let both = both.map(|(taps, stride, padding)| (taps, stride, [padding; 2]));
    // As in a stream: no sample before the first frame, none after the last.
    let trimmed = [(8, 4, [0, 4]), (16, 4, [12, 4])];
    both.into_iter()
        .chain(trimmed)
        .enumerate()
        .map(|(index, (taps, stride, padding))| Transposed {
            batch: 1 + index % 2,
            channels: [[24, 16], [24, 16], [6, 5]][index % 3],
            frames: [9, 1, 14, 12][index % 4],
            taps,
            stride,
            padding,
            bias: index != 2,
            channels_last: index % 3 == 1,
        })
        .collect()
}

#[test]
fn every_stride_of_the_networks() {
    for case in cases() {
        let name = format!("conv_transpose1d k {} s {}", case.taps, case.stride);
        same_everywhere(&name, &case, 1e-5);
    }
}

/// Tiles join without errors, down to one frame each.
#[test]
fn tiles_are_one_whole() {
    let device = burn_wgpu::WgpuDevice::DefaultDevice;
    for case in cases() {
        let run = |frames: usize| {
            let (x, weight, bias) = case.inputs::<Plain>(DType::F32, &device);
            let bytes = frames * case.taps * case.channels[1] * size_of::<f32>();
            let y = variants::conv_transpose1d_in_tiles::<WgpuRuntime>(
                primitive(x),
                primitive(weight),
                bias.map(primitive),
                case.geometry(),
                bytes,
            );
            read::<Plain, 3>(tensor(y))
        };
        let whole = run(100);
        for frames in [1, 3, 4] {
            let worst = whole.iter().zip(run(frames)).map(|(a, b)| (a - b).abs());
            let worst = worst.fold(0.0, f32::max);
            assert!(worst < 1e-5, "k {}, {frames} frames a tile: {worst}", case.taps);
        }
    }
}
