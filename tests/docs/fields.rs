//! Libraries name fields, never flags or commands of the program: other programs use them too.

use acestep_tests::root;
use regex::Regex;

use super::{pages_in, rust_files, text};

/// The sources of the libraries.
const LIBRARIES: [&str; 9] = [
    "model/src",
    "import/src",
    "runtime/engine/src",
    "runtime/music/src",
    "runtime/speech/src",
    "runtime/session/src",
    "runtime/serve/src",
    "train/src",
    "tests/proof/src",
];

/// Lines that are neither comments nor unit tests, with their numbers.
fn code(source: &str) -> impl Iterator<Item = (usize, &str)> {
    let (source, _) = source.split_once("#[cfg(test)]\nmod tests {").unwrap_or((source, ""));
    let lines = source.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(number, line)| (number, line.split(" // ").next().unwrap_or_default()))
}

/// Returns the patterns of flags and of commands.
fn patterns() -> [Regex; 2] {
    let commands: Vec<_> = pages_in(&root().join("book/src/commands"))
        .iter()
        .filter_map(|page| page.file_stem()?.to_str()?.strip_prefix("acestep-")?.split('-').next())
        .map(str::to_owned)
        .collect();
    assert!(commands.contains(&"generate".to_owned()), "{commands:?}");
    let commands = format!(r"\bacestep ({})\b", commands.join("|"));
    [r#"(^|[\s"'`(])--[a-z]"#, &commands].map(|pattern| Regex::new(pattern).expect("a pattern"))
}

/// Violations in a file, one a line.
fn faults(source: &str, patterns: &[Regex]) -> Vec<String> {
    // Flags of cargo and of started programs, marks of a generated section, the first words of a file.
    const OTHERS: [&str; 4] = ["command.arg", ".args([", "<!-- ", "const FORMAT"];
    let is_other = |line: &str| OTHERS.iter().any(|sign| line.contains(sign));
    code(source)
        .filter(|(_, line)| !is_other(line))
        .map(|(number, line)| (number, line.replace("--features", "")))
        .filter(|(_, line)| patterns.iter().any(|pattern| pattern.is_match(line)))
        .map(|(number, line)| format!("{number}: {}", line.trim()))
        .collect()
}

#[test]
fn libraries_name_no_flag_and_no_command() {
    let patterns = patterns();
    let (mut files, mut found) = (0, Vec::new());
    for file in LIBRARIES.iter().flat_map(|folder| rust_files(&root().join(folder))) {
        let name = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        if name.ends_with("tests.rs") || name.contains("/tests/") {
            continue;
        }
        files += 1;
        // The server tells its clients the command that brings a model.
        let kinds = if name.starts_with("runtime/serve") { 1 } else { 2 };
        let faults = faults(&text(&file), &patterns[..kinds]);
        found.extend(faults.into_iter().map(|fault| format!("{name}:{fault}")));
    }
    assert!(files > 300, "only {files} files were read");
    assert!(
        found.is_empty(),
        "{} lines name a flag or a command:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn flags_and_commands_are_found_outside_of_comments_and_tests() {
    let patterns = patterns();
    for line in [
        r#"let text = "pass --dtype f32";"#,
        r#"             --keep-loaded out, or"#,
        r#"#[error("`--bpm {value}`")]"#,
        r#"let text = "run `acestep model pull`";"#,
    ] {
        assert_eq!(faults(line, &patterns).len(), 1, "{line}");
    }
    for line in [
        "/// Value of `--dtype`.",
        "let x = 1; // as --dtype says",
        r#""build it with `--features opus`""#,
        r#"let page = "<!-- acestep bench: a -->";"#,
        r#"        .args(["--name", name])"#,
        r#"let rhythm = "x---x-o-";"#,
        "#[cfg(test)]\nmod tests {\n    const FLAG: &str = \"--bpm\";\n}",
    ] {
        assert_eq!(faults(line, &patterns), Vec::<String>::new(), "{line}");
    }
}
