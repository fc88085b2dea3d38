//! Attention by every routine, compared with the reference on the CPU.

#![expect(clippy::print_stderr, reason = "what is skipped is said")]

use std::any::TypeId;

use acestep_model::{
    Backend,
    kernel::{
        self, Mask, Visibility, reference,
        variants::{Routine, attention_by, with_shuffles},
    },
};
use burn::tensor::{Bool, DType, Tensor, TensorData};
use burn_flex::Flex;
use burn_wgpu::WgpuRuntime;

use super::testing::{Operation, Plain, primitive, random, read, same, same_everywhere, tensor};

/// Memory layout of the tensors of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Layout {
    /// Contiguous.
    Plain,
    /// As `[B, L, heads, D]` with swapped axes.
    Swapped,
    /// Keys and values as the first part of a longer cache.
    Cached,
}

/// Padding of the keys.
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
    /// Factor of the queries: the larger, the fewer keys dominate.
    slope: f32,
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
            slope: 4.0,
        }
    }

    /// An error of a score becomes an error of its weight, and scores grow with the slope.
    fn tolerance(&self, dtype: DType) -> f32 {
        if dtype == DType::F16 { 2e-3 } else { 2e-6 * (self.slope / 4.0).max(1.0) }
    }

    /// Checks the case as the networks call it, on every backend.
    fn check(self) {
        same_everywhere(&format!("{self:?}"), &self, self.tolerance(DType::F32));
    }

    /// Checks the case with each of these routines, which must support it.
    fn check_by(self, routines: &[Routine], dtype: DType) {
        let expected = self.run::<Flex>(dtype, &burn_flex::FlexDevice);
        for &routine in routines {
            let name = format!("{routine:?} {dtype:?} {self:?}");
            let got = self.run_by(routine, dtype).unwrap_or_else(|| panic!("{name} is not taken"));
            same(&name, &expected, &got, self.tolerance(dtype));
        }
    }

    /// Checks the case with the routines for many rows.
    fn check_rows(self) {
        self.check_by(&[Routine::Units, Routine::Emulated], DType::F32);
    }

    /// Checks the case with the routine for few rows.
    fn check_decode(self) {
        self.check_by(&[Routine::Decode], DType::F32);
    }

    fn run_by(&self, routine: Routine, dtype: DType) -> Option<Vec<f32>> {
        let device = burn_wgpu::WgpuDevice::DefaultDevice;
        let [q, k, v] = self.inputs::<Plain>(dtype, &device).map(primitive);
        let keys = self.mask::<Plain>(&device).keys.map(Tensor::into_primitive);
        let mixed = attention_by::<WgpuRuntime>(routine, q, k, v, keys, self.visibility)?;
        Some(read::<Plain, 4>(tensor(mixed)))
    }

    fn inputs<B: Backend>(&self, dtype: DType, device: &B::Device) -> [Tensor<B, 4>; 3] {
        let queries = [self.kv_heads * self.group, self.queries];
        let keys = [self.kv_heads, self.keys];
        [
            self.input(queries, false, 1, dtype, device).mul_scalar(self.slope),
            self.input(keys, true, 2, dtype, device),
            self.input(keys, true, 3, dtype, device),
        ]
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
        let [q, k, v] = self.inputs::<B>(dtype, device);
        let mask = self.mask(device);
        if TypeId::of::<B>() == TypeId::of::<Flex>() {
            let [q, k, v] = [q, k, v].map(|x| x.cast(DType::F32));
            return read(reference::attention(q, k, v, &mask).cast(dtype));
        }
        // The networks use the result in this way.
        let mixed = kernel::attention(q, k, v, &mask).swap_dims(1, 2);
        let [batch, length, heads, width] = mixed.dims();
        let mixed = mixed.reshape([batch, length, heads * width]);
        read(mixed.reshape([batch, length, heads, width]).swap_dims(1, 2))
    }
}

/// Windows that end before the first key, at it, and far behind it.
#[test]
fn causal_windows() {
    for (queries, first, width) in
        [(33, 7, 5), (33, 0, 1), (40, 0, 12), (130, 70, 72), (70, 4, 1000), (9, 300, 20)]
    {
        let visibility = Visibility::CausalWindow { first, width };
        let case = Case::of(queries, queries + first, 16, visibility);
        case.check_rows();
        // A driver in software compiles eight rows for half a minute, and two for 3 s.
        Case { queries: 2, keys: 14 + first, ..case }.check_decode();
        Case { queries: 1, keys: 1 + first, ..case }.check();
    }
    let visibility = Visibility::CausalWindow { first: 100, width: 3 };
    let case = Case { padding: Padding::Half, batch: 2, ..Case::of(40, 140, 16, visibility) };
    case.check_rows();
    Case { queries: 3, group: 1, ..case }.check_decode();
}

#[test]
fn as_the_networks_call_it() {
    for (queries, keys) in [(1, 130), (33, 33)] {
        let case = Case { batch: 2, ..Case::of(queries, keys, 16, Visibility::Full) };
        case.check();
        // With padding a mask is read, wherever the tensors lie.
        for layout in [Layout::Plain, Layout::Swapped, Layout::Cached] {
            Case { padding: Padding::Half, layout, ..case }.check();
        }
    }
    // A width that the kernels do not support. Burn's product takes many seconds to compile for each type.
    let case = Case::of(5, 7, 6, Visibility::Window(2));
    let device = burn_wgpu::WgpuDevice::DefaultDevice;
    let expected = case.run::<Flex>(DType::F32, &burn_flex::FlexDevice);
    same("another width", &expected, &case.run::<Plain>(DType::F32, &device), 2e-6);
}

/// Lengths around every edge of a cube and of a tile.
#[test]
fn any_number_of_queries_and_keys() {
    for length in [1, 2, 7, 16, 33, 65, 127, 130] {
        Case::of(length, length, 16, Visibility::Full).check_rows();
        Case::of(length, 37, 16, Visibility::Full).check_rows();
        Case::of(9, length, 16, Visibility::Full).check_rows();
        Case::of(1, length, 16, Visibility::Full).check_decode();
    }
    Case::of(4, 130, 16, Visibility::Full).check_decode();
    assert!(Case::of(5, 5, 16, Visibility::Full).run_by(Routine::Decode, DType::F32).is_none());
}

/// Every kernel in f16. Most of these tests use only f32, because a software driver takes a second
/// to compile a kernel. The type only decides how values are read and written.
#[test]
fn half_precision() {
    let case = Case { batch: 2, padding: Padding::Half, ..Case::of(40, 90, 16, Visibility::Full) };
    case.check_by(&[Routine::Units, Routine::Emulated], DType::F16);
    Case { queries: 1, ..case }.check_by(&[Routine::Decode], DType::F16);
}

/// As on a GPU, where lanes read each other's values.
#[test]
fn lanes_that_exchange_values() {
    for visibility in [Visibility::Full, Visibility::Window(16)] {
        let case = Case { batch: 2, padding: Padding::Half, ..Case::of(70, 90, 16, visibility) };
        with_shuffles(|| case.check_rows());
    }
}

/// The only test that uses matrix units, if the device has them.
#[test]
fn cooperative_matrices() {
    for (length, visibility) in [
        (16, Visibility::Full),
        (150, Visibility::Full),
        (300, Visibility::Window(128)),
        (300, Visibility::Causal { first: 0 }),
    ] {
        let case = Case { batch: 2, ..Case::of(length, length, 128, visibility) };
        if case.run_by(Routine::TensorCores, DType::F16).is_none() {
            eprintln!("skipped: this device has no cooperative matrices");
            return;
        }
        for slope in [4.0, 60.0] {
            for padding in [Padding::None, Padding::All] {
                Case { slope, padding, ..case }.check_by(&[Routine::TensorCores], DType::F16);
            }
        }
    }
}

/// Caches that are read in parts, of one tile and of several.
#[test]
fn long_caches() {
    for (kv_heads, keys) in [(1, 400), (16, 1000)] {
        Case { kv_heads, ..Case::of(1, keys, 16, Visibility::Full) }.check_decode();
    }
}

#[test]
fn any_number_of_heads_to_a_key_head() {
    for (kv_heads, group) in [(3, 1), (2, 3), (1, 5)] {
        let case = Case { kv_heads, group, ..Case::of(40, 40, 16, Visibility::Full) };
        case.check_rows();
        Case { queries: 1, ..case }.check_decode();
    }
}

#[test]
fn every_width_of_a_head() {
    for width in [4, 20, 64, 128] {
        let case = Case::of(35, 35, width, Visibility::Full);
        case.check_by(&[Routine::Units], DType::F32);
        Case { queries: 1, ..case }.check_decode();
    }
    // In f16, where tiles and mixed values fit the memory of a weak device.
    for width in [48, 64] {
        Case::of(35, 35, width, Visibility::Full).check_by(&[Routine::Emulated], DType::F16);
    }
}

#[test]
fn visibility_by_position() {
    for length in [33, 130] {
        for reach in [0, 3, 16, 128, usize::MAX] {
            Case::of(length, length, 16, Visibility::Window(reach)).check_rows();
        }
        for first in [0, 5] {
            Case::of(length, length + first, 16, Visibility::Causal { first }).check_rows();
        }
    }
    // A few rows of one step over a cache.
    Case::of(2, 70, 16, Visibility::Causal { first: 66 }).check_decode();
    Case::of(2, 70, 16, Visibility::Window(2)).check_decode();
}

/// A row that sees no key gets the mean of all values, including those outside its window.
#[test]
fn padding_and_rows_that_see_nothing() {
    for padding in [Padding::Half, Padding::All] {
        for visibility in [Visibility::Full, Visibility::Window(3), Visibility::Causal { first: 2 }]
        {
            let case = Case { batch: 2, padding, ..Case::of(150, 152, 16, visibility) };
            case.check_rows();
            // Groups, without padding, are in `visibility_by_position`.
            Case { queries: 2, keys: 4, group: 1, ..case }.check_decode();
        }
        let case = Case::of(1, 200, 16, Visibility::Full);
        Case { batch: 2, padding, ..case }.check_decode();
    }
}

/// Scores that grow from tile to tile by more than a weight can hold.
#[test]
fn steep_scores() {
    let case = Case { slope: 60.0, ..Case::of(40, 400, 16, Visibility::Full) };
    case.check_rows();
    Case { queries: 1, ..case }.check_decode();
}

#[test]
fn tensors_that_lie_otherwise_in_memory() {
    for layout in [Layout::Swapped, Layout::Cached] {
        let case = Case { batch: 2, layout, ..Case::of(33, 64, 16, Visibility::Full) };
        case.check_rows();
        Case { queries: 1, ..case }.check_decode();
    }
}
