//! The comparisons of one file of text: computed values must equal the stored values.

use std::fmt::Display;

use anyhow::Result;
use serde_json::Value;

use super::{case::Case, ledger::Ledger};

/// The cases of one JSON file, filled one by one.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a> {
    file: &'a str,
    component: &'static str,
    ledger: &'a Ledger<'a>,
}

impl<'a> Page<'a> {
    pub(crate) fn new(file: &'a str, component: &'static str, ledger: &'a Ledger<'a>) -> Self {
        Self { file, component, ledger }
    }

    fn case(&self, case: String) -> Case {
        Case::new(self.file, &case, self.component)
    }

    /// Computes some cases unless they are already finished: see [`Ledger::attempt`].
    ///
    /// # Errors
    /// The error that ends the run.
    pub(crate) fn attempt(
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
    pub(crate) fn fail(&self, case: &str, why: &str) {
        self.ledger.add(self.case(case.to_owned()).failed(why));
    }

    /// Compares a value, which must be equal.
    pub(crate) fn equal(&self, case: String, ours: &Value, stored: &Value) {
        let pass = Some(ours == stored);
        self.ledger.add(Case { tolerance: Some(0.0), pass, ..self.case(case) });
    }

    /// Reports a stored output as not run.
    pub(crate) fn skip(&self, case: String, why: &str) {
        self.ledger.add(self.case(case).skipped(why));
    }

    /// Returns what a case needs, or reports the case as not run.
    pub(crate) fn found<T>(&self, case: &str, needed: Result<T, impl Display>) -> Option<T> {
        needed.map_err(|lacks| self.skip(case.to_owned(), &lacks.to_string())).ok()
    }

    /// Reports a stored case that this version does not know.
    pub(crate) fn unknown(&self, case: String) {
        self.skip(case, "this version does not know this case");
    }

    /// Reports every entry as skipped.
    pub(crate) fn skip_entries(&self, content: &Value, why: &str) {
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
