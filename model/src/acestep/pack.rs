//! Concatenation of sequences with the real positions of every item first.
//!
//! Source: upstream `pack_sequences`: concatenate, then sort positions stably by their mask.

use burn::tensor::{Int, Tensor, TensorData};

use crate::Backend;

/// A batch of sequences with a padding mask.
#[derive(Debug, Clone)]
pub struct Padded<B: Backend> {
    /// `[B, L, H]`
    pub hidden: Tensor<B, 3>,
    /// One row per item: true = real, false = padding.
    pub mask: Vec<Vec<bool>>,
}

impl<B: Backend> Padded<B> {
    /// Creates a batch without padding: `hidden` is `[batch, positions, width]`.
    pub fn whole(hidden: Tensor<B, 3>) -> Self {
        let [batch, length, _] = hidden.dims();
        Self { hidden, mask: vec![vec![true; length]; batch] }
    }
}

/// Appends `second` to `first` and moves the padding of both to the end; the order stays the same.
pub fn pack<B: Backend>(first: Padded<B>, second: Padded<B>) -> Padded<B> {
    let joined = Tensor::cat(vec![first.hidden, second.hidden], 1);
    let masks: Vec<Vec<bool>> =
        first.mask.into_iter().zip(second.mask).map(|(a, b)| [a, b].concat()).collect();
    if masks.iter().flatten().all(|&real| real) {
        return Padded { hidden: joined, mask: masks };
    }
    let device = joined.device();
    let rows = masks.iter().enumerate().map(|(item, mask)| {
        let order = TensorData::new(real_first(mask), [mask.len()]);
        let order = Tensor::<B, 1, Int>::from_data(order, &device);
        joined.clone().narrow(0, item, 1).select(1, order)
    });
    let hidden = Tensor::cat(rows.collect(), 0);
    let mask = masks
        .into_iter()
        .map(|mut mask| {
            mask.sort_by_key(|&real| !real);
            mask
        })
        .collect();
    Padded { hidden, mask }
}

/// Returns the positions, first the real ones and then the padding, each in their old order.
fn real_first(mask: &[bool]) -> Vec<i64> {
    let mut order: Vec<i64> = (0..mask.len() as i64).collect();
    order.sort_by_key(|&position| !mask[position as usize]);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_moves_to_the_end_and_keeps_its_order() {
        assert_eq!(real_first(&[true, false, true, false, true]), [0, 2, 4, 1, 3]);
    }
}
