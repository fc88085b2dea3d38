//! NVIDIA: GPUs that the driver finds, and the tools that compile kernels.

use std::{path::Path, sync::Arc};

use cudarc::driver::{CudaContext, sys::CUresult};

use super::listing::{Cuda, Gpu};

/// Headers that kernels need. From pip, the last one comes in a package of its own, which PyTorch does not need.
const HEADERS: [&str; 3] = ["cuda_fp16.h", "cuda_bf16.h", "crt/host_defines.h"];

/// Queries the driver, if there is one. Each GPU is opened briefly to read its free memory.
pub(super) fn query() -> Cuda {
    let libraries = libraries();
    let mut found = Cuda {
        driver: driver_version(),
        has_nvrtc: libraries.nvrtc,
        headers: cubecl_cuda::install::cuda_path()
            .map(|path| path.join("include"))
            .filter(|include| has_headers(include)),
        ..Cuda::default()
    };
    if !libraries.driver {
        found.problem = Some("no NVIDIA driver is installed (libcuda cannot be loaded)".into());
        return found;
    }
    match cudarc::driver::result::init().and_then(|()| CudaContext::device_count()) {
        Ok(0) => found.problem = Some("the NVIDIA driver finds no GPU".into()),
        Ok(count) => {
            found.gpus = (0..usize::try_from(count).unwrap_or(0)).map(gpu).collect();
        }
        Err(error) => {
            found.driver_fails = error.0 != CUresult::CUDA_ERROR_NO_DEVICE;
            found.problem = Some(format!("the NVIDIA driver finds no GPU it can use: {error}"));
        }
    }
    found
}

fn has_headers(include: &Path) -> bool {
    HEADERS.iter().all(|header| include.join(header).is_file())
}

fn gpu(index: usize) -> Gpu {
    let ask = || {
        let context: Arc<CudaContext> = CudaContext::new(index)?;
        let (major, minor) = context.compute_capability()?;
        let (free, total) = context.mem_get_info()?;
        Ok::<_, cudarc::driver::DriverError>(Gpu {
            name: context.name()?,
            capability: (major.unsigned_abs(), minor.unsigned_abs()),
            total_bytes: total as u64,
            free_bytes: free as u64,
            problem: None,
        })
    };
    ask().unwrap_or_else(|error| Gpu {
        name: format!("NVIDIA GPU {index}"),
        capability: (0, 0),
        total_bytes: 0,
        free_bytes: 0,
        problem: Some(format!("it cannot be opened: {error}")),
    })
}

/// Returns the driver version, e.g. `580.95.05`, if the driver's kernel module reports it.
fn driver_version() -> Option<String> {
    let text = std::fs::read_to_string(Path::new("/proc/driver/nvidia/version")).ok()?;
    let line = text.lines().next()?;
    // NVRM version: NVIDIA UNIX .. Module  580.95.05  Release Build ..
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    line.split_whitespace().find(|word| is_version(word) && word.contains('.')).map(str::to_owned)
}

/// Flags of the CUDA libraries that can be loaded.
struct Libraries {
    driver: bool,
    nvrtc: bool,
}

/// Checks the libraries first, because every other call panics if its library is missing.
#[allow(
    unsafe_code,
    reason = "loading a library runs its initialisers, which only the operator can vouch for; these \
              are the libraries that the backend loads a moment later, and nothing is called in them"
)]
fn libraries() -> Libraries {
    // SAFETY: as above.
    unsafe {
        Libraries {
            driver: cudarc::driver::sys::is_culib_present(),
            nvrtc: cudarc::nvrtc::sys::is_culib_present(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_a_missing_part_are_not_found() {
        let include = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(include.path().join("crt")).expect("a folder");
        for header in HEADERS {
            assert!(!has_headers(include.path()), "{header}");
            std::fs::write(include.path().join(header), "").expect("a file");
        }
        assert!(has_headers(include.path()));
    }
}
