//! The book quotes the source by anchor, so quotations are always current.

use std::{fs, path::PathBuf};

use acestep_tests::root;

use super::{files_in, pages_in, text};

/// A quotation: the page, the quoted file, the anchor.
struct Quotation {
    page: PathBuf,
    file: PathBuf,
    anchor: String,
}

fn pages() -> Vec<PathBuf> {
    pages_in(&root().join("book/src"))
}

fn quotations() -> Vec<Quotation> {
    let mut found = Vec::new();
    for page in pages() {
        for rest in text(&page).split("{{#include ").skip(1) {
            let target = rest.split("}}").next().expect("a closing");
            let (file, anchor) = target.trim().split_once(':').unwrap_or_else(|| {
                panic!("{} includes `{target}` without an anchor", page.display())
            });
            let file = page.parent().expect("a folder").join(file);
            found.push(Quotation { page: page.clone(), file, anchor: anchor.to_owned() });
        }
    }
    found
}

#[test]
fn every_quotation_of_the_book_has_its_anchor() {
    let quotations = quotations();
    assert!(quotations.len() >= 10, "the book quotes {} times", quotations.len());
    for Quotation { page, file, anchor } in quotations {
        let place = format!("{} quotes {}:{anchor}", page.display(), file.display());
        let source = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{place}: {e}"));
        let count = |mark: &str| {
            source.lines().filter(|line| line.trim() == format!("// {mark}: {anchor}")).count()
        };
        assert_eq!((count("ANCHOR"), count("ANCHOR_END")), (1, 1), "{place}");
        let begin = source.find(&format!("ANCHOR: {anchor}")).expect("counted");
        let end = source.find(&format!("ANCHOR_END: {anchor}")).expect("counted");
        assert!(source[begin..end].lines().count() > 2, "{place}: there is nothing in it");
    }
}

#[test]
fn every_anchor_of_the_source_is_quoted() {
    let quoted: Vec<String> = quotations().into_iter().map(|quotation| quotation.anchor).collect();
    for crate_folder in ["model", "import", "runtime/engine", "runtime/music", "cli", "tests/proof"]
    {
        for file in files_in(&root().join(crate_folder).join("src")) {
            for line in text(&file).lines() {
                if let Some(anchor) = line.trim().strip_prefix("// ANCHOR: ") {
                    let place = file.display();
                    assert!(quoted.iter().any(|q| q == anchor), "{place}: nobody quotes {anchor}");
                }
            }
        }
    }
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = text(&root().join("book/src/SUMMARY.md"));
    for page in pages() {
        let name = page.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(name == "SUMMARY.md" || summary.contains(&format!("({name})")), "{name}");
    }
}
