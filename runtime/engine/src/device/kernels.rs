//! Cache of compiled and tuned kernels between runs.
//!
//! A GPU's kernels are compiled and tuned at first use, which takes minutes. Both results are
//! stored under `FOLDER/DEVICE/BUILD/`:
//!
//! - `DEVICE` is the GPU and, for CUDA, its compute capability. The backend's keys contain neither,
//!   and code for one GPU may not run on another.
//! - `BUILD` identifies the program file. The keys contain a kernel's name but not its code, so a
//!   changed kernel would be found in its old version.
//!
//! An empty marker file beside them records each model and type that completed a run. Without it, a
//! run may still have kernels to compile that no other model needed.
//!
//! Nothing else is written: by default the backend would look for a `target` folder of Cargo
//! above the current directory, and for settings files there.

use std::path::{Path, PathBuf};

use burn::tensor::DType;

use super::{Device, dtype};
use crate::Notice;

/// State of the cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kernels {
    /// The cache folder; `None` if the device has no kernels, or nothing can be written.
    pub folder: Option<PathBuf>,
    /// True if the cache was empty; false for a CPU, which compiles nothing.
    pub is_first: bool,
    /// The reason if there is no cache.
    pub notice: Option<Notice>,
}

impl Kernels {
    /// True if a run of `model` in `dtype` compiles kernels: no run has completed yet, or there is
    /// no cache.
    pub fn lacks(&self, model: &str, dtype: DType) -> bool {
        match &self.folder {
            Some(folder) => !folder.join(marker(model, dtype)).exists(),
            None => self.is_first,
        }
    }

    /// Records that a run of `model` in `dtype` has completed.
    pub fn remember(&self, model: &str, dtype: DType) {
        if let Some(folder) = &self.folder {
            // If this fails, the next run only repeats the notice that it may take minutes.
            let _ = std::fs::write(folder.join(marker(model, dtype)), "");
        }
    }
}

fn marker(model: &str, dtype: DType) -> String {
    slug(&format!("ran {} {model}", dtype::name(dtype)))
}

/// Number of builds per device whose kernels are kept, for example of earlier versions.
const BUILDS: usize = 3;

/// Makes the backend cache the kernels of `device` under `root`. Call it before the device is used;
/// later calls in one process have no effect, because the backend reads its settings once.
pub fn keep(root: Option<&Path>, device: Device) -> Kernels {
    let Some(name) = device_name(device) else { return Kernels::default() };
    let kept = match root {
        None => Kernels {
            is_first: true,
            notice: Some(Notice(
                "compiled kernels are not kept: there is no home to keep them in".into(),
            )),
            ..Kernels::default()
        },
        Some(root) => prepare(&root.join(name)),
    };
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    configure(kept.folder.as_deref(), is_software(device));
    kept
}

/// Creates the folder of this build's kernels in `device`.
fn prepare(device: &Path) -> Kernels {
    let folder = device.join(build());
    let is_first = size(&folder) == 0;
    // Tries to create a file, because the folder may belong to another user.
    let made =
        std::fs::create_dir_all(&folder).and_then(|()| tempfile::tempfile_in(&folder).map(drop));
    match made {
        Ok(()) => {
            forget_old(device, &folder);
            Kernels { folder: Some(folder), is_first, notice: None }
        }
        Err(error) => {
            let path = folder.display();
            let text = format!("compiled kernels are not kept: cannot write to `{path}`: {error}");
            Kernels { folder: None, is_first: true, notice: Some(Notice(text)) }
        }
    }
}

/// Returns the bytes of all files below `folder`.
pub fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => size(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Removes the kernels of all but the newest [`BUILDS`] builds.
fn forget_old(device: &Path, mine: &Path) {
    let Ok(entries) = std::fs::read_dir(device) else { return };
    let mut builds: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path() != mine)
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    builds.sort();
    for (_, path) in builds.iter().rev().skip(BUILDS - 1) {
        // Folders that cannot be removed only take space.
        let _ = std::fs::remove_dir_all(path);
    }
}

/// Returns an identifier of this program file: version, size and time.
fn build() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let this = std::env::current_exe().and_then(std::fs::metadata).ok();
    let time = this
        .as_ref()
        .and_then(|data| data.modified().ok())
        .and_then(|time| Some(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis()));
    format!("{version}-{:x}-{:x}", this.map_or(0, |data| data.len()), time.unwrap_or(0))
}

/// Returns an identifier of the device; `None` for the CPU, which has no kernels.
fn device_name(device: Device) -> Option<String> {
    let text = match device {
        Device::Cpu => return None,
        Device::Cuda(index) => {
            let gpu = super::listing::cuda()?.gpus.get(index)?.clone();
            format!("cuda {} sm {} {}", gpu.name, gpu.capability.0, gpu.capability.1)
        }
        Device::Wgpu(index) => {
            let adapter = super::listing::wgpu()?.get(index)?.clone();
            format!("{} {} {}", adapter.api, adapter.name, adapter.driver)
        }
    };
    Some(slug(&text))
}

/// Converts `text` to a folder name: lower-case letters, digits and dashes.
fn slug(text: &str) -> String {
    const MOST: usize = 80;
    let lower = text.to_lowercase();
    let words: Vec<_> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join("-").chars().take(MOST).collect()
}

/// True if the device is a software GPU.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn is_software(device: Device) -> bool {
    let Device::Wgpu(index) = device else { return false };
    let kind = super::listing::wgpu().and_then(|adapters| Some(adapters.get(index)?.kind));
    kind == Some(super::listing::GpuKind::Software)
}

#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn configure(folder: Option<&Path>, is_software: bool) {
    use cubecl_common::config::RuntimeConfig;
    use cubecl_runtime::config::{
        CubeClRuntimeConfig,
        autotune::{AutotuneLevel, AutotuneLogLevel},
        cache::CacheConfig,
    };

    let mut config = CubeClRuntimeConfig::default();
    config.autotune.logger.level = AutotuneLogLevel::Disabled;
    if is_software {
        // On software GPUs, compiling variants takes longer than a song, so none are timed.
        config.autotune.level = AutotuneLevel::Minimal;
    }
    // Tuning results always need a path. A folder below a file cannot be created, which the backend
    // treats like a read-only disk.
    let nowhere = || std::env::current_exe().unwrap_or_default().join("kernels");
    config.autotune.cache = CacheConfig::File(folder.map_or_else(nowhere, Path::to_owned));
    config.compilation.cache = folder.map(|folder| CacheConfig::File(folder.to_owned()));
    // Setting it twice would panic.
    let is_set = CubeClRuntimeConfig::storage().lock().is_some();
    if !is_set {
        CubeClRuntimeConfig::set(config.override_from_env());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_folder_of_plain_letters() {
        assert_eq!(slug("cuda NVIDIA H100 80GB HBM3 sm 9 0"), "cuda-nvidia-h100-80gb-hbm3-sm-9-0");
        assert_eq!(slug("../../A gpu (R) / 1.0"), "a-gpu-r-1-0");
    }

    #[test]
    fn the_processor_keeps_no_kernels() {
        assert_eq!(keep(Some(Path::new("x")), Device::Cpu), Kernels::default());
    }

    #[test]
    fn a_folder_is_new_until_something_is_in_it() {
        let root = tempfile::tempdir().expect("a folder");
        let device = root.path().join("gpu");
        let first = prepare(&device);
        assert!(first.is_first && first.notice.is_none());
        let folder = first.folder.expect("it can be written");
        assert!(prepare(&device).is_first, "an empty folder");
        std::fs::write(folder.join("kernel"), [1; 10]).expect("a file");
        let second = prepare(&device);
        assert_eq!((second.is_first, size(&device)), (false, 10));
    }

    #[test]
    fn each_model_and_type_is_new_until_a_run_has_been_through_with_it() {
        let root = tempfile::tempdir().expect("a folder");
        let kept = prepare(&root.path().join("gpu"));
        let folder = kept.folder.clone().expect("it can be written");
        // A kernel of another model.
        std::fs::write(folder.join("kernel"), [1; 10]).expect("a file");
        assert!(kept.lacks("turbo", DType::BF16));
        kept.remember("turbo", DType::BF16);
        assert!(!kept.lacks("turbo", DType::BF16));
        assert!(kept.lacks("turbo", DType::F32) && kept.lacks("base", DType::BF16));
        // The next run finds the marker, which is not counted as a kernel.
        let next = prepare(&root.path().join("gpu"));
        assert!(!next.lacks("turbo", DType::BF16));
        assert_eq!(size(&folder), 10);
        // Without a cache, kernels are compiled on each run; a CPU compiles nothing.
        let nowhere = Kernels { is_first: true, ..Kernels::default() };
        nowhere.remember("turbo", DType::BF16);
        assert!(nowhere.lacks("turbo", DType::BF16));
        assert!(!Kernels::default().lacks("turbo", DType::F32));
    }

    #[test]
    fn old_builds_are_forgotten() {
        let root = tempfile::tempdir().expect("a folder");
        let device = root.path().join("gpu");
        for old in 0..5 {
            let folder = device.join(format!("old-{old}"));
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join("kernel"), "x").expect("a file");
        }
        prepare(&device);
        let left = std::fs::read_dir(&device).expect("a folder").count();
        assert_eq!(left, BUILDS);
    }

    #[test]
    fn what_cannot_be_written_is_said_and_gone_without() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("file");
        std::fs::write(&file, "").expect("a file");
        let kept = prepare(&file.join("gpu"));
        assert_eq!(kept.folder, None);
        let notice = kept.notice.expect("a notice").0;
        assert!(notice.starts_with("compiled kernels are not kept: cannot write to"), "{notice}");
    }
}
