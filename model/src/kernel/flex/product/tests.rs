//! Tests of products in every type, at every level.

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

/// 1728 rows in f32 are 10.6 MB, so `blocked` divides them.
#[test]
fn rows_that_leave_the_last_cache_have_the_products_of_the_reference() {
    let (x, weight) = (random([1728, 1536]), random([8, 1536]));
    let expected = x.clone().matmul(weight.clone().transpose());
    at_every_level(|| assert_near(ours(&x, &weight), expected.clone(), 2e-6 * 1536.0));
}

/// Returns the matrix in int8, and the values that this represents.
fn eight(weight: Tensor<Flex, 2>) -> (Weight<Flex, 2>, Tensor<Flex, 2>) {
    let eight = kernel::quantize_q8(weight);
    let Matrix::Q8(rows) = eight.clone().into() else { panic!("a matrix in int8") };
    let wide = rows.widened(0..rows.dims()[0]);
    (eight, tensor(wide))
}

/// Returns the effective operands of int8 weights with the values `wide`. Many rows are rounded like the
/// weights if the CPU multiplies bytes, few rows to int16 with AVX2 and on ARM. At level `amx` both are
/// rounded to bf16 for many rows; here they are not.
fn beside_eight(x: Tensor<Flex, 2>, wide: Tensor<Flex, 2>) -> [Tensor<Flex, 2>; 2] {
    #[cfg(target_arch = "x86_64")]
    match x.dims()[0] <= MOST_ROWS {
        false if tiles::Tiles::new().is_some() => {}
        false if bytes::Dot::new().is_some() || is_avx2() => return [eight(x).1, wide],
        true if level::has(CpuLevel::Avx2) => return [in_int16(x), wide],
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
    let small = rows.into_iter().flat_map(move |rows| sizes.map(|(out, width)| [rows, out, width]));
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
            let sizes = matmul(&rounded.clone().abs(), &wide.clone().abs()) * rounding + allowed;
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
        let found = Mutex::new(Vec::new());
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
