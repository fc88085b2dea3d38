//! Kinds of GPU failures, recognised in the message of the backend.
//!
//! The backends (CUDA's driver, wgpu, Vulkan, CubeCL) give messages but no kinds.

/// Kind of a GPU failure; it decides the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuFault {
    /// The memory is full.
    Memory,
    /// A kernel could not be compiled or started.
    Kernel,
    /// The driver gave up the device; nothing runs on it until the program is restarted.
    Lost,
    /// The message is unknown.
    Unknown,
}

const MEMORY: [&str; 9] = [
    "out of memory",
    "out-of-memory",
    "out_of_memory",
    "outofmemory",
    "enough memory",
    "no memory",
    "allocat",
    "buffertoobig",
    "maximum buffer size",
];

const LOST: [&str; 9] = [
    "device lost",
    "device is lost",
    "devicelost",
    "device_lost",
    "illegal_address",
    "illegal address",
    "launch_timeout",
    "launch_failed",
    "ecc_uncorrectable",
];

const KERNEL: [&str; 9] = [
    "pipeline",
    "shader",
    "compilation",
    "compile",
    "nvrtc",
    "invalid_ptx",
    "no_binary_for_gpu",
    "during launch",
    "invalid_image",
];

impl GpuFault {
    /// Returns the kind of the failure with the backend's message `why`.
    pub fn of(why: &str) -> Self {
        let why = why.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|&word| why.contains(word));
        if says(&MEMORY) {
            Self::Memory
        } else if says(&LOST) {
            Self::Lost
        } else if says(&KERNEL) {
            Self::Kernel
        } else {
            Self::Unknown
        }
    }

    /// True if the same work may succeed in smaller tiles.
    pub(crate) fn may_need_less(self) -> bool {
        matches!(self, Self::Memory | Self::Unknown)
    }

    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::Memory => {
                "its memory is full: close other programs that use it, pass `dtype: bf16` or `dtype: f16` \
                 for half the weights, make a shorter song (`duration`) or fewer at once (`batch_size`), \
                 decode less at once (`vae_chunk: 128`), or choose a smaller model"
            }
            Self::Kernel => {
                "its driver does not take a kernel of this program, which no setting mends: pass \
                 `device: cpu`, or update the driver; please report it"
            }
            Self::Lost => {
                "its driver gave it up, and the system's log says why: run it again, make less at once \
                 (`duration`, `batch_size`, `vae_chunk: 128`), or pass `device: cpu`"
            }
            Self::Unknown => {
                "RUST_BACKTRACE=1 shows where it failed; run it again, make less at once (`duration`, \
                 `batch_size`, `vae_chunk: 128`), or pass `device: cpu`"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of wgpu 29, CubeCL 0.10 and CUDA's driver.
    #[test]
    fn the_words_of_a_backend_tell_what_kind_of_failure_it_is() {
        for (why, fault) in [
            ("Out of Memory", GpuFault::Memory),
            ("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")", GpuFault::Memory),
            ("can't allocate buffer of size: 268435456", GpuFault::Memory),
            ("Io(BufferTooBig { size: 268435456, backtrace: <> })", GpuFault::Memory),
            ("An out-of-memory error happened during launch", GpuFault::Memory),
            ("ComputePipeline with 'elemwise_fuse' label is invalid", GpuFault::Kernel),
            ("WGSL compilation failed for kernel `main`: no `f16`", GpuFault::Kernel),
            ("A compilation error happened during launch", GpuFault::Kernel),
            ("Too many resources were requested during launch: 65 units", GpuFault::Kernel),
            ("Parent device is lost", GpuFault::Lost),
            (
                "DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, \"an illegal memory access\")",
                GpuFault::Lost,
            ),
            ("index out of bounds: the len is 3", GpuFault::Unknown),
            ("called `Result::unwrap()` on an `Err` value: CallError", GpuFault::Unknown),
        ] {
            assert_eq!(GpuFault::of(why), fault, "{why}");
        }
    }

    #[test]
    fn only_a_lack_of_memory_is_called_one() {
        for fault in [GpuFault::Kernel, GpuFault::Lost, GpuFault::Unknown] {
            assert!(!fault.hint().contains("memory"), "{fault:?}");
            assert!(fault.hint().contains("`device: cpu`"), "{fault:?}");
        }
        assert!(GpuFault::Memory.hint().starts_with("its memory is full"));
        assert!(GpuFault::Memory.may_need_less() && !GpuFault::Kernel.may_need_less());
    }
}
