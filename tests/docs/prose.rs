//! Doc comments are plain English: they begin with a noun or a verb, and use the field's words.

use std::path::PathBuf;

use acestep_tests::root;
use regex::Regex;

use super::{rust_files, text};

/// Openers that turn a description into a riddle.
const OPENERS: &str = r"^(What|How|Whether|Where|Those|Who)\b";

/// Private words, and the field's own.
const WORDS: [(&str, &str); 7] = [
    (r"\b(of which|that of)\b", "name the thing again"),
    (r"\bwhoever\b", "name who it is"),
    (r"\bno numbers?\b", "NaN"),
    (r"\beight bits\b", "int8"),
    (r"\bgraphics cards?\b", "GPU"),
    (r"\buntold\b", "unconditional"),
    (r"\bnobody's\b", "name what it is"),
];

/// The text of a line's doc comment.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

/// Returns the Rust files of several folders of the repository.
fn files_of(folders: &[&str]) -> Vec<PathBuf> {
    folders.iter().flat_map(|folder| rust_files(&root().join(folder))).collect()
}

/// Violations in a file, one a line.
fn faults(code: &str) -> Vec<String> {
    let openers = Regex::new(OPENERS).expect("a pattern");
    let words = WORDS
        .map(|(word, instead)| (Regex::new(&format!("(?i){word}")).expect("a pattern"), instead));
    let (mut faults, mut is_inside) = (Vec::new(), false);
    for (index, line) in code.lines().enumerate() {
        let comment = doc(line);
        let number = index + 1;
        if let Some(comment) = comment.filter(|_| !is_inside)
            && openers.is_match(comment)
        {
            faults.push(format!("{number}: begin with a noun or a verb: {comment}"));
        }
        is_inside = comment.is_some();
        if line.trim_start().starts_with("//") {
            let found = words.iter().filter(|(word, _)| word.is_match(line));
            faults
                .extend(found.map(|(_, instead)| format!("{number}: {instead}: {}", line.trim())));
        }
    }
    faults
}

#[test]
fn doc_comments_are_plain() {
    let mut files = files_of(&["model", "import", "runtime", "cli", "train", "tests"]);
    files.retain(|file| !file.ends_with("docs/prose.rs"));
    assert!(files.len() > 500, "{}", files.len());
    let faults: Vec<_> = files
        .iter()
        .flat_map(|file| {
            let name = file.strip_prefix(root()).unwrap_or(file).display().to_string();
            faults(&text(file)).into_iter().map(move |fault| format!("{name}:{fault}"))
        })
        .collect();
    assert!(faults.is_empty(), "{} places:\n{}", faults.len(), faults.join("\n"));
}

/// Other crates have `doctest = false`: to look for such code takes seconds in each of them.
#[test]
fn only_the_crate_of_songs_has_code_in_doc_comments() {
    let mut files = files_of(&["model", "import", "runtime", "train", "tests"]);
    files.retain(|file| !file.starts_with(root().join("runtime/music")));
    for file in &files {
        let code = text(file);
        let fences = code.lines().filter_map(doc).filter(|comment| comment.starts_with("```"));
        let run = fences.step_by(2).find(|fence| !["```text", "```json"].contains(fence));
        assert_eq!(run, None, "{}", file.display());
    }
}

#[test]
fn an_opener_counts_at_the_beginning_of_a_comment_only() {
    let found =
        faults("/// What a song is.\nstruct A;\n/// A song, and\n/// What it is.\nstruct B;");
    assert_eq!(found, ["1: begin with a noun or a verb: What a song is."]);
    assert_eq!(faults("//! Whoever reads.\n// No number.\nlet x = 1; // no number").len(), 2);
}
