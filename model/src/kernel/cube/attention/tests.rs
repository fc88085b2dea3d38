//! Every kernel against the reference on the processor.

use std::any::TypeId;

use burn::tensor::{Bool, DType, Tensor, TensorData};
use burn_flex::Flex;

use super::super::testing::{Operation, random, read, same_everywhere};
use crate::{
    Backend,
    kernel::{self, Mask, Visibility, reference},
};

/// How the tensors of a case lie in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Layout {
    /// As their shapes say.
    Plain,
    /// As `[B, L, heads, D]`, seen through swapped axes.
    Swapped,
    /// Keys and values as the first part of a longer cache.
    Cached,
}

/// Which keys are padding.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Padding {
    None,
    /// The second half of the last item.
    Half,
    /// Every key of the last item.
    All,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    batch: usize,
    kv_heads: usize,
    group: usize,
    queries: usize,
    keys: usize,
    width: usize,
    visibility: Visibility,
    padding: Padding,
    layout: Layout,
}

impl Case {
    fn of(queries: usize, keys: usize, width: usize, visibility: Visibility) -> Self {
        Self {
            batch: 1,
            kv_heads: 2,
            group: 2,
            queries,
            keys,
            width,
            visibility,
            padding: Padding::None,
            layout: Layout::Plain,
        }
    }

    fn check(self) {
        same_everywhere(&format!("{self:?}"), &self, 2e-6);
    }

    /// `[B, heads, length, D]`.
    fn input<B: Backend>(
        &self,
        [heads, length]: [usize; 2],
        cached: bool,
        seed: u32,
        dtype: DType,
        device: &B::Device,
    ) -> Tensor<B, 4> {
        let (batch, width) = (self.batch, self.width);
        match self.layout {
            Layout::Swapped => {
                random::<B, 4>([batch, length, heads, width], seed, dtype, device).swap_dims(1, 2)
            }
            Layout::Cached if cached => {
                random::<B, 4>([batch, heads, length + 9, width], seed, dtype, device)
                    .narrow(2, 0, length)
            }
            Layout::Plain | Layout::Cached => {
                random::<B, 4>([batch, heads, length, width], seed, dtype, device)
            }
        }
    }

    fn mask<B: Backend>(&self, device: &B::Device) -> Mask<B> {
        let (batch, keys) = (self.batch, self.keys);
        let real = |item: usize, key: usize| match self.padding {
            Padding::None => true,
            Padding::Half => item + 1 < batch || key < keys.div_ceil(2),
            Padding::All => item + 1 < batch,
        };
        let flags: Vec<bool> = (0..batch * keys).map(|i| real(i / keys, i % keys)).collect();
        let flags = Tensor::<B, 2, Bool>::from_data(TensorData::new(flags, [batch, keys]), device);
        let keys = (self.padding != Padding::None).then_some(flags);
        Mask { visibility: self.visibility, keys }
    }
}

impl Operation for Case {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let queries = [self.kv_heads * self.group, self.queries];
        let keys = [self.kv_heads, self.keys];
        // Large queries, so that some keys count much more than others.
        let q = self.input::<B>(queries, false, 1, dtype, device).mul_scalar(4.0);
        let k = self.input::<B>(keys, true, 2, dtype, device);
        let v = self.input::<B>(keys, true, 3, dtype, device);
        let mask = self.mask(device);
        if TypeId::of::<B>() == TypeId::of::<Flex>() {
            let [q, k, v] = [q, k, v].map(|x| x.cast(DType::F32));
            return read(reference::attention(q, k, v, &mask).cast(dtype));
        }
        // What the networks do with the result.
        let mixed = kernel::attention(q, k, v, &mask).swap_dims(1, 2);
        let [batch, length, heads, width] = mixed.dims();
        let mixed = mixed.reshape([batch, length, heads * width]);
        read(mixed.reshape([batch, length, heads, width]).swap_dims(1, 2))
    }
}

/// Lengths around every edge of a cube and of a tile.
#[test]
fn any_number_of_queries_and_keys() {
    for length in [1, 2, 7, 16, 33, 65, 127, 130] {
        Case::of(length, length, 16, Visibility::Full).check();
        Case::of(length, 37, 64, Visibility::Full).check();
        Case::of(5, length, 128, Visibility::Full).check();
    }
}

#[test]
fn any_number_of_heads_to_a_key_head() {
    for (kv_heads, group) in [(1, 1), (3, 1), (2, 3), (1, 4), (1, 5)] {
        for queries in [3, 40] {
            Case { kv_heads, group, ..Case::of(queries, 40, 32, Visibility::Full) }.check();
        }
    }
}

#[test]
fn every_width_of_a_head() {
    for width in [4, 8, 16, 20, 32, 64, 96, 128, 160] {
        Case::of(35, 35, width, Visibility::Window(9)).check();
        Case::of(1, 35, width, Visibility::Causal { first: 34 }).check();
    }
}

#[test]
fn visibility_by_position() {
    for length in [1, 7, 33, 130] {
        for reach in [0, 3, 16, 128, usize::MAX] {
            Case::of(length, length, 16, Visibility::Window(reach)).check();
        }
        for first in [0, 5] {
            Case::of(length, length + first, 16, Visibility::Causal { first }).check();
        }
    }
}

/// A row that sees no key gets the mean of all values, also those outside its window.
#[test]
fn padding_and_rows_that_see_nothing() {
    for padding in [Padding::Half, Padding::All] {
        for visibility in [Visibility::Full, Visibility::Window(3), Visibility::Causal { first: 2 }]
        {
            for length in [1, 7, 70] {
                Case { batch: 2, padding, ..Case::of(length, length + 2, 16, visibility) }.check();
            }
        }
    }
}

#[test]
fn tensors_that_lie_otherwise_in_memory() {
    for layout in [Layout::Swapped, Layout::Cached] {
        for (queries, keys) in [(1, 64), (33, 64), (130, 130)] {
            let case = Case::of(queries, keys, 128, Visibility::Full);
            Case { batch: 2, layout, ..case }.check();
        }
    }
    Case { layout: Layout::Cached, ..Case::of(3, 21, 20, Visibility::Full) }.check();
}
