//! Tests that compile the kernels' CUDA C++ for real GPUs on machines without one.
//!
//! NVRTC, NVIDIA's compiler, is a library that needs no GPU. If it is missing, a test prints this
//! and stops; `ACESTEP_REQUIRE_NVRTC=1` makes that a failure.

#![expect(clippy::print_stderr, reason = "tests that are skipped say so")]

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use acestep_model::{
    Place,
    kernel::{
        self, CachingLayer, ConvGeometry, LayerWeights, Mask, NewTokens, Slot, Visibility,
        variants::{
            cache_read, conv_transpose1d, conv1d, product_by_units, takes_attention, takes_conv,
            takes_product,
        },
    },
    nn::{Cache, Layer, LayerShape},
};
use burn::tensor::{DType, Int, Tensor, backend::Backend as _};
use burn_cubecl::CubeBackend;

use super::{
    fake_cuda::{FakeCuda, FakeCudaRuntime, sources},
    testing::{primitive, random, tensor},
};

type B = CubeBackend<FakeCudaRuntime, f32, i32, u8>;

/// The sources that compile for the older GPU.
fn accepted() -> MutexGuard<'static, BTreeSet<String>> {
    static ACCEPTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    ACCEPTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles every source of our kernel `kernel` that the fake GPU launched, and returns their number.
///
/// # Panics
/// A source that the compiler rejects, with its message.
fn compile(gpu: &FakeCuda, kernel: &str) -> usize {
    // The own name of a kernel ends where its types begin. A CUDA C++ kernel is named by the type of
    // its sizes.
    compile_those(gpu, |name, _| {
        let name = name.strip_prefix("acestep_model::kernel::cube::cuda::Task<").unwrap_or(name);
        let own = name.split('<').next().unwrap_or_default();
        own.starts_with("acestep_model::kernel::cube::") && own.contains(kernel)
    })
}

/// Compiles every launched source that is wanted by its kernel's name and its text, and returns their number.
///
/// A source that compiles for the older GPU is not compiled for the newer one as well: a GPU supports what
/// all before it do, and most sources are the same for both.
///
/// # Panics
/// A source that the compiler rejects, with its message.
fn compile_those(gpu: &FakeCuda, is_wanted: impl Fn(&str, &str) -> bool) -> usize {
    // Not CUDA_PATH: dependencies are rebuilt whenever that changes.
    let headers = std::env::var_os("ACESTEP_CUDA_PATH").map(PathBuf::from);
    let include = headers.into_iter().map(|path| path.join("include"));
    let include_paths: Vec<String> = include
        .flat_map(|path| [path.join("cccl"), path])
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    let arch = match gpu.0 {
        80 => "sm_80",
        90 => "sm_90a",
        other => panic!("which architecture is {other}?"),
    };
    let mut compiled = 0;
    let wanted = sources(gpu).into_iter().filter(|(name, source)| is_wanted(name, source));
    for (name, source) in wanted {
        compiled += 1;
        if accepted().contains(&source) {
            continue;
        }
        let options = cudarc::nvrtc::CompileOptions {
            arch: Some(arch),
            include_paths: include_paths.clone(),
            ..Default::default()
        };
        if let Err(error) = cudarc::nvrtc::compile_ptx_with_opts(&source, options) {
            panic!("{name} for {arch}: {error:?}\n{source}");
        }
        if gpu.0 == 80 {
            accepted().insert(source);
        }
    }
    compiled
}

/// True if the compiler is available.
///
/// # Panics
/// If it is missing but required.
pub(super) fn compiler_is_present() -> bool {
    #[allow(unsafe_code, reason = "opens a library and looks for a name in it")]
    // SAFETY: the library is NVIDIA's, and opening it runs no code of this project.
    let present = unsafe { cudarc::nvrtc::sys::is_culib_present() };
    let required = std::env::var_os("ACESTEP_REQUIRE_NVRTC").is_some();
    assert!(present || !required, "libnvrtc is not found: is it in LD_LIBRARY_PATH?");
    present
}

/// Runs `launches` on a GPU of each generation in each of `types`, and then `check`.
fn on_each_gpu(types: &[DType], launches: impl Fn(&FakeCuda, DType), check: impl Fn(&FakeCuda)) {
    if !compiler_is_present() {
        eprintln!("skipped: libnvrtc is not found");
        return;
    }
    for gpu in [FakeCuda(80), FakeCuda(90)] {
        types.iter().for_each(|dtype| launches(&gpu, *dtype));
        // Launches are recorded by a thread of the device; without this the last would be missing.
        B::sync(&gpu).expect("the fake GPU does not fail");
        check(&gpu);
    }
}

/// The types of songs.
const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Compiles the launched `kernels`: each has at least three sources, one per type.
fn compiles_everywhere(kernels: &[&str], launches: impl Fn(&FakeCuda, DType)) {
    on_each_gpu(&TYPES, launches, |gpu| {
        for kernel in kernels {
            let count = compile(gpu, kernel);
            // Matrix units do not take f32.
            let least = if kernel.contains("tensor_cores") { 2 } else { 3 };
            assert!(count >= least, "{kernel} was launched {count} times on {gpu:?}");
            // The type that songs use on these GPUs; the C++ kernel name includes it.
            let texts = sources(gpu);
            let mut own = texts.iter().filter(|(name, _)| name.contains(kernel));
            assert!(own.any(|(_, text)| text.contains("_bf16_")), "{kernel} is not there in bf16");
        }
    });
}

#[test]
fn rms_norm() {
    compiles_everywhere(&["rms_norm_kernel"], |gpu, dtype| {
        for shape in [[3, 5], [375, 2048], [6000, 128]] {
            let x = random::<B, 2>(shape, 1, dtype, gpu);
            let weight = random::<B, 1>([shape[1]], 2, dtype, gpu);
            drop(kernel::rms_norm(x, weight, 1e-6));
        }
    });
}

/// The operations around the products of a layer, and products of few rows, at the released sizes.
#[test]
fn layers() {
    let kernels = [
        "ada_norm_kernel",
        "norm_rotate_kernel",
        "swiglu_kernel",
        "matvec_kernel",
        "cache_write_kernel",
    ];
    compiles_everywhere(&kernels, |gpu, dtype| {
        let x = |shape, seed| random::<B, 3>(shape, seed, dtype, gpu);
        let vector = |width, seed| random::<B, 1>([width], seed, dtype, gpu);
        let matrix = |shape, seed| random::<B, 2>(shape, seed, dtype, gpu);
        let heads = |shape| random::<B, 4>(shape, 1, dtype, gpu);
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

/// The operations between codes and latents, and between latents and audio, at the released sizes.
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
    compiles_everywhere(&kernels, |gpu, dtype| {
        let x = |shape, seed| random::<B, 3>(shape, seed, dtype, gpu);
        let matrix = |shape, seed| random::<B, 2>(shape, seed, dtype, gpu);
        let bias = |width| random::<B, 1>([width], 7, dtype, gpu);
        let map = |weight: [usize; 2]| (matrix(weight, 5).into(), Some(bias(weight[0])));
        let codes = Tensor::<B, 1, Int>::zeros([150], gpu);
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
            let geometry =
                ConvGeometry { stride, padding: [stride.div_ceil(2); 2], ..Default::default() };
            let (alpha, beta) = (x([1, input, 1], 2), x([1, input, 1], 3));
            let y = kernel::snake(x([1, input, 50], 1), alpha, beta);
            let weight = x([input, output, taps], 4);
            // By name, because Hopper GPUs use a product for it in bf16: see `hopper_products`.
            let [y, weight] = [y, weight].map(primitive);
            let bias_of_y = Some(primitive(bias(output)));
            let y = conv_transpose1d::<FakeCudaRuntime>(y, weight, bias_of_y, geometry);
            let y = tensor(y);
            let dilated = ConvGeometry { padding: [9; 2], dilation: 3, ..Default::default() };
            let (alpha, beta) = (x([1, output, 1], 2), x([1, output, 1], 3));
            drop(kernel::add_snake(y.clone(), y.clone(), alpha, beta));
            // By name, because the front uses Burn's kernel or a product on GPUs with tensor cores.
            let [y, weight] = [y, x([output, output, 7], 5)].map(primitive);
            let bias = Some(primitive(bias(output)));
            drop(conv1d::<FakeCudaRuntime>(y, weight, bias, dilated));
        }
    });
}

/// The draw of a code at the released size. Its logits are f32 in every type.
#[test]
fn draw() {
    let launch = |gpu: &FakeCuda, dtype| {
        let [logits, times] = [1, 2].map(|seed| random::<B, 2>([2, 2048], seed, dtype, gpu));
        drop(kernel::draw(logits, times, 0.9, 50));
    };
    on_each_gpu(&[DType::F32], launch, |gpu| {
        assert!(compile(gpu, "draw_kernel") > 0, "{gpu:?}");
    });
}

/// Products in f32, whose kernels are Burn's: see `matrix.rs`. Few and many rows, and few and many terms, have
/// sources of their own.
#[test]
fn products_in_f32() {
    // Other tests launch products in other types.
    let is_wanted = |name: &str, source: &str| {
        let others = ["__half", "__nv_bfloat16"];
        name.starts_with("cubek_matmul::") && !others.iter().any(|other| source.contains(other))
    };
    let sizes = [[375, 2048, 2048], [375, 64, 33], [16, 300, 65], [5, 24, 7]];
    let launch = |gpu: &FakeCuda, dtype| {
        for [rows, terms, columns] in sizes {
            let left = random::<B, 2>([rows, terms], 1, dtype, gpu);
            let right = random::<B, 2>([columns, terms], 2, dtype, gpu).transpose();
            let [left, right] = [left, right].map(primitive);
            drop(product_by_units::<FakeCudaRuntime>(left, right));
        }
    };
    on_each_gpu(&[DType::F32], launch, |gpu| {
        let count = compile_those(gpu, is_wanted);
        assert!(count >= 2, "{count} sources on {gpu:?}");
    });
}

/// Each routine at shapes of the released checkpoints, and at a shape that none of them has.
#[test]
fn attention() {
    let kernels = [
        "attention_units_kernel",
        "attention_decode_kernel",
        "attention_join_kernel",
        "attention_tensor_cores_kernel",
    ];
    compiles_everywhere(&kernels, |gpu, dtype| {
        for ([heads, kv_heads, queries, keys, width], visibility) in [
            ([16, 8, 375, 375, 128], Visibility::Full),
            ([16, 8, 375, 375, 128], Visibility::Window(128)),
            ([32, 8, 77, 90, 128], Visibility::Causal { first: 13 }),
            ([16, 8, 1, 1024, 128], Visibility::Causal { first: 1023 }),
            ([32, 8, 1, 60, 128], Visibility::Causal { first: 59 }),
            ([6, 2, 40, 40, 20], Visibility::Full),
        ] {
            let q = random::<B, 4>([2, heads, queries, width], 1, dtype, gpu);
            let [k, v] =
                [2, 3].map(|seed| random::<B, 4>([2, kv_heads, keys, width], seed, dtype, gpu));
            for keys in [None, Some(k.clone().narrow(1, 0, 1).narrow(3, 0, 1).equal_elem(0.0))] {
                let keys = keys.map(|keys| keys.reshape([2, -1]));
                let mask = Mask { visibility, keys };
                drop(kernel::attention(q.clone(), k.clone(), v.clone(), &mask));
            }
        }
    });
}

/// Compiles the launches of `kernel`. There must be some for Hopper, and none before.
fn compiles_for_hopper(kernel: &str, launches: impl Fn(&FakeCuda, DType)) {
    on_each_gpu(&TYPES, launches, |gpu| {
        let count = compile(gpu, kernel);
        let is_hopper = *gpu == FakeCuda(90);
        assert_eq!(count > 0, is_hopper, "{kernel} was launched {count} times on {gpu:?}");
    });
}

/// The sizes of songs and of a prompt, each of the kernel's tiles, and views instead of whole
/// tensors.
#[test]
fn hopper_attention() {
    compiles_for_hopper("cuda::attention::", |gpu, dtype| {
        let takes = *gpu == FakeCuda(90) && dtype == DType::BF16;
        for ([heads, kv_heads, queries, keys], visibility) in [
            ([16, 8, 750, 750], Visibility::Full),
            ([16, 8, 750, 750], Visibility::Window(128)),
            ([16, 8, 750, 238], Visibility::Full),
            ([32, 8, 1500, 1500], Visibility::Full),
            ([8, 8, 77, 90], Visibility::Causal { first: 13 }),
        ] {
            // Heads are interleaved, with keys and values in one tensor.
            let view = |heads, rows, seed| {
                let x = random::<B, 4>([1, rows, heads + kv_heads, 128], seed, dtype, gpu);
                x.narrow(2, kv_heads, heads).swap_dims(1, 2)
            };
            let [q, k, v] =
                [view(heads, queries, 1), view(kv_heads, keys, 2), view(kv_heads, keys, 3)];
            let tensors = [&q, &k, &v].map(|x| primitive(x.clone()));
            let [a, b, c] = &tensors;
            assert_eq!(takes_attention([a, b, c], None, visibility), takes, "{gpu:?} {dtype:?}");
            drop(kernel::attention(q, k, v, &Mask::by_position(visibility)));
        }
        // Keys and values that two songs share.
        let shared =
            |seed| random::<B, 4>([1, 8, 60, 128], seed, dtype, gpu).expand([2, 8, 60, 128]);
        let q = random::<B, 4>([2, 8, 40, 128], 1, dtype, gpu);
        drop(kernel::attention(q, shared(2), shared(3), &Mask::by_position(Visibility::Full)));
    });
}

/// The kernel does not support padding, few queries, other head widths, causal windows, and
/// queries whose window has no key.
#[test]
fn hopper_attention_leaves_the_rest() {
    let takes = |[queries, keys, width]: [usize; 3], visibility, padded: bool| {
        let x = |heads, rows| {
            primitive(random::<B, 4>([1, heads, rows, width], 1, DType::BF16, &FakeCuda(90)))
        };
        let (q, k) = (x(4, queries), x(2, keys));
        takes_attention([&q, &k, &k], padded.then_some(&k), visibility)
    };
    assert!(takes([40, 40, 128], Visibility::Full, false));
    assert!(!takes([40, 40, 128], Visibility::Full, true));
    assert!(!takes([15, 40, 128], Visibility::Full, false));
    assert!(!takes([40, 40, 64], Visibility::Full, false));
    assert!(takes([40, 30, 128], Visibility::Window(10), false));
    assert!(!takes([40, 30, 128], Visibility::Window(9), false));
    assert!(!takes([40, 40, 128], Visibility::CausalWindow { first: 0, width: 9 }, false));
}

/// Products of songs, of a language model's prompt and of a few rows; convolutions of channels-last
/// and other inputs.
#[test]
fn hopper_products() {
    compiles_for_hopper("cuda::product::", |gpu, dtype| {
        let takes = *gpu == FakeCuda(90) && dtype == DType::BF16;
        let matrix = |shape, seed| random::<B, 2>(shape, seed, dtype, gpu);
        let x = |shape, seed| random::<B, 3>(shape, seed, dtype, gpu);
        let bias = |width| Some(random::<B, 1>([width], 3, dtype, gpu));
        for rows in [750, 125, 5] {
            let (x, weight) = (matrix([rows, 2048], 1), matrix([4096, 2048], 2));
            let [a, b] = [&x, &weight].map(|x| primitive(x.clone()));
            assert_eq!(takes_product(&a, &b), takes, "{gpu:?} {dtype:?} {rows}");
            drop(kernel::linear(x, weight, None));
        }
        for sound in [x([1, 128, 500], 1), x([1, 500, 128], 1).swap_dims(1, 2)] {
            let same = ConvGeometry { padding: [9; 2], dilation: 3, ..Default::default() };
            let longer = ConvGeometry { stride: 4, padding: [2; 2], ..Default::default() };
            let (weight, turned) = (x([128, 128, 7], 2), x([128, 64, 8], 2));
            for (weight, geometry, is_transposed) in
                [(&weight, same, false), (&turned, longer, true)]
            {
                let [a, b] = [&sound, weight].map(|x| primitive(x.clone()));
                let taken = takes_conv(&a, &b, geometry, is_transposed);
                assert_eq!(taken, takes, "{gpu:?} {dtype:?} {geometry:?}");
            }
            drop(kernel::conv1d(sound.clone(), weight, bias(128), same));
            drop(kernel::conv_transpose1d(sound, turned, bias(64), longer));
        }
    });
}

/// A token of a language model of the released widths, for one sequence and for two. All layers are
/// one launch, or none if heads are narrower.
#[test]
fn hopper_decode() {
    compiles_for_hopper("cuda::decode::", |gpu, dtype| {
        for ([hidden, inner, heads, width], rows) in
            [([1024, 3072, 16, 128], 1), ([2560, 9728, 32, 128], 2), ([1024, 3072, 16, 64], 1)]
        {
            let matrix = |output, input| random::<B, 2>([output, input], 1, dtype, gpu);
            let vector = |width| random::<B, 1>([width], 2, dtype, gpu);
            let weights = || LayerWeights {
                input_layernorm: vector(hidden),
                q_proj: matrix(heads * width, hidden).into(),
                k_proj: matrix(8 * width, hidden).into(),
                v_proj: matrix(8 * width, hidden).into(),
                o_proj: matrix(hidden, heads * width).into(),
                q_norm: vector(width),
                k_norm: vector(width),
                post_attention_layernorm: vector(hidden),
                gate_proj: matrix(inner, hidden).into(),
                up_proj: matrix(inner, hidden).into(),
                down_proj: matrix(hidden, inner).into(),
                epsilon: 1e-6,
            };
            let cache = || random::<B, 4>([rows, 8, 64, width], 3, dtype, gpu);
            let mut caches = [0, 1].map(|_| [cache(), cache()]);
            let slots: Vec<Slot> = (0..rows).map(|row| Slot { row, start: 20 + row }).collect();
            let new_tokens = NewTokens {
                slots: &slots,
                rope: Some([4, 5].map(|seed| random::<B, 2>([rows, width / 2], seed, dtype, gpu))),
                seen: 32,
                window: None,
                mask: Mask::by_position(Visibility::Full),
            };
            let layers = [0, 1].map(|_| Layer::from(weights()));
            let all = layers.iter().map(|layer| layer as &dyn CachingLayer<B>);
            let mut all = all.zip(caches.iter_mut().map(|caches| caches.each_mut()));
            let x = random::<B, 3>([rows, 1, hidden], 6, dtype, gpu);
            let y = kernel::cached_layers(x, &mut all, &new_tokens);
            assert_eq!(y.dims(), [rows, 1, hidden]);
            drop(all);
            assert!(caches.iter().flatten().all(|cache| cache.dims() == [rows, 8, 64, width]));
        }
    });
}

/// A part of a cache is a view on NVIDIA GPUs only if it ends at 512 bytes. Otherwise each token
/// would copy all earlier keys and values.
#[test]
fn a_cache_is_seen_without_a_copy() {
    for (dtype, width) in [(DType::BF16, 128), (DType::F16, 16), (DType::F32, 128)] {
        let place = Place { device: FakeCuda(90), dtype };
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
        for length in [16, 33 * 16] {
            let [keys, _] = cache.tensors().next().expect("a layer");
            let [rows, keys] = {
                let strides = primitive(cache_read(keys, &slots, length)).meta.strides().to_vec();
                [strides[0], strides[1]]
            };
            assert_eq!([rows, keys], [2 * 1008 * width, 1008 * width], "{dtype:?} {length}");
        }
    }
}
