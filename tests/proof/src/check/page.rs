//! The results as a page of the book.

use std::fmt::Write as _;

use crate::{
    families::songs::{LENGTHS, LONGEST_OWN, TIMES_OWN, TIMES_SHORT},
    markdown::{gigabytes, operations, ratio, seconds, table},
    rows::{Distance, Results},
};

/// Returns the whole page in Markdown.
pub(crate) fn markdown(results: &Results) -> String {
    let mut page = String::from("# Figures of the GPU check\n\n");
    page += &about(results);
    page += &parts(results);
    page += &speeds(results);
    page += &ways_of_torch(results);
    page += &lengths(results);
    page += &types(results);
    page += &kernels(results);
    page += &verified(results);
    page
}

fn about(results: &Results) -> String {
    let Results { machine, ceilings, .. } = results;
    let mut rows = Vec::new();
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            rows.push(vec![name.to_owned(), value]);
        }
    };
    row("date", Some(results.date.clone()));
    let commit = results.commit.as_ref().map_or(String::new(), |c| format!(", commit {c}"));
    row("program", Some(format!("acestep {}{commit}", results.version)));
    let name = machine.name.as_ref().map_or(String::new(), |name| format!(", {name}"));
    row("device", Some(format!("{}{name}", machine.device)));
    row("memory", machine.memory_bytes.map(gigabytes));
    row("driver", machine.driver.clone());
    row("backend", machine.backend.clone());
    let cores = format!("{} ({} cores)", machine.processor, machine.cores);
    row("processor", Some(cores));
    row("main memory", Some(gigabytes(machine.main_memory_bytes)));
    row("weights", Some(results.dtype.clone()));
    row("PyTorch", Some(results.torch.clone().unwrap_or_else(|| "not compared".to_owned())));
    for ceiling in ceilings {
        let rate = operations(ceiling.measured.flop_per_s, "FLOP/s");
        row(&format!("large product in {}", ceiling.dtype), Some(rate));
    }
    let copied = ceilings.first();
    row("memory traffic", copied.map(|c| format!("{:.0} GB/s", c.measured.bytes_per_s / 1e9)));
    let quick =
        "This was a quick run: a few small shapes that show that the check itself works.\n\n";
    let note = if results.quick { quick } else { "" };
    format!("{note}{}", table(&["", ""], 2, rows))
}

fn parts(results: &Results) -> String {
    let rows = results.parts.iter().map(|part| {
        let counts = [part.passed, part.failed, part.skipped].map(|count| count.to_string());
        let [passed, failed, skipped] = counts;
        vec![part.name.clone(), passed, failed, skipped, format!("{:.0} s", part.seconds)]
    });
    let heads = ["part", "passed", "failed", "skipped", "took"];
    let mut text = table(&heads, 1, rows.collect());
    for part in &results.parts {
        for (what, lines) in [("failed", &part.problems), ("not run", &part.not_run)] {
            if !lines.is_empty() {
                let _ = writeln!(text, "{} {what}:\n", part.name);
                lines.iter().for_each(|line| {
                    let _ = writeln!(text, "- {}", line.replace('\n', " "));
                });
                text += "\n";
            }
        }
    }
    text
}

/// Returns a table below its text; empty without rows.
fn section(
    text: &str,
    heads: &[&str],
    left: usize,
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() { String::new() } else { format!("{text}\n\n{}", table(heads, left, rows)) }
}

fn speeds(results: &Results) -> String {
    let rows = results.speeds.iter().map(|speed| {
        let torch = results.best_of_torch(&speed.id);
        let time = torch.map_or("-".to_owned(), |(s, way)| format!("{} ({way})", seconds(s)));
        let ratio = torch.map_or("-".to_owned(), |(s, _)| ratio(speed.wall_s, s));
        vec![
            speed.id.clone(),
            speed.unit.clone(),
            seconds(speed.wall_s),
            seconds(speed.floor_s),
            format!("{:.0} %", speed.share_of_floor * 100.0),
            time,
            ratio,
        ]
    });
    let heads = ["stage", "one run", "time", "floor", "of the floor", "PyTorch", "ratio"];
    let text = format!(
        "## Speed\n\nRandom weights in {}, one run each. The floor is the time that the ceilings \
         above leave for the arithmetic or for reading every weight once, whichever is longer; \
         100 % of it is as fast as the device goes. The ratio is this program's time over \
         PyTorch's best: below 1 is faster.",
        results.dtype
    );
    section(&text, &heads, 2, rows)
}

fn ways_of_torch(results: &Results) -> String {
    // The compiled ways of all stages come after the others.
    let mut ids: Vec<&str> = Vec::new();
    for row in &results.torch_speeds {
        if !ids.contains(&row.id.as_str()) {
            ids.push(&row.id);
        }
    }
    let ways = ["eager", "compile", "graph", "compile+graph"];
    let rows = ids.iter().map(|id| {
        let cell = |way: &&str| {
            let row = results.torch_speeds.iter().find(|row| row.id == *id && row.mode == **way);
            row.map_or("-".to_owned(), |row| match (row.wall_s, &row.error) {
                (Some(s), _) => seconds(s),
                (None, Some(error)) => format!("failed: {error}"),
                (None, None) => "failed".to_owned(),
            })
        };
        std::iter::once((*id).to_owned()).chain(ways.iter().map(cell)).collect()
    });
    let heads: Vec<&str> = std::iter::once("PyTorch").chain(ways).collect();
    let text = "PyTorch's networks have the same shapes and random weights of its own: the time does not \
                depend on the values. `graph` is a CUDA graph, recorded once and replayed.";
    section(text, &heads, 1, rows)
}

fn lengths(results: &Results) -> String {
    let distance = |distance: Option<Distance>| {
        distance.map_or("-".to_owned(), |d| {
            let own = d.processor.map_or(String::new(), |own| format!(" (processor {own:.1e})"));
            format!("{:.1e}{own}", d.relative_rms)
        })
    };
    let rows = results.lengths.iter().map(|row| {
        let problems = row.problems();
        let result = if problems.is_empty() { vec!["ok".to_owned()] } else { problems };
        vec![
            format!("{} s", row.seconds),
            row.dtype.clone(),
            [result, row.notes.clone()].concat().join(", "),
            distance(row.latents),
            distance(row.sound),
            seconds(row.wall_s),
        ]
    });
    let heads = ["length", "type", "", "latents", "sound", "time"];
    let text = format!(
        "## Lengths\n\nThe same request in many lengths, twice. Latents and sound: the distance \
         from the processor's f32, as a share of its root mean square. In a reduced type rounding \
         alone leads away from f32, so the processor's own distance in that type stands beside it: \
         up to {LONGEST_OWN} s that of the same song, of which {TIMES_OWN} times are allowed; \
         beyond, that of a song of {} s, of which {TIMES_SHORT} times are.",
        LENGTHS[0]
    );
    section(&text, &heads, 3, rows)
}

fn types(results: &Results) -> String {
    let percent = |share: Option<f64>| {
        share.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0))
    };
    let rows = results.rounded.iter().map(|row| {
        vec![
            row.network.clone(),
            row.dtype.clone(),
            percent(row.from_f32),
            percent(row.from_bf16),
            percent(row.same_tokens),
        ]
    });
    let heads = ["network", "weights", "from f32", "from bf16", "same tokens"];
    let text = "## Types\n\nOne network alone in each type of weights: how far a velocity in the middle of \
                the way, and the scores of every token, are from those with other weights, as a share \
                of their root mean square. Same tokens: how often the likeliest one is that of f32, \
                after the same text.";
    section(text, &heads, 2, rows)
}

fn kernels(results: &Results) -> String {
    let rows = results.kernels.iter().map(|row| {
        let ratio = match (row.kernel_s, row.reference_s) {
            (Some(kernel), Some(reference)) => ratio(kernel, reference),
            _ => "-".to_owned(),
        };
        vec![
            row.operation.clone(),
            row.shape.clone(),
            row.dtype.clone(),
            row.error.map_or("not finite".to_owned(), |error| format!("{error:.1e}")),
            format!("{:.1e}", row.tolerance),
            row.kernel_s.map_or("-".to_owned(), seconds),
            row.reference_s.map_or("-".to_owned(), seconds),
            ratio,
        ]
    });
    let heads = ["kernel", "shape", "type", "error", "allowed", "time", "plain", "ratio"];
    let text = "## Kernels\n\nErrors are the largest difference from the processor's f32 of the same \
                inputs, as a share of the largest value. Plain: the operations that define it, on the \
                same device; a ratio below 1 is a gain.";
    section(text, &heads, 3, rows)
}

fn verified(results: &Results) -> String {
    let rows = results.verified.iter().map(|row| {
        let [passed, failed, skipped] =
            [row.passed, row.failed, row.skipped].map(|count| count.to_string());
        vec![
            row.set.clone(),
            row.component.clone(),
            passed,
            failed,
            skipped,
            format!("{:.2}", row.worst_share),
        ]
    });
    let heads = ["set", "component", "passed", "failed", "skipped", "worst"];
    let text = "## Goldens\n\nThe reference's stored results: in f32, and of some networks in bf16, which \
                is compared wherever the device has it. Worst: the largest error as a share of its \
                tolerance.";
    section(text, &heads, 2, rows)
}

#[cfg(test)]
mod tests;
