//! Shell completions, manual pages and the version.

use super::Dir;

#[test]
fn completions_know_every_command_and_flag() {
    let dir = Dir::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let run = dir.run(&["completions", shell]).succeeded();
        for word in ["generate", "inference-steps", "models-dir", "understand"] {
            assert!(run.text().contains(word), "{shell} lacks {word}");
        }
        assert!(run.stderr.is_empty());
    }
    dir.run(&["completions", "cmd"]).failed(2).says("possible values: bash");
    dir.run(&["completions"]).failed(2).says("<SHELL>");
}

/// Runs the completion script in Bash.
#[cfg(unix)]
#[test]
fn bash_completes_a_flag() {
    let dir = Dir::new();
    let script = dir.run(&["completions", "bash"]).succeeded();
    let script = format!(
        "{}\nCOMP_WORDS=(acestep generate --infer); COMP_CWORD=2; _acestep acestep --infer generate; \
         echo \"${{COMPREPLY[@]}}\"",
        script.text()
    );
    // In a file: an argument may have 128 KiB at most.
    dir.write("script", script);
    let bash = std::process::Command::new("bash").arg(dir.path("script")).output();
    let output = bash.expect("bash");
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(words.contains("--inference-steps") && words.contains("--infer-method"), "{words}");
}

#[test]
fn there_is_a_page_of_the_manual_for_each_command() {
    let dir = Dir::new();
    let page = dir.run(&["man"]).succeeded();
    assert!(page.text().contains(".TH ACESTEP 1") && page.text().contains("understand"));
    let page = dir.run(&["man", "model", "pull"]).succeeded();
    assert!(page.text().contains(".TH ACESTEP-MODEL-PULL 1") && page.text().contains("revision"));
    dir.run(&["man", "modle"]).failed(2).says("there is no command `modle`").says("`model`?");
    dir.run(&["man", "xyz"]).failed(2).says("it is one of generate");
    let run = dir.run(&["man", "--output", "man/1"]).succeeded();
    assert_eq!(run.text(), "man/1\n");
    let pages = super::names(&dir.path("man/1"));
    for name in ["acestep.1", "acestep-generate.1", "acestep-model-pull.1"] {
        assert!(pages.contains(&name.to_owned()), "{pages:?}");
    }
}

#[test]
fn the_version_says_which_build_it_is() {
    let dir = Dir::new();
    let short = dir.run(&["-V"]).succeeded();
    assert_eq!(short.text(), format!("acestep {}\n", env!("CARGO_PKG_VERSION")));
    let long = dir.run(&["--version"]).succeeded();
    let lines: Vec<_> = long.text().lines().collect();
    assert_eq!(lines[0], short.text().trim_end());
    assert!(lines[1].starts_with("commit    ") && lines[2].starts_with("built for "), "{lines:?}");
    let built_in = acestep_engine::device::BUILT_IN.join(", ");
    assert!(lines[3].starts_with(&format!("features  {built_in}, ")), "{lines:?}");
}

/// The book's command pages are generated from the help of the program.
#[test]
fn the_pages_of_the_book_are_what_the_program_says() {
    let dir = Dir::new();
    dir.run(&["man", "--format", "markdown", "--output", "pages"]).succeeded();
    let book = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/commands");
    assert_eq!(super::names(&dir.path("pages")), super::names(&book));
    for name in super::names(&book) {
        let kept = std::fs::read_to_string(book.join(&name)).expect("a page");
        let made = dir.text(format!("pages/{name}"));
        assert!(
            kept == made,
            "{name} has changed: `acestep man --format markdown --output book/src/commands`"
        );
    }
}
