//! Rotary position embedding that pairs the two halves of a head.
//!
//! `angle(p, j) = p theta^(-2j/D)` for `j < D/2`; the first half of a head is rotated with the
//! second: `(a, b) -> (a cos - b sin, b cos + a sin)`.
//!
//! Source: Su et al. 2021, arXiv:2104.09864, in the layout of Hugging Face's Qwen3.

use burn::tensor::{Tensor, TensorData};

use crate::{Backend, Place, kernel};

/// Cosines and sines of a list of positions.
#[derive(Debug, Clone)]
pub struct Rope<B: Backend> {
    cos: Tensor<B, 2>,
    sin: Tensor<B, 2>,
}

impl<B: Backend> Rope<B> {
    /// Creates tables for positions `0..length` of heads with width `head_dim`.
    pub fn new(length: usize, head_dim: usize, theta: f64, place: &Place<B>) -> Self {
        Self::at(0..length, head_dim, theta, place)
    }

    /// Creates tables for `positions`, in the given order.
    ///
    /// They are computed in f32 as in the reference, then cast to the type that `place` computes
    /// in.
    pub fn at(
        positions: impl IntoIterator<Item = usize>,
        head_dim: usize,
        theta: f64,
        place: &Place<B>,
    ) -> Self {
        let half = head_dim / 2;
        let frequency: Vec<f32> =
            (0..half).map(|j| 1.0 / theta.powf((2 * j) as f64 / head_dim as f64) as f32).collect();
        let angles = positions
            .into_iter()
            .flat_map(|p| frequency.iter().map(move |f| p as f32 * f))
            .collect();
        Self::of_angles(angles, half, place)
    }

    /// Creates tables for `positions`, in the given order, with the angles `p / (first (last /
    /// first)^(2j/D))`: one radian takes `first` positions for the fastest pair, and would take
    /// `last` for the pair after the slowest one.
    pub(crate) fn between(
        positions: impl IntoIterator<Item = usize>,
        head_dim: usize,
        [first, last]: [f64; 2],
        place: &Place<B>,
    ) -> Self {
        let half = head_dim / 2;
        let timescale = |j: usize| {
            let share = (2 * j) as f64 / head_dim as f64;
            (first * (last / first).powf(share)) as f32
        };
        let timescales: Vec<f32> = (0..half).map(timescale).collect();
        let angles = positions
            .into_iter()
            .flat_map(|p| timescales.iter().map(move |timescale| p as f32 / timescale))
            .collect();
        Self::of_angles(angles, half, place)
    }

    /// Creates tables of angles, `[positions, half]`.
    fn of_angles(angles: Vec<f32>, half: usize, place: &Place<B>) -> Self {
        let length = angles.len() / half;
        let table = |f: fn(f32) -> f32| {
            let values: Vec<f32> = angles.iter().map(|&angle| f(angle)).collect();
            let data = TensorData::new(values, [length, half]);
            Tensor::from_data(data, (&place.device, place.computes_in()))
        };
        Self { cos: table(f32::cos), sin: table(f32::sin) }
    }

    /// Rotates `x` by its positions.
    ///
    /// # Shapes
    /// - `x`, output: `[B, heads, length, head_dim]`, or `[length, heads, 1, head_dim]` if each item
    ///   has its own position
    pub fn apply(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        kernel::rotate(x, self.cos.clone(), self.sin.clone())
    }

    /// Creates the positions of these tables, cosines and sines.
    pub(crate) fn of([cos, sin]: [Tensor<B, 2>; 2]) -> Self {
        Self { cos, sin }
    }

    /// Returns the tables of the first position alone.
    pub(super) fn first(&self) -> Self {
        let [cos, sin] = [&self.cos, &self.sin].map(|table| table.clone().narrow(0, 0, 1));
        Self { cos, sin }
    }

    /// Returns cosines and sines, `[positions, head_dim / 2]` each.
    pub(crate) fn tables(&self) -> (Tensor<B, 2>, Tensor<B, 2>) {
        (self.cos.clone(), self.sin.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, random, values};
    use burn_flex::Flex;

    /// Three items of one position: the same for all, or one each.
    #[test]
    fn items_of_one_position_have_one_in_common_or_their_own() {
        let place = Place::f32(Default::default());
        let x = random([3, 2, 1, 8]);
        let at = |positions: &[usize], x: &Tensor<Flex, 4>| {
            let rope = Rope::at(positions.iter().copied(), 8, 100.0, &place);
            values(rope.apply(x.clone()))
        };
        let item = |index: usize| x.clone().narrow(0, index, 1);
        let same = [0, 1, 2].map(|index| at(&[5], &item(index))).concat();
        assert_eq!(at(&[5], &x), same);
        let own = [0, 1, 2].map(|index| at(&[[9, 4, 0][index]], &item(index))).concat();
        assert_eq!(at(&[9, 4, 0], &x), own);
        assert_ne!(same, own);
    }

    /// One head of four values at position 1, theta 10000: angles 1 and 0.01.
    #[test]
    fn halves_turn_against_each_other() {
        let device = Default::default();
        let x = Tensor::<Flex, 4>::from_data([[[[0.0f32; 4], [1.0, 2.0, 3.0, 4.0]]]], &device);
        let y = values(Rope::new(2, 4, 10_000.0, &Place::f32(device)).apply(x));
        let expected = [
            1.0f32.cos() - 3.0 * 1.0f32.sin(),
            2.0 * 0.01f32.cos() - 4.0 * 0.01f32.sin(),
            3.0 * 1.0f32.cos() + 1.0f32.sin(),
            4.0 * 0.01f32.cos() + 2.0 * 0.01f32.sin(),
        ];
        assert_close(&y[4..], &expected, 1e-6);
    }
}
