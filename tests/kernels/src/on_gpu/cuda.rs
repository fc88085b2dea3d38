//! Kernels on CUDA, through CubeCL's own runtime, compared with the CPU.
//!
//! `scripts/cuda-in-software` gives them a driver that interprets them (`tests/cuda`). Without a driver, NVRTC or
//! `CUDA_PATH`, which has headers, nothing is compared.

use acestep_cuda_emulator as _;
use acestep_model::{
    Backend,
    kernel::{self, CachingLayer, ConvGeometry, LayerWeights, Mask, NewTokens, Slot, Visibility},
    nn::Layer,
};
use burn::tensor::{Bool, DType, Tensor, TensorData};
use burn_cubecl::CubeBackend;
use cubecl_cuda::{CudaDevice, CudaRuntime};

use super::{
    cuda_source::compiler_is_present,
    testing::{Operation, random, read, same, sound},
};

/// CUDA without fusion, where kernels run at once.
pub(super) type OnCuda = CubeBackend<CudaRuntime, f32, i32, u8>;

/// Returns the devices: of the driver in software these are Hopper, and one of compute capability 8.0.
pub(super) fn devices() -> Vec<CudaDevice> {
    if !compiler_is_present() || std::env::var_os("CUDA_PATH").is_none() {
        return Vec::new();
    }
    #[expect(unsafe_code, reason = "opens a library and looks for a name in it")]
    // SAFETY: the library is a CUDA driver, and opening it runs no code of this project.
    let driver = unsafe { cudarc::driver::sys::is_culib_present() };
    let count = match driver {
        true => cudarc::driver::CudaContext::device_count().unwrap_or(0),
        false => 0,
    };
    if std::env::var_os("CUDA_IN_SOFTWARE").is_some() {
        assert_eq!(count, 2, "the driver in software is not loaded");
    }
    (0..count as usize).map(CudaDevice::new).collect()
}

/// Compares results with the CPU's: on the first device in f32 and bf16, on the last one in f16.
pub(super) fn same_on_cuda(name: &str, operation: &impl Operation, tolerance: f32) {
    let devices = devices();
    let ([first, ..], false) = (devices.as_slice(), operation.has_empty_input()) else { return };
    let last = devices.last().unwrap_or(first);
    let cases =
        [(first, DType::F32, tolerance), (first, DType::BF16, 1.2e-2), (last, DType::F16, 2e-3)];
    for (device, dtype, tolerance) in cases {
        let expected = operation.run::<burn_flex::Flex>(dtype, &burn_flex::FlexDevice);
        if expected.is_empty() {
            // Burn's own copies of an empty tensor launch no blocks, which CUDA refuses.
            return;
        }
        let got = operation.run::<OnCuda>(dtype, device);
        same(&format!("{name} {dtype:?} {device:?}"), &expected, &got, tolerance);
    }
}

/// A product with what the Hopper kernel does after it.
struct Products {
    rows: usize,
    terms: usize,
    columns: usize,
}

impl Operation for Products {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let &Self { rows, terms, columns } = self;
        let matrix = |shape, seed| random::<B, 2>(shape, seed, dtype, device);
        let x = || matrix([rows, terms], 1);
        let weight = |seed| matrix([columns, terms], seed);
        let mut values = read(kernel::linear(x(), weight(2), None));
        // The gate is near its bend.
        let near = x().mul_scalar(0.2);
        values.extend(read(kernel::gated_linear(near, weight(2), weight(3))));
        let items = |x: Tensor<B, 2>| x.reshape([1, rows as i32, -1]);
        let residual = || items(matrix([rows, columns], 4).mul_scalar(10.0));
        let gate = random::<B, 3>([1, 1, columns], 5, dtype, device);
        for gate in [None, Some(gate)] {
            values.extend(read(kernel::linear_added(residual(), gate, items(x()), weight(2))));
        }
        values
    }
}

/// Sizes that fill tiles and that do not, in each direction.
#[test]
fn products_and_what_follows_them() {
    for (rows, terms, columns) in
        [(17, 64, 64), (130, 192, 136), (300, 128, 520), (5, 256, 96), (64, 72, 256)]
    {
        let name = format!("products of {rows} rows, {terms} terms, {columns} columns");
        same_on_cuda(&name, &Products { rows, terms, columns }, 2e-6);
    }
}

/// A convolution that keeps its length, with a snake after it, and a residual unit.
struct Residual {
    channels: usize,
    samples: usize,
}

impl Operation for Residual {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        let &Self { channels, samples } = self;
        let filter = |taps, seed| {
            let weight = random::<B, 3>([channels, channels, taps], seed, dtype, device);
            let bias = random::<B, 1>([channels], seed + 1, dtype, device);
            (weight.mul_scalar(0.1), bias)
        };
        let snake = |seed| {
            [seed, seed + 1].map(|seed| random::<B, 3>([1, channels, 1], seed, dtype, device))
        };
        let geometry = ConvGeometry { padding: [9; 2], dilation: 3, ..Default::default() };
        let (weight, bias) = filter(7, 1);
        let x = sound::<B>([1, channels, samples], true, 3, dtype, device);
        let [alpha, beta] = snake(4);
        let active = kernel::snake(x.clone(), alpha, beta);
        let y = kernel::conv1d(active, weight, Some(bias), geometry);
        let [alpha, beta] = snake(6);
        let active = kernel::snake(y, alpha, beta);
        let (weight, bias) = filter(1, 8);
        let y = kernel::conv1d(active, weight, Some(bias), ConvGeometry::default());
        read(x + y)
    }
}

#[test]
fn convolutions_of_a_residual_unit() {
    for (channels, samples) in [(128, 300), (64, 70)] {
        let name = format!("a unit of {channels} channels, {samples} samples");
        same_on_cuda(&name, &Residual { channels, samples }, 4e-6);
    }
}

/// A token of each of some sequences through two layers with caches.
struct Token {
    rows: usize,
    kv_heads: usize,
    /// Positions of the first sequence before the token.
    seen: usize,
}

impl Operation for Token {
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
        const WIDTH: usize = 128;
        /// A value that every type holds.
        fn random<B: Backend, const D: usize>(
            shape: [usize; D],
            seed: u32,
            dtype: DType,
            device: &B::Device,
        ) -> Tensor<B, D> {
            super::testing::random::<B, D>(shape, seed, DType::BF16, device).cast(dtype)
        }
        let &Self { rows, kv_heads, seen } = self;
        let (hidden, inner, heads) = (256, 384, 2 * kv_heads);
        let matrix = |output: usize, input: usize, seed| {
            let scale = 2.0 / (input as f64).sqrt();
            random::<B, 2>([output, input], seed, dtype, device).mul_scalar(scale)
        };
        let vector = |width, seed| random::<B, 1>([width], seed, dtype, device) + 1.5;
        let weights = |seed| LayerWeights {
            input_layernorm: vector(hidden, seed),
            q_proj: matrix(heads * WIDTH, hidden, seed + 1).into(),
            k_proj: matrix(kv_heads * WIDTH, hidden, seed + 2).into(),
            v_proj: matrix(kv_heads * WIDTH, hidden, seed + 3).into(),
            o_proj: matrix(hidden, heads * WIDTH, seed + 4).into(),
            q_norm: vector(WIDTH, seed + 5),
            k_norm: vector(WIDTH, seed + 6),
            post_attention_layernorm: vector(hidden, seed + 7),
            gate_proj: matrix(inner, hidden, seed + 8).into(),
            up_proj: matrix(inner, hidden, seed + 9).into(),
            down_proj: matrix(hidden, inner, seed + 10).into(),
            epsilon: 1e-6,
        };
        let capacity = seen + rows + 3;
        let cache = |seed| random::<B, 4>([rows, kv_heads, capacity, WIDTH], seed, dtype, device);
        let mut caches = [1, 3].map(|seed| [cache(seed), cache(seed + 1)]);
        let slots: Vec<Slot> = (0..rows).map(|row| Slot { row, start: seen + row }).collect();
        let angle = |row: usize, at: usize| (row + 1) as f32 * 0.3 + at as f32 * 0.01;
        let table = |of: fn(f32) -> f32| {
            let values: Vec<f32> = (0..rows * WIDTH / 2)
                .map(|i| of(angle(i / (WIDTH / 2), i % (WIDTH / 2))))
                .collect();
            let data = TensorData::new(values, [rows, WIDTH / 2]).convert_dtype(dtype);
            Tensor::<B, 2>::from_data(data, (device, dtype))
        };
        // Later keys of the shorter sequences are hidden.
        let keys = seen + rows;
        let hidden_keys: Vec<bool> =
            (0..rows * keys).map(|i| i % keys <= seen + i / keys).collect();
        let mask =
            Tensor::<B, 2, Bool>::from_data(TensorData::new(hidden_keys, [rows, keys]), device);
        let new_tokens = NewTokens {
            slots: &slots,
            rope: Some([table(f32::cos), table(f32::sin)]),
            seen: keys,
            window: None,
            mask: Mask { visibility: Visibility::Full, keys: (rows > 1).then_some(mask) },
        };
        let layers = [10, 30].map(|seed| Layer::from(weights(seed)));
        let all = layers.iter().map(|layer| layer as &dyn CachingLayer<B>);
        let mut all = all.zip(caches.iter_mut().map(|caches| caches.each_mut()));
        let x = random::<B, 3>([rows, 1, hidden], 6, dtype, device);
        let mut values = read(kernel::cached_layers(x, &mut all, &new_tokens));
        drop(all);
        values.extend(caches.into_iter().flatten().flat_map(read));
        values
    }
}

/// One sequence and several, few keys and more than a block takes. The kernel for Hopper rounds less than separate
/// operations, so it is compared with f32 and may be no further from it than the CPU in bf16.
#[test]
fn a_token_through_all_layers() {
    let cpu = burn_flex::FlexDevice;
    for (rows, kv_heads, seen) in [(1, 2, 20), (2, 2, 33), (1, 1, 300), (4, 1, 5)] {
        let token = Token { rows, kv_heads, seen };
        let name = format!("{rows} tokens after {seen}, {kv_heads} key heads");
        let exact = token.run::<burn_flex::Flex>(DType::F32, &cpu);
        let error = |got: &[f32]| {
            assert_eq!(got.len(), exact.len(), "{name}");
            let squares = exact.iter().zip(got).map(|(a, b)| f64::from(a - b).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let of_cpu = error(&token.run::<burn_flex::Flex>(DType::BF16, &cpu));
        for device in devices() {
            let got = token.run::<OnCuda>(DType::F32, &device);
            same(&format!("{name} {device:?}"), &exact, &got, 1e-5);
            let of_gpu = error(&token.run::<OnCuda>(DType::BF16, &device));
            assert!(of_gpu < 1.1 * of_cpu, "{name} {device:?}: {of_gpu}, the CPU {of_cpu}");
        }
    }
}
