//! The results as text for a terminal.

use super::results::BenchRun;
use crate::{markdown::operations, measure::ceilings::Peaks};

/// Returns two lines per stage, below the ceilings of the machine.
pub fn text(results: &BenchRun) -> String {
    let BenchRun { machine, dtype, threads, level, ceilings, .. } = results;
    let level = if level.is_empty() { String::new() } else { format!(", {level}") };
    let load = results.load_1m.map_or(String::new(), |load| format!(", load average {load:.2}"));
    let mut lines = vec![
        format!("{}{level}, {dtype}, {threads} threads{load}", machine.device),
        format!("at most {}", limits(ceilings).join(", ")),
        format!(
            "{:<14}{:<36}{:>12}{:>11}{:>12}{:>12}{:>10}  {}",
            "stage", "one run", "wall", "CPU", "median", "floor", "of it", "binds"
        ),
    ];
    lines.extend(results.stages.iter().map(|m| {
        let peak = m.peak_bytes.map_or(String::new(), |b| format!(", {:.2} GB", b as f64 / 1e9));
        let first = format!(
            "{:<14}{:<36}{:>12}{:>11}{:>12}{:>12}{:>10}  {}",
            m.stage.name,
            m.unit,
            format!("{:.4} s", m.time.wall_s),
            format!("{:.3} s", m.time.cpu_s),
            format!("{:.4} s", m.time.median_s),
            m.floored(|| format!("{:.4} s", m.floor_s)),
            m.floored(|| format!("{:.0} %", m.share_of_floor * 100.0)),
            m.floored(|| m.binds.name().to_owned()),
        );
        let (gflop, gb) = (m.flop_per_s / 1e9, m.weight_bytes_per_s / 1e9);
        let rate = format!("{:.3} {}", m.rate.value, m.rate.unit);
        format!("{first}\n{:<14}{rate}, {gflop:.1} GFLOP/s, {gb:.1} GB/s{peak}", "")
    }));
    lines.join("\n") + "\n"
}

/// Returns the ceilings as texts such as `f32 FMA 511 GFLOP/s`.
pub(crate) fn limits(peaks: &Peaks) -> Vec<String> {
    let product = operations(peaks.product_flop_per_s, "FLOP/s");
    let mut limits = Vec::new();
    if let Some(registers) = peaks.registers {
        limits.push(format!("f32 FMA {}", operations(registers.f32_flop_per_s, "FLOP/s")));
        let narrow = [
            ("bf16 dot", registers.bf16_flop_per_s, "FLOP/s"),
            ("int8 dot", registers.int8_op_per_s, "OP/s"),
        ];
        let narrow = narrow
            .into_iter()
            .filter_map(|(name, rate, unit)| Some(format!("{name} {}", operations(rate?, unit))));
        limits.extend(narrow);
    }
    limits.push(format!("memory {:.1} GB/s", peaks.used.bytes_per_s / 1e9));
    limits.push(format!("large product {product}"));
    limits
}
