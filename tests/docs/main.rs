//! The documentation says what is true: commands, quotations, paths.

mod book;
mod messages;
mod pictures;
mod readme;

use std::{fs, path::Path};

/// A text file of the repository.
fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
