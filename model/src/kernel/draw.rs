//! The draw of an id from logits, without leaving the device.
//!
//! Source: transformers 4.57 `generation/logits_process.py` (temperature, top-k); ATen `multinomial`, its path for one
//! sample, which compares `p / q` with exponential `q`.

use burn::tensor::{DType, Int, Tensor};

use super::{Backend, assert_same_dtype, primitive};

/// Draws an id for each row: divides by the temperature, and keeps an id if fewer than `top_k` ids have larger logits (0
/// keeps all). Returns the first id with the largest `p / q`: `p` is the softmax, and `q` the exponential number of the
/// id.
///
/// The sum of the softmax divides all alike, so it is left out. `top_k` of 1 with equal `q` gives the first of the
/// likeliest ids.
///
/// An id is -1 if a logit of its row is NaN or plus infinity, or the largest one is infinite after the division.
///
/// # Shapes
/// - `logits`, `exponentials`: `[rows, ids]`, f32; exponentials are above 0
/// - output: `[rows, 1]`
pub fn draw<B: Backend>(
    logits: Tensor<B, 2>,
    exponentials: Tensor<B, 2>,
    temperature: f32,
    top_k: usize,
) -> Tensor<B, 2, Int> {
    assert_same_dtype("draw", DType::F32, [logits.dtype(), exponentials.dtype()]);
    assert_eq!(logits.dims(), exponentials.dims(), "draw: an exponential number for each logit");
    let (logits, exponentials) = (primitive(logits), primitive(exponentials));
    Tensor::from_primitive(B::draw(logits, exponentials, temperature, top_k))
}

/// Reference of [`draw`], of the same shapes.
pub fn reference<B: Backend>(
    logits: Tensor<B, 2>,
    exponentials: Tensor<B, 2>,
    temperature: f32,
    top_k: usize,
) -> Tensor<B, 2, Int> {
    let ([rows, ids], device) = (logits.dims(), logits.device());
    let scores = logits.clone().div_scalar(temperature);
    let largest = scores.clone().max_dim(1); // [rows, 1]
    let chances = (scores - largest.clone()).exp() / exponentials;

    let others: Tensor<B, 3> = logits.clone().reshape([rows, 1, ids]);
    let larger = others.greater(logits.clone().reshape([rows, ids, 1])).int();
    let larger: Tensor<B, 2, Int> = larger.sum_dim(2).reshape([rows, ids]);
    let kept = if top_k == 0 { ids } else { top_k.min(ids) };
    let chances = chances.mask_fill(larger.greater_equal_elem(kept as i32), 0.0);

    let places = Tensor::<B, 1, Int>::arange(0..ids as i64, &device).reshape([1, ids]);
    let places: Tensor<B, 2, Int> = places.repeat_dim(0, rows);
    let others = chances.clone().lower(chances.max_dim(1));
    let first = places.mask_fill(others, ids as i32).min_dim(1);
    let usable = logits.lower_elem(f32::INFINITY).all_dim(1);
    let usable = usable.bool_and(largest.abs().lower_elem(f32::INFINITY));
    first.mask_fill(usable.bool_not(), -1)
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use burn_flex::Flex;

    use super::*;

    /// Worked out by hand: `e^((x - max) / t) / q` of the ids that are kept.
    #[test]
    fn an_id_is_the_first_of_the_largest_quotients() {
        const INFINITY: f32 = f32::INFINITY;
        let of = |logits: [f32; 3], exponentials: [f32; 3], temperature, top_k| {
            let [logits, exponentials] = [logits, exponentials]
                .map(|values| Tensor::<Flex, 2>::from_data([values], &burn_flex::FlexDevice));
            let ids = draw(logits, exponentials, temperature, top_k).into_data();
            ids.convert::<i32>().to_vec::<i32>().expect("i32")[0]
        };
        let ones = [1.0; 3];
        assert_eq!(of([1.0, 3.0, 2.0], ones, 1.0, 0), 1);
        // Equals of the last one stay, and the first of equal quotients wins.
        assert_eq!(of([3.0, 1.0, 3.0], ones, 1.0, 1), 0);
        assert_eq!(of([3.0, 1.0, 3.0], [2.0, 1.0, 1.0], 1.0, 1), 2);
        assert_eq!(of([-0.0, 0.0, -1.0], [1.0, 2.0, 0.1], 1.0, 1), 0);
        // 13.5 against 0.37 and 1, unless two are kept.
        assert_eq!(of([0.0, 1.0, 2.0], [0.01, 1.0, 1.0], 1.0, 3), 0);
        assert_eq!(of([0.0, 1.0, 2.0], [0.01, 1.0, 1.0], 1.0, 2), 2);
        // 0.74 against 1, then 1.56 against 1.
        assert_eq!(of([0.0, 1.0, -9.0], [0.5, 1.0, 1.0], 1.0, 0), 1);
        assert_eq!(of([0.0, 1.0, -9.0], [0.5, 1.0, 1.0], 4.0, 0), 0);
        assert_eq!(of([-INFINITY, 1.0, 0.0], [0.1, 1.0, 1.0], 1.0, 0), 1);
        // Logits that no network may write.
        for logits in [[0.0, f32::NAN, 1.0], [INFINITY, 0.0, 0.0], [-INFINITY; 3]] {
            assert_eq!(of(logits, ones, 1.0, 2), -1, "{logits:?}");
        }
        assert_eq!(of([1e30, 0.0, 0.0], ones, 1e-10, 0), -1);
    }
}
