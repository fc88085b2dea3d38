//! Findings about this machine, as values: what is here, what is missing, what is broken.

use std::{num::NonZero, path::Path};

use acestep_engine::{
    Device,
    device::{
        choice,
        dtype::{self, Supported},
        kernels,
        listing::{Cuda, Gpu, GpuAdapter, GpuKind, Listing},
    },
    error::{counted, size},
    machine::{free_at, main_memory},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Compute capability of the first NVIDIA GPUs with tensor cores (Volta).
const TENSOR_CORES_SINCE: (u32, u32) = (7, 0);

/// Space for a song of ten minutes and its request.
const LEAST_DISK: u64 = 500_000_000;

/// State of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Present and working.
    Ok,
    /// Absent and not required.
    Missing,
    /// Present or requested, but not working.
    Broken,
}

/// Result for one subject.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// The state of the subject.
    pub state: Status,
    /// Kind of the subject: `device`, `song`, `model`, ..
    pub what: &'static str,
    /// Name of the subject.
    pub name: String,
    /// Details about it.
    pub detail: String,
    /// Remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Values for a program to read.
    #[serde(flatten)]
    pub figures: Map<String, Value>,
}

impl Check {
    /// Returns a result without a hint and without figures.
    pub fn new(
        state: Status,
        what: &'static str,
        name: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let (name, detail) = (name.into(), detail.into());
        Self { state, what, name, detail, hint: None, figures: Map::new() }
    }

    /// Sets the remedy.
    #[must_use]
    pub fn hint(self, hint: Option<impl Into<String>>) -> Self {
        Self { hint: hint.map(Into::into), ..self }
    }

    /// Adds the keys of `figures`, an object.
    #[must_use]
    pub fn with(mut self, figures: Value) -> Self {
        if let Value::Object(figures) = figures {
            self.figures.extend(figures);
        }
        self
    }
}

/// Checks every device, and the chosen one if it is not among them. The CPU computes with as many
/// `threads`, or with the default number.
pub fn devices(
    listing: &Listing,
    chosen: Option<Device>,
    threads: Option<NonZero<usize>>,
) -> Vec<Check> {
    let mut checks = Vec::new();
    if listing.cpu {
        checks.push(processor(threads));
    }
    if let Some(found) = &listing.cuda {
        checks.push(cuda(found));
        checks.extend(found.gpus.iter().enumerate().map(|(index, of)| gpu(index, of)));
    }
    if let Some(adapters) = &listing.wgpu {
        if adapters.is_empty() {
            let detail = "no Vulkan or Metal driver shows a GPU";
            checks.push(Check::new(Status::Missing, "device", "wgpu", detail));
        }
        checks.extend(adapters.iter().enumerate().map(|(index, of)| adapter(index, of)));
    }
    if let Some(device) = chosen
        && let Err(error) = choice::check(device, listing)
    {
        let hint = Some("choose one of the devices above, or build with --features cuda or wgpu");
        let check = Check::new(Status::Broken, "device", device.to_string(), error.to_string());
        checks.retain(|other| other.name != check.name || other.state == Status::Ok);
        checks.push(check.hint(hint));
    }
    checks
}

/// Returns the number of threads that compute.
fn count(threads: Option<NonZero<usize>>) -> usize {
    #[cfg(feature = "cpu")]
    return threads.unwrap_or_else(acestep_engine::threads::default_threads).get();
    #[cfg(not(feature = "cpu"))]
    threads.map_or(1, NonZero::get)
}

/// Returns the level of vector instructions in use, then all that the CPU has.
fn levels() -> Vec<&'static str> {
    #[cfg(feature = "cpu")]
    let all = {
        use acestep_model::kernel::{CpuLevel, cpu_level};

        std::iter::once(cpu_level()).chain(CpuLevel::here()).map(CpuLevel::name).collect()
    };
    #[cfg(not(feature = "cpu"))]
    let all = vec![];
    all
}

fn processor(threads: Option<NonZero<usize>>) -> Check {
    let (threads, levels) = (count(threads), levels());
    let level = levels.first().map_or(String::new(), |level| format!(" at level {level}"));
    let machine = main_memory();
    let names: Vec<&str> = Supported::cpu().all.into_iter().map(dtype::name).collect();
    let detail = format!(
        "{}{level}, {}, {} of memory, {} free; {}",
        std::env::consts::ARCH,
        counted(threads, "thread"),
        size(machine.memory),
        size(machine.available),
        names.join(", ")
    );
    Check::new(Status::Ok, "device", "cpu", detail).with(json!({
        "threads": threads,
        "level": levels.first(),
        "levels": levels.get(1..),
        "total_bytes": machine.memory,
        "free_bytes": machine.available,
        "dtypes": names,
    }))
}

/// Checks the CUDA driver and the libraries that compile kernels.
fn cuda(found: &Cuda) -> Check {
    let driver = found.driver.as_ref().map(|version| format!("driver {version}"));
    let nvrtc = Some("NVRTC".to_owned()).filter(|_| found.has_nvrtc);
    let headers = found.headers.as_ref().map(|path| format!("headers in {}", path.display()));
    let has: Vec<_> = [driver, nvrtc, headers].into_iter().flatten().collect();
    let figures = json!({
        "driver": found.driver,
        "nvrtc": found.has_nvrtc,
        "headers": found.headers,
    });
    let check = match found.missing() {
        None => Check::new(Status::Ok, "cuda", "libraries", has.join(", ")),
        // Without a GPU the libraries are not needed.
        Some(why) if found.gpus.is_empty() && !found.driver_fails => {
            Check::new(Status::Missing, "cuda", "libraries", why)
        }
        Some(why) => Check::new(Status::Broken, "cuda", "libraries", why),
    };
    check.with(figures)
}

fn gpu(index: usize, gpu: &Gpu) -> Check {
    let name = Device::Cuda(index).to_string();
    if let Some(problem) = &gpu.problem {
        let detail = format!("{}: {problem}", gpu.name);
        return Check::new(Status::Broken, "device", name, detail);
    }
    let (major, minor) = gpu.capability;
    let types: Vec<_> = Supported::cuda(gpu.capability).all.into_iter().map(dtype::name).collect();
    let has_tensor_cores = gpu.capability >= TENSOR_CORES_SINCE;
    let detail = format!(
        "{}, capability {major}.{minor}, {} of memory, {} free; {}{}",
        gpu.name,
        size(gpu.total_bytes),
        size(gpu.free_bytes),
        types.join(", "),
        if has_tensor_cores { ", tensor cores" } else { "" }
    );
    Check::new(Status::Ok, "device", name, detail).with(json!({
        "card": gpu.name,
        "capability": format!("{major}.{minor}"),
        "total_bytes": gpu.total_bytes,
        "free_bytes": gpu.free_bytes,
        "dtypes": types,
        "matrix_units": has_tensor_cores,
    }))
}

fn adapter(index: usize, adapter: &GpuAdapter) -> Check {
    let name = Device::Wgpu(index).to_string();
    let types: Vec<_> = Supported::wgpu(adapter).all.into_iter().map(dtype::name).collect();
    let memory = match (adapter.total_bytes, adapter.free_bytes) {
        (Some(total), Some(free)) => format!(", {} of memory, {} free", size(total), size(free)),
        (Some(total), None) => format!(", {} of memory", size(total)),
        (None, _) => String::new(),
    };
    let detail = format!(
        "{}, {}, {} by {}{memory}; {}{}, tensors to {}",
        adapter.name,
        adapter.kind,
        adapter.api,
        adapter.driver,
        types.join(", "),
        if adapter.has_matrix_units { ", matrix units" } else { "" },
        size(adapter.largest_bytes)
    );
    Check::new(Status::Ok, "device", name, detail).with(json!({
        "card": adapter.name,
        "is_software": adapter.kind == GpuKind::Software,
        "api": adapter.api,
        "driver": adapter.driver,
        "total_bytes": adapter.total_bytes,
        "free_bytes": adapter.free_bytes,
        "largest_tensor_bytes": adapter.largest_bytes,
        "dtypes": types,
        "matrix_units": adapter.has_matrix_units,
    }))
}

/// Checks the space at the working directory, where songs are written by default.
pub fn working_directory() -> Check {
    let here = std::env::current_dir().unwrap_or_default();
    let free = free_at(&here);
    let state =
        if free.is_some_and(|free| free < LEAST_DISK) { Status::Broken } else { Status::Ok };
    let shown = free.map_or("unknown".to_owned(), size);
    let detail = format!("{shown} free where songs are written ({})", here.display());
    Check::new(state, "disk", "here", detail)
        .hint((state == Status::Broken).then_some("free some space, or write songs elsewhere"))
        .with(json!({ "path": here, "free_bytes": free }))
}

/// Checks the folder of compiled kernels; `None` if there is no home for it.
pub fn kept_kernels(folder: Option<&Path>) -> Check {
    let Some(folder) = folder else {
        let detail = "there is no home to keep compiled kernels in";
        return Check::new(Status::Missing, "kernels", "kept", detail)
            .hint(Some("set ACESTEP_CACHE_DIR to a folder"));
    };
    let (bytes, free) = (kernels::size(folder), free_at(folder));
    let room = free.map_or(String::new(), |free| format!(", {} free", size(free)));
    let detail = format!("{} in {}{room}", size(bytes), folder.display());
    let state = if bytes == 0 { Status::Missing } else { Status::Ok };
    Check::new(state, "kernels", "kept", detail)
        .hint((bytes == 0).then_some("compiled GPU kernels are kept there"))
        .with(json!({ "path": folder, "bytes": bytes, "free_bytes": free }))
}
