//! The matrix product on all cores, with weights in f32, bf16 or int8.
//!
//! Up to [`MOST_ROWS`] rows, as in decoding, every weight is read once, at memory speed:
//! [`streamed`]. The sums of a row do not depend on the number of rows, so a batch gives the same
//! bits as its items alone. More rows, as of a prompt or a song, share panels of weights. They use
//! `tiles` for bf16 and int8 at level `amx`, otherwise `blocked`, or `bytes` for int8, if the CPU has the
//! AVX-512 instruction for the type. At levels `avx2` and `avx2-vnni`, and where ARM has an instruction for
//! the type, they use `panels`. Otherwise they use Burn's own product ([`shared`]).
//!
//! bf16 weights have half the bytes of f32, int8 weights little more than a quarter. The other
//! operand is f32, and stays f32 for few rows, but with int8 weights at levels `avx2` and `avx2-vnni` and on
//! ARM: there it is rounded to int16. If the level has an instruction for the weights' type,
//! many rows are rounded to that type first, to bf16 at level `amx`. So a row among more than
//! [`MOST_ROWS`] differs by this rounding from the same row among few. Sums are always f32.

#[cfg(target_arch = "x86_64")]
pub(super) mod blocked;
#[cfg(target_arch = "x86_64")]
mod bytes;
mod gradients;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod panels;
mod shared;
pub(super) mod streamed;
#[cfg(target_arch = "x86_64")]
pub(super) mod tiles;
#[cfg(target_arch = "x86_64")]
pub(super) mod transpose;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod work_items;

pub(super) use gradients::product_gradients;

use burn::tensor::{DType, Element, TensorMetadata};
use burn_flex::{Flex, FlexTensor};
use pulp::bytemuck::Pod;

use super::{
    super::{primitive, reference, tensor},
    eight::Q8,
    matrix::Matrix,
};
use streamed::Weight;

#[cfg(any(target_arch = "x86_64", all(test, target_arch = "aarch64")))]
use super::level::{self, CpuLevel};
#[cfg(target_arch = "x86_64")]
use panels::integers::{Integers, pairs::Pairs, quads::Quads};

/// Maximum number of rows for which weights are read once, in memory order.
pub(super) const MOST_ROWS: usize = 16;

/// Number of weights below which one core finishes before another wakes up.
pub(super) const WORTH_SHARING: usize = 1 << 16;

/// Kernel of [`super::super::Backend::product`] and of [`super::super::Backend::packed_product`].
pub(super) fn product(x: FlexTensor, weight: impl Into<Matrix>) -> FlexTensor {
    let weight = weight.into();
    let (rows, [out, width]) = (x.shape()[0], weight.dims());
    let sizes = [rows, width, out];
    let is_ours = x.dtype() == DType::F32
        && matches!(weight.dtype(), DType::F32 | DType::BF16 | DType::I8)
        && sizes.iter().all(|&size| size > 0);
    match weight {
        Matrix::Plain(weight) if is_ours => of_floats(contiguous(x), contiguous(weight), sizes),
        Matrix::Q8(weight) if is_ours => of_q8(contiguous(x), weight, sizes),
        Matrix::Plain(weight) => primitive(reference::product::<Flex>(tensor(x), tensor(weight))),
        Matrix::Q8(weight) => {
            primitive(reference::product::<Flex>(tensor(x), tensor(weight.widened(0..out))))
        }
    }
}

fn of_floats(x: FlexTensor, weight: FlexTensor, sizes: [usize; 3]) -> FlexTensor {
    let [rows, width, _] = sizes;
    let inputs: &[f32] = values(&x, rows * width);
    let weight = Matrix::Plain(weight);
    if rows <= MOST_ROWS {
        if let Some(weights) = <f32 as Weight>::of(&weight) {
            return streamed::product(inputs, weights, sizes);
        }
        // Rows that begin in the middle of a word use the path for many rows.
        if let Some(words) = <u32 as Weight>::of(&weight) {
            return streamed::product(inputs, words, sizes);
        }
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let Matrix::Plain(weight) = &weight
        && let Some(product) = of_many(inputs, weight, sizes)
    {
        return product;
    }
    shared::product(x, weight)
}

/// Computes the product by panels, if the CPU has the instructions.
#[cfg(target_arch = "x86_64")]
fn of_many(inputs: &[f32], weight: &FlexTensor, sizes: [usize; 3]) -> Option<FlexTensor> {
    use half::{bf16, slice::HalfFloatSliceExt};

    let count = sizes[1] * sizes[2];
    match weight.dtype() {
        DType::F32 => {
            let weights: &[f32] = values(weight, count);
            match blocked::OfF32::new() {
                Some(dot) => Some(blocked::product(dot, inputs, weights, sizes)),
                None => of_floats_in_panels(inputs, weights, sizes),
            }
        }
        DType::BF16 => {
            let weights: &[u16] = values::<bf16>(weight, count).reinterpret_cast();
            if let Some(tiles) = tiles::Tiles::new() {
                let rows = tiles::Bf16 { weights, width: sizes[1] };
                return Some(tiles::product(tiles, inputs, &rows, sizes));
            }
            match blocked::OfBf16::new() {
                Some(dot) => Some(blocked::product(dot, inputs, weights, sizes)),
                None => of_floats_in_panels(inputs, weights, sizes),
            }
        }
        _ => None,
    }
}

/// Computes the product by panels, if the CPU has the instructions.
#[cfg(target_arch = "aarch64")]
fn of_many(inputs: &[f32], weight: &FlexTensor, sizes: [usize; 3]) -> Option<FlexTensor> {
    use half::{bf16, slice::HalfFloatSliceExt};

    match weight.dtype() {
        DType::BF16 => {
            let weights: &[bf16] = values(weight, sizes[1] * sizes[2]);
            panels::neon::of_bf16(inputs, weights.reinterpret_cast(), sizes)
        }
        _ => None,
    }
}

/// Computes the product by FMA, if the CPU has vectors of 8 lanes and no longer ones.
#[cfg(target_arch = "x86_64")]
fn of_floats_in_panels<T: panels::floats::Number>(
    inputs: &[f32],
    weights: &[T],
    sizes: [usize; 3],
) -> Option<FlexTensor> {
    let floats = panels::floats::Floats { weights, width: sizes[1] };
    is_avx2().then(|| panels::product(&floats, inputs, sizes))
}

/// True if the level in use has AVX2 without AVX-512.
#[cfg(target_arch = "x86_64")]
fn is_avx2() -> bool {
    level::has(CpuLevel::Avx2) && !level::has(CpuLevel::Avx512)
}

fn of_q8(x: FlexTensor, weight: Q8, sizes: [usize; 3]) -> FlexTensor {
    let [rows, width, _] = sizes;
    let inputs: &[f32] = values(&x, rows * width);
    if rows <= MOST_ROWS {
        return streamed::product(inputs, weight.rows().groups(), sizes);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(tiles) = tiles::Tiles::new() {
        return tiles::product(tiles, inputs, &weight.rows(), sizes);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(dot) = bytes::Dot::new() {
        return bytes::product(dot, inputs, weight.rows(), sizes);
    }
    #[cfg(target_arch = "x86_64")]
    if is_avx2() {
        if let Some(quads) = Quads::new() {
            return panels::product(&Integers::of(weight.rows(), quads), inputs, sizes);
        }
        if let Some(pairs) = Pairs::new() {
            return panels::product(&Integers::of(weight.rows(), pairs), inputs, sizes);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(product) = panels::neon::of_q8(inputs, weight.rows(), sizes) {
        return product;
    }
    shared::product(x, Matrix::Q8(weight))
}

/// A view into a larger tensor is not copied.
fn contiguous(x: FlexTensor) -> FlexTensor {
    if x.is_contiguous() { x } else { x.to_contiguous() }
}

/// Returns the numbers of a contiguous tensor.
fn values<E: Element + Pod>(x: &FlexTensor, count: usize) -> &[E] {
    &x.storage::<E>()[x.layout().start_offset()..][..count]
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use crate::kernel::flex::level::tests::{at_every_level, at_every_level_on};
    use burn::tensor::{Tensor, TensorData};

    use super::{super::tests::random, *};
    use crate::kernel::{self, Weight};

    fn values(x: Tensor<Flex, 2>) -> Vec<f32> {
        x.into_data().to_vec().expect("f32")
    }

    fn ours(x: &Tensor<Flex, 2>, weight: &(impl Clone + Into<Weight<Flex, 2>>)) -> Tensor<Flex, 2> {
        tensor(product(primitive(x.clone()), weight.clone().into()))
    }

    /// Asserts that every value is less than `allowed` from the expected one.
    #[track_caller]
    fn assert_near(ours: Tensor<Flex, 2>, expected: Tensor<Flex, 2>, allowed: f32) {
        assert_eq!(ours.dims(), expected.dims());
        for (a, b) in values(ours.clone()).into_iter().zip(values(expected)) {
            assert!((a - b).abs() < allowed, "{:?}: {a} {b}", ours.dims());
        }
    }

    /// With 64 threads the rows are divided too.
    #[test]
    fn products_do_not_depend_on_the_number_of_cores() {
        let weight = random([1056, 96]);
        let weights = [
            Weight::from(weight.clone()),
            weight.clone().cast(DType::BF16).into(),
            kernel::quantize_q8(weight),
        ];
        let inputs = [random([1100, 96]), random([2, 96])];
        let results = |threads| {
            let all = Mutex::new(Vec::new());
            at_every_level_on(threads, || {
                for (x, weight) in inputs.iter().flat_map(|x| weights.iter().map(move |w| (x, w))) {
                    all.lock().expect("no panic").push(values(ours(x, weight)));
                }
            });
            all.into_inner().expect("no panic")
        };
        assert!(results(2) == results(64));
    }

    /// Returns the matrix in int8, and the values that this represents.
    fn eight(weight: Tensor<Flex, 2>) -> (Weight<Flex, 2>, Tensor<Flex, 2>) {
        let eight = kernel::quantize_q8(weight);
        let Matrix::Q8(rows) = eight.clone().into() else { panic!("a matrix in int8") };
        let wide = rows.widened(0..rows.dims()[0]);
        (eight, tensor(wide))
    }

    /// Returns the effective operands of int8 weights with the values `wide`. Many rows are rounded like the
    /// weights if the CPU multiplies bytes, few rows to int16 at level `avx2` and on ARM. At level `amx` both are
    /// rounded to bf16 for many rows; here they are not.
    fn beside_eight(x: Tensor<Flex, 2>, wide: Tensor<Flex, 2>) -> [Tensor<Flex, 2>; 2] {
        #[cfg(target_arch = "x86_64")]
        match x.dims()[0] <= MOST_ROWS {
            false if tiles::Tiles::new().is_some() => {}
            false if bytes::Dot::new().is_some() || is_avx2() => return [eight(x).1, wide],
            true if is_avx2() => return [in_int16(x), wide],
            _ => {}
        }
        #[cfg(target_arch = "aarch64")]
        match x.dims()[0] <= MOST_ROWS {
            false if level::has(CpuLevel::Dotprod) => return [eight(x).1, wide],
            true if level::has(CpuLevel::Neon) => return [in_int16(x), wide],
            _ => {}
        }
        [x, wide]
    }

    fn is_amx() -> bool {
        #[cfg(target_arch = "x86_64")]
        return tiles::Tiles::new().is_some();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Returns the steps that the largest of a block becomes, where few rows are rounded.
    fn steps() -> u16 {
        #[cfg(target_arch = "aarch64")]
        if level::has(CpuLevel::Dotprod) {
            return 32_639;
        }
        32_767
    }

    /// Rounds every 32 neighbours of a row.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn in_int16(x: Tensor<Flex, 2>) -> Tensor<Flex, 2> {
        let [rows, width] = x.dims();
        let steps = f32::from(steps());
        let mut numbers = values(x);
        for block in numbers.chunks_mut(width).flat_map(|row| row.chunks_mut(32)) {
            let most = block.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
            let (step, inverse) = (most / steps, steps / most);
            block.iter_mut().for_each(|x| *x = (*x * inverse).round_ties_even() * step);
        }
        Tensor::from_data(TensorData::new(numbers, [rows, width]), &Default::default())
    }

    /// Returns rows, outputs and widths. At the end come several panels per core, parts and
    /// stretches with a shorter last one, and a last tile of one row.
    fn sizes() -> impl Iterator<Item = [usize; 3]> {
        let rows = [1, 2, 3, 4, 5, 7, 16, 17, 70, 125, 513, 800];
        let sizes = [(1, 2), (3, 33), (40, 64), (33, 100), (300, 1024), (65, 1537)];
        let small =
            rows.into_iter().flat_map(move |rows| sizes.map(|(out, width)| [rows, out, width]));
        small.chain([[1, 1, 1], [19, 1300, 70], [21, 40, 2150], [25, 9, 4133], [513, 33, 2085]])
    }

    /// bf16 weights are converted to f32 exactly. A product of many rows may round `x` to bf16,
    /// each number by at most a factor of 2^-8.
    #[test]
    fn it_is_the_reference_for_every_type_number_of_rows_and_odd_sizes() {
        at_every_level(|| {
            for [rows, out, width] in sizes() {
                let (x, weight) = (random([rows, width]), random([out, width]));
                let allowed = 2e-6 * width as f32;
                let matmul = |x: &Tensor<Flex, 2>, weight: &Tensor<Flex, 2>| {
                    x.clone().matmul(weight.clone().transpose())
                };
                assert_near(ours(&x, &weight), matmul(&x, &weight), allowed);

                let (q8, wide) = eight(weight.clone());
                let [rounded, wide] = beside_eight(x.clone(), wide);
                let of_amx = rows > MOST_ROWS && is_amx();
                // Both factors, each by at most 2^-8.
                let rounding = if of_amx { 1.0 / 128.0 } else { 0.0 };
                let sizes =
                    matmul(&rounded.clone().abs(), &wide.clone().abs()) * rounding + allowed;
                let share = (ours(&x, &q8) - matmul(&rounded, &wide)) / sizes;
                assert_near(share.clone(), share.zeros_like(), 1.0);

                let narrow = weight.cast(DType::BF16);
                let wide = narrow.clone().cast(DType::F32);
                let is_exact = rows <= MOST_ROWS && width % 2 == 0;
                let rounding = if is_exact { 0.0 } else { 1.0 / 256.0 };
                let sizes = matmul(&x.clone().abs(), &wide.clone().abs()) * rounding + allowed;
                let share = (ours(&x, &narrow) - matmul(&x, &wide)) / sizes;
                assert_near(share.clone(), share.zeros_like(), 1.0);
            }
        });
    }

    /// Every block of both has a largest number that makes its scale 1, so nothing is rounded but sums.
    #[test]
    fn few_rows_beside_int8_keep_whole_numbers_zeros_and_nan() {
        at_every_level(|| {
            let [rows, out, width] = [3, 5, 160];
            let of = |count, number: &dyn Fn(usize) -> f32| {
                let numbers: Vec<f32> = (0..count * width).map(number).collect();
                Tensor::<Flex, 2>::from_data(
                    TensorData::new(numbers, [count, width]),
                    &Default::default(),
                )
            };
            let whole = |most: usize| {
                move |i: usize| match i % 32 {
                    0 => most as f32,
                    _ => (i * 7919 % (2 * most + 1)) as f32 - most as f32,
                }
            };
            let (x, weight) = (of(rows, &whole(steps().into())), of(out, &whole(127)));
            let expected = x.clone().matmul(weight.clone().transpose());
            let largest = 32_767.0 * 127.0 * width as f32;
            let weight = kernel::quantize_q8(weight);
            assert_near(ours(&x, &weight), expected, largest * 1e-6);

            let odd = of(rows, &|i| match i / width {
                0 => 0.0,
                1 if i % width == 70 => f32::NAN,
                1 => 1.0,
                _ => 1e-38,
            });
            let products = values(ours(&odd, &weight));
            let (zeros, rest) = products.split_at(out);
            assert_eq!(zeros, [0.0; 5]);
            assert!(rest[..out].iter().all(|product| product.is_nan()), "{rest:?}");
            assert!(rest[out..].iter().all(|product| product.abs() < 1e-30), "{rest:?}");
        });
    }

    /// Finds errors that the rounding of `x` would hide.
    #[test]
    fn numbers_that_bf16_holds_are_multiplied_exactly() {
        at_every_level(|| {
            for [rows, out, width] in sizes().filter(|[rows, ..]| *rows > MOST_ROWS) {
                let x = random([rows, width]).cast(DType::BF16).cast(DType::F32);
                let weight = random([out, width]).cast(DType::BF16);
                let expected = x.clone().matmul(weight.clone().cast(DType::F32).transpose());
                assert_near(ours(&x, &weight), expected, 2e-6 * width as f32);
            }
        });
    }

    /// As the language model reads a part of its head, with rows that begin within a word too.
    #[test]
    fn views_are_read_where_they_lie() {
        at_every_level(|| {
            let (x, weight) = (random([5, 96]), random([50, 96]));
            let part = ours(&x.clone().narrow(0, 2, 2), &weight.clone().narrow(0, 7, 20));
            let whole = ours(&x, &weight).narrow(0, 2, 2).narrow(1, 7, 20);
            assert_eq!(values(part), values(whole));
            for width in [96, 33, 256] {
                let (x, weight) = (random([40, width]), random([50, width]));
                let narrow = Weight::from(weight.clone().cast(DType::BF16));
                for weight in [weight.clone().into(), narrow, eight(weight).0] {
                    for rows in [2, 5, 20] {
                        let x = x.clone().narrow(0, 3, rows);
                        let whole = ours(&x, &weight).narrow(1, 7, 20);
                        let part = ours(&x, &weight.clone().rows(7..27));
                        assert_near(part, whole, 1e-5 * width as f32);
                    }
                }
            }
        });
    }

    /// NaN in a row of `x` makes the sums of that row NaN, and no others.
    #[test]
    fn what_is_no_number_is_not_hidden_by_eight_bits() {
        at_every_level(|| {
            let hole = Tensor::<Flex, 2>::full([1, 1], f32::NAN, &Default::default());
            let x = random([40, 200]).slice_assign([30..31, 150..151], hole);
            let (weight, _) = eight(random([50, 200]));
            for (row, sums) in values(ours(&x, &weight)).chunks(50).enumerate() {
                assert!(sums.iter().all(|sum| sum.is_nan() == (row == 30)), "row {row}");
            }
        });
    }

    /// The sums of a block are the same integers, from words of two numbers and of four.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn int8_is_the_same_to_the_bit_with_and_without_avx_vnni() {
        let (x, (weight, _)) = (random([40, 200]), eight(random([50, 200])));
        for rows in [3, 40] {
            let found = std::sync::Mutex::new(Vec::new());
            at_every_level(|| {
                if is_avx2() {
                    let product = values(ours(&x.clone().narrow(0, 0, rows), &weight));
                    found.lock().expect("no panic").push(product);
                }
            });
            let found = found.into_inner().expect("no panic");
            assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{rows} rows");
        }
    }

    /// The path without instructions for bytes and for bf16.
    #[test]
    fn narrow_weights_may_be_widened_part_by_part() {
        at_every_level(|| {
            let (x, weight) = (random([20, 70]), random([33, 70]));
            let narrow = weight.clone().cast(DType::BF16);
            let wide = narrow.clone().cast(DType::F32);
            for (narrow, wide) in [eight(weight), (narrow.into(), wide)] {
                let ours = tensor(shared::product(primitive(x.clone()), narrow.into()));
                assert_near(ours, x.clone().matmul(wide.transpose()), 2e-4);
            }
        });
    }

    #[test]
    fn a_row_does_not_depend_on_its_company_in_any_type() {
        at_every_level(|| {
            let (x, weight) = (random([800, 200]), random([64, 200]));
            let narrow = [Weight::from(weight.clone().cast(DType::BF16)), eight(weight.clone()).0];
            let check = |weight: &Weight<Flex, 2>, [few, many]: [usize; 2]| {
                let alone = values(ours(&x.clone().narrow(0, 0, few), weight));
                let together = values(ours(&x.clone().narrow(0, 0, many), weight));
                assert_eq!(alone, together[..few * 64], "{few} of {many}");
            };
            let wide = Weight::from(weight);
            (1..11).for_each(|few| check(&wide, [few, 11]));
            // Without AVX2, f32 products are Burn's.
            #[cfg(target_arch = "x86_64")]
            let wide = level::has(CpuLevel::Avx2).then_some(wide);
            #[cfg(not(target_arch = "x86_64"))]
            let wide = None;
            for weight in narrow.into_iter().chain(wide) {
                [[1, 16], [17, 800]].into_iter().for_each(|sizes| check(&weight, sizes));
            }
        });
    }
}
