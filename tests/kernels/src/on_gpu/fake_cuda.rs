//! A fake GPU: kernels are compiled and launched on it, but nothing is computed.
//!
//! It has the compiler and the properties of an NVIDIA GPU of a given generation. It keeps the CUDA
//! C++ of every launched kernel, so that a machine without a GPU can read and compile exactly that
//! code. Memory holds nothing: every read returns zeros.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
};

use burn::tensor::backend::DeviceOps;
use cubecl::{
    bytes::Bytes,
    client::ComputeClient,
    device::{Device, DeviceId, DeviceService},
    features::{Plane, Tma},
    future::DynFut,
    ir::{
        ContiguousElements, DeviceProperties, ElemType, FloatKind, HardwareProperties,
        MatrixLayout, MemoryDeviceProperties, MmaProperties, TargetProperties, VectorSize,
        features::TypeUsage,
    },
    prelude::*,
    profile::{ProfileDuration, TimingMethod},
    server::{
        Binding, ComputeServer, CopyDescriptor, KernelArguments, ProfileError, ProfilingToken,
        ServerCommunication, ServerError, ServerUtilities,
    },
    stream_id::StreamId,
    zspace::{Shape, Strides},
};
use cubecl_cpp::{
    DialectWmmaCompiler,
    cuda::{
        CudaDialect,
        arch::CudaArchitecture,
        mma::{CudaWmmaCompiler, contiguous_elements_cuda},
    },
    shared::{CompilationOptions, CppCompiler, CppSupportedFeatures},
};
use cubecl_runtime::{
    allocator::PitchedMemoryLayoutPolicy,
    compiler::CubeTask,
    kernel::CompiledKernel,
    logging::ServerLogger,
    memory_management::{ManagedMemoryHandle, MemoryAllocationMode, MemoryUsage},
    storage::{BytesStorage, ComputeStorage, ManagedResource},
    timestamp_profiler::TimestampProfiler,
};

type Cuda = CppCompiler<CudaDialect<CudaWmmaCompiler>>;

/// A fake device, by compute capability, as in `sm_90`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FakeCuda(pub(super) u16);

impl Device for FakeCuda {
    fn from_id(id: DeviceId) -> Self {
        Self(id.index_id)
    }

    fn to_id(&self) -> DeviceId {
        DeviceId { type_id: 0, index_id: self.0 }
    }
}

impl DeviceOps for FakeCuda {}

/// The runtime of fake GPUs.
#[derive(Debug, Clone)]
pub(super) struct FakeCudaRuntime;

/// Kernel names by capability and source; a kernel has one source per type and size.
static SOURCES: Mutex<BTreeMap<(u16, String), String>> = Mutex::new(BTreeMap::new());

/// Returns the kernels that the fake GPU launched so far: `(name, CUDA C++)`.
pub(super) fn sources(gpu: &FakeCuda) -> Vec<(String, String)> {
    let sources = SOURCES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let of_gpu = sources.iter().filter(|((capability, _), _)| *capability == gpu.0);
    of_gpu.map(|((_, source), name)| (name.clone(), source.clone())).collect()
}

impl Runtime for FakeCudaRuntime {
    type Compiler = Cuda;
    type Server = FakeCudaServer;
    type Device = FakeCuda;

    fn client(device: &FakeCuda) -> ComputeClient<Self> {
        ComputeClient::load(device)
    }

    fn name(_client: &ComputeClient<Self>) -> &'static str {
        "fake cuda"
    }

    fn require_array_lengths() -> bool {
        true
    }

    fn max_cube_count() -> (u32, u32, u32) {
        (i32::MAX as u32, 65_535, 65_535)
    }

    fn can_read_tensor(_shape: &Shape, _strides: &Strides) -> bool {
        true
    }

    fn target_properties() -> TargetProperties {
        let mma = MmaProperties {
            register_size_bits: 32,
            const_plane_size: 32,
            register_layout_a: MatrixLayout::RowMajor,
            register_layout_b: MatrixLayout::ColMajor,
            register_layout_acc: MatrixLayout::RowMajor,
            register_duplication_a: 1,
            register_duplication_b: 1,
            register_duplication_acc: 1,
            contiguous_elements: ContiguousElements::new(contiguous_elements_cuda),
        };
        TargetProperties { mma }
    }

    fn enumerate_devices(_type_id: u16, _info: &()) -> Vec<DeviceId> {
        [80, 90].map(|capability| FakeCuda(capability).to_id()).into()
    }
}

/// A server that records launches.
#[derive(Debug)]
pub(super) struct FakeCudaServer {
    capability: u16,
    /// Kernels that are already compiled; their sources are always the same.
    known: HashSet<KernelId>,
    timestamps: TimestampProfiler,
    utilities: Arc<ServerUtilities<Self>>,
}

impl DeviceService for FakeCudaServer {
    fn init(id: DeviceId) -> Self {
        let properties = properties(id.index_id);
        let policy = PitchedMemoryLayoutPolicy::new(properties.memory.alignment as usize);
        let logger = Arc::new(ServerLogger::default());
        Self {
            capability: id.index_id,
            known: HashSet::new(),
            timestamps: TimestampProfiler::default(),
            utilities: Arc::new(ServerUtilities::new(properties, logger, (), policy)),
        }
    }

    fn utilities(&self) -> Arc<dyn std::any::Any + Send + Sync> {
        self.utilities.clone()
    }
}

/// Returns the properties that CubeCL's CUDA runtime reports for a GPU of this generation.
fn properties(capability: u16) -> DeviceProperties {
    let hardware = HardwareProperties {
        load_width: 128,
        plane_size_min: 32,
        plane_size_max: 32,
        max_bindings: 1024,
        max_shared_memory_size: if capability >= 90 { 227 * 1024 } else { 163 * 1024 },
        max_cube_count: (i32::MAX as u32, 65_535, 65_535),
        max_units_per_cube: 1024,
        max_cube_dim: (1024, 1024, 64),
        num_streaming_multiprocessors: Some(108),
        num_cpu_cores: None,
        num_tensor_cores: Some(4),
        min_tensor_cores_dim: Some(8),
        max_vector_size: VectorSize::MAX,
    };
    let memory = MemoryDeviceProperties { max_page_size: 20 << 30, alignment: 512 };
    let mut properties =
        DeviceProperties::new(Default::default(), memory, hardware, TimingMethod::System);
    cubecl_cpp::register_supported_types(&mut properties);
    properties.register_type_usage(ElemType::Float(FloatKind::TF32), TypeUsage::Conversion);
    let features = &mut properties.features;
    features.copy_async = true;
    features.memory_reinterpret = true;
    features.alignment = true;
    for plane in [Plane::Ops, Plane::Sync, Plane::NonUniformControlFlow] {
        features.plane.insert(plane);
    }
    if capability >= 90 {
        features.tma.insert(Tma::Base);
        features.cube_cluster = true;
    }
    let gpu = CudaArchitecture { version: capability.into() };
    let wmma = CudaWmmaCompiler::supported_wmma_combinations(&gpu);
    cubecl_cpp::shared::register_wmma_features(wmma, &mut properties);
    let mma = CudaWmmaCompiler::supported_mma_combinations(&gpu);
    cubecl_cpp::shared::register_mma_features(mma, &mut properties);
    properties
}

/// Returns the number of parameters that a kernel's source declares.
fn parameters(compiled: &CompiledKernel<Cuda>) -> usize {
    let Some((_, text)) = compiled.source.split_once("extern \"C\" __global__") else { return 0 };
    let name = &compiled.entrypoint_name;
    let begins = |at: &usize| text[at + name.len()..].trim_start().starts_with('(');
    let Some(start) = text.match_indices(name.as_str()).map(|(at, _)| at).find(begins) else {
        return 0;
    };
    let list = text[start..].split_once('(').map_or("", |(_, rest)| rest);
    list.split_once(')').map_or(0, |(list, _)| list.split(',').count())
}

/// Returns the number of arguments that CubeCL's CUDA runtime passes. These are the maps, the
/// tensor of each map, the other buffers, a buffer of tensor sizes if needed, and scalars by value
/// if there are any.
fn passed(bindings: &KernelArguments) -> usize {
    let info = &bindings.info;
    let sizes = usize::from(info.dynamic_metadata_offset < info.data.len());
    let numbers = usize::from(!info.data.is_empty());
    2 * bindings.tensor_maps.len() + bindings.buffers.len() + sizes + numbers
}

/// Returns what is wrong with the maps, if anything: an axis that repeats one value, or a tensor that
/// is no buffer, so that the runtime would not wait for the stream that writes it.
fn wrong_map(bindings: &KernelArguments) -> Option<&'static str> {
    let memory = |binding: &Binding| format!("{:?}", binding.memory);
    let buffers: Vec<_> = bindings.buffers.iter().map(memory).collect();
    bindings.tensor_maps.iter().find_map(|map| {
        let (shape, strides) = (map.map.metadata.shape(), map.map.metadata.strides());
        if shape.iter().zip(strides.iter()).any(|(&size, &stride)| size > 1 && stride == 0) {
            return Some("a map with stride 0");
        }
        (!buffers.contains(&memory(&map.binding))).then_some("a map of a tensor that is no buffer")
    })
}

impl ServerCommunication for FakeCudaServer {
    const SERVER_COMM_ENABLED: bool = false;
}

impl ComputeServer for FakeCudaServer {
    type Kernel = Box<dyn CubeTask<Cuda>>;
    type Info = ();
    type MemoryLayoutPolicy = PitchedMemoryLayoutPolicy;
    type Storage = BytesStorage;

    fn initialize_memory(&mut self, _memory: ManagedMemoryHandle, _size: u64, _: StreamId) {}

    fn logger(&self) -> Arc<ServerLogger> {
        self.utilities.logger.clone()
    }

    fn utilities(&self) -> Arc<ServerUtilities<Self>> {
        self.utilities.clone()
    }

    fn read(
        &mut self,
        descriptors: Vec<CopyDescriptor>,
        _stream: StreamId,
    ) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        let zeros = |descriptor: CopyDescriptor| {
            let size = descriptor.shape.num_elements() * descriptor.elem_size;
            Bytes::from_bytes_vec(vec![0; size])
        };
        let values = descriptors.into_iter().map(zeros).collect();
        Box::pin(async move { Ok(values) })
    }

    fn write(&mut self, _descriptors: Vec<(CopyDescriptor, Bytes)>, _stream: StreamId) {}

    fn sync(&mut self, _stream: StreamId) -> DynFut<Result<(), ServerError>> {
        Box::pin(async { Ok(()) })
    }

    fn get_resource(
        &mut self,
        binding: Binding,
        _stream: StreamId,
    ) -> Result<ManagedResource<<BytesStorage as ComputeStorage>::Resource>, ServerError> {
        unreachable!("the fake GPU has no memory to show: {binding:?}")
    }

    #[allow(unsafe_code, reason = "the trait asks for it; nothing runs here")]
    unsafe fn launch(
        &mut self,
        kernel: Self::Kernel,
        _count: CubeCount,
        bindings: KernelArguments,
        mode: ExecutionMode,
        _stream: StreamId,
    ) {
        let wrong = wrong_map(&bindings);
        if !self.known.insert(kernel.id()) && wrong.is_none() {
            return;
        }
        let recent = self.capability >= 90;
        let options = CompilationOptions {
            warp_size: 32,
            supports_features: CppSupportedFeatures {
                grid_constants: true,
                clusters: recent,
                fast_math: true,
                fast_tanh: true,
                elect_sync: recent,
            },
        };
        let address = kernel.address_type();
        let compiled = kernel.compile(&mut Cuda::default(), &options, mode, address);
        let source = match compiled {
            Ok(compiled) => {
                let shared = compiled.repr.as_ref().map_or(0, |repr| repr.shared_memory_size());
                let most = self.utilities.properties.hardware.max_shared_memory_size;
                let (taken, given) = (parameters(&compiled), passed(&bindings));
                if shared > most {
                    format!("#error {shared} bytes of shared memory, there are {most}")
                } else if taken != given {
                    format!("#error {taken} parameters, {given} are passed: {}", compiled.source)
                } else if let Some(wrong) = wrong {
                    format!("#error {wrong}")
                } else {
                    compiled.source
                }
            }
            Err(error) => format!("#error {error}"),
        };
        let mut sources = SOURCES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        sources.insert((self.capability, source), kernel.name().to_owned());
    }

    fn flush(&mut self, _stream: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn memory_usage(&mut self, _stream: StreamId) -> Result<MemoryUsage, ServerError> {
        Ok(MemoryUsage { number_allocs: 0, bytes_in_use: 0, bytes_padding: 0, bytes_reserved: 0 })
    }

    fn memory_cleanup(&mut self, _stream: StreamId) {}

    fn start_profile(&mut self, _stream: StreamId) -> Result<ProfilingToken, ServerError> {
        Ok(self.timestamps.start())
    }

    fn end_profile(
        &mut self,
        _stream: StreamId,
        token: ProfilingToken,
    ) -> Result<ProfileDuration, ProfileError> {
        self.timestamps.stop(token)
    }

    fn allocation_mode(&mut self, _mode: MemoryAllocationMode, _stream: StreamId) {}
}
