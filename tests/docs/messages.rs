//! Every message of the program is on the troubleshooting page, so that users can find it.
//!
//! The page has the program's flags where a message of a library has fields: `--bpm` for `bpm`.

use acestep_tests::root;
use regex::Regex;

use super::{rust_files, text};

/// Exceptions: a message of `acestep-demo`, which is not installed, and a note in a golden file.
const ELSEWHERE: [&str; 2] = ["no vocabulary could be learned", "srcwav"];

/// Patterns of the source code directly before the text of a message.
const BEGINNINGS: [&str; 8] = [
    r"#\[error\([ \n]*",
    r"CliError::(?:new|usage)\([ \n]*(?:format!\([ \n]*)?",
    r"Notice\([ \n]*(?:format!\([ \n]*)?",
    r"let message =[ \n]*(?:format!\([ \n]*)?",
    r"\.note\([ \n]*(?:&format!\([ \n]*)?",
    r"\.context\([ \n]*(?:format!\([ \n]*)?",
    r"with_context\(\|\|[ \n]*(?:\{[ \n]*)?(?:format!\([ \n]*)?",
    r"(?:anyhow|bail)!\([ \n]*",
];

/// Returns the longest part of a message without placeholders, up to the first `:`, `,` or `;`.
fn constant(message: &str) -> String {
    let joined = Regex::new(r"\\\n[ \n]*").expect("a pattern").replace_all(message, "");
    let names = Regex::new(r"\{[^}]*\}").expect("a pattern");
    let longest = names.split(&joined).max_by_key(|part| part.len()).unwrap_or_default();
    let longest = plain(&spelled(longest));
    let longest = longest.trim_matches(|c: char| " :,;.()".contains(c));
    longest.split([':', ',', ';']).next().unwrap_or_default().trim().to_owned()
}

/// Returns the fields of a message without the `: ` before a value; `key: false` is `no_key`.
fn spelled(message: &str) -> String {
    let off = Regex::new(r"`([a-z0-9_]+): false`").expect("a pattern");
    let on = Regex::new(r"`([a-z0-9_]+): ([^`]*`|$)").expect("a pattern");
    on.replace_all(&off.replace_all(message, "`no_$1`"), "`$1 $2").into_owned()
}

/// Returns the page with fields for flags: `batch_size` for `--batch-size`.
fn with_fields(page: &str) -> String {
    let flags = Regex::new(r"--([a-z0-9][a-z0-9-]*)").expect("a pattern");
    flags.replace_all(page, |flag: &regex::Captures<'_>| flag[1].replace('-', "_")).into_owned()
}

/// Removes backticks and escapes, and collapses white space.
fn plain(text: &str) -> String {
    let unmarked = text.replace("\\\"", "\"").replace('`', "");
    unmarked.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_message_is_on_the_page_for_troubles() {
    let page = text(&root().join("book/src/troubleshooting.md"));
    let page = [plain(&page), plain(&with_fields(&page))];
    let patterns = BEGINNINGS.map(|beginning| {
        Regex::new(&format!(r#"{beginning}"((?:[^"\\]|\\(?s:.))*)""#)).expect("a pattern")
    });
    let (mut found, mut absent) = (0, Vec::new());
    let folders = [
        "import/src",
        "runtime/engine/src",
        "runtime/music/src",
        "runtime/speech/src",
        "runtime/session/src",
        "cli/src",
        "train/src/lora",
        "tests/proof/src",
    ];
    let files = folders.iter().flat_map(|folder| rust_files(&root().join(folder)));
    for file in files.chain([root().join("train/src/error.rs")]) {
        let source = text(&file);
        let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for message in patterns.iter().flat_map(|pattern| pattern.captures_iter(source)) {
            let constant = constant(&message[1]);
            if constant.len() < 4 || ELSEWHERE.contains(&constant.as_str()) {
                continue;
            }
            found += 1;
            if !page.iter().any(|page| page.contains(&constant)) {
                absent.push(format!("{}: {constant}", file.display()));
            }
        }
    }
    assert!(found > 200, "only {found} messages were found");
    assert!(absent.is_empty(), "of {found} messages are not there:\n{}", absent.join("\n"));
}
