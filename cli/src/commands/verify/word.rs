//! What a process that computes cases says to the one that prints them, a line of JSON each.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::case::Case;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// These cases are computed next; none are named where it is not known how many there are.
    Begin { file: String, component: String, cases: Vec<String> },
    /// A case is finished.
    Case(Case),
    /// All of a file is finished.
    File(String),
    /// Everything is finished.
    End,
    /// The run cannot go on.
    Error { message: String, hint: Option<String> },
}

/// What need not be computed again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Done {
    files: BTreeSet<String>,
    /// Files and names.
    cases: BTreeSet<(String, String)>,
}

impl Done {
    /// Remembers what is finished by a word.
    pub(super) fn note(&mut self, word: &Word) {
        match word {
            Word::Case(case) => drop(self.cases.insert((case.file.clone(), case.case.clone()))),
            Word::File(file) => drop(self.files.insert(file.clone())),
            Word::Begin { .. } | Word::End | Word::Error { .. } => {}
        }
    }

    /// Whether a case is finished.
    pub(super) fn has(&self, file: &str, case: &str) -> bool {
        self.has_file(file) || self.cases.contains(&(file.to_owned(), case.to_owned()))
    }

    /// Whether all of a file is.
    pub(super) fn has_file(&self, file: &str) -> bool {
        self.files.contains(file)
    }

    /// Whether nothing is.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.cases.is_empty()
    }
}
