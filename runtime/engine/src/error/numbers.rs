//! Numbers in messages.

use std::time::Duration;

/// Formats a size as `4.80 GB`, with decimal units and three digits.
pub fn size(bytes: u64) -> String {
    if bytes < 1_000 { format!("{bytes} B") } else { short(bytes) + "B" }
}

/// Formats a number with three digits, at least in thousands: `91.0 k`, `2.39 G`.
pub fn short(n: u64) -> String {
    let (unit, name) = match n {
        0..1_000_000 => (1e3, "k"),
        1_000_000..1_000_000_000 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    let value = n as f64 / unit;
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {name}")
}

/// Formats a measured time with at most two decimals: `0.42 s`, `11.3 s`.
pub fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 9.995 { format!("{seconds:.2} s") } else { format!("{seconds:.1} s") }
}

/// Returns a count such as `1 step` or `2 steps`.
pub fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_three_digits() {
        for (n, text) in [
            (35_300, "35.3 k"),
            (363_840, "364 k"),
            (999, "1.00 k"),
            (1_113_408, "1.11 M"),
            (2_394_000_000, "2.39 G"),
            (12_345_000_000, "12.3 G"),
        ] {
            assert_eq!(short(n), text);
        }
        assert_eq!([999, 1_000, 4_800_000_000].map(size), ["999 B", "1.00 kB", "4.80 GB"]);
    }

    #[test]
    fn one_step_is_no_steps() {
        assert_eq!([1, 8].map(|n| counted(n, "step")), ["1 step", "8 steps"]);
    }
}
