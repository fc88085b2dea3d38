//! What this process holds of the machine.

/// Memory that it holds now, where the system tells.
pub(crate) fn held() -> Option<u64> {
    status("VmRSS:")
}

/// The most that it has held, since the last reset of `bench` or the start, where the system tells.
pub(crate) fn peak() -> Option<u64> {
    status("VmHWM:")
}

fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
