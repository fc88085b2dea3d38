//! Messages from the process that computes cases to the one that prints them: JSON lines.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::case::Case;

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// These cases are computed next; the list is empty if they are not known yet.
    Begin { file: String, component: String, cases: Vec<String> },
    /// A case is finished.
    Case(Case),
    /// A whole file is finished.
    File(String),
    /// Everything is finished.
    End,
    /// The run cannot go on.
    Error { message: String, hint: Option<String> },
}

/// The finished files and cases.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    files: BTreeSet<String>,
    /// (File, case) pairs.
    cases: BTreeSet<(String, String)>,
}

impl Done {
    /// Adds the file or case that a message reports as finished.
    pub(crate) fn note(&mut self, message: &Message) {
        match message {
            Message::Case(case) => drop(self.cases.insert((case.file.clone(), case.case.clone()))),
            Message::File(file) => drop(self.files.insert(file.clone())),
            Message::Begin { .. } | Message::End | Message::Error { .. } => {}
        }
    }

    /// True if a case is finished.
    pub(crate) fn has(&self, file: &str, case: &str) -> bool {
        self.has_file(file) || self.cases.contains(&(file.to_owned(), case.to_owned()))
    }

    /// True if a whole file is finished.
    pub(crate) fn has_file(&self, file: &str) -> bool {
        self.files.contains(file)
    }

    /// True if nothing is finished.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.cases.is_empty()
    }
}
