//! Tests of the documentation: commands, quotations, links, paths.

mod book;
mod fields;
mod links;
mod messages;
mod modules;
mod pictures;
mod prose;
mod readme;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Reads a text file.
fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the files of a folder and of the folders within it, sorted.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of source") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(files_in(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Returns the Rust files among [`files_in`] a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = files_in(folder);
    files.retain(|path| path.extension().is_some_and(|end| end == "rs"));
    files
}

/// Returns the Markdown pages of a folder, sorted by name.
fn pages_in(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut pages: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    pages.sort();
    pages
}
