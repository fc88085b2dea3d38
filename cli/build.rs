//! Passes the commit and the target of the build to the program.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=ACESTEP_COMMIT={commit}");
    #[expect(clippy::disallowed_methods, reason = "this is what Cargo tells, and not the user")]
    let target = env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=ACESTEP_TARGET={target}");
    // This file changes with every commit and every change of branch.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// Runs Git and returns its output; `None` if there is no Git or no repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
