//! Machine and time of the measurement.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use acestep_engine::{
    Device,
    device::listing::{GpuAdapter, Listing},
};
use serde::{Deserialize, Serialize};
use sysinfo::System;

/// The machine of the measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) device: String,
    /// Name of the GPU, or of the CPU if that computes.
    pub(crate) name: Option<String>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) driver: Option<String>,
    /// Burn's name of the backend.
    pub(crate) backend: Option<String>,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) main_memory_bytes: u64,
}

impl Machine {
    /// True if the CPU computes.
    pub(crate) fn is_processor(&self) -> bool {
        self.device == Device::Cpu.to_string()
    }
}

/// Describes the machine and its device, as far as the system reports them.
pub(crate) fn describe(device: Device) -> Machine {
    let mut system = System::new();
    system.refresh_memory();
    system.refresh_cpu_all();
    let brand = system.cpus().first().map_or("", |cpu| cpu.brand()).trim();
    let processor = match generation_of_intel() {
        Some(generation) => intel(brand, generation),
        None => with_generation(brand, generation()),
    };
    Machine {
        device: device.to_string(),
        cores: system.cpus().len(),
        main_memory_bytes: system.total_memory(),
        ..card(device, &Listing::of(device), processor)
    }
}

/// Returns a CPU's name with its generation: vendors of virtual machines hide it in the name.
fn with_generation(brand: &str, generation: Option<&str>) -> String {
    match generation.filter(|_| brand.contains("AMD")) {
        Some(generation) => format!("{brand}, {generation}"),
        None => brand.to_owned(),
    }
}

/// Returns the generation of a CPU of AMD, from instructions that it was the first to have.
fn generation() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vp2intersect") {
        return Some("Zen 5");
    } else if is_x86_feature_detected!("avx512bf16") {
        return Some("Zen 4");
    } else if is_x86_feature_detected!("vaes") && !is_x86_feature_detected!("avx512f") {
        return Some("Zen 3");
    }
    None
}

/// Returns the generation of a server CPU of Intel, as Linux numbers it.
fn generation_of_intel() -> Option<&'static str> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let value = |key: &str| {
        let values = text.lines().filter_map(|line| line.split_once(':'));
        values.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).next()
    };
    if (value("vendor_id"), value("cpu family")) != (Some("GenuineIntel"), Some("6")) {
        return None;
    }
    match value("model")? {
        "106" => Some("Ice Lake"),
        "143" => Some("Sapphire Rapids"),
        "207" => Some("Emerald Rapids"),
        "173" => Some("Granite Rapids"),
        _ => None,
    }
}

/// Returns the short name of a CPU of Intel with its generation.
fn intel(brand: &str, generation: &str) -> String {
    let brand = brand.replace("(R)", "").replace(" Processor", "");
    format!("{brand}, {generation}")
}

/// Returns the processor, and the data of a device in `listing`. Neither Vulkan nor Metal reports its memory here.
fn card(device: Device, listing: &Listing, processor: String) -> Machine {
    let mut machine = Machine { processor, ..Machine::default() };
    match device {
        Device::Cpu => machine.name = Some(machine.processor.clone()),
        Device::Cuda(index) => {
            let found = listing.cuda.as_ref().and_then(|cuda| cuda.gpus.get(index));
            machine.name = found.map(|card| card.name.clone());
            machine.memory_bytes = found.map(|card| card.total_bytes);
            machine.driver = listing.cuda.as_ref().and_then(|cuda| cuda.driver.clone());
        }
        Device::Wgpu(index) => {
            let found = listing.wgpu.as_ref().and_then(|adapters| adapters.get(index));
            let name = |adapter: &GpuAdapter| format!("{} ({})", adapter.name, adapter.kind);
            machine.name = found.map(name);
            machine.driver = found.map(|adapter| format!("{}, {}", adapter.api, adapter.driver));
        }
    }
    machine
}

/// Returns the current time as `2026-11-21 12:00 UTC`.
pub(crate) fn now() -> String {
    date(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Converts a time since 1970 to a date of the Gregorian calendar.
///
/// Source: Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
fn date(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    // Years begin in March, so that the leap day is the last day of a year.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year_of_era + next_year;
    let minutes = seconds % 86_400 / 60;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use acestep_engine::device::listing;

    use super::*;

    /// Expected values are from `date -u +%s -d ..`.
    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00 UTC"),
            (1_795_262_400, "2026-11-21 12:00 UTC"),
            (1_798_761_599, "2026-12-31 23:59 UTC"),
        ] {
            assert_eq!(date(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_card_is_the_one_of_its_number() {
        let of = |name: &str| listing::Gpu {
            name: name.into(),
            capability: (9, 0),
            total_bytes: 143_771 << 20,
            free_bytes: 0,
            problem: None,
        };
        let cuda = listing::Cuda {
            driver: Some("570.86".into()),
            gpus: vec![of("NVIDIA T4"), of("NVIDIA H200")],
            ..listing::Cuda::default()
        };
        let listing = Listing { cuda: Some(cuda), ..Listing::default() };
        let found = |device| card(device, &listing, String::new());
        let expected = Machine {
            name: Some("NVIDIA H200".into()),
            memory_bytes: Some(143_771 << 20),
            driver: Some("570.86".into()),
            ..Machine::default()
        };
        assert_eq!(found(Device::Cuda(1)), expected);
        assert_eq!(found(Device::Wgpu(0)), Machine::default());
    }

    #[test]
    fn the_processor_and_its_memory_are_known() {
        let machine = describe(Device::Cpu);
        assert_eq!(machine.device, "cpu");
        assert!(machine.cores > 0 && machine.main_memory_bytes > 1 << 28, "{machine:?}");
    }

    #[test]
    fn a_cpu_of_amd_is_named_with_its_generation() {
        assert_eq!(with_generation("AMD EPYC", Some("Zen 5")), "AMD EPYC, Zen 5");
        assert_eq!(with_generation("AMD EPYC", None), "AMD EPYC");
        assert_eq!(with_generation("Intel(R) Xeon(R)", Some("Zen 4")), "Intel(R) Xeon(R)");
    }

    #[test]
    fn a_cpu_of_intel_has_a_short_name() {
        let name = intel("Intel(R) Xeon(R) Processor", "Emerald Rapids");
        assert_eq!(name, "Intel Xeon, Emerald Rapids");
    }
}
