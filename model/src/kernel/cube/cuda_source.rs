//! Our kernels as CUDA C++, compiled for real cards on machines that have none.
//!
//! NVRTC, NVIDIA's compiler, is a library that needs no card. Where it is not found a test says so
//! and stops; `ACESTEP_REQUIRE_NVRTC=1` makes that a failure.

#![expect(clippy::print_stderr, reason = "tests that are skipped say so")]

use std::path::PathBuf;

use burn::tensor::{DType, Int, Tensor, backend::Backend as _};
use burn_cubecl::CubeBackend;

use super::{
    conv1d::conv1d,
    paper::{Paper, PaperRuntime, sources},
    testing::random,
};
use crate::{
    Place,
    kernel::{self, Geometry, Mask, Slot, Visibility, layers, primitive},
    nn::{Cache, LayerShape, STEP},
};

type B = CubeBackend<PaperRuntime, f32, i32, u8>;

/// Compiles every text of `kernel` that was launched on `card`; says how many there are.
///
/// # Panics
/// With the compiler's words, if it refuses one.
fn compile(card: &Paper, kernel: &str) -> usize {
    // The types of a kernel stand in its name too, and this module among them.
    let ours = |name: &str| {
        let own = name.split('<').next().unwrap_or_default();
        own.starts_with("acestep_model::kernel::cube::") && own.contains(kernel)
    };
    // Not CUDA_PATH: crates below us are built anew whenever that changes.
    let headers = std::env::var_os("ACESTEP_CUDA_PATH").map(PathBuf::from);
    let include = headers.into_iter().map(|path| path.join("include"));
    let include_paths: Vec<String> = include
        .flat_map(|path| [path.join("cccl"), path])
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    let arch = match card.0 {
        80 => "sm_80",
        90 => "sm_90a",
        other => panic!("which architecture is {other}?"),
    };
    let mut compiled = 0;
    for (name, source) in sources(card).into_iter().filter(|(name, _)| ours(name)) {
        let options = cudarc::nvrtc::CompileOptions {
            arch: Some(arch),
            include_paths: include_paths.clone(),
            ..Default::default()
        };
        if let Err(error) = cudarc::nvrtc::compile_ptx_with_opts(&source, options) {
            panic!("{name} for {arch}: {error:?}\n{source}");
        }
        compiled += 1;
    }
    compiled
}

/// Whether there is a compiler.
///
/// # Panics
/// If there is none though one is required.
fn compiler_is_present() -> bool {
    #[allow(unsafe_code, reason = "opens a library and looks for a name in it")]
    // SAFETY: the library is NVIDIA's, and opening it runs nothing of ours.
    let present = unsafe { cudarc::nvrtc::sys::is_culib_present() };
    let required = std::env::var_os("ACESTEP_REQUIRE_NVRTC").is_some();
    assert!(present || !required, "libnvrtc is not found: is it in LD_LIBRARY_PATH?");
    present
}

/// Runs `launches` on a card of each generation in each type, and compiles what was launched of
/// `kernels`: each in three texts at least, one a type.
fn compiles_everywhere(kernels: &[&str], launches: impl Fn(&Paper, DType)) {
    if !compiler_is_present() {
        eprintln!("skipped: libnvrtc is not found");
        return;
    }
    for card in [Paper(80), Paper(90)] {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            launches(&card, dtype);
        }
        // Launches are taken down by a thread of the card's: the last would be missing.
        B::sync(&card).expect("a card on paper does not fail");
        for kernel in kernels {
            let count = compile(&card, kernel);
            // No matrix units take f32.
            let least = if kernel.contains("tensor_cores") { 2 } else { 3 };
            assert!(count >= least, "{kernel} was launched {count} times on {card:?}");
            // The type of songs on these cards; it stands in a kernel's name in C++.
            let texts = sources(&card);
            let mut own = texts.iter().filter(|(name, _)| name.contains(kernel));
            assert!(own.any(|(_, text)| text.contains("_bf16_")), "{kernel} is not there in bf16");
        }
    }
}

#[test]
fn rms_norm() {
    compiles_everywhere(&["rms_norm_kernel"], |card, dtype| {
        for shape in [[3, 5], [375, 2048], [6000, 128]] {
            let x = random::<B, 2>(shape, 1, dtype, card);
            let weight = random::<B, 1>([shape[1]], 2, dtype, card);
            drop(kernel::rms_norm(x, weight, 1e-6));
        }
    });
}

/// What stands around the products of a layer, and products of few rows, at the released sizes.
#[test]
fn layers() {
    let kernels = [
        "ada_norm_kernel",
        "norm_rotate_kernel",
        "swiglu_kernel",
        "matvec_kernel",
        "cache_write_kernel",
    ];
    compiles_everywhere(&kernels, |card, dtype| {
        let x = |shape, seed| random::<B, 3>(shape, seed, dtype, card);
        let vector = |width, seed| random::<B, 1>([width], seed, dtype, card);
        let matrix = |shape, seed| random::<B, 2>(shape, seed, dtype, card);
        let heads = |shape| random::<B, 4>(shape, 1, dtype, card);
        for width in [2048, 2560] {
            let [shift, scale] = [2, 3].map(|seed| x([1, 1, width], seed));
            let x = x([1, 375, width], 1);
            drop(kernel::ada_norm(x, vector(width, 4), 1e-6, shift, scale));
        }
        for (shape, positions) in [([1, 375, 16, 128], 375), ([2, 1, 8, 128], 2)] {
            let [cos, sin] = [2, 3].map(|seed| matrix([positions, 64], seed));
            drop(kernel::norm_rotate(heads(shape), vector(128, 4), 1e-6, cos, sin));
        }
        drop(kernel::swiglu(matrix([375, 6144], 1), matrix([375, 6144], 2)));
        for rows in [1, 2] {
            drop(kernel::linear(matrix([rows, 1024], 1), matrix([3072, 1024], 2), None));
        }
        let slots = [0, 1].map(|row| Slot { row, start: 1000 });
        drop(kernel::cache_write(heads([2, 8, 2048, 128]), heads([2, 8, 1, 128]), &slots));
    });
}

/// What is between codes and latents, and between latents and sound, at the released sizes.
#[test]
fn codes_and_sound() {
    let kernels = [
        "code_tokens_kernel",
        "snake::snake_kernel",
        "add_snake_kernel",
        "overlap_add_kernel",
        "columns_kernel",
        "place_kernel",
    ];
    compiles_everywhere(&kernels, |card, dtype| {
        let x = |shape, seed| random::<B, 3>(shape, seed, dtype, card);
        let matrix = |shape, seed| random::<B, 2>(shape, seed, dtype, card);
        let bias = |width| random::<B, 1>([width], 7, dtype, card);
        let map = |weight: [usize; 2]| (matrix(weight, 5), Some(bias(weight[0])));
        let codes = Tensor::<B, 1, Int>::zeros([150], card);
        let levels = [8, 8, 8, 5, 5, 5];
        let places = matrix([5, 2048], 6);
        let (project, embed) = (map([2048, 6]), map([2048, 2048]));
        drop(kernel::code_tokens(codes, &levels, project, embed, places));
        for ([input, output], taps) in [
            ([2048, 1024], 20),
            ([1024, 512], 12),
            ([512, 256], 8),
            ([256, 128], 8),
            ([128, 128], 4),
        ] {
            let stride: usize = taps / 2;
            let geometry = Geometry { stride, padding: stride.div_ceil(2), dilation: 1 };
            let (alpha, beta) = (x([1, input, 1], 2), x([1, input, 1], 3));
            let y = kernel::snake(x([1, input, 50], 1), alpha, beta);
            let weight = x([input, output, taps], 4);
            let y = kernel::conv_transpose1d(y, weight, Some(bias(output)), geometry);
            let dilated = Geometry { stride: 1, padding: 9, dilation: 3 };
            let (alpha, beta) = (x([1, output, 1], 2), x([1, output, 1], 3));
            drop(kernel::add_snake(y.clone(), y.clone(), alpha, beta));
            // By name, for on cards with matrix units it is Burn's but in f32.
            let [y, weight] = [y, x([output, output, 7], 5)].map(primitive);
            let bias = Some(primitive(bias(output)));
            drop(conv1d::<PaperRuntime, f32, i32, u8>(y, weight, bias, dilated));
        }
    });
}

/// Each routine at shapes of the released checkpoints, and at one that none of them has.
#[test]
fn attention() {
    let kernels = [
        "attention_units_kernel",
        "attention_decode_kernel",
        "attention_join_kernel",
        "attention_tensor_cores_kernel",
    ];
    compiles_everywhere(&kernels, |card, dtype| {
        for ([heads, kv_heads, queries, keys, width], visibility) in [
            ([16, 8, 375, 375, 128], Visibility::Full),
            ([16, 8, 375, 375, 128], Visibility::Window(128)),
            ([32, 8, 77, 90, 128], Visibility::Causal { first: 13 }),
            ([16, 8, 1, 1024, 128], Visibility::Causal { first: 1023 }),
            ([32, 8, 1, 60, 128], Visibility::Causal { first: 59 }),
            ([6, 2, 40, 40, 20], Visibility::Full),
        ] {
            let q = random::<B, 4>([2, heads, queries, width], 1, dtype, card);
            let [k, v] =
                [2, 3].map(|seed| random::<B, 4>([2, kv_heads, keys, width], seed, dtype, card));
            for keys in [None, Some(k.clone().narrow(1, 0, 1).narrow(3, 0, 1).equal_elem(0.0))] {
                let keys = keys.map(|keys| keys.reshape([2, -1]));
                let mask = Mask { visibility, keys };
                drop(kernel::attention(q.clone(), k.clone(), v.clone(), &mask));
            }
        }
    });
}

/// A part of a cache is a view on NVIDIA's cards only where it ends at 512 bytes; else a token would
/// copy all keys and values before it.
#[test]
fn a_cache_is_seen_without_a_copy() {
    for (dtype, width) in [(DType::BF16, 128), (DType::F16, 16), (DType::F32, 128)] {
        let place = Place { device: Paper(90), dtype };
        let shape = LayerShape {
            hidden: 64,
            heads: 4,
            kv_heads: 2,
            head_dim: width,
            intermediate: 64,
            epsilon: 1e-6,
        };
        let mut cache = Cache::<B>::new(&shape, 1, 2, 1001, &place);
        let slots = [0, 1].map(|row| Slot { row, start: 0 });
        for length in [STEP, 33 * STEP] {
            let [keys, _] = cache.layers_mut().next().expect("a layer");
            let [rows, keys] = {
                let strides = primitive(layers::seen(keys, &slots, length)).meta.strides().to_vec();
                [strides[0], strides[1]]
            };
            assert_eq!([rows, keys], [2 * 1008 * width, 1008 * width], "{dtype:?} {length}");
        }
    }
}
