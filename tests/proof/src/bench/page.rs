//! A page with a section for every measured machine.
//!
//! A section stands between two comments; a run replaces its own section and keeps the rest.

use std::{io::ErrorKind, path::Path};

use anyhow::{Context, Result};

use super::{peers::Peer, results::BenchRun, section};
use crate::{Error, Host};

const END: &str = "<!-- end of acestep bench -->";

fn begin(name: &str) -> String {
    format!("<!-- acestep bench: {name} -->")
}

/// Writes the section of every machine in `runs` to the page at `path`, which is created if it does
/// not exist.
///
/// # Errors
/// If the page cannot be read or written, or if the end comment of a section is missing.
pub fn write(path: &Path, runs: &[BenchRun], peers: &[Peer], host: &dyn Host) -> Result<()> {
    let shown = path.display();
    let mut page = match std::fs::read_to_string(path) {
        Ok(page) => page,
        Err(error) if error.kind() == ErrorKind::NotFound => "# Performance\n".to_owned(),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{shown}`")),
    };
    let mut names: Vec<String> = Vec::new();
    for name in runs.iter().map(section::name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let own: Vec<BenchRun> =
            runs.iter().filter(|run| section::name(run) == name).cloned().collect();
        let body = section::markdown(&own, peers);
        page = placed(&page, &name, &body).ok_or_else(|| Error::NoEnd {
            path: path.to_owned(),
            name,
            end: END,
        })?;
    }
    host.write(path, &page).with_context(|| format!("cannot write `{shown}`"))
}

/// Returns `page` with the section `name` replaced, or added at the end; `None` if its end is
/// missing.
fn placed(page: &str, name: &str, body: &str) -> Option<String> {
    let first = begin(name);
    let section = format!("{first}\n## {name}\n\n{}\n\n{END}", body.trim_end());
    let Some(start) = page.find(&first) else {
        return Some(format!("{}\n\n{section}\n", page.trim_end()));
    };
    let length = page[start..].find(END)? + END.len();
    // The end of the next section does not count.
    if page[start + first.len()..start + length].contains("<!-- acestep bench: ") {
        return None;
    }
    Some(format!("{}{section}{}", &page[..start], &page[start + length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_added_then_replaced_and_the_rest_stays() {
        let page = "# Performance\n\nWords.\n";
        let page = placed(page, "a", "1\n").expect("a page");
        assert!(page.starts_with("# Performance\n\nWords.\n\n<!-- acestep bench: a -->\n## a\n"));
        let page = placed(&page, "b", "2").expect("a page") + "\nMore words.\n";
        let page = placed(&page, "a", "3").expect("a page");
        let both = "<!-- acestep bench: a -->\n## a\n\n3\n\n<!-- end of acestep bench -->\n\n\
                    <!-- acestep bench: b -->\n## b\n\n2\n\n<!-- end of acestep bench -->\n";
        assert_eq!(page, format!("# Performance\n\nWords.\n\n{both}\nMore words.\n"));
    }

    #[test]
    fn a_section_without_an_end_takes_nothing_else_with_it() {
        let page = "<!-- acestep bench: a -->\n## a\n";
        assert_eq!(placed(page, "a", "1"), None);
        let page = placed(page, "b", "2").expect("a page");
        assert_eq!(placed(&page, "a", "1"), None);
    }
}
