//! Kernels in CUDA C++, for features that CubeCL lacks: Hopper's matrix units (`wgmma`), tiles that
//! the copy engine (TMA) sends to several blocks, and a barrier across blocks.
//!
//! A kernel is a source text with a header that defines its sizes. CubeCL handles it like its own
//! kernels: the runtime compiles it with NVRTC on first use, caches it, and launches it in order
//! with the others. Each kernel has a function that returns which tensors it supports; the caller
//! has another path for the rest.

mod attention;
mod decode;
mod product;

pub(super) use attention::attention;
pub use attention::takes_attention;
pub(super) use decode::{decode_layers, takes_layers};
pub(super) use product::{
    conv_transpose1d, conv1d, conv1d_add_snake, conv1d_snake, gated_product, product,
    product_added, takes_added, takes_snake,
};
pub use product::{takes_conv, takes_product};

use std::{any::Any, fmt::Debug, hash::Hash};

use burn::tensor::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{
    CompilationError, Compiler as _, CubeTask,
    client::ComputeClient,
    ir::{AddressType, Scope, StorageType},
    prelude::*,
    server::{
        Binding, ComputeServer, KernelArguments, MetadataBindingInfo, TensorMapBinding,
        TensorMapMeta,
    },
    zspace::{Shape, Strides, metadata::Metadata},
};
use cubecl_cpp::{
    cuda::{CudaDialect, mma::CudaWmmaCompiler},
    shared::{CppCompiler, Elem, Item, SharedMemory},
};
use cubecl_runtime::kernel::CompiledKernel;

/// CubeCL's compiler for NVIDIA GPUs, which the fake runtime of the tests uses too.
type Cuda = CppCompiler<CudaDialect<CudaWmmaCompiler>>;

/// Source text at the beginning of every kernel for Hopper.
const HOPPER: &str = include_str!("cuda/hopper.cu");

/// Unused parameters: after the maps, the runtime passes the tensors of the three maps, and [`launch`]
/// passes them once more.
const MAPPED_3: &str = "bf16*, bf16*, bf16*, bf16*, bf16*, bf16*,";

/// Alignment of addresses and strides for the copy engine, in bytes.
const ALIGNMENT: usize = 16;

/// A kernel source with its sizes.
trait Source: Debug + Clone + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// The name of the kernel in the source.
    const NAME: &'static str;

    /// Returns the CUDA C++.
    fn text(&self) -> String;

    /// Returns the threads per block.
    fn threads(&self) -> u32;

    /// Returns the bytes of dynamic shared memory per block.
    fn shared_bytes(&self) -> usize;
}

/// A source to compile.
struct Task<S>(S);

impl<S: Source> KernelMetadata for Task<S> {
    fn id(&self) -> KernelId {
        KernelId::new::<Self>().info(self.0.clone()).cube_dim(CubeDim::new_1d(self.0.threads()))
    }

    fn address_type(&self) -> StorageType {
        AddressType::U32.unsigned_type()
    }
}

impl<S: Source> CubeTask<Cuda> for Task<S> {
    fn compile(
        &self,
        compiler: &mut Cuda,
        options: &<Cuda as cubecl::Compiler>::CompilationOptions,
        mode: ExecutionMode,
        address_type: StorageType,
    ) -> Result<CompiledKernel<Cuda>, CompilationError> {
        let cube_dim = CubeDim::new_1d(self.0.threads());
        // The runtime reads the required shared memory from a kernel's representation.
        let empty = KernelDefinition {
            buffers: Vec::new(),
            tensor_maps: Vec::new(),
            scalars: Vec::new(),
            cube_dim,
            body: Scope::root(false),
            options: KernelOptions::default(),
        };
        let mut repr = compiler.compile(empty, options, mode, address_type)?;
        repr.body.shared_memories.push(SharedMemory::Array {
            index: 0,
            item: Item::scalar(Elem::U8, true),
            length: self.0.shared_bytes(),
            align: 1024,
            offset: 0,
        });
        Ok(CompiledKernel {
            entrypoint_name: S::NAME.to_owned(),
            debug_name: Some(std::any::type_name::<S>()),
            source: self.0.text(),
            repr: Some(repr),
            cube_dim,
            debug_info: None,
        })
    }
}

/// Returns the number of multiprocessors.
fn multiprocessors<R: CubeRuntime>(client: &ComputeClient<R>) -> usize {
    client.properties().hardware.num_streaming_multiprocessors.unwrap_or(1) as usize
}

/// True if kernels of this module run on this client: its compiler takes CUDA C++, and the GPU has
/// compute capability 9. Later GPUs have a copy engine too, but other matrix units.
pub(super) fn is_hopper<R: CubeRuntime>(client: &ComputeClient<R>) -> bool {
    use cubecl::features::Tma;
    type Kernel<R> = <<R as Runtime>::Server as ComputeServer>::Kernel;
    let tma = &client.properties().features.tma;
    std::any::TypeId::of::<Kernel<R>>() == std::any::TypeId::of::<Box<dyn CubeTask<Cuda>>>()
        && tma.contains(Tma::Base)
        && !tma.contains(Tma::Im2colWide)
}

/// Launches `blocks` blocks. The kernel's parameters are the maps, twice a pointer to the tensor of
/// each map, the buffers and, by value, `args`.
///
/// # Panics
/// If the runtime takes no CUDA C++; the caller must check [`is_hopper`] first.
fn launch<R: CubeRuntime, S: Source>(
    client: &ComputeClient<R>,
    source: S,
    blocks: usize,
    tensor_maps: Vec<TensorMapBinding>,
    buffers: Vec<Binding>,
    args: Vec<u64>,
) {
    let task: Box<dyn CubeTask<Cuda>> = Box::new(Task(source));
    let any: Box<dyn Any> = Box::new(task);
    let Ok(kernel) = any.downcast::<<R::Server as ComputeServer>::Kernel>() else {
        panic!("this runtime takes no CUDA C++")
    };
    let length = args.len();
    // CubeCL 0.10 waits for other threads' streams, and keeps memory for them, only for buffers.
    let mapped = tensor_maps.iter().map(|map| map.binding.clone());
    let buffers = mapped.chain(buffers).collect();
    let arguments = KernelArguments::new()
        .with_tensor_maps(tensor_maps)
        .with_buffers(buffers)
        // Everything is passed by value; nothing is dynamic.
        .with_info(MetadataBindingInfo::new(args, length));
    client.launch(*kernel, CubeCount::Static(blocks as u32, 1, 1), arguments);
}

/// Packs numbers for a kernel's parameter, two of 32 bits per word.
fn words(numbers: &[i32]) -> Vec<u64> {
    let pair = |pair: &[i32]| {
        let [low, high] = [pair[0], pair.get(1).copied().unwrap_or(0)].map(|n| u64::from(n as u32));
        low | high << 32
    };
    numbers.chunks(2).map(pair).collect()
}

/// True if the copy engine can read this bf16 tensor in place. Its last axis is contiguous, and the
/// strides of all other axes are multiples of [`ALIGNMENT`] bytes; no axis repeats one value.
fn is_mappable<R: CubeRuntime>(x: &CubeTensor<R>) -> bool {
    let step = ALIGNMENT / DType::BF16.size();
    let (shape, strides) = (x.meta.shape(), x.meta.strides());
    let last = x.meta.num_dims() - 1;
    let is_aligned = |stride: usize| stride > 0 && stride.is_multiple_of(step);
    let rows = (0..last).all(|axis| shape[axis] == 1 || is_aligned(strides[axis]));
    x.dtype == DType::BF16
        && strides[last] == 1
        && rows
        && x.handle.offset_start.unwrap_or(0).is_multiple_of(ALIGNMENT as u64)
}

/// Returns a map of a bf16 tensor with tiles of `tile` values per axis, the last one 64, in the
/// 128-byte swizzle. Outside the tensor the copy engine reads zeros.
fn map<R: CubeRuntime>(x: &CubeTensor<R>, tile: &[usize]) -> TensorMapBinding {
    let (shape, mut strides) = (x.meta.shape().clone(), x.meta.strides().to_vec());
    // An axis of size 1 may have any stride, but the map needs a valid one.
    let step = ALIGNMENT / DType::BF16.size();
    let last = strides.len() - 1;
    for (stride, &size) in strides[..last].iter_mut().zip(shape.iter()) {
        if size == 1 {
            *stride = stride.next_multiple_of(step).max(step);
        }
    }
    let map = TensorMapMeta {
        format: TensorMapFormat::Tiled(TiledArgs { tile_size: Shape::from(tile.to_vec()) }),
        metadata: Metadata::new(shape, Strides::from(strides.as_slice())),
        elem_stride: Strides::from(vec![1; tile.len()].as_slice()),
        interleave: TensorMapInterleave::None,
        swizzle: TensorMapSwizzle::B128,
        prefetch: TensorMapPrefetch::B256,
        oob_fill: OobFill::Zero,
        storage_ty: x.dtype.into(),
    };
    TensorMapBinding { binding: x.handle.clone().binding(), map }
}

/// Returns the CUDA C++ of one `wgmma` with a tile of `columns` columns, as
/// `Wgmma<columns>::multiply`.
fn wgmma(columns: usize) -> String {
    let registers = columns / 2;
    let list =
        |item: &dyn Fn(usize) -> String| (0..registers).map(item).collect::<Vec<_>>().join(", ");
    let (names, sums) = (list(&|i| format!("%{i}")), list(&|i| format!("\"+f\"(d[{i}])")));
    let [a, b, keep] = [0, 1, 2].map(|i| registers + i);
    format!(
        "template <int N> struct Wgmma;
template <> struct Wgmma<{columns}> {{
  static __device__ __forceinline__ void multiply(float (&d)[{registers}], u64 a, u64 b, int keep) {{
    asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{keep}, 0;\\n\"
                 \"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16 \"
                 \"{{{names}}}, %{a}, %{b}, p, 1, 1, 0, 0;\\n}}\\n\"
                 : {sums} : \"l\"(a), \"l\"(b), \"r\"(keep));
  }}
}};
"
    )
}
