//! Our kernels as CUDA C++, compiled for real cards on machines that have none.
//!
//! NVRTC, NVIDIA's compiler, is a library that needs no card. Where it is not found a test says so
//! and stops; `ACESTEP_REQUIRE_NVRTC=1` makes that a failure.

#![expect(clippy::print_stderr, reason = "tests that are skipped say so")]

use std::path::PathBuf;

use burn::tensor::{DType, Int, Tensor};
use burn_cubecl::CubeBackend;

use super::{
    paper::{Paper, PaperRuntime, sources},
    testing::random,
};
use crate::kernel::{self, Geometry, Mask, Slot, Visibility};

type B = CubeBackend<PaperRuntime, f32, i32, u8>;

/// Compiles everything that was launched on `card` and is ours; says how many kernels that was.
///
/// # Panics
/// With the compiler's words, if it refuses one.
fn compile(card: &Paper, ours: &str) -> usize {
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
    for (name, source) in sources(card).into_iter().filter(|(name, _)| name.contains(ours)) {
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

/// Runs `launches` on a card of each generation in each type, and compiles what was launched.
fn compiles_everywhere(ours: &str, launches: impl Fn(&Paper, DType)) {
    if !compiler_is_present() {
        eprintln!("skipped: libnvrtc is not found");
        return;
    }
    for card in [Paper(80), Paper(90)] {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            launches(&card, dtype);
        }
        let count = compile(&card, ours);
        assert!(count >= 3, "{ours}: only {count} kernels were launched on {card:?}");
    }
}

#[test]
fn rms_norm() {
    compiles_everywhere("rms_norm", |card, dtype| {
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
    compiles_everywhere("cube::", |card, dtype| {
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
    compiles_everywhere("cube::", |card, dtype| {
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
            drop(kernel::conv1d(y, x([output, output, 7], 5), Some(bias(output)), dilated));
        }
    });
}

/// Each routine at shapes of the released checkpoints, and at one that none of them has.
#[test]
fn attention() {
    compiles_everywhere("attention", |card, dtype| {
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
    if compiler_is_present() {
        let names: Vec<String> = sources(&Paper(90)).into_iter().map(|(name, _)| name).collect();
        for routine in ["units", "decode", "join", "tensor_cores"] {
            let routine = format!("attention_{routine}");
            assert!(names.iter().any(|name| name.contains(&routine)), "{routine} of {names:?}");
        }
    }
}
