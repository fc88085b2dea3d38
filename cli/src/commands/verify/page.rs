//! The comparisons of one file of text: computed values must equal the stored values.

use anyhow::Result;
use serde_json::Value;

use super::{case::Case, ledger::Ledger};

/// The cases of one JSON file, filled one by one.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    file: &'a str,
    component: &'static str,
    ledger: &'a Ledger<'a>,
}

impl<'a> Page<'a> {
    pub(super) fn new(file: &'a str, component: &'static str, ledger: &'a Ledger<'a>) -> Self {
        Self { file, component, ledger }
    }

    fn case(&self, case: String) -> Case {
        Case::new(self.file, &case, self.component)
    }

    /// Computes some cases unless they are already finished: see [`Ledger::attempt`].
    ///
    /// # Errors
    /// The error that ends the run.
    pub(super) fn attempt(
        &self,
        cases: Vec<String>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if self.ledger.knows(self.file, cases.iter().map(String::as_str)) {
            return Ok(());
        }
        if let Err(why) = self.ledger.attempt(self.file, self.component, cases.clone(), work)? {
            cases.iter().for_each(|case| self.fail(case, &why));
        }
        Ok(())
    }

    /// Reports a stored output as failed.
    pub(super) fn fail(&self, case: &str, why: &str) {
        self.ledger.add(self.case(case.to_owned()).failed(why));
    }

    /// Compares a value, which must be equal.
    pub(super) fn equal(&self, case: String, ours: &Value, stored: &Value) {
        let pass = Some(ours == stored);
        self.ledger.add(Case { tolerance: Some(0.0), pass, ..self.case(case) });
    }

    /// Compares logits, which must be equal to the last bit; `null` is stored for minus infinity.
    ///
    /// They are compared as f32, because a JSON parser may be wrong in the last bit of an f64.
    pub(super) fn equal_scores(&self, case: String, ours: &[f32], stored: &Value) {
        let pass = Some(scores(stored).is_some_and(|stored| ours == stored));
        self.ledger.add(Case { tolerance: Some(0.0), pass, ..self.case(case) });
    }

    /// Compares probabilities. Each may differ by `units` in its own last place. The reported
    /// tolerance is the one of the largest probability.
    pub(super) fn near(&self, case: String, ours: &[f32], stored: &Value, units: u32) {
        let stored = scores(stored).filter(|stored| stored.len() == ours.len()).unwrap_or_default();
        let pairs = || ours.iter().zip(&stored);
        // Adjacent floats of one sign have adjacent bit patterns.
        let is_near = |(a, b): (&f32, &f32)| a.to_bits().abs_diff(b.to_bits()) <= units;
        let pass = Some(!stored.is_empty() && pairs().all(is_near));
        let worst = pairs().map(|(a, b)| f64::from((a - b).abs())).reduce(f64::max);
        let largest = stored.iter().copied().fold(0.0, f32::max);
        let unit = f64::from(largest.next_up()) - f64::from(largest);
        let tolerance = Some(f64::from(units) * unit);
        self.ledger.add(Case { max_abs: worst, tolerance, pass, ..self.case(case) });
    }

    /// Reports a stored output as not run.
    pub(super) fn skip(&self, case: String, why: &str) {
        self.ledger.add(self.case(case).skipped(why));
    }

    /// Reports a stored case that this version does not know.
    pub(super) fn unknown(&self, case: String) {
        self.skip(case, "this version does not know this case");
    }

    /// Reports every entry as skipped.
    pub(super) fn skip_entries(&self, content: &Value, why: &str) {
        match content {
            Value::Object(sections) => {
                for (section, value) in sections {
                    let entries = value.as_array().map_or(1, Vec::len);
                    (0..entries).for_each(|i| self.skip(format!("{section}.{i}"), why));
                }
            }
            _ => self.skip("all".to_owned(), why),
        }
    }
}

/// Reads numbers as f32; `null` is minus infinity.
fn scores(stored: &Value) -> Option<Vec<f32>> {
    let score = |value: &Value| value.as_f64().map_or(f32::NEG_INFINITY, |value| value as f32);
    Some(stored.as_array()?.iter().map(score).collect())
}

/// Every entry of every section of a file, with its name `section.index`.
pub(super) fn entries(content: &Value) -> impl Iterator<Item = (&str, String, &Value)> {
    content.as_object().into_iter().flatten().flat_map(|(section, entries)| {
        let entries = entries.as_array().into_iter().flatten().enumerate();
        entries.map(move |(i, entry)| (section.as_str(), format!("{section}.{i}"), entry))
    })
}
