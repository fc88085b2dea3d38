//! This program as the host of its proofs: `verify`, `check` and `bench`.

use std::{io, path::Path};

use acestep_engine::{Error, files::Existing};
use acestep_proof::Host;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::text::write_bytes;
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
        // Beside the file and then renamed: a full disk must not leave half a report.
        write_bytes(path, text.as_bytes(), Existing::Replace).map_err(|error| match error {
            Error::File { source, .. } => source,
            error => io::Error::other(error),
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A second name of the old file shows if it was changed in its place.
    #[test]
    fn a_report_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("check.md"), "old").expect("a file");
        std::fs::hard_link(path("check.md"), path("second.md")).expect("a second name");
        let (color, progress, json) = (anstream::ColorChoice::Never, false, false);
        let host = Report { verbosity: 0, color, progress, json };
        Host::write(&host, &path("check.md"), "new").expect("written");
        let content = |name: &str| std::fs::read_to_string(path(name)).expect("a file");
        assert_eq!((&*content("check.md"), &*content("second.md")), ("new", "old"));
        let error = Host::write(&host, &path("absent/check.md"), "new").expect_err("no folder");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
