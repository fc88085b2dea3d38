//! Tests of the program through its command line: arguments, output and files.

mod adapters;
mod after;
mod bench;
mod check;
mod config;
mod corruption;
mod devices;
mod dialogue;
mod editing;
mod examples;
#[cfg(unix)]
mod families;
mod files;
// Included by path: the test library would add its backend to any build of the program.
#[path = "../src/foreign/mod.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "it is a module of another crate too"
)]
mod foreign;
mod heard;
mod help;
mod hub;
mod inputs;
mod interrupt;
#[cfg(unix)]
mod journeys;
mod language;
mod models;
mod numbers;
mod outputs;
mod progress;
mod quantize;
mod requests;
#[cfg_attr(not(unix), expect(dead_code, reason = "tests with signals use the rest"))]
mod running;
mod sampler;
#[cfg(unix)]
mod serve;
#[cfg_attr(not(unix), expect(dead_code, reason = "tests with signals use the rest"))]
mod server;
#[cfg(unix)]
mod service;
mod shell;
mod songs;
mod sound;
mod speak;
mod speech_files;
mod thinking;
mod together;
mod train;
mod understand;
mod verify;
mod voice;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// Sampling flags with which the tiny language model, a random network, soon stops.
const DRAWS: [&str; 4] = ["--lm-temperature", "2", "--lm-top-p", "1"];

/// Returns a file or a folder of the goldens.
fn goldens(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens").join(name)
}

/// Copies a folder with everything in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).expect("a copy");
        }
    }
}

/// Gives `to` the environment of `from`.
#[cfg(unix)]
fn take_environment(to: &mut Command, from: &Command) {
    for (name, value) in from.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
}

/// A temporary folder to run the program in, without a home directory and without settings.
struct Dir {
    folder: TempDir,
}

/// The exit code and the output of a run.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

impl Dir {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        const XDG: [&str; 4] = ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];
        const WINDOWS: [&str; 3] = ["APPDATA", "LOCALAPPDATA", "USERPROFILE"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_acestep"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .envs(XDG.iter().chain(&WINDOWS).map(|name| (name, "/nonexistent")))
            // No GPU, whatever the machine has: Vulkan finds no driver, and CUDA no device.
            .env("VK_DRIVER_FILES", "none")
            .env("VK_ICD_FILENAMES", "none")
            .env("CUDA_VISIBLE_DEVICES", "")
            .stdin(Stdio::null());
        let own = std::env::vars_os().map(|(name, _)| name);
        let is_said = |name: &&OsString| {
            let name = name.to_string_lossy().to_uppercase();
            let says = ["ACESTEP_", "HF_"].iter().any(|start| name.starts_with(start));
            says || name.ends_with("_PROXY")
        };
        own.filter(|name| is_said(&name)).for_each(|name| {
            command.env_remove(name);
        });
        for name in ["COLUMNS", "NO_COLOR", "CLICOLOR_FORCE", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, args: &[impl AsRef<OsStr>]) -> Run {
        Run::of(&mut self.command(args))
    }

    /// Runs with variables of the environment.
    fn run_with(&self, args: &[impl AsRef<OsStr>], variables: &[(&str, &str)]) -> Run {
        Run::of(self.command(args).envs(variables.iter().copied()))
    }

    /// Runs with the folder `home` for the user's data, such as voices.
    fn run_at_home(&self, args: &[impl AsRef<OsStr>]) -> Run {
        Run::of(self.command(args).env("XDG_DATA_HOME", self.path("home")))
    }

    /// Runs `generate --model tiny --thinking` for a short song, with `args` added.
    fn thinking(&self, args: &[&str]) -> Run {
        self.tiny(&[&["--thinking"], &DRAWS[..], args].concat())
    }

    fn run_with_stdin(&self, args: &[&str], stdin: &[u8]) -> Run {
        Run::with_stdin(&mut self.command(args), stdin)
    }

    /// Runs `generate --model tiny --dry-run --json` for a request file, with `flags` added.
    fn planned(&self, request: &str, flags: &[&str]) -> Run {
        let args = ["generate", "--request", request, "--model", "tiny", "--dry-run", "--json"];
        self.run(&[&args, flags].concat())
    }

    /// Runs `generate --model tiny` for a short song, with `args` added.
    fn tiny(&self, args: &[&str]) -> Run {
        let common = ["generate", "--model", "tiny", "--duration", "1"];
        self.run(&[&common, args].concat())
    }

    /// Returns the sorted names of everything in the folder, with hidden files.
    fn files(&self) -> Vec<String> {
        names(self.folder.path())
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn text(&self, name: impl AsRef<Path>) -> String {
        std::fs::read_to_string(self.path(&name))
            .unwrap_or_else(|e| panic!("{}: {e}", name.as_ref().display()))
    }

    /// Returns the samples of a 16-bit WAV file. (Tags may differ for equal songs.)
    fn sound(&self, name: &str) -> Vec<i16> {
        let mut file = hound::WavReader::open(self.path(name)).expect("a WAV file");
        file.samples().map(|sample| sample.expect("a sample")).collect()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).expect("writes");
    }

    /// Reads a JSON file in the folder.
    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).expect("JSON")
    }

    /// Writes a WAV file at 48 kHz with the values of each sample and channel: integers of 16 bits, or floats.
    fn write_wav<S: hound::Sample>(
        &self,
        name: &str,
        channels: u16,
        samples: u32,
        value: impl Fn(u32, u16) -> S,
    ) {
        let is_int = size_of::<S>() == 2;
        let spec = hound::WavSpec {
            channels,
            sample_rate: 48_000,
            bits_per_sample: if is_int { 16 } else { 32 },
            sample_format: if is_int {
                hound::SampleFormat::Int
            } else {
                hound::SampleFormat::Float
            },
        };
        let mut file = hound::WavWriter::create(self.path(name), spec).expect("a file");
        for sample in 0..samples {
            for channel in 0..channels {
                file.write_sample(value(sample, channel)).expect("a sample");
            }
        }
        file.finalize().expect("a file");
    }

    /// Copies the tiny language model in the released layout; returns its directory.
    fn language_model(&self) -> PathBuf {
        self.copy("acestep-5Hz-lm-0.6B")
    }

    /// Copies the tiny checkpoint in the released layout; returns the transformer's directory.
    fn checkpoint(&self) -> PathBuf {
        for directory in ["vae", "Qwen3-Embedding-0.6B"] {
            self.copy(directory);
        }
        self.copy("acestep-v15-turbo")
    }

    fn copy(&self, directory: &str) -> PathBuf {
        let to = self.path(directory);
        copy(&goldens("checkpoints_a").join(directory), &to);
        to
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let stderr = String::from_utf8(output.stderr).expect("messages are UTF-8");
        Self { code: output.status.code(), stdout: output.stdout, stderr }
    }
}

impl Run {
    fn of(command: &mut Command) -> Self {
        Self::from(command.output().expect("the program starts"))
    }

    fn with_stdin(command: &mut Command, stdin: &[u8]) -> Self {
        use std::io::{ErrorKind, Write};
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        match child.stdin.take().expect("a pipe").write_all(stdin) {
            // The program does not read its input after an early error.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written.expect("the program reads"),
        }
        Self::from(child.wait_with_output().expect("the program ends"))
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("UTF-8")
    }

    #[track_caller]
    fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self
    }

    /// Asserts exit code `code`, an empty standard output, and exactly one `error`.
    #[track_caller]
    fn failed(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert_eq!(self.text(), "");
        assert_eq!(self.stderr.matches("error: ").count(), 1, "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Asserts that standard error contains `text`.
    #[track_caller]
    fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "wanted {text:?} in:\n{}", self.stderr);
        self
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).expect("one JSON object")
    }
}
