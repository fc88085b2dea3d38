//! The comparisons of one file of text: what was computed equals what is stored, or the case fails.

use serde_json::Value;

use super::sheet::Case;

/// The cases of one JSON file, filled one by one.
#[derive(Debug)]
pub(super) struct Page<'a> {
    file: &'a str,
    component: &'static str,
    cases: Vec<Case>,
}

impl<'a> Page<'a> {
    pub(super) fn new(file: &'a str, component: &'static str) -> Self {
        Self { file, component, cases: Vec::new() }
    }

    fn case(&self, case: String) -> Case {
        Case {
            file: self.file.to_owned(),
            case,
            component: self.component,
            max_abs: None,
            tolerance: None,
            pass: None,
            skipped: None,
        }
    }

    /// Compares a value, which must be equal.
    pub(super) fn equal(&mut self, case: String, ours: &Value, stored: &Value) {
        let pass = Some(ours == stored);
        self.cases.push(Case { tolerance: Some(0.0), pass, ..self.case(case) });
    }

    /// Compares scores, which must be equal to the last bit; `null` is stored for minus infinity.
    ///
    /// As JSON they would not be: a parser of decimals may be off by the last bit of its f64.
    pub(super) fn equal_scores(&mut self, case: String, ours: &[f32], stored: &Value) {
        let score = |value: &Value| value.as_f64().map_or(f32::NEG_INFINITY, |value| value as f32);
        let stored: Option<Vec<f32>> =
            stored.as_array().map(|values| values.iter().map(score).collect());
        let pass = Some(stored.is_some_and(|stored| ours == stored));
        self.cases.push(Case { tolerance: Some(0.0), pass, ..self.case(case) });
    }

    /// Reports a stored output as not run.
    pub(super) fn skip(&mut self, case: String, why: &str) {
        self.cases.push(Case { skipped: Some(why.to_owned()), ..self.case(case) });
    }

    /// Reports what is stored under a name that nobody here knows.
    pub(super) fn unknown(&mut self, case: String) {
        self.skip(case, "this version does not know this case");
    }

    /// One case an entry, none of which this version computes.
    pub(super) fn skip_entries(mut self, content: &Value, why: &str) -> Vec<Case> {
        match content {
            Value::Object(sections) => {
                for (section, value) in sections {
                    let entries = value.as_array().map_or(1, Vec::len);
                    (0..entries).for_each(|i| self.skip(format!("{section}.{i}"), why));
                }
            }
            _ => self.skip("all".to_owned(), why),
        }
        self.cases
    }

    /// All cases.
    pub(super) fn finish(self) -> Vec<Case> {
        self.cases
    }
}

/// Every entry of every section of a file, with its name `section.index`.
pub(super) fn entries(content: &Value) -> impl Iterator<Item = (&str, String, &Value)> {
    content.as_object().into_iter().flatten().flat_map(|(section, entries)| {
        let entries = entries.as_array().into_iter().flatten().enumerate();
        entries.map(move |(i, entry)| (section.as_str(), format!("{section}.{i}"), entry))
    })
}
