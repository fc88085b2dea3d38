//! What kernels gain over their references at the released sizes, as a table.
//!
//! `cargo test --release -p acestep-model --lib -- --ignored --nocapture flex::measure`

#![expect(clippy::print_stdout, reason = "a table for the person who asks for it")]

use std::time::{Duration, Instant};

use burn::tensor::Tensor;

use super::tests::random;
use super::*;
use crate::kernel::{self, Mask, primitive, reference};

/// Best of each, in turn, so that a busy machine is busy for both.
fn row(name: &str, plain: &dyn Fn() -> FlexTensor, ours: &dyn Fn() -> FlexTensor) {
    let mut best = [Duration::MAX; 2];
    let begin = Instant::now();
    for round in 0..200 {
        if round >= 4 && begin.elapsed().as_secs() >= 2 {
            break;
        }
        for (best, run) in best.iter_mut().zip([plain, ours]) {
            let start = Instant::now();
            let held = run();
            *best = start.elapsed().min(*best);
            drop(held);
        }
    }
    let [plain, ours] = best.map(|best| best.as_secs_f64() * 1e3);
    println!("| {name} | {plain:.3} | {ours:.3} | {:.1} |", plain / ours);
}

#[test]
#[ignore = "measures"]
fn a_table() {
    println!("| | reference, ms | kernel, ms | gain |\n|---|---|---|---|");
    between();
    products();
    let window = Visibility::Window(128);
    let (full, causal) = (Visibility::Full, |first| Visibility::Causal { first });
    for (batch, queries, keys, visibility) in [
        (1, 1, 256, full),
        (2, 1, 1024, full),
        (2, 1, 4096, full),
        (1, 256, 256, causal(0)),
        (1, 256, 1024, causal(768)),
        (1, 125, 125, window),
        (1, 125, 125, full),
        (1, 375, 200, full),
        (1, 375, 375, window),
        (1, 375, 375, full),
        (1, 1500, 1500, window),
        (1, 1500, 1500, full),
    ] {
        attention(batch, queries, keys, visibility);
    }
}

/// Weights in f32, bf16 and eight bits; the reference widens them first.
fn products() {
    for (rows, width, out) in [
        (1, 1024, 64_001),
        (2, 1024, 64_001),
        (4, 1024, 64_001),
        (8, 2048, 6144),
        (16, 2048, 6144),
        (17, 2048, 6144),
        (70, 1024, 3072),
        (125, 2048, 2048),
        (125, 2048, 6144),
        (125, 6144, 2048),
        (375, 2048, 6144),
        (1500, 2048, 6144),
    ] {
        let (x, weight) = (random([rows, width]), random([out, width]));
        let narrow = [weight.clone().cast(DType::BF16), kernel::eight_bits(weight.clone())];
        for weight in [weight].into_iter().chain(narrow) {
            let of = || [x.clone(), weight.clone()].map(primitive::<Flex, 2>);
            row(
                &format!("{rows} x {width} to {out}, {}", weight.dtype().name()),
                &|| match weight.dtype() {
                    DType::I8 => {
                        let wide = eight::widened(&primitive(weight.clone()), 0..out);
                        primitive(reference::product::<Flex>(x.clone(), kernel::tensor(wide)))
                    }
                    _ => primitive(reference::product::<Flex>(x.clone(), weight.clone())),
                },
                &|| {
                    let [x, weight] = of();
                    product::product(x, weight)
                },
            );
        }
    }
}

/// As projections and caches leave queries, keys and values, and as the next product wants them mixed.
fn attention(batch: usize, queries: usize, keys: usize, visibility: Visibility) {
    let q = random([batch, 16, queries, 128]);
    let room = || random([batch, 8, keys + 64, 128]).narrow(2, 0, keys);
    let (k, v) = if queries == 1 {
        (room(), room())
    } else {
        (random([batch, 8, keys, 128]), random([batch, keys, 8, 128]).swap_dims(1, 2))
    };
    let mask = Mask::by_position(visibility);
    let turned = |x: Tensor<Flex, 4>| primitive(x.swap_dims(1, 2).reshape([batch, queries, 2048]));
    row(
        &format!("`attention`, {batch} x {queries} to {keys}, {visibility:?}"),
        &|| turned(reference::attention(q.clone(), k.clone(), v.clone(), &mask)),
        &|| turned(kernel::attention(q.clone(), k.clone(), v.clone(), &mask)),
    );
}

/// What stands between products and attention.
fn between() {
    for rows in [2, 375] {
        let (gate, up) = (random([rows, 6144]), random([rows, 6144]));
        row(
            &format!("`swiglu`, {rows} x 6144"),
            &|| primitive(reference::swiglu(gate.clone(), up.clone())),
            &|| primitive(kernel::swiglu(gate.clone(), up.clone())),
        );
    }
    // Values as a projection leaves them; the cache is nobody else's.
    let new = random([1, 256, 8, 128]).swap_dims(1, 2);
    let slots = [Slot { row: 0, start: 64 }];
    let held = std::cell::RefCell::new(Some(random([1, 8, 1024, 128])));
    row(
        "`cache_write`, 256 tokens of values (copied first, and not)",
        &|| {
            let cache = held.take().expect("put back");
            let new = tensor::<4>(primitive(new.clone()).to_contiguous());
            *held.borrow_mut() = Some(kernel::cache_write(cache, new, &slots));
            primitive(random([1]))
        },
        &|| {
            let cache = held.take().expect("put back");
            *held.borrow_mut() = Some(kernel::cache_write(cache, new.clone(), &slots));
            primitive(random([1]))
        },
    );
}

fn tensor<const D: usize>(x: FlexTensor) -> Tensor<Flex, D> {
    super::super::tensor(x)
}
