//! Every link leads somewhere: in the book, in the README, in the records of decisions.

use std::path::{Path, PathBuf};

use acestep_tests::root;

use super::{pages_in, text};

/// Every page that a reader may open.
fn all_pages() -> Vec<PathBuf> {
    let folders =
        ["", "book/src", "book/src/commands", "docs", "docs/adr", "examples", "tests/goldens"];
    folders.iter().flat_map(|folder| pages_in(&root().join(folder))).collect()
}

/// What mdBook and GitHub make of a heading: letters, digits, `_` and `-` in small letters, spaces as `-`.
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

/// The lines of a page that are no code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code
    })
}

/// The targets of a page's links and pictures.
fn links(page: &str) -> Vec<String> {
    let prose: Vec<_> = prose(page).collect();
    let prose = prose.join("\n");
    let targets = prose.split("](").skip(1).map(|rest| rest.split(')').next().expect("a part"));
    targets.map(str::to_owned).collect()
}

/// Whether a page has the heading that mdBook and GitHub give the name.
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
                // The network is not asked: that an address is one is all that can be said here.
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

/// The book is built of its own folder alone, so that a link out of it is broken once it is built.
#[test]
fn no_link_leaves_the_book() {
    for page in pages_in(&root().join("book/src")) {
        for target in links(&text(&page)) {
            assert!(!target.starts_with("../"), "{} links to `{target}`", page.display());
        }
    }
}
