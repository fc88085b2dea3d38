//! Every link of the book, the README and the decision records has a target.

use std::path::{Path, PathBuf};

use acestep_tests::root;

use super::{pages_in, text};

/// Returns all Markdown pages.
fn all_pages() -> Vec<PathBuf> {
    let folders =
        ["", "book/src", "book/src/commands", "docs", "docs/adr", "examples", "tests/goldens"];
    folders.iter().flat_map(|folder| pages_in(&root().join(folder))).collect()
}

/// Returns the anchor that mdBook and GitHub generate for a heading.
///
/// Letters, digits, `_` and `-` stay, in lower case; spaces become `-`.
fn slug(heading: &str) -> String {
    let plain = |letter: char| match letter {
        letter if letter.is_alphanumeric() || "_-".contains(letter) => {
            Some(letter.to_lowercase().next().unwrap_or(letter))
        }
        ' ' => Some('-'),
        _ => None,
    };
    heading.trim().chars().filter_map(plain).collect()
}

/// Returns the lines of a page outside code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code
    })
}

/// Returns the targets of a page's links and images.
fn links(page: &str) -> Vec<String> {
    let prose: Vec<_> = prose(page).collect();
    let prose = prose.join("\n");
    let targets = prose.split("](").skip(1).map(|rest| rest.split(')').next().expect("a part"));
    targets.map(str::to_owned).collect()
}

/// True if a page has a heading with this anchor.
fn has_heading(page: &Path, anchor: &str) -> bool {
    let page = text(page);
    let mut headings = prose(&page).filter(|line| line.starts_with('#'));
    headings.any(|line| slug(line.trim_start_matches('#')) == anchor)
}

#[test]
fn every_link_leads_somewhere() {
    let (mut within, mut without) = (0, 0);
    for page in all_pages() {
        for target in links(&text(&page)) {
            let place = format!("{} links to `{target}`", page.display());
            if let Some((scheme, address)) = target.split_once("://") {
                // Offline: only the form of the address is checked.
                let host = address.split('/').next().unwrap_or_default();
                let is_host = host.contains('.') && host.split('.').all(|part| !part.is_empty());
                assert!(scheme == "https" && is_host, "{place}, which is no address");
                without += 1;
                continue;
            }
            within += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = match file {
                "" => page.clone(),
                file => page.parent().expect("a folder").join(file),
            };
            assert!(file.exists(), "{place}, which is not there");
            let leads = anchor.is_empty() || has_heading(&file, anchor);
            assert!(leads, "{place}, which has no such heading");
        }
    }
    assert!(within > 250 && without > 10, "{within} links within, {without} to others");
}

/// The built book contains only its own folder, so a link out of it would be broken.
#[test]
fn no_link_leaves_the_book() {
    for page in pages_in(&root().join("book/src")) {
        for target in links(&text(&page)) {
            assert!(!target.starts_with("../"), "{} links to `{target}`", page.display());
        }
    }
}

/// mdBook copies them beside the pages.
#[test]
fn every_sound_that_the_book_plays_is_there() {
    let book = root().join("book/src");
    let mut played = 0;
    for page in pages_in(&book) {
        for part in text(&page).split("<audio controls src=\"").skip(1) {
            let file = book.join(part.split('"').next().expect("a part"));
            let bytes = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            assert!((50_000..200_000).contains(&bytes.len()), "{}", file.display());
            played += 1;
        }
    }
    assert_eq!(played, 3);
}
