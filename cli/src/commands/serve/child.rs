//! The server's own worker: its command line.

use std::{env, ffi::OsString, path::Path};

use acestep_serve::installed::Installed;
use anyhow::{Context, Result};

use crate::args::{
    Global,
    serve::Serve,
    values::{name, words},
};

/// Returns the command line of the server's own worker. Settings of the server hold there too, and
/// what was typed for the server is typed again.
pub(super) fn worker(
    args: &Serve,
    catalog: &Installed,
    data_dir: &Path,
    global: &Global,
) -> Result<Vec<OsString>> {
    let program = env::current_exe().context("the program does not find itself")?;
    let mut command: Vec<OsString> = vec![program.into(), "work".into(), "--until-closed".into()];
    let (place, operation) = (&args.place, &args.operation);
    let number = |number: u32| Some(number.to_string());
    command.extend(words("--data-dir", Some(data_dir)));
    // A worker has the variable of the server, which other users do not see.
    command.extend(words("--queue", args.data.queue.as_ref()));
    command.extend(words("--device", Some(&place.device)));
    command.extend(words("--dtype", Some(&place.dtype)));
    command.extend(words("--threads", place.threads.map(|count| count.to_string())));
    command.extend(words("--model", Some(catalog.default_model())));
    command.extend(words("--speech-model", Some(catalog.default_speech_model())));
    command.extend(words("--warm", args.warm.as_ref()));
    command.extend(words("--drain", number(operation.drain)));
    command.extend(words("--lease", number(operation.lease)));
    command.extend(words("--stall", operation.stall.and_then(number)));
    command.extend(words("--log-format", Some(name(&operation.log_format))));
    command.extend(global.passed_on());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::command_line::{Cli, Command};

    #[test]
    fn a_worker_computes_where_and_with_what_was_typed_for_the_server() {
        let worker = |flags: &[&str]| {
            let words = [&["acestep", "serve", "--model", "tiny"], flags].concat();
            let cli = Cli::try_parse_from(words).expect("a command line");
            let Command::Serve(args) = &cli.command else { panic!("another command") };
            let catalog = Installed::new(
                acestep_import::Layout::new([]),
                None,
                Some("tiny".to_owned()),
                None,
            );
            worker(args, &catalog, Path::new("data"), &cli.global).expect("a command")
        };
        let typed = worker(&["--device", "cpu", "--dtype", "f32", "--threads", "3"]);
        for (flag, value) in [("--device", "cpu"), ("--dtype", "f32"), ("--threads", "3")] {
            assert!(typed.windows(2).any(|pair| pair == [flag, value]), "{flag}: {typed:?}");
        }
        let usual = worker(&[]);
        assert!(!usual.contains(&"--threads".into()), "{usual:?}");
    }
}
