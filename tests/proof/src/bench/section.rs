//! One machine's results as a section of a page.

use super::{Measurement, peers::Peer, results::BenchRun};
use crate::{
    families::Preset,
    markdown::{gigabytes, operations, ratio, seconds, table},
    measure::{
        BenchStage,
        ceilings::{Arithmetic, Ceilings, Registers},
    },
};

/// Returns the name of a machine's section; runs with the same name share one.
pub(crate) fn name(run: &BenchRun) -> String {
    let device = run.machine.name.as_ref().unwrap_or(&run.machine.device);
    if run.machine.is_processor() {
        let level = if run.level.is_empty() { String::new() } else { format!(", {}", run.level) };
        format!("{device}, {} threads{level}", run.threads)
    } else {
        device.clone()
    }
}

/// Returns the section in Markdown, without its heading. All `runs` are of one machine.
pub(crate) fn markdown(runs: &[BenchRun], peers: &[Peer]) -> String {
    let limits = Limits::of(runs);
    let mut text = about(runs, &limits);
    if runs.iter().any(BenchRun::was_busy) {
        text += "**The load average before was above 0.5**: other programs, or an earlier run of \
                 this one, may have made times longer.\n\n";
    }
    let mut songs: Vec<(&Preset, f64)> = Vec::new();
    for run in runs {
        if !songs.contains(&(run.preset, run.duration_s)) {
            songs.push((run.preset, run.duration_s));
        }
    }
    for (preset, duration_s) in songs {
        let of_song = |run: &&BenchRun| (run.preset, run.duration_s) == (preset, duration_s);
        let of_song = runs.iter().filter(of_song);
        let rows = of_song.flat_map(|run| {
            let of_stage = |of: &Measurement| of.against(limits.of_stage(run, of.stage));
            run.stages.iter().map(of_stage).map(|of| row(run, &of, peers)).collect::<Vec<_>>()
        });
        let length = if preset.has_length() { format!(", {duration_s} s") } else { String::new() };
        text += &format!("### {}{length}\n\n", preset.name);
        text += &table(&heads(peers), 3, rows.collect());
    }
    for peer in peers {
        text += &format!("{} ran on {} threads. ", peer.name, peer.threads);
    }
    if !peers.is_empty() {
        text += "In brackets: this program's time over the other's; below 1 is faster.\n\n";
    }
    text
}

/// The best ceilings of all runs: other programs can only lower them.
#[derive(Debug, Default)]
struct Limits {
    registers: Option<Registers>,
    bytes_per_s: f64,
    /// Large products, by the type that they were measured in.
    products: Vec<(String, f64)>,
}

impl Limits {
    fn of(runs: &[BenchRun]) -> Self {
        let mut limits = Self::default();
        for run in runs {
            let peaks = run.ceilings;
            limits.bytes_per_s = limits.bytes_per_s.max(peaks.used.bytes_per_s);
            limits.registers = match (limits.registers, peaks.registers) {
                (Some(a), Some(b)) => Some(a.best(b)),
                (a, b) => a.or(b),
            };
            let dtype = if peaks.registers.is_some() { "f32" } else { &run.dtype };
            match limits.products.iter_mut().find(|(own, _)| own == dtype) {
                Some((_, rate)) => *rate = rate.max(peaks.product_flop_per_s),
                None => limits.products.push((dtype.to_owned(), peaks.product_flop_per_s)),
            }
        }
        limits
    }

    /// Returns the ceilings that a stage of a run is compared with.
    fn of_stage(&self, run: &BenchRun, stage: &BenchStage) -> Ceilings {
        let own = run.ceilings.used.flop_per_s;
        let registers = self.registers.and_then(|registers| match run.ceilings.arithmetic {
            Arithmetic::Product => None,
            beside if stage.is_in_f32 => Some(registers.peak_of_f32(beside)),
            Arithmetic::F32 => Some(registers.f32_flop_per_s),
            Arithmetic::Bf16 => registers.bf16_flop_per_s,
            Arithmetic::Int8 => registers.int8_op_per_s,
        });
        let product = self.products.iter().find(|(dtype, _)| *dtype == run.dtype);
        let flop_per_s = match run.ceilings.arithmetic {
            Arithmetic::Product => product.map(|(_, rate)| *rate),
            Arithmetic::F32 | Arithmetic::Bf16 | Arithmetic::Int8 => registers,
        };
        Ceilings { flop_per_s: flop_per_s.unwrap_or(own), bytes_per_s: self.bytes_per_s }
    }
}

fn about(runs: &[BenchRun], limits: &Limits) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    // Values that differ between runs are listed for each run.
    let mut row = |name: &str, values: Vec<String>| {
        let mut values: Vec<String> = values.into_iter().filter(|v| !v.is_empty()).collect();
        values.dedup();
        if !values.is_empty() {
            rows.push(vec![name.to_owned(), values.join(", ")]);
        }
    };
    let each = |value: &dyn Fn(&BenchRun) -> String| runs.iter().map(value).collect::<Vec<_>>();
    row("date", each(&|run| run.date.clone()));
    row("program", each(&|run| format!("acestep {}", run.version)));
    row("device", each(&|run| run.machine.device.clone()));
    row("memory of the GPU", each(&|run| run.machine.memory_bytes.map_or("".into(), gigabytes)));
    row("driver", each(&|run| run.machine.driver.clone().unwrap_or_default()));
    row(
        "processor",
        each(&|run| format!("{} ({} cores)", run.machine.processor, run.machine.cores)),
    );
    row("main memory", each(&|run| gigabytes(run.machine.main_memory_bytes)));
    row("threads", each(&|run| run.threads.to_string()));
    row(
        "load average before",
        each(&|run| run.load_1m.map_or("".into(), |load| format!("{load:.2}"))),
    );
    if let Some(registers) = limits.registers {
        let rate = |rate: Option<f64>, unit| {
            vec![rate.map_or("-".to_owned(), |rate| operations(rate, unit))]
        };
        row("f32 FMA, registers", rate(Some(registers.f32_flop_per_s), "FLOP/s"));
        row("bf16 dot, registers", rate(registers.bf16_flop_per_s, "FLOP/s"));
        row("int8 dot, registers", rate(registers.int8_op_per_s, "OP/s"));
    }
    row("memory traffic", vec![format!("{:.1} GB/s", limits.bytes_per_s / 1e9)]);
    for (dtype, rate) in &limits.products {
        row(&format!("backend's large product in {dtype}"), vec![operations(*rate, "FLOP/s")]);
    }
    table(&["", ""], 2, rows)
}

fn heads(peers: &[Peer]) -> Vec<&str> {
    let own = [
        "stage",
        "one run",
        "weights",
        "time",
        "median",
        "CPU",
        "floor",
        "of the floor",
        "binds",
        "GFLOP/s",
        "GB/s",
        "memory",
        "rate",
    ];
    own.into_iter().chain(peers.iter().map(|peer| peer.name.as_str())).collect()
}

fn row(run: &BenchRun, m: &Measurement, peers: &[Peer]) -> Vec<String> {
    let own = [
        m.stage.name.to_owned(),
        m.unit.clone(),
        run.dtype.clone(),
        seconds(m.time.wall_s),
        seconds(m.time.median_s),
        seconds(m.time.cpu_s),
        m.floored(|| seconds(m.floor_s)),
        m.floored(|| format!("{:.0} %", m.share_of_floor * 100.0)),
        m.floored(|| m.binds.name().to_owned()),
        format!("{:.0}", m.flop_per_s / 1e9),
        format!("{:.1}", m.weight_bytes_per_s / 1e9),
        m.peak_bytes.map_or("-".to_owned(), |bytes| format!("{:.2} GB", bytes as f64 / 1e9)),
        format!("{} {}", short(m.rate.value), m.rate.unit),
    ];
    let theirs = peers.iter().map(|peer| {
        peer.seconds(run, m.stage).map_or("-".to_owned(), |other| {
            format!("{} ({})", seconds(other), ratio(m.time.wall_s, other))
        })
    });
    own.into_iter().chain(theirs).collect()
}

/// Formats three digits, or all digits before the point.
fn short(value: f64) -> String {
    let digits = [100.0, 10.0, 1.0].into_iter().filter(|&limit| value < limit).count();
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests;
