//! Convolutions on the CPU with sums in f64, for tests. The f32 reference may be as far from the exact
//! sums as a kernel.

use burn::tensor::{DType, Tensor, TensorData};
use burn_flex::Flex;

use super::ConvGeometry;

/// Contiguous `[batch, channels, samples]`.
struct Sound {
    numbers: Vec<f64>,
    dims: [usize; 3],
}

impl Sound {
    fn of(x: Tensor<Flex, 3>) -> Self {
        let dims = x.dims();
        let numbers = x.cast(DType::F32).into_data().to_vec::<f32>().expect("f32");
        Self { numbers: numbers.into_iter().map(f64::from).collect(), dims }
    }

    /// Every sample is the bias of its channel.
    fn filled(bias: Option<Tensor<Flex, 1>>, dims: [usize; 3]) -> Self {
        let bias = bias.map(|of| of.into_data().to_vec::<f32>().expect("f32"));
        let bias = bias.unwrap_or_else(|| vec![0.0; dims[1]]);
        let rows = (0..dims[0] * dims[1]).map(|row| f64::from(bias[row % dims[1]]));
        let numbers = rows.flat_map(|bias| std::iter::repeat_n(bias, dims[2])).collect();
        Self { numbers, dims }
    }

    fn row(&self, first: usize, second: usize) -> &[f64] {
        &self.numbers[(first * self.dims[1] + second) * self.dims[2]..][..self.dims[2]]
    }

    fn tensor(self) -> Tensor<Flex, 3> {
        let numbers: Vec<f32> = self.numbers.into_iter().map(|x| x as f32).collect();
        Tensor::from_data(TensorData::new(numbers, self.dims), &Default::default())
    }
}

/// [`super::conv1d`].
pub(crate) fn conv1d(
    x: Tensor<Flex, 3>,
    weight: Tensor<Flex, 3>,
    bias: Option<Tensor<Flex, 1>>,
    geometry: ConvGeometry,
) -> Tensor<Flex, 3> {
    let ConvGeometry { stride, padding: [left, _], dilation, groups } = geometry;
    let [x, weight] = [x, weight].map(Sound::of);
    let [outputs, inputs, taps] = weight.dims;
    let samples = geometry.outputs(x.dims[2], taps);
    let mut y = Sound::filled(bias, [x.dims[0], outputs, samples]);
    for (row, to) in y.numbers.chunks_mut(samples).enumerate() {
        let (item, output) = (row / outputs, row % outputs);
        for input in 0..inputs {
            let from = x.row(item, output / (outputs / groups) * inputs + input);
            for (tap, weight) in weight.row(output, input).iter().enumerate() {
                for (sample, to) in to.iter_mut().enumerate() {
                    let at = (sample * stride + tap * dilation).checked_sub(left);
                    *to += weight * at.and_then(|at| from.get(at)).unwrap_or(&0.0);
                }
            }
        }
    }
    y.tensor()
}

/// [`super::conv_transpose1d`].
pub(crate) fn conv_transpose1d(
    x: Tensor<Flex, 3>,
    weight: Tensor<Flex, 3>,
    bias: Option<Tensor<Flex, 1>>,
    geometry: ConvGeometry,
) -> Tensor<Flex, 3> {
    let ConvGeometry { stride, padding: [left, _], dilation, groups } = geometry;
    let [x, weight] = [x, weight].map(Sound::of);
    let ([inputs, of_group, taps], outputs) = (weight.dims, weight.dims[1] * groups);
    let samples = geometry.transposed_outputs(x.dims[2], taps);
    let mut y = Sound::filled(bias, [x.dims[0], outputs, samples]);
    for (row, to) in y.numbers.chunks_mut(samples).enumerate() {
        let (item, output) = (row / outputs, row % outputs);
        let first = output / of_group * (inputs / groups);
        for input in first..first + inputs / groups {
            let weights = weight.row(input, output % of_group);
            for (sample, from) in x.row(item, input).iter().enumerate() {
                for (tap, weight) in weights.iter().enumerate() {
                    let at = (sample * stride + tap * dilation).checked_sub(left);
                    if let Some(to) = at.and_then(|at| to.get_mut(at)) {
                        *to += weight * from;
                    }
                }
            }
        }
    }
    y.tensor()
}
