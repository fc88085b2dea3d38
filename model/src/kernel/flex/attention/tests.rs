//! Tests of the kernel against the reference, and of results that must match bit for bit.

use crate::kernel::flex::level::tests::{at_every_level, at_every_level_on};
use burn::tensor::{Bool, bf16};

use super::super::tests::{assert_close, random};
use super::*;
use crate::testing::values;

type Heads4 = Tensor<Flex, 4>;

fn ours(q: &Heads4, k: &Heads4, v: &Heads4, mask: &Mask<Flex>) -> Heads4 {
    let [q, k, v] = [q, k, v].map(|x| primitive(x.clone()));
    let keys = mask.keys.clone().map(Tensor::into_primitive);
    tensor(attention(q, k, v, keys, mask.visibility))
}

#[track_caller]
fn check(q: &Heads4, k: &Heads4, v: &Heads4, mask: &Mask<Flex>) {
    let expected = reference::attention(q.clone(), k.clone(), v.clone(), mask);
    assert_close(ours(q, k, v, mask), expected, 1e-5);
}

/// Returns padding flags of `batch` items: every `every`th key before `end` is real.
fn flags(batch: usize, keys: usize, every: usize, end: usize) -> Option<Tensor<Flex, 2, Bool>> {
    let flag = |at: usize| (at % keys).is_multiple_of(every) && at % keys < end;
    let flags: Vec<bool> = (0..batch * keys).map(flag).collect();
    let data = burn::tensor::TensorData::new(flags, [batch, keys]);
    Some(Tensor::from_data(data, &Default::default()))
}

#[test]
fn it_is_the_reference_for_every_rule_and_odd_sizes() {
    at_every_level(|| {
        let sizes = [(1, 1, 1, 1), (2, 1, 2, 3), (1, 2, 4, 17), (1, 3, 3, 40), (1, 1, 20, 5)];
        for (batch, kv_heads, group, width) in sizes.into_iter().chain([(2, 2, 2, 128)]) {
            for (queries, keys) in
                [(1, 1), (1, 300), (2, 65), (16, 130), (5, 5), (17, 17), (70, 70), (131, 200)]
            {
                let q = random([batch, kv_heads * group, queries, width]);
                let (k, v) = (
                    random([batch, kv_heads, keys, width]),
                    random([batch, kv_heads, keys, width]),
                );
                let rules = [
                    Visibility::Full,
                    Visibility::Causal { first: keys - queries.min(keys) },
                    Visibility::Causal { first: 0 },
                    Visibility::Window(0),
                    Visibility::Window(3),
                    Visibility::Window(64),
                    Visibility::Window(1000),
                    Visibility::CausalWindow { first: keys - queries.min(keys), width: 1 },
                    Visibility::CausalWindow { first: keys - queries.min(keys), width: 72 },
                    Visibility::CausalWindow { first: 2, width: 20 },
                ];
                for visibility in rules {
                    check(&q, &k, &v, &Mask::by_position(visibility));
                    for real in [flags(batch, keys, 1, keys / 2 + 1), flags(batch, keys, 3, keys)] {
                        check(&q, &k, &v, &Mask { visibility, keys: real });
                    }
                }
            }
        }
    });
}

/// The queries are exact in bf16, so only the weights are rounded, each by at most a factor of
/// 2^-8. Half of that is allowed: their errors differ in sign.
#[test]
fn keys_and_values_in_bf16_are_the_reference_for_every_rule_and_odd_sizes() {
    at_every_level(|| {
        let narrow = |x: Heads4| x.cast(DType::BF16);
        for (batch, kv_heads, group, width) in
            [(1, 1, 1, 8), (2, 3, 2, 40), (1, 2, 20, 16), (1, 1, 60, 32), (2, 2, 2, 128)]
        {
            for (queries, keys) in [(1, 7), (16, 130), (17, 17), (70, 71), (131, 200)] {
                let q = narrow(random([batch, kv_heads * group, queries, width])).cast(DType::F32);
                let [k, v] =
                    [0, 1].map(|_| narrow(random([batch, keys, kv_heads, width])).swap_dims(1, 2));
                let rules = [
                    Visibility::Full,
                    Visibility::Causal { first: keys - queries.min(keys) },
                    Visibility::Window(0),
                    Visibility::Window(3),
                    Visibility::Window(64),
                    Visibility::CausalWindow { first: 2, width: 20 },
                ];
                for visibility in rules {
                    for real in
                        [None, flags(batch, keys, 1, keys / 2 + 1), flags(batch, keys, 3, keys)]
                    {
                        let mask = Mask { visibility, keys: real };
                        let expected = reference::attention(q.clone(), k.clone(), v.clone(), &mask);
                        let largest = v.clone().cast(DType::F32).abs().max().into_scalar();
                        let ours = ours(&q, &k, &v, &mask);
                        for (a, b) in values(ours).into_iter().zip(values(expected)) {
                            let allowed = largest / 512.0;
                            assert!(
                                (a - b).abs() < allowed,
                                "{queries} of {keys}, {visibility:?}: {a} {b}"
                            );
                        }
                    }
                }
            }
        }
    });
}

/// With one core, several tiles of queries share a block of keys.
#[test]
fn it_does_not_depend_on_the_number_of_cores() {
    let (q, k, v) = (random([1, 4, 1000, 32]), random([1, 2, 300, 32]), random([1, 2, 300, 32]));
    let rules = [
        Visibility::Full,
        Visibility::Window(40),
        Visibility::CausalWindow { first: 1, width: 250 },
    ];
    let results = |threads| {
        let all = std::sync::Mutex::new(Vec::new());
        at_every_level_on(threads, || {
            for visibility in rules {
                check(&q, &k, &v, &Mask::by_position(visibility));
                for dtype in [DType::F32, DType::BF16] {
                    let [k, v] = [&k, &v].map(|x| x.clone().cast(dtype));
                    let ours = ours(&q, &k, &v, &Mask::by_position(visibility));
                    all.lock().expect("no panic").push(values(ours));
                }
            }
        });
        all.into_inner().expect("no panic")
    };
    assert!(results(1) == results(64));
}

#[test]
fn rounding_keeps_how_numbers_lie() {
    at_every_level(|| {
        let x = random([2, 70, 3, 24]);
        let views = [x.clone(), x.clone().swap_dims(1, 2), x.narrow(1, 3, 40).swap_dims(1, 2)];
        for x in views {
            // (Flex's own cast drops the last three bits first.)
            let rounded = values(x.clone()).into_iter().map(|x| f32::from(bf16::from_f32(x)));
            let rounded: Vec<f32> = rounded.collect();
            for weights in [DType::BF16, DType::I8] {
                let ours = tensor::<Flex, 4>(rounded_as(primitive(x.clone()), weights));
                let expected =
                    if ours.dtype() == DType::F32 { &values(x.clone()) } else { &rounded };
                assert_eq!(values(ours.cast(DType::F32)), *expected);
            }
            let same = tensor::<Flex, 4>(rounded_as(primitive(x.clone()), DType::F32));
            assert_eq!(same.dtype(), DType::F32);
        }
    });
}

#[test]
fn large_scores_and_keys_that_grow_stay_exact() {
    at_every_level(|| {
        let (q, v) = (random([1, 2, 20, 8]), random([1, 1, 300, 8]));
        let growing: Vec<f32> = (0..300 * 8).map(|i| (i / 8) as f32 / 10.0 - 12.0).collect();
        let data = burn::tensor::TensorData::new(growing, [1, 1, 300, 8]);
        let k = Tensor::from_data(data, &Default::default());
        for queries in [1, 9, 20] {
            let q = q.clone().narrow(2, 0, queries);
            check(&q, &k, &v, &Mask::by_position(Visibility::Full));
            // With scores in the hundreds, their own rounding makes the difference.
            let (q, mask) = (q * 10.0, Mask::by_position(Visibility::Full));
            let expected = reference::attention(q.clone(), k.clone(), v.clone(), &mask);
            assert_close(ours(&q, &k, &v, &mask), expected, 1e-3);
        }
    });
}

#[test]
fn a_query_that_sees_nothing_gets_the_mean_of_all_values() {
    at_every_level(|| {
        for (queries, visibility) in [
            (1, Visibility::Full),
            (2, Visibility::Causal { first: 3 }),
            (40, Visibility::Window(2)),
        ] {
            let (q, k, v) =
                (random([2, 2, queries, 9]), random([2, 1, 90, 9]), random([2, 1, 90, 9]));
            let mask = Mask { visibility, keys: flags(2, 90, 1, 0) };
            check(&q, &k, &v, &mask);
            let mean = v.clone().mean_dim(2).repeat_dim(1, 2).repeat_dim(2, queries);
            assert_close(ours(&q, &k, &v, &mask), mean, 1e-5);
        }
    });
}

#[test]
fn views_are_read_where_they_lie() {
    at_every_level(|| {
        // A cache with spare capacity, and heads interleaved as a projection leaves them.
        let cache = random([3, 2, 64, 24]);
        let part = |x: Heads4| x.narrow(0, 1, 2).narrow(2, 0, 48);
        let (k, v) = (part(cache.clone()), part(cache.clone() + 1.0));
        for queries in [1, 3, 30] {
            let q = random([2, queries, 4, 24]).swap_dims(1, 2);
            let plain = |x: &Heads4| x.clone().mul_scalar(1.0);
            let mask = Mask::by_position(Visibility::Causal { first: 48 - queries });
            check(&q, &k, &v, &mask);
            let copied = ours(&plain(&q), &plain(&k), &plain(&v), &mask);
            assert_eq!(values(ours(&q, &k, &v, &mask)), values(copied));
            // Heads with a strided last axis, and heads in reverse order.
            let turned = |x: &Heads4| x.clone().swap_dims(2, 3).mul_scalar(1.0).swap_dims(2, 3);
            check(&turned(&q), &turned(&k), &turned(&v).flip([1]), &mask);
        }
    });
}

#[test]
fn a_query_does_not_depend_on_its_company_or_on_what_it_does_not_see() {
    at_every_level(|| {
        for (queries, visibility) in [
            (1, Visibility::Full),
            (3, Visibility::Causal { first: 100 }),
            (60, Visibility::Window(20)),
            (60, Visibility::Full),
        ] {
            let (q, k, v) =
                (random([3, 4, queries, 32]), random([3, 2, 200, 32]), random([3, 2, 200, 32]));
            let real = flags(3, 200, 1, 150);
            for dtype in [DType::F32, DType::BF16] {
                let [k, v] = [&k, &v].map(|x| x.clone().cast(dtype));
                let together = ours(&q, &k, &v, &Mask { visibility, keys: real.clone() });
                for item in 0..3 {
                    // The same item alone, with the hidden keys cut off.
                    let [q, k, v] = [&q, &k, &v].map(|x| x.clone().narrow(0, item, 1));
                    let (k, v) = (k.narrow(2, 0, 150), v.narrow(2, 0, 150));
                    let alone = ours(&q, &k, &v, &Mask::by_position(visibility));
                    assert_eq!(values(alone), values(together.clone().narrow(0, item, 1)));
                }
            }
        }
        // This many queries or fewer: each is computed alone, as in the codecs of speech.
        let q = random([1, 4, FEW_QUERIES, 32]);
        let (k, v) = (random([1, 2, 300, 32]), random([1, 2, 300, 32]));
        let mask = |first| Mask::by_position(Visibility::CausalWindow { first, width: 100 });
        let first = 300 - FEW_QUERIES;
        let together = ours(&q, &k, &v, &mask(first));
        for i in 0..FEW_QUERIES {
            let alone = ours(&q.clone().narrow(2, i, 1), &k, &v, &mask(first + i));
            assert_eq!(values(alone), values(together.clone().narrow(2, i, 1)), "query {i}");
        }
        // A query does not depend on its neighbours either.
        let (q, k, v) = (random([1, 2, 100, 32]), random([1, 1, 130, 32]), random([1, 1, 130, 32]));
        let mask = |first| Mask::by_position(Visibility::Causal { first });
        for dtype in [DType::F32, DType::BF16] {
            let [k, v] = [&k, &v].map(|x| x.clone().cast(dtype));
            let all = ours(&q, &k, &v, &mask(30));
            let last = ours(&q.clone().narrow(2, 61, 39), &k, &v, &mask(91));
            assert_eq!(values(last), values(all.narrow(2, 61, 39)));
            // With a window that begins in the middle of a pair, and fewer pairs before it.
            let all = ours(&q, &k, &v, &Mask::by_position(Visibility::Window(20)));
            let [q, k, v] = [&q, &k, &v].map(|x| x.clone().narrow(2, 30, 64));
            let some = ours(&q, &k, &v, &Mask::by_position(Visibility::Window(20)));
            let middle = |x: Heads4, at| values(x.narrow(2, at, 10));
            for (a, b) in middle(some, 25).into_iter().zip(middle(all, 55)) {
                assert!((a - b).abs() < if dtype == DType::F32 { 1e-5 } else { 2e-2 }, "{a} {b}");
            }
        }
    });
}

#[test]
fn what_is_no_number_is_not_hidden() {
    at_every_level(|| {
        for queries in [1, 20] {
            let (q, k, v) =
                (random([1, 1, queries, 32]), random([1, 1, 30, 32]), random([1, 1, 30, 32]));
            let q = q.slice_fill([0..1, 0..1, 0..1, 3..4], f32::NAN);
            for dtype in [DType::F32, DType::BF16] {
                let [k, v] = [&k, &v].map(|x| x.clone().cast(dtype));
                let mixed = values(ours(&q, &k, &v, &Mask::by_position(Visibility::Full)));
                assert!(mixed[..32].iter().all(|x| x.is_nan()));
                assert!(mixed[32..].iter().all(|x| x.is_finite()));
            }
        }
    });
}
