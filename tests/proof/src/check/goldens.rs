//! Compares the reference's stored results with the device, set by set: one row per component, and
//! another row for its bf16 results.

use std::path::Path;

use acestep_engine::Device;
use anyhow::Result;

use crate::{
    Host,
    rows::{Item, Line, Tell, Verified},
    verify::{self, Case, Given, WorkerCommand},
};

/// The name of the built-in set.
const BUILT_IN: &str = "built in";

/// One item per set.
pub(crate) fn items(goldens: Option<&Path>) -> Vec<Item> {
    let item = |set: &str| Item { name: format!("stored results, {set}"), group: 0 };
    match goldens {
        Some(folder) => verify::sets(folder).iter().map(|set| item(&name(set))).collect(),
        None => vec![item(BUILT_IN)],
    }
}

/// Checks that the goldens can be read, before anything is computed.
///
/// # Errors
/// If a set cannot be read.
pub(crate) fn readable(goldens: &Path) -> Result<()> {
    verify::sets(goldens).iter().try_for_each(|set| verify::readable(set))
}

/// The folder's own name.
fn name(set: &Path) -> String {
    let whole = set.canonicalize().unwrap_or_else(|_| set.to_owned());
    whole.file_name().unwrap_or(whole.as_os_str()).to_string_lossy().into_owned()
}

/// Compares one set and tells each case when it is finished.
///
/// # Errors
/// If it or its checkpoints cannot be read, or the device is absent.
pub(crate) fn run(
    index: usize,
    goldens: Option<&Path>,
    device: Device,
    worker: &WorkerCommand<'_>,
    host: &dyn Host,
    tell: &Tell<'_>,
) -> Result<()> {
    let sets = goldens.map(verify::sets).unwrap_or_default();
    let folder = sets.get(index).map(std::path::PathBuf::as_path);
    // The goldens' checkpoints are in the folder beside them.
    let given = Given { goldens: folder, ..Given::default() };
    let set = folder.map_or(BUILT_IN.to_owned(), name);
    let case = |case: &Case| {
        if case.pass == Some(false) {
            let place = folder.map_or(String::new(), |_| format!("{set}/"));
            let why = case.failed.as_ref().map_or(String::new(), |why| format!(": {why}"));
            tell(Line::Failed(format!("{place}{}: {}{why}", case.file, case.case)));
        }
        tell(Line::Verified(row(&set, case)));
        Ok(())
    };
    let cases = verify::run(given, device, worker, host, &case)?;
    if cases.iter().all(|case| case.pass.is_none()) {
        tell(Line::Problem("nothing of it could be compared: are its checkpoints there?".into()));
    }
    Ok(())
}

/// Returns the row of one case: by component and type.
fn row(set: &str, case: &Case) -> Verified {
    let suffix = if case.is_in_bf16() { " in bf16" } else { "" };
    let error = case.relative_rms.or(case.max_abs).zip(case.tolerance.filter(|&t| t > 0.0));
    Verified {
        set: set.to_owned(),
        component: format!("{}{suffix}", case.component),
        passed: usize::from(case.pass == Some(true)),
        failed: usize::from(case.pass == Some(false)),
        skipped: usize::from(case.pass.is_none()),
        worst_share: error.map_or(0.0, |(worst, allowed)| worst / allowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_computed_in_bf16_has_a_row_of_its_own() {
        let case = |name: &str, pass, max_abs, relative_rms| Case {
            file: "dit_forward.safetensors".into(),
            case: name.into(),
            component: "DiT".into(),
            max_abs,
            relative_rms,
            tolerance: Some(0.02),
            pass,
            skipped: None,
            failed: None,
        };
        let cases = [
            case("case0.velocity", Some(true), Some(0.001), None),
            case("case0.velocity_bf16", Some(true), None, Some(0.01)),
            case("case1.velocity_bf16", Some(false), None, None),
            // These are rounded on the host, not by a network.
            case("t1000_bf16", Some(true), Some(0.0), None),
            case("t_bf16", None, None, None),
        ];
        let row = |component: &str, [passed, failed, skipped]: [usize; 3], worst_share| Verified {
            set: "a".into(),
            component: component.into(),
            passed,
            failed,
            skipped,
            worst_share,
        };
        let expected = [row("DiT", [2, 0, 1], 0.05), row("DiT in bf16", [1, 1, 0], 0.5)];
        let mut rows = Vec::new();
        cases.iter().for_each(|case| super::row("a", case).add_to(&mut rows));
        assert_eq!(rows, expected);
    }
}
