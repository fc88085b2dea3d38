//! Benchmarks of kernels against their references at the released sizes, as a table.
//!
//! `cargo test --release -p acestep-model --lib -- --ignored --nocapture flex::measure`

#![expect(clippy::print_stdout, reason = "a table for the person who asks for it")]

use std::time::{Duration, Instant};

use burn::tensor::Tensor;

use super::tests::random;
use super::*;
use crate::{
    acestep::{Config, Dit},
    kernel::{self, CachingLayer, LayerWeights, Mask, primitive, reference},
    nn,
};

/// Prints the best time of each. The runs alternate, so that other load affects both.
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

/// Benchmarks a token through eight layers of the 0.6B model, after 512: more bytes than a cache
/// holds.
#[test]
#[ignore = "measures"]
fn tokens() {
    println!("| | one by one, ms | together, ms | gain |\n|---|---|---|---|");
    let device = Default::default();
    for dtype in [DType::BF16, DType::I8] {
        let map = |out: usize, width: usize| {
            let map = random([out, width]) * (width as f32).powf(-0.5);
            if dtype == DType::I8 { kernel::quantize_q8(map) } else { map.cast(dtype) }
        };
        let layer = || LayerWeights {
            input_layernorm: random([1024]),
            q_proj: map(2048, 1024),
            k_proj: map(1024, 1024),
            v_proj: map(1024, 1024),
            o_proj: map(1024, 2048),
            q_norm: random([128]),
            k_norm: random([128]),
            post_attention_layernorm: random([1024]),
            gate_proj: map(3072, 1024),
            up_proj: map(3072, 1024),
            down_proj: map(1024, 3072),
            epsilon: 1e-6,
        };
        let layers: Vec<nn::Layer<Flex>> = (0..8).map(|_| layer().into()).collect();
        for rows in [1, 2, 4, 8, 16] {
            let cache = || Tensor::<Flex, 4>::zeros([rows, 8, 528, 128], &device);
            let caches: Vec<_> = layers.iter().map(|_| [cache(), cache()]).collect();
            let caches = std::cell::RefCell::new(caches);
            let slots: Vec<Slot> = (0..rows).map(|row| Slot { row, start: 511 }).collect();
            let visibility = match rows {
                1 => Visibility::Causal { first: 511 },
                _ => Visibility::Full,
            };
            let rope = Some([random([rows, 64]), random([rows, 64])]);
            let mask = Mask { visibility, keys: None };
            let reading = Reading { slots: &slots, rope, seen: 512, window: None, mask };
            let x = random([rows, 1, 1024]);
            let through = |is_ours: bool| {
                let mut own = caches.take();
                let x = Flex::on_pool(|| {
                    let own = own.iter_mut().map(<[_; 2]>::each_mut);
                    let all = layers.iter().map(|layer| layer as &dyn CachingLayer<Flex>);
                    let mut both = all.zip(own);
                    match is_ours {
                        true => layers::cached_layers(x.clone(), &mut both, &reading),
                        false => reference::cached_layers(x.clone(), &mut both, &reading),
                    }
                });
                caches.replace(own);
                primitive(x)
            };
            row(&format!("{dtype:?}, {rows} rows"), &|| through(false), &|| through(true));
        }
    }
}

/// Benchmarks a step of four of the 2B model's 24 layers, for 10 and 30 s of song: best and median.
#[test]
#[ignore = "measures"]
fn steps() {
    let config = Config::from_json(
        r#"{"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 4,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000,
        "attention_bias": false, "use_sliding_window": true, "sliding_window": 128,
        "fsq_dim": 2048, "fsq_input_levels": [8, 8, 8, 5, 5, 5], "fsq_input_num_quantizers": 1,
        "text_hidden_dim": 1024, "num_lyric_encoder_hidden_layers": 1,
        "timbre_hidden_dim": 64, "num_timbre_encoder_hidden_layers": 1, "timbre_fix_frame": 750,
        "audio_acoustic_hidden_dim": 64, "pool_window_size": 5,
        "num_attention_pooler_hidden_layers": 1, "patch_size": 2, "in_channels": 192,
        "is_turbo": true}"#,
    );
    let config = config.expect("sizes that fit");
    println!("| | best, ms | median, ms |\n|---|---|---|");
    for dtype in [DType::BF16, DType::I8, DType::F32] {
        let dit = crate::cast::cast(Dit::<Flex>::init(&config, &Default::default()), dtype);
        let condition = dit.attend_to(random([1, 238, 2048]));
        for frames in [250, 750] {
            let [x, context] = [64, 128].map(|channels| random([1, frames, channels]));
            let begin = Instant::now();
            let mut times = Vec::new();
            while begin.elapsed().as_secs() < 8 {
                let start = Instant::now();
                let held = dit.forward(x.clone(), context.clone(), [&[0.5], &[0.5]], &condition);
                times.push(start.elapsed().as_secs_f64() * 1e3);
                drop(held);
            }
            times.sort_by(f64::total_cmp);
            let [best, median] = [times[0], times[times.len() / 2]];
            println!("| {dtype:?}, {frames} frames | {best:.1} | {median:.1} |");
        }
    }
}

/// Benchmarks weights in f32, bf16 and int8; the reference converts them to f32 first.
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
        let narrow = [weight.clone().cast(DType::BF16), kernel::quantize_q8(weight.clone())];
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

/// Benchmarks attention with the layouts of projections and caches, and of the next product's
/// input.
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

/// Benchmarks the operations between products and attention.
fn between() {
    for rows in [2, 375] {
        let (gate, up) = (random([rows, 6144]), random([rows, 6144]));
        row(
            &format!("`swiglu`, {rows} x 6144"),
            &|| primitive(reference::swiglu(gate.clone(), up.clone())),
            &|| primitive(kernel::swiglu(gate.clone(), up.clone())),
        );
    }
    // Values in the layout of a projection; the cache is not shared.
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
