//! Operations without a kernel on any backend.

use burn::tensor::{Tensor, activation};

use super::Backend;

/// GELU, `x Phi(x)` with the normal distribution function `Phi`, for any shape.
///
/// Source: Hendrycks & Gimpel 2016, arXiv:1606.08415.
pub fn gelu<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    activation::gelu(x)
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use burn_flex::Flex;

    use super::*;

    /// Values of SciPy's `x * norm.cdf(x)`.
    #[test]
    fn gelu_has_its_values() {
        let x = Tensor::<Flex, 1>::from_data([-2.0f32, -0.5, 0.0, 1.0], &Default::default());
        let y: Vec<f32> = gelu(x).into_data().to_vec().expect("f32");
        for (y, expected) in y.iter().zip([-0.045_500_26f32, -0.154_268_77, 0.0, 0.841_344_8]) {
            assert!((y - expected).abs() < 1e-6, "{y} is not {expected}");
        }
    }
}
