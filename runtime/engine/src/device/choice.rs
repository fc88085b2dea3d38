//! Device selection: rules over a listing, without using any device.

use super::{
    Device, Listing,
    listing::{GpuAdapter, GpuKind},
};
use crate::{Error, Notice};

/// Returns the device for `auto`: the best usable NVIDIA GPU, otherwise a real Vulkan or Metal GPU,
/// otherwise the CPU. Software GPUs are slower than the CPU backend, so they are used only on
/// request.
///
/// # Errors
/// [`Error::NoDevice`] if there is none.
pub fn best(listing: &Listing, notices: &mut Vec<Notice>) -> Result<Device, Error> {
    if let Some(cuda) = &listing.cuda {
        if let Some(gpu) = cuda.best() {
            return Ok(Device::Cuda(gpu));
        }
        // A machine without a GPU needs no notice.
        if let (true, Some(why)) = (cuda.driver_fails, cuda.missing()) {
            notices.push(Notice(format!("NVIDIA GPUs are not used: {why}")));
        } else if let (Some(gpu), why) = (cuda.gpus.first(), cuda.missing()) {
            let why = why.or(gpu.problem.clone()).unwrap_or_default();
            notices.push(Notice(format!("{} is not used: {why}", gpu.name)));
        }
    }
    let adapters = listing.wgpu.as_deref().unwrap_or_default();
    if let Some(index) = adapters.iter().position(|a| a.kind != GpuKind::Software) {
        return Ok(Device::Wgpu(index));
    }
    if listing.cpu {
        return Ok(Device::Cpu);
    }
    let why = format!(
        "this build has only {}, and there is {}",
        super::BUILT_IN.join(", "),
        found(listing)
    );
    Err(Error::NoDevice { device: "auto".into(), why })
}

/// Returns all devices that [`best`] could choose.
pub fn usable(listing: &Listing) -> Vec<Device> {
    let cpu = listing.cpu.then_some(Device::Cpu);
    let gpus = listing.cuda.iter().flat_map(|cuda| 0..cuda.gpus.len()).map(Device::Cuda);
    let gpus = gpus.filter(|&gpu| check(gpu, listing).is_ok());
    let adapters = listing.wgpu.iter().flatten().enumerate();
    let real = adapters.filter(|(_, adapter)| adapter.kind != GpuKind::Software);
    cpu.into_iter().chain(gpus).chain(real.map(|(index, _)| Device::Wgpu(index))).collect()
}

/// Returns an error if a device is missing or not usable.
///
/// # Errors
/// [`Error::NoDevice`] with a list of the available devices.
pub fn check(device: Device, listing: &Listing) -> Result<(), Error> {
    let refuse = |why: String| Err(Error::NoDevice { device: device.to_string(), why });
    match device {
        Device::Cpu if listing.cpu => Ok(()),
        Device::Cpu => Err(not_built_in(device)),
        Device::Cuda(index) => {
            let Some(cuda) = &listing.cuda else { return Err(not_built_in(device)) };
            if let Some(why) = cuda.missing() {
                return refuse(why);
            }
            match cuda.gpus.get(index) {
                None => refuse(format!("there is {}", found(listing))),
                Some(gpu) => gpu.problem.clone().map_or(Ok(()), refuse),
            }
        }
        Device::Wgpu(index) => match listing.wgpu.as_deref() {
            None => Err(not_built_in(device)),
            Some([]) => refuse("no Vulkan or Metal driver shows a GPU".into()),
            Some(adapters) if index >= adapters.len() => {
                refuse(format!("there is {}", found(listing)))
            }
            Some(_) => Ok(()),
        },
    }
}

/// Returns the error for a backend that is not in this build.
pub(super) fn not_built_in(device: Device) -> Error {
    let why = format!("this build has only {}", super::BUILT_IN.join(", "));
    Error::NoDevice { device: device.to_string(), why }
}

/// Lists the available GPUs: `cuda:0 (NVIDIA H100), wgpu:0 (..)`.
fn found(listing: &Listing) -> String {
    let gpus = listing.cuda.iter().flat_map(|cuda| &cuda.gpus).map(|gpu| gpu.name.clone());
    let adapter = |a: &GpuAdapter| format!("{}, {}", a.name, a.kind);
    let gpus = gpus.enumerate().map(|(i, name)| format!("cuda:{i} ({name})"));
    let adapters = listing.wgpu.iter().flatten().map(adapter);
    let adapters = adapters.enumerate().map(|(i, name)| format!("wgpu:{i} ({name})"));
    let all: Vec<_> = gpus.chain(adapters).collect();
    if all.is_empty() { "no GPU".into() } else { format!("only {}", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::listing::{Cuda, Gpu};

    fn gpu(capability: (u32, u32), free: u64) -> Gpu {
        Gpu {
            name: format!("gpu {}.{}", capability.0, capability.1),
            capability,
            total_bytes: 24 << 30,
            free_bytes: free << 30,
            problem: None,
        }
    }

    fn cuda(gpus: Vec<Gpu>) -> Cuda {
        Cuda { gpus, has_nvrtc: true, headers: Some("include".into()), ..Cuda::default() }
    }

    fn adapter(kind: GpuKind) -> GpuAdapter {
        GpuAdapter {
            name: "a gpu".into(),
            kind,
            number: 0,
            api: "Vulkan".into(),
            driver: String::new(),
            total_bytes: None,
            free_bytes: None,
            largest_bytes: 1 << 30,
            has_f16: false,
            has_matrix_units: false,
        }
    }

    fn auto(listing: &Listing) -> (String, Vec<Notice>) {
        let mut notices = Vec::new();
        let device = best(listing, &mut notices);
        (device.map_or_else(|e| e.to_string(), |device| device.to_string()), notices)
    }

    #[test]
    fn auto_takes_a_card_before_the_processor_but_never_software_that_acts_as_one() {
        let mut listing = Listing { cpu: true, ..Listing::default() };
        assert_eq!(auto(&listing).0, "cpu");
        listing.wgpu = Some(vec![adapter(GpuKind::Software)]);
        assert_eq!(auto(&listing).0, "cpu");
        listing.wgpu = Some(vec![adapter(GpuKind::Integrated), adapter(GpuKind::Software)]);
        assert_eq!(auto(&listing).0, "wgpu:0");
        assert_eq!(usable(&listing), [Device::Cpu, Device::Wgpu(0)]);
        listing.cuda = Some(cuda(vec![gpu((8, 6), 20), gpu((9, 0), 10), gpu((9, 0), 12)]));
        assert_eq!(auto(&listing).0, "cuda:2");
        listing.cuda = Some(cuda(vec![gpu((9, 0), 10), gpu((9, 0), 10)]));
        assert_eq!(auto(&listing), ("cuda:0".into(), vec![]));
    }

    #[test]
    fn a_card_that_cannot_be_used_is_passed_over_with_a_word() {
        let mut blocked = cuda(vec![gpu((9, 0), 10)]);
        blocked.headers = None;
        let listing = Listing { cpu: true, cuda: Some(blocked), wgpu: None };
        let (device, notices) = auto(&listing);
        assert_eq!(device, "cpu");
        assert!(notices[0].0.contains("gpu 9.0 is not used: the headers"), "{notices:?}");
        let mut taken = gpu((9, 0), 10);
        taken.problem = Some("it is another's".into());
        let listing =
            Listing { cpu: true, cuda: Some(cuda(vec![taken, gpu((7, 5), 1)])), wgpu: None };
        assert_eq!(auto(&listing), ("cuda:1".into(), vec![]));
        // The driver is installed but fails: it lists no GPU, so the user needs to know the reason.
        let problem = Some("the NVIDIA driver finds no GPU it can use: out of step".to_owned());
        let broken = Cuda { problem, driver_fails: true, ..Cuda::default() };
        let listing = Listing { cpu: true, cuda: Some(broken), wgpu: Some(vec![]) };
        let (device, notices) = auto(&listing);
        assert_eq!((&*device, notices.len()), ("cpu", 1), "{notices:?}");
        assert!(notices[0].0.starts_with("NVIDIA GPUs are not used: the NVIDIA driver finds"));
        assert!(notices[0].0.ends_with("out of step"), "{notices:?}");
        // Neither GPU nor driver: no notice.
        let problem = Some("no NVIDIA driver".to_owned());
        let none = Cuda { problem, ..Cuda::default() };
        let listing = Listing { cpu: true, cuda: Some(none), wgpu: Some(vec![]) };
        assert_eq!(auto(&listing), ("cpu".into(), vec![]));
    }

    #[test]
    fn without_any_device_auto_says_what_was_built_in_and_found() {
        let listing = Listing { wgpu: Some(vec![]), ..Listing::default() };
        let (message, _) = auto(&listing);
        assert!(message.contains("`auto` is not available"), "{message}");
        assert!(message.ends_with("there is no GPU"), "{message}");
    }

    #[test]
    fn a_device_that_is_not_there_is_refused_with_what_is() {
        let listing = Listing {
            cpu: true,
            cuda: Some(cuda(vec![gpu((9, 0), 10)])),
            wgpu: Some(vec![adapter(GpuKind::Discrete)]),
        };
        for device in [Device::Cpu, Device::Cuda(0), Device::Wgpu(0)] {
            assert!(check(device, &listing).is_ok(), "{device}");
        }
        let refused = |device, listing: &Listing| {
            check(device, listing).expect_err("it is not there").to_string()
        };
        let message = refused(Device::Cuda(7), &listing);
        assert!(message.starts_with("device `cuda:7` is not available: there is only cuda:0 (gpu"));
        let message = refused(Device::Wgpu(1), &listing);
        assert!(message.contains("wgpu:0 (a gpu, discrete GPU)"), "{message}");
        let mut blind = listing.clone();
        blind.cuda = Some(Cuda { has_nvrtc: false, ..cuda(vec![gpu((9, 0), 10)]) });
        assert!(refused(Device::Cuda(0), &blind).contains("LD_LIBRARY_PATH"));
        let bare = Listing::default();
        assert!(refused(Device::Cuda(0), &bare).contains("this build has only"));
        let empty = Listing { wgpu: Some(vec![]), ..bare };
        assert!(refused(Device::Wgpu(0), &empty).contains("no Vulkan or Metal driver"));
    }
}
