//! Layer norm, both forms of GELU, ELU, and half snake.

use burn::tensor::{Tensor, ops::FloatTensor};

use super::{Backend, assert_same_dtype, primitive, rows, tensor};

/// Layer norm over the last axis: `w (x - mean) / sqrt(variance + epsilon) + b`, computed in f32.
///
/// Source: Ba, Kiros & Hinton 2016, arXiv:1607.06450, as `torch.nn.LayerNorm`.
///
/// # Shapes
/// - `x`, output: `[.., H]`
/// - `weight`, `bias`: `[H]`
pub fn layer_norm<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    weight: Tensor<B, 1>,
    bias: Option<Tensor<B, 1>>,
    epsilon: f64,
) -> Tensor<B, D> {
    let others = std::iter::once(&weight).chain(&bias).map(Tensor::dtype);
    assert_same_dtype("layer_norm", x.dtype(), others);
    let shape = x.dims();
    let (x, weight, bias) = (primitive(rows(x)), primitive(weight), bias.map(primitive));
    tensor::<B, 2>(<B as Backend>::layer_norm(x, weight, bias, epsilon)).reshape(shape)
}

/// Applies an operation on rows to a tensor of any shape.
fn of_rows<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    operation: fn(FloatTensor<B>) -> FloatTensor<B>,
) -> Tensor<B, D> {
    let shape = x.dims();
    if shape.contains(&0) {
        return x; // In a new shape, Burn takes 0 for the old size.
    }
    tensor::<B, 2>(operation(primitive(rows(x)))).reshape(shape)
}

/// GELU, `x Phi(x)` with the normal distribution function `Phi`, for any shape.
///
/// Source: Hendrycks & Gimpel 2016, arXiv:1606.08415.
pub fn gelu<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    of_rows(x, <B as Backend>::gelu)
}

/// The approximation of [`gelu`] by `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`,
/// for any shape.
///
/// Source: Hendrycks & Gimpel 2016, arXiv:1606.08415.
pub fn gelu_tanh<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    of_rows(x, B::gelu_tanh)
}

/// ELU: `x` above zero, else `exp(x) - 1`, for any shape.
///
/// Source: Clevert et al. 2015, arXiv:1511.07289.
pub fn elu<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    of_rows(x, B::elu)
}

/// `x + sin^2(a x) / (a + 1e-9)` in the channels that `alpha` has a value of, which come first, and a
/// leaky ReLU with the slope 0.01 in the others.
///
/// Source: Ziyin et al. 2020, arXiv:2006.08195, in the form of NeMo's `HalfSnake`.
///
/// # Shapes
/// - `x`, output: `[B, C, S]`
/// - `alpha`: `[1, channels, 1]`, at most `C` channels
pub fn half_snake<B: Backend>(x: Tensor<B, 3>, alpha: Tensor<B, 3>) -> Tensor<B, 3> {
    assert_same_dtype("half_snake", x.dtype(), [alpha.dtype()]);
    tensor(B::half_snake(primitive(x), primitive(alpha)))
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use burn_flex::Flex;

    use super::*;

    #[track_caller]
    fn assert_close(x: Tensor<Flex, 2>, expected: &[f32]) {
        let values: Vec<f32> = x.into_data().convert::<f32>().to_vec().expect("f32");
        for (value, expected) in values.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
        }
    }

    /// By the formula in f64: `0.5 + sin^2(1) / 2`, `-0.5 + sin^2(1.5) / -3`; the frequency is no
    /// exponent and may be negative.
    #[test]
    fn a_half_snake_has_a_leaky_other_half() {
        let device = Default::default();
        let x = Tensor::<Flex, 3>::from_data([[[0.5f32], [-0.5], [2.0], [-2.0], [1.0]]], &device);
        let alpha = Tensor::from_data([[[2.0f32], [-3.0]]], &device);
        let y = half_snake(x, alpha).reshape([1, 5]);
        assert_close(y, &[0.854_036_7, -0.831_665_4, 2.0, -0.02, 1.0]);
    }

    /// The mean is 3 and the variance `(4 + 1 + 0 + 9) / 4 = 3.5`.
    #[test]
    fn a_layer_norm_is_centred() {
        let device = Default::default();
        let x = Tensor::<Flex, 2>::from_data([[1.0f32, 2.0, 3.0, 6.0]], &device);
        let weight = Tensor::from_data([1.0f32, 1.0, 1.0, 2.0], &device);
        let bias = Tensor::from_data([0.0f32, 0.5, 0.0, 1.0], &device);
        let one = 4.0f32.sqrt().recip(); // 3.5 + 0.5
        let plain = layer_norm(x.clone(), weight.clone(), None, 0.5);
        assert_close(plain, &[-2.0 * one, -one, 0.0, 6.0 * one]);
        let biased = layer_norm(x, weight, Some(bias), 0.5);
        assert_close(biased, &[-2.0 * one, 0.5 - one, 0.0, 1.0 + 6.0 * one]);
    }

    #[test]
    fn activations_of_nothing_are_nothing() {
        for shape in [[1, 64, 0], [0, 2, 3], [2, 0, 3]] {
            let x = Tensor::<Flex, 3>::zeros(shape, &Default::default());
            assert_eq!(elu(x.clone()).dims(), shape);
            assert_eq!(gelu(x.clone()).dims(), shape);
            assert_eq!(gelu_tanh(x).dims(), shape);
        }
    }

    /// `exp(x) - 1` in f64; SciPy's `x * norm.cdf(x)`; the formula with tanh in f64.
    #[test]
    fn activations_have_their_values() {
        let x = Tensor::<Flex, 2>::from_data([[-2.0f32, -0.5, 0.0, 1.0]], &Default::default());
        assert_close(elu(x.clone()), &[-0.864_664_7, -0.393_469_3, 0.0, 1.0]);
        assert_close(gelu(x.clone()), &[-0.045_500_26, -0.154_268_77, 0.0, 0.841_344_8]);
        assert_close(gelu_tanh(x), &[-0.045_402_3, -0.154_286, 0.0, 0.841_192]);
    }
}
