//! `acestep model quantize`.

use acestep_engine::{Error, error::size};
use acestep_session::quantize::quantize;
use anyhow::Result;

use crate::{interrupt, report::Report, settings};

/// Runs the command. Files of models before one that fails stay.
pub(super) fn run(names: &[String], report: &Report) -> Result<()> {
    let layout = settings::layout();
    for name in names {
        if !layout.knows(name) {
            super::find(name, "to quantise")?;
        }
        let bar = report.bar(None, "{msg} {wide_bar} {pos}/{len} matrices");
        bar.set_message(name.clone());
        let advanced = |done: usize, all: usize| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
            !interrupt::was_pressed()
        };
        // After the first Ctrl-C it stops at the next matrix. A second one waits for that, since the
        // temporary file can have gigabytes.
        let written = interrupt::whole(|| quantize(name, &layout, &advanced));
        bar.finish_and_clear();
        let files = match written {
            Err(_) if interrupt::was_pressed() => return Err(Error::Cancelled.into()),
            written => written?,
        };
        for path in files {
            let bytes = path.metadata().map_or(0, |file| file.len());
            report.output(&format!("{} · {}", path.display(), size(bytes)))?;
        }
    }
    Ok(())
}
