//! Memory of this process.

/// Returns the current resident memory, if the system reports it.
pub fn resident() -> Option<u64> {
    status("VmRSS:")
}

/// Returns the peak resident memory since the start or the last reset of `bench`, if reported.
pub fn peak() -> Option<u64> {
    status("VmHWM:")
}

fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
