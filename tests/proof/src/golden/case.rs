//! One stored output, the outcome of its comparison, and the printed line.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// One stored output and the outcome of its comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The file that stores it.
    pub file: String,
    /// Its name in that file.
    pub case: String,
    /// The part of the program that it tests.
    pub component: Cow<'static, str>,
    /// The largest difference; absent if nothing could be compared.
    pub max_abs: Option<f64>,
    /// The root mean square of the difference, divided by the one of the stored values. Results in
    /// a narrow float type are compared by it instead of by the largest difference.
    pub relative_rms: Option<f64>,
    /// The largest allowed difference; 0 = exact.
    pub tolerance: Option<f64>,
    /// `None` = not run.
    pub pass: Option<bool>,
    /// Why it was not run.
    pub skipped: Option<String>,
    /// Why it failed, if there was no result to compare.
    pub failed: Option<String>,
}

impl Case {
    /// A case without an outcome.
    pub(crate) fn new(file: &str, case: &str, component: impl Into<Cow<'static, str>>) -> Self {
        Self {
            file: file.to_owned(),
            case: case.to_owned(),
            component: component.into(),
            ..Self::default()
        }
    }

    /// The same case, marked as skipped.
    pub(crate) fn skipped(self, why: &str) -> Self {
        Self { skipped: Some(why.to_owned()), ..self }
    }

    /// The same case, marked as failed without a result.
    pub(crate) fn failed(self, why: &str) -> Self {
        Self { pass: Some(false), failed: Some(why.to_owned()), ..self }
    }

    /// True if a network computes it in bf16, if the device can. Times that are only rounded to
    /// bf16 are computed in f32.
    pub(crate) fn is_in_bf16(&self) -> bool {
        self.case.strip_suffix("_bf16").is_some_and(|name| !["t", "t1000"].contains(&name))
    }

    /// The case as a line of the table.
    pub fn line(&self) -> String {
        let (mark, detail) = match (self.pass, &self.skipped, &self.failed) {
            (Some(true), ..) => ("pass", self.numbers()),
            (Some(false), _, None) => ("FAIL", self.numbers()),
            (Some(false), _, Some(why)) => ("FAIL", why.clone()),
            (None, why, _) => ("skip", why.clone().unwrap_or_default()),
        };
        let name = format!("{}: {}", self.file, self.case);
        format!("{mark}  {:<16}  {name:<66}  {detail}", self.component)
    }

    fn numbers(&self) -> String {
        if let (Some(error), Some(allowed)) = (self.relative_rms, self.tolerance) {
            return format!("relative rms error {error:.1e}, tolerance {allowed:.1e}");
        }
        match (self.max_abs, self.tolerance) {
            (Some(worst), Some(allowed)) if allowed > 0.0 => {
                format!("max abs error {worst:.1e}, tolerance {allowed:.1e}")
            }
            (Some(0.0), _) => "equal".to_owned(),
            (Some(worst), _) => format!("max abs error {worst:.1e}, must be equal"),
            (None, _) if self.pass == Some(true) => "equal".to_owned(),
            (None, _) => "another shape or value, or not finite".to_owned(),
        }
    }
}
