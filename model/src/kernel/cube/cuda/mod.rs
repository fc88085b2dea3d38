//! Kernels in CUDA C++, for what CubeCL has no words for: the matrix units of Hopper (`wgmma`), tiles
//! that the copy engine brings to several blocks, and blocks that wait for each other.
//!
//! A kernel is a text with a header that says its sizes. It goes the way of every kernel of CubeCL: the
//! runtime compiles it with NVRTC when it is first used, keeps it, and launches it in the order of the
//! others. Each has a function that says which tensors it takes; the caller has another way for the rest.

mod attention;
mod decode;
mod product;

pub(super) use attention::{attention, takes_attention};
pub(super) use decode::{decode_layers, takes_layers};
pub(super) use product::{
    conv_transpose1d, conv1d, conv1d_add_snake, conv1d_snake, gated_product, product,
    product_added, takes_added, takes_conv, takes_product, takes_snake,
};

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

/// CubeCL's compiler for NVIDIA's GPUs, that of the runtime which only records too.
type Cuda = CppCompiler<CudaDialect<CudaWmmaCompiler>>;

/// Source text that every kernel for Hopper begins with.
const HOPPER: &str = include_str!("hopper.cu");

/// The runtime passes what is behind three maps too, after them: parameters without a use.
const MAPPED_3: &str = "bf16*, bf16*, bf16*,";

/// The least address at which the copy engine begins to read, and what strides are multiples of.
const ALIGNMENT: usize = 16;

/// A kernel's text with its sizes.
trait Source: Debug + Clone + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// The name of the kernel in the text.
    const NAME: &'static str;

    /// CUDA C++.
    fn text(&self) -> String;

    /// Threads of a block.
    fn threads(&self) -> u32;

    /// Bytes of dynamic shared memory of a block.
    fn shared_bytes(&self) -> usize;
}

/// A text on its way to the compiler.
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
        // The runtime reads from a kernel's representation how much shared memory it wants.
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

/// True if kernels of this module run there at all: a runtime whose compiler takes CUDA C++, and a GPU
/// of compute capability 9. Later ones have a copy engine too, and other matrix units.
pub(super) fn is_hopper<R: CubeRuntime>(client: &ComputeClient<R>) -> bool {
    use cubecl::features::Tma;
    type Kernel<R> = <<R as Runtime>::Server as ComputeServer>::Kernel;
    let tma = &client.properties().features.tma;
    std::any::TypeId::of::<Kernel<R>>() == std::any::TypeId::of::<Box<dyn CubeTask<Cuda>>>()
        && tma.contains(Tma::Base)
        && !tma.contains(Tma::Im2colWide)
}

/// Launches `blocks` blocks. The kernel's parameters are the maps, a pointer to what each map is of, the
/// buffers and, by value, `args`.
///
/// # Panics
/// If the runtime takes no CUDA C++: [`is_hopper`] has to be asked first.
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
    let arguments = KernelArguments::new()
        .with_tensor_maps(tensor_maps)
        .with_buffers(buffers)
        // All of it is passed by value: nothing of it is dynamic.
        .with_info(MetadataBindingInfo::new(args, length));
    client.launch(*kernel, CubeCount::Static(blocks as u32, 1, 1), arguments);
}

/// Numbers as a kernel's parameter, two of 32 bits in a word.
fn words(numbers: &[i32]) -> Vec<u64> {
    let pair = |pair: &[i32]| {
        let [low, high] = [pair[0], pair.get(1).copied().unwrap_or(0)].map(|n| u64::from(n as u32));
        low | high << 32
    };
    numbers.chunks(2).map(pair).collect()
}

/// True if the copy engine reads this tensor of bf16 as it lies: its last axis is whole, and rows and
/// whatever is above them begin at multiples of [`ALIGNMENT`] bytes.
fn is_mappable<R: CubeRuntime>(x: &CubeTensor<R>) -> bool {
    let step = ALIGNMENT / DType::BF16.size();
    let (shape, strides) = (x.meta.shape(), x.meta.strides());
    let last = x.meta.num_dims() - 1;
    let rows = (0..last).all(|axis| shape[axis] == 1 || strides[axis].is_multiple_of(step));
    x.dtype == DType::BF16
        && strides[last] == 1
        && rows
        && x.handle.offset_start.unwrap_or(0).is_multiple_of(ALIGNMENT as u64)
}

/// A map of a tensor of bf16, whose tiles are `tile` values of each axis, the last of them 64, in the
/// 128-byte swizzle. Beyond the tensor the copy engine reads zeros.
fn map<R: CubeRuntime>(x: &CubeTensor<R>, tile: &[usize]) -> TensorMapBinding {
    let (shape, mut strides) = (x.meta.shape().clone(), x.meta.strides().to_vec());
    // An axis of one has any stride, and a stride must be one that could be read.
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

/// The CUDA C++ of one `wgmma` with a tile of `columns` columns, as `Wgmma<columns>::multiply`.
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
