//! This program as the host of its proofs: `verify`, `check` and `bench`.

use std::{io, path::Path};

use acestep_proof::Host;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::{
    fields::as_flags,
    hint, interrupt,
    report::{self, Report},
};

impl Host for Report {
    fn line(&self, text: &str) {
        self.line(text);
    }

    fn note(&self, text: &str) {
        self.note(&as_flags(text));
    }

    fn pass_on(&self, line: &str) {
        self.words(line);
    }

    fn output(&self, line: &str) -> io::Result<()> {
        report::bytes(format!("{line}\n").as_bytes()).map_err(|error| error.0)
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        interrupt::whole(|| std::fs::write(path, text))
    }

    fn is_cancelled(&self) -> bool {
        interrupt::was_pressed()
    }

    fn hint(&self, error: &anyhow::Error) -> Option<String> {
        hint::of(error)
    }
}

/// Parses the name of a row; help lists the (name, description) of each.
pub(crate) fn by_name<T: Clone + Send + Sync + 'static>(
    rows: Vec<(&'static str, &'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let shown = rows.iter().map(|(name, about, _)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(shown.collect::<Vec<_>>()).try_map(move |name| {
        rows.iter().find(|row| row.0 == name).map(|row| row.2.clone()).ok_or("it has no row")
    })
}

/// Parses a preset.
pub(crate) fn preset() -> impl TypedValueParser<Value = &'static acestep_proof::families::Preset> {
    let rows = acestep_proof::families::PRESETS.iter().copied();
    by_name(rows.map(|preset| (preset.name, preset.about, preset)).collect())
}
