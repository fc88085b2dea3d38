//! Where compiled and tuned kernels are kept between runs.
//!
//! A card's kernels are compiled, and the fastest of several tuned, when they are first used, which
//! takes minutes. Both results are files under `FOLDER/DEVICE/BUILD/`:
//!
//! - `DEVICE` is the card and, for CUDA, its compute capability: the backend's own keys name neither,
//!   and code for one card need not run on another.
//! - `BUILD` is this program's file: the keys name a kernel but not its code, so a kernel that was
//!   changed would be found as it was before.
//!
//! Beside them lies an empty file for each model and type that a run has been through with: without
//! it, a run has kernels to compile that no other model needed.
//!
//! Nothing else is ever written to: left alone, the backend would look for a `target` folder of
//! Cargo above the current directory, and for settings in files there.

use std::path::{Path, PathBuf};

use burn::tensor::DType;

use super::{Device, dtype};
use crate::Notice;

/// What became of the cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kernels {
    /// Where kernels are kept; `None` = nowhere: the device has none, or nothing can be written.
    pub folder: Option<PathBuf>,
    /// Whether nothing was kept there before; not so on a processor, which compiles nothing.
    pub is_first: bool,
    /// Why nothing is kept.
    pub notice: Option<Notice>,
}

impl Kernels {
    /// Whether a run of `model` in `dtype` compiles kernels: none has been through yet, or they are
    /// not kept.
    pub fn lacks(&self, model: &str, dtype: DType) -> bool {
        match &self.folder {
            Some(folder) => !folder.join(marker(model, dtype)).exists(),
            None => self.is_first,
        }
    }

    /// Remembers that a run of `model` in `dtype` has been through.
    pub fn remember(&self, model: &str, dtype: DType) {
        if let Some(folder) = &self.folder {
            // Where it cannot be written, the next run says once more that it may take minutes.
            let _ = std::fs::write(folder.join(marker(model, dtype)), "");
        }
    }
}

/// The name of the file that says so.
fn marker(model: &str, dtype: DType) -> String {
    slug(&format!("ran {} {model}", dtype::name(dtype)))
}

/// Builds whose kernels are kept, of each device: more are left from earlier versions.
const BUILDS: usize = 3;

/// Tells the backend to keep the kernels of `device` under `root`. To be called before the device is
/// used; later calls in one process change nothing, as the backend reads its settings once.
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

/// The folder of this build's kernels in `device`, made if need be.
fn prepare(device: &Path) -> Kernels {
    let folder = device.join(build());
    let is_first = size(&folder) == 0;
    // A file, not only the folder: it may belong to someone else.
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

/// Bytes of all files below `folder`.
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

/// Removes what the oldest builds left, beyond the newest [`BUILDS`].
fn forget_old(device: &Path, mine: &Path) {
    let Ok(entries) = std::fs::read_dir(device) else { return };
    let mut builds: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path() != mine)
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    builds.sort();
    for (_, path) in builds.iter().rev().skip(BUILDS - 1) {
        // What cannot be removed only takes space.
        let _ = std::fs::remove_dir_all(path);
    }
}

/// A name for this program's file: its version, size and time.
fn build() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let this = std::env::current_exe().and_then(std::fs::metadata).ok();
    let time = this
        .as_ref()
        .and_then(|data| data.modified().ok())
        .and_then(|time| Some(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis()));
    format!("{version}-{:x}-{:x}", this.map_or(0, |data| data.len()), time.unwrap_or(0))
}

/// What tells the device's kernels from others'; `None` for the processor, which has none.
fn device_name(device: Device) -> Option<String> {
    let text = match device {
        Device::Cpu => return None,
        Device::Cuda(index) => {
            let card = super::listing::cuda()?.cards.get(index)?.clone();
            format!("cuda {} sm {} {}", card.name, card.capability.0, card.capability.1)
        }
        Device::Wgpu(index) => {
            let adapter = super::listing::wgpu()?.get(index)?.clone();
            format!("{} {} {}", adapter.api, adapter.name, adapter.driver)
        }
    };
    Some(slug(&text))
}

/// `text` as the name of a folder: small letters, digits and dashes.
fn slug(text: &str) -> String {
    const MOST: usize = 80;
    let lower = text.to_lowercase();
    let words: Vec<_> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join("-").chars().take(MOST).collect()
}

/// Whether the device is a program that acts as a card.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn is_software(device: Device) -> bool {
    let Device::Wgpu(index) = device else { return false };
    let kind = super::listing::wgpu().and_then(|adapters| Some(adapters.get(index)?.kind));
    kind == Some(super::listing::AdapterKind::Software)
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
        // There, variants take longer to compile than a song to make: none is timed.
        config.autotune.level = AutotuneLevel::Minimal;
    }
    // Tuning results cannot be kept nowhere; below a file no folder can be made, which the backend
    // takes for a disk it may not write to, and goes on.
    let nowhere = || std::env::current_exe().unwrap_or_default().join("kernels");
    config.autotune.cache = CacheConfig::File(folder.map_or_else(nowhere, Path::to_owned));
    config.compilation.cache = folder.map(|folder| CacheConfig::File(folder.to_owned()));
    // Setting it twice would be a panic.
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
        assert_eq!(slug("../../A card (R) / 1.0"), "a-card-r-1-0");
    }

    #[test]
    fn the_processor_keeps_no_kernels() {
        assert_eq!(keep(Some(Path::new("x")), Device::Cpu), Kernels::default());
    }

    #[test]
    fn a_folder_is_new_until_something_is_in_it() {
        let root = tempfile::tempdir().expect("a folder");
        let device = root.path().join("card");
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
        let kept = prepare(&root.path().join("card"));
        let folder = kept.folder.clone().expect("it can be written");
        // Kernels of something else.
        std::fs::write(folder.join("kernel"), [1; 10]).expect("a file");
        assert!(kept.lacks("turbo", DType::BF16));
        kept.remember("turbo", DType::BF16);
        assert!(!kept.lacks("turbo", DType::BF16));
        assert!(kept.lacks("turbo", DType::F32) && kept.lacks("base", DType::BF16));
        // The next run finds it, and it is no kernel.
        let next = prepare(&root.path().join("card"));
        assert!(!next.lacks("turbo", DType::BF16));
        assert_eq!(size(&folder), 10);
        // What is not kept is compiled each time; a processor compiles nothing.
        let nowhere = Kernels { is_first: true, ..Kernels::default() };
        nowhere.remember("turbo", DType::BF16);
        assert!(nowhere.lacks("turbo", DType::BF16));
        assert!(!Kernels::default().lacks("turbo", DType::F32));
    }

    #[test]
    fn old_builds_are_forgotten() {
        let root = tempfile::tempdir().expect("a folder");
        let device = root.path().join("card");
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
        let kept = prepare(&file.join("card"));
        assert_eq!(kept.folder, None);
        let notice = kept.notice.expect("a notice").0;
        assert!(notice.starts_with("compiled kernels are not kept: cannot write to"), "{notice}");
    }
}
