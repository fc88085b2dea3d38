//! Gradients of a product whose weights are narrower than its input.
//!
//! ```text
//! gradient, W transposed -> product -> of the input
//! gradient transposed, x transposed and rounded -> product -> of the weights
//! ```

#[cfg(target_arch = "x86_64")]
use burn::tensor::{DType, TensorMetadata};
use burn_flex::{Flex, FlexTensor};

use super::super::super::{primitive, reference, tensor};
#[cfg(target_arch = "x86_64")]
use super::{blocked, contiguous, product, values};

/// Kernel of [`super::super::super::Backend::product_gradients`], for bf16 weights with f32 input.
pub(in super::super) fn product_gradients(
    x: FlexTensor,
    weight: FlexTensor,
    gradient: FlexTensor,
    wanted: [bool; 2],
) -> [Option<FlexTensor>; 2] {
    #[cfg(target_arch = "x86_64")]
    if let (Some(dot), [DType::F32, DType::BF16, DType::F32]) =
        (blocked::OfBf16::new(), [x.dtype(), weight.dtype(), gradient.dtype()])
        && [&x, &weight].iter().all(|of| of.shape().num_elements() > 0)
    {
        let [rows, width, out] = [x.shape()[0], x.shape()[1], weight.shape()[0]];
        let gradient = contiguous(gradient);
        let of_weight = wanted[1].then(|| {
            let x = contiguous(x);
            let x = dot.transposed_and_rounded(values(&x, rows * width), [rows, width]);
            let gradient = dot.transposed(values(&gradient, rows * out), [rows, out]);
            blocked::product(dot, &gradient, &x, [out, rows, width])
        });
        let of_x = wanted[0].then(|| product(gradient, weight.transpose(0, 1)));
        return [of_x, of_weight];
    }
    let [x, weight, gradient] = [x, weight, gradient].map(tensor);
    reference::product_gradients::<Flex>(x, weight, gradient, wanted).map(|of| of.map(primitive))
}

#[cfg(test)]
mod tests {
    use crate::kernel::flex::level::tests::at_every_level;
    use burn::tensor::{DType, Tensor};

    use super::{
        super::super::tests::{assert_close, random},
        *,
    };

    /// For numbers that are exact in bf16 the gradients are exact too; partial blocks of sixteen
    /// are included.
    #[test]
    fn what_is_passed_back_is_the_reference() {
        at_every_level(|| {
            let rounded = |x: Tensor<Flex, 2>| x.cast(DType::BF16).cast(DType::F32);
            for [rows, out, width] in [[1, 3, 5], [17, 33, 40], [40, 16, 31], [130, 100, 48]] {
                let (x, gradient) = (rounded(random([rows, width])), rounded(random([rows, out])));
                let weight = random([out, width]).cast(DType::BF16);
                let expected = {
                    let (x, weight, gradient) = (x.clone(), weight.clone(), gradient.clone());
                    reference::product_gradients::<Flex>(x, weight, gradient, [true; 2])
                };
                let [x, weight, gradient] = [x, weight, gradient].map(primitive);
                let ours =
                    product_gradients(x.clone(), weight.clone(), gradient.clone(), [true; 2]);
                for (ours, expected) in ours.into_iter().zip(expected) {
                    let (ours, expected) =
                        (tensor(ours.expect("wanted")), expected.expect("wanted"));
                    assert_close::<2>(ours, expected, 2e-4);
                }
                let none = product_gradients(x, weight, gradient, [false; 2]);
                assert!(none.iter().all(Option::is_none));
            }
        });
    }
}
