//! CI runs the commands of the README.

use acestep_tests::root;

use super::text;

/// Returns the lines of the README's shell blocks.
fn commands() -> Vec<String> {
    let readme = text(&root().join("README.md"));
    let mut inside = false;
    let mut commands = Vec::new();
    for line in readme.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            command if inside => commands.push(command.to_owned()),
            _ => {}
        }
    }
    commands
}

/// `.ci/run` adds features to the tests, and makes the song with the program of the tests. The workflow
/// builds the release program.
#[test]
fn the_first_two_commands_of_the_readme_are_what_the_ci_runs() {
    let ci = text(&root().join(".ci/run"));
    let workflow = text(&root().join(".github/workflows/ci.yml"));
    let [song, test] = &commands()[..2] else { panic!("the README has two commands") };
    let arguments =
        "generate \"dark techno, driving, fast\" --instrumental --model demo -o song.wav";
    assert_eq!(*song, format!("cargo run --release -- {arguments}"));
    assert_eq!(test, "cargo test --workspace");
    let (arguments, _) = arguments.split_once(" -o ").expect("an output");
    assert!(ci.lines().any(|line| line.contains(&format!("acestep\" {arguments}"))), "{song}");
    assert!(workflow.contains(&format!("run: {song}")), "{song}");
    assert!(ci.lines().any(|line| line.trim().starts_with(&**test)), "{test}");
}

/// Checks paths in backticks and links.
#[test]
fn every_path_that_the_pages_name_exists() {
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let page_text = text(&root().join(page));
        let quoted = page_text.split('`').skip(1).step_by(2);
        let linked = page_text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let is_ours = |path: &&str| {
            let folders = ["model/", "import/", "runtime/", "cli/", "tests/", "book/", "docs/"];
            let file = |path: &str| path.ends_with(".md") || path.ends_with(".toml");
            let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            plain && (folders.iter().any(|folder| path.starts_with(folder)) || file(path))
        };
        for path in quoted.chain(linked).filter(is_ours) {
            assert!(root().join(path).exists(), "{page} names `{path}`");
        }
    }
}
