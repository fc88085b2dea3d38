//! The functions of the CUDA driver that CubeCL calls.
//!
//! Everything happens at once, in the thread that asks for it, so streams and events have nothing to wait for.
//!
//! Source: NVIDIA, "CUDA Driver API".

#![expect(unsafe_code, reason = "functions that C programs call, with pointers of theirs")]

use std::{
    cell::Cell,
    collections::HashMap,
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUfunction_attribute, CUmemorytype, CUmodule, CUresult, CUstream, CUtensorMap,
    CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion,
    CUtensorMapSwizzle,
};

use crate::{
    decode::Code,
    launch::{Launch, Line, SHARED_BY_DEFAULT},
    memory::Allocations,
    ptx::Module,
    tensor_map::{MOST_AXES, TensorMap},
};

/// Memory that the device says it has, in bytes.
const MEMORY: usize = 8 << 30;

static ALLOCATIONS: Allocations = Allocations::new();

/// The first error of a kernel, which all later calls return.
static FAILED: OnceLock<CUresult> = OnceLock::new();

/// Handles that differ.
static HANDLES: AtomicUsize = AtomicUsize::new(1);

/// A module with its kernels.
struct Loaded {
    functions: HashMap<String, &'static Function>,
}

/// A kernel and its attributes.
struct Function {
    code: Result<Code, String>,
    shared: AtomicUsize,
}

fn handle<T>() -> *mut T {
    ptr::without_provenance_mut(HANDLES.fetch_add(1, Ordering::Relaxed) * 64)
}

fn status() -> CUresult {
    FAILED.get().copied().unwrap_or(CUresult::CUDA_SUCCESS)
}

/// Says on standard error what is wrong.
#[expect(clippy::print_stderr, reason = "a driver has no other place for its reasons")]
fn refused(reason: &str, result: CUresult) -> CUresult {
    eprintln!("CUDA in software: {reason}");
    result
}

/// The compute capabilities of the devices: Hopper, and the oldest one that our kernels are written for.
const CAPABILITIES: [i32; 2] = [90, 80];

fn capability(device: CUdevice) -> i32 {
    CAPABILITIES[device as usize]
}

/// Multiprocessors: few, because blocks that wait for each other all run here.
const MULTIPROCESSORS: i32 = 4;

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> CUresult {
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    // SAFETY: as the driver demands.
    unsafe { version.write(13_000) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    // SAFETY: as the driver demands.
    unsafe { count.write(CAPABILITIES.len() as c_int) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> CUresult {
    if !(0..CAPABILITIES.len() as c_int).contains(&ordinal) {
        return CUresult::CUDA_ERROR_INVALID_DEVICE;
    }
    // SAFETY: as the driver demands.
    unsafe { device.write(ordinal) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(
    name: *mut c_char,
    length: c_int,
    device: CUdevice,
) -> CUresult {
    let text = format!("CUDA in software, sm_{}\0", capability(device));
    let count = text.len().min(length as usize);
    // SAFETY: as the driver demands.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), count) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: CUdevice) -> CUresult {
    // SAFETY: as the driver demands.
    unsafe { bytes.write(MEMORY) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult {
    // SAFETY: as the driver demands.
    unsafe {
        free.write(MEMORY.saturating_sub(ALLOCATIONS.bytes() as usize));
        total.write(MEMORY);
    }
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: CUdevice_attribute,
    device: CUdevice,
) -> CUresult {
    use CUdevice_attribute as A;
    let number = match attribute {
        A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => capability(device) / 10,
        A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => capability(device) % 10,
        A::CU_DEVICE_ATTRIBUTE_WARP_SIZE => 32,
        A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK => 1024,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X | A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y => 1024,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z => 64,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X => i32::MAX,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y | A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z => 65_535,
        A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => MULTIPROCESSORS,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => SHARED_BY_DEFAULT as i32,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => {
            shared_at_most(capability(device)) as i32
        }
        A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED => 1,
        A::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING => 1,
        _ => {
            return refused(
                &format!("attribute {attribute:?} is not known"),
                CUresult::CUDA_ERROR_INVALID_VALUE,
            );
        }
    };
    // SAFETY: as the driver demands.
    unsafe { value.write(number) };
    CUresult::CUDA_SUCCESS
}

/// Shared memory that a block may ask for.
fn shared_at_most(capability: i32) -> usize {
    if capability >= 90 { 227 * 1024 } else { 163 * 1024 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(
    context: *mut CUcontext,
    device: CUdevice,
) -> CUresult {
    // SAFETY: as the driver demands.
    unsafe { context.write(ptr::without_provenance_mut(64 * (1 + device as usize))) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: CUdevice) -> CUresult {
    CUresult::CUDA_SUCCESS
}

thread_local! {
    /// The context of a thread.
    static CURRENT: Cell<CUcontext> = const { Cell::new(ptr::null_mut()) };
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: CUcontext) -> CUresult {
    CURRENT.set(context);
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut CUcontext) -> CUresult {
    // SAFETY: as the driver demands.
    unsafe { context.write(CURRENT.get()) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> CUresult {
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut CUstream, _flags: c_uint) -> CUresult {
    // SAFETY: as the driver demands.
    unsafe { stream.write(handle()) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(_stream: CUstream) -> CUresult {
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(_stream: CUstream) -> CUresult {
    status()
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(_stream: CUstream, _event: CUevent, _flags: c_uint) -> CUresult {
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut CUevent, _flags: c_uint) -> CUresult {
    // SAFETY: as the driver demands.
    unsafe { event.write(handle()) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(_event: CUevent, _stream: CUstream) -> CUresult {
    status()
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(_event: CUevent) -> CUresult {
    status()
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(_event: CUevent) -> CUresult {
    status()
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(_event: CUevent) -> CUresult {
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytes: usize) -> CUresult {
    if bytes == 0 {
        return refused("an allocation of no bytes", CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let is_room = (ALLOCATIONS.bytes() as usize).saturating_add(bytes) <= MEMORY;
    match Some(bytes).filter(|_| is_room).and_then(|bytes| ALLOCATIONS.allocate(bytes)) {
        Some(address) => {
            // SAFETY: as the driver demands.
            unsafe { pointer.write(address) };
            CUresult::CUDA_SUCCESS
        }
        None => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(
    pointer: *mut CUdeviceptr,
    bytes: usize,
    _stream: CUstream,
) -> CUresult {
    // SAFETY: as the driver demands.
    unsafe { cuMemAlloc_v2(pointer, bytes) }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(pointer: CUdeviceptr) -> CUresult {
    if ALLOCATIONS.free(pointer) {
        CUresult::CUDA_SUCCESS
    } else {
        CUresult::CUDA_ERROR_INVALID_VALUE
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(pointer: CUdeviceptr, _stream: CUstream) -> CUresult {
    cuMemFree_v2(pointer)
}

/// Memory of the host, in an allocation of its own.
static HOST: Allocations = Allocations::new();

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) -> CUresult {
    match HOST.allocate(bytes) {
        Some(address) => {
            // SAFETY: as the driver demands.
            unsafe { pointer.write(address as *mut c_void) };
            CUresult::CUDA_SUCCESS
        }
        None => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(pointer: *mut c_void) -> CUresult {
    if HOST.free(pointer as u64) {
        CUresult::CUDA_SUCCESS
    } else {
        CUresult::CUDA_ERROR_INVALID_VALUE
    }
}

/// True if these bytes are in one allocation of the device.
fn is_inside(address: u64, bytes: usize) -> bool {
    bytes == 0 || ALLOCATIONS.range_of(address).is_some_and(|range| range.contains(address, bytes))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: CUdeviceptr,
    from: *const c_void,
    bytes: usize,
    _: CUstream,
) -> CUresult {
    if !is_inside(to, bytes) {
        return refused(
            &format!("{bytes} bytes to {to:#x}, where nothing is"),
            CUresult::CUDA_ERROR_INVALID_VALUE,
        );
    }
    // SAFETY: as the driver demands; the destination was checked.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), to as *mut u8, bytes) };
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: CUdeviceptr,
    bytes: usize,
    _: CUstream,
) -> CUresult {
    if !is_inside(from, bytes) {
        return refused(
            &format!("{bytes} bytes from {from:#x}, where nothing is"),
            CUresult::CUDA_ERROR_INVALID_VALUE,
        );
    }
    // SAFETY: as the driver demands; the source was checked.
    unsafe { ptr::copy_nonoverlapping(from as *const u8, to.cast::<u8>(), bytes) };
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
    _: CUstream,
) -> CUresult {
    if !is_inside(from, bytes) || !is_inside(to, bytes) {
        return refused("a copy of memory that is not there", CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: both were checked.
    unsafe { ptr::copy(from as *const u8, to as *mut u8, bytes) };
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, _stream: CUstream) -> CUresult {
    // SAFETY: as the driver demands.
    let copy = unsafe { &*copy };
    let host = CUmemorytype::CU_MEMORYTYPE_HOST;
    let from = if copy.srcMemoryType == host { copy.srcHost as u64 } else { copy.srcDevice };
    let to = if copy.dstMemoryType == host { copy.dstHost as u64 } else { copy.dstDevice };
    for row in 0..copy.Height {
        let from = from + ((row + copy.srcY) * copy.srcPitch + copy.srcXInBytes) as u64;
        let to = to + ((row + copy.dstY) * copy.dstPitch + copy.dstXInBytes) as u64;
        let is_there = (copy.srcMemoryType == host || is_inside(from, copy.WidthInBytes))
            && (copy.dstMemoryType == host || is_inside(to, copy.WidthInBytes));
        if !is_there {
            return refused(
                "a copy of rows that are not there",
                CUresult::CUDA_ERROR_INVALID_VALUE,
            );
        }
        // SAFETY: memory of the device was checked; the caller answers for memory of the host.
        unsafe { ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, copy.WidthInBytes) };
    }
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> CUresult {
    // SAFETY: as the driver demands; PTX is a text.
    let text = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy();
    let parsed = match Module::parse(&text) {
        Ok(parsed) => parsed,
        Err(reason) => return refused(&reason, CUresult::CUDA_ERROR_INVALID_PTX),
    };
    let mut globals = HashMap::new();
    for (name, variable) in &parsed.globals {
        let Some(address) = ALLOCATIONS.allocate(variable.bytes.max(1)) else {
            return CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        };
        let mut bytes = variable.initial.clone();
        bytes.resize(variable.bytes, 0);
        // SAFETY: the allocation has as many bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        globals.insert(name.clone(), address);
    }
    let functions = parsed.kernels.iter().map(|kernel| {
        let code = Code::decode(kernel, |name| globals.get(name).copied());
        let function: &'static Function =
            Box::leak(Box::new(Function { code, shared: AtomicUsize::new(0) }));
        (kernel.name.clone(), function)
    });
    let loaded: &'static Loaded = Box::leak(Box::new(Loaded { functions: functions.collect() }));
    // SAFETY: as the driver demands.
    unsafe { module.write(ptr::from_ref(loaded).cast_mut().cast()) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(_module: CUmodule) -> CUresult {
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut CUfunction,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    // SAFETY: `cuModuleLoadData` returned the module, which lives as long as the process; the name is a text.
    let (loaded, name) = unsafe { (&*module.cast::<Loaded>(), CStr::from_ptr(name)) };
    let name = name.to_string_lossy();
    let Some(found) = loaded.functions.get(name.as_ref()) else {
        return CUresult::CUDA_ERROR_NOT_FOUND;
    };
    if let Err(reason) = &found.code {
        return refused(reason, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    }
    // SAFETY: as the driver demands.
    unsafe { function.write(ptr::from_ref::<Function>(found).cast_mut().cast()) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncSetAttribute(
    function: CUfunction,
    attribute: CUfunction_attribute,
    value: c_int,
) -> CUresult {
    // SAFETY: `cuModuleGetFunction` returned the function, which lives as long as the process.
    let function = unsafe { &*function.cast::<Function>() };
    if attribute == CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES {
        let Ok(code) = &function.code else { return CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU };
        if value < 0 || value as usize + code.shared_bytes > shared_at_most(code.capability) {
            return refused(
                &format!("{value} bytes of shared memory"),
                CUresult::CUDA_ERROR_INVALID_VALUE,
            );
        }
        function.shared.store(value as usize, Ordering::Relaxed);
    }
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    _stream: CUstream,
    parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> CUresult {
    if status() != CUresult::CUDA_SUCCESS {
        return status();
    }
    // SAFETY: `cuModuleGetFunction` returned the function, which lives as long as the process.
    let function = unsafe { &*function.cast::<Function>() };
    let Ok(code) = &function.code else { return CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU };
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let threads = block.iter().map(|&count| u64::from(count)).product::<u64>();
    let limit = function
        .shared
        .load(Ordering::Relaxed)
        .max(SHARED_BY_DEFAULT.saturating_sub(code.shared_bytes));
    let wrong = match () {
        () if grid.contains(&0) || threads == 0 => Some("an empty launch".to_owned()),
        () if threads > u64::from(code.threads) => {
            Some(format!("{threads} threads, {} at most", code.threads))
        }
        () if !grid_x.is_multiple_of(code.cluster) => {
            Some(format!("{grid_x} blocks, clusters of {}", code.cluster))
        }
        () if grid_y > 65_535 || grid_z > 65_535 => Some(format!("a grid of {grid:?}")),
        () if shared as usize > limit => {
            Some(format!("{shared} bytes of shared memory, {limit} at most"))
        }
        () => None,
    };
    if let Some(wrong) = wrong {
        return refused(&format!("{}: {wrong}", code.name), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let mut copied = vec![Line::ZERO; code.parameter_bytes.div_ceil(size_of::<Line>()) + 1];
    for (index, &[bytes, offset]) in code.parameters.iter().enumerate() {
        // SAFETY: the caller passes a pointer for each parameter; there is room for all of them.
        unsafe {
            let from = parameters.add(index).read();
            ptr::copy_nonoverlapping(
                from.cast::<u8>(),
                copied.as_mut_ptr().cast::<u8>().add(offset),
                bytes,
            );
        }
    }
    let launch = Launch {
        code,
        grid,
        block,
        dynamic_shared: shared as usize,
        parameters: copied,
        allocations: &ALLOCATIONS,
    };
    match launch.run() {
        Ok(()) => CUresult::CUDA_SUCCESS,
        Err(reason) => {
            let failed = CUresult::CUDA_ERROR_LAUNCH_FAILED;
            let _ = FAILED.set(failed);
            refused(&reason, failed)
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut CUtensorMap,
    kind: CUtensorMapDataType,
    rank: c_uint,
    address: *mut c_void,
    sizes: *const u64,
    strides: *const u64,
    tile: *const u32,
    steps: *const u32,
    interleave: CUtensorMapInterleave,
    swizzle: CUtensorMapSwizzle,
    _promotion: CUtensorMapL2promotion,
    fill: CUtensorMapFloatOOBfill,
) -> CUresult {
    use CUtensorMapDataType as T;
    let bytes = match kind {
        T::CU_TENSOR_MAP_DATA_TYPE_UINT8 => 1,
        T::CU_TENSOR_MAP_DATA_TYPE_UINT16
        | T::CU_TENSOR_MAP_DATA_TYPE_FLOAT16
        | T::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 => 2,
        T::CU_TENSOR_MAP_DATA_TYPE_UINT32
        | T::CU_TENSOR_MAP_DATA_TYPE_INT32
        | T::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
        | T::CU_TENSOR_MAP_DATA_TYPE_FLOAT32 => 4,
        T::CU_TENSOR_MAP_DATA_TYPE_UINT64
        | T::CU_TENSOR_MAP_DATA_TYPE_INT64
        | T::CU_TENSOR_MAP_DATA_TYPE_FLOAT64 => 8,
        _ => return refused(&format!("maps of {kind:?}"), CUresult::CUDA_ERROR_INVALID_VALUE),
    };
    let swizzle = match swizzle {
        CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE => 0,
        CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B => 32,
        CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B => 64,
        CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B => 128,
        _ => return refused(&format!("{swizzle:?}"), CUresult::CUDA_ERROR_INVALID_VALUE),
    };
    let axes = rank as usize;
    let is_plain = interleave == CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE
        && fill == CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    if !is_plain || axes > MOST_AXES {
        return refused(
            "maps that interleave, fill with NaN, or have more axes",
            CUresult::CUDA_ERROR_INVALID_VALUE,
        );
    }
    // SAFETY: as the driver demands: as many numbers as there are axes, and one stride fewer.
    let at = |numbers: *const u64, axis: usize| unsafe { numbers.add(axis).read() };
    // SAFETY: see above.
    let small = |numbers: *const u32, axis: usize| unsafe { numbers.add(axis).read() };
    if (0..axes).any(|axis| small(steps, axis) != 1) {
        return refused("maps with steps", CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let encoded = TensorMap {
        address: address as u64,
        bytes,
        axes,
        swizzle,
        sizes: std::array::from_fn(|axis| if axis < axes { at(sizes, axis) } else { 0 }),
        strides: std::array::from_fn(|axis| match axis {
            0 => bytes as u64,
            _ if axis < axes => at(strides, axis - 1),
            _ => 0,
        }),
        tile: std::array::from_fn(|axis| if axis < axes { small(tile, axis) } else { 0 }),
    };
    if let Err(reason) = encoded.check() {
        return refused(&format!("a map: {reason}"), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: a map has 128 bytes.
    unsafe { map.cast::<[u64; 16]>().write_unaligned(encoded.encoded()) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: CUresult, text: *mut *const c_char) -> CUresult {
    let name: &'static CStr = match error {
        CUresult::CUDA_SUCCESS => c"CUDA_SUCCESS",
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        CUresult::CUDA_ERROR_INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        CUresult::CUDA_ERROR_LAUNCH_FAILED => c"CUDA_ERROR_LAUNCH_FAILED",
        _ => c"another error of CUDA in software",
    };
    // SAFETY: as the driver demands.
    unsafe { text.write(name.as_ptr()) };
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult {
    // SAFETY: as the driver demands.
    unsafe { cuGetErrorName(error, text) }
}
