//! Tables of Markdown, and numbers in them.

/// Returns a table; columns after the first `left` are numbers.
pub(crate) fn table(heads: &[&str], left: usize, rows: Vec<Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let escaped = |cell: String| cell.replace('|', "\\|").replace('\n', " ");
    let mut text = line(heads.iter().map(|head| (*head).to_owned()).collect());
    let rule = |column: usize| if column < left { "---" } else { "---:" };
    text += &line((0..heads.len()).map(|column| rule(column).to_owned()).collect());
    for row in rows {
        text += &line(row.into_iter().map(escaped).collect());
    }
    text + "\n"
}

/// Formats a size such as `137 GB`.
pub(crate) fn gigabytes(bytes: u64) -> String {
    format!("{:.0} GB", bytes as f64 / 1e9)
}

/// Formats a rate such as `935 GFLOP/s` or `79 TFLOP/s`.
pub(crate) fn operations(per_s: f64, unit: &str) -> String {
    let (rate, prefix) = if per_s < 1e13 { (per_s / 1e9, "G") } else { (per_s / 1e12, "T") };
    format!("{rate:.0} {prefix}{unit}")
}

/// Formats a time with three digits: `1.23 s`, `45.6 ms`, `7.89 µs`.
pub(crate) fn seconds(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1.0 => (value, "s"),
        value if value >= 1e-3 => (value * 1e3, "ms"),
        value => (value * 1e6, "µs"),
    };
    let digits = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// Formats the quotient of two times.
pub(crate) fn ratio(own: f64, other: f64) -> String {
    format!("{:.2}", own / other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (value, text) in [
            (12.345, "12.3 s"),
            (1.0, "1.00 s"),
            (0.9999, "1000 ms"),
            (0.0123, "12.3 ms"),
            (0.00999, "9.99 ms"),
            (5.2e-5, "52.0 µs"),
            (123.4, "123 s"),
        ] {
            assert_eq!(seconds(value), text);
        }
    }
}
