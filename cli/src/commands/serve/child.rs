//! The server's own worker: its command line.

use std::{env, ffi::OsString, path::Path};

use acestep_serve::installed::Installed;
use anyhow::{Context, Result};

use crate::args::{Global, serve::Serve};

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
    let mut flag = |name: &str, value: OsString| command.extend([name.into(), value]);
    flag("--data-dir", data_dir.into());
    // A worker has the variable of the server, which other users do not see.
    if let Some(queue) = &args.data.queue {
        flag("--queue", queue.into());
    }
    flag("--device", (&args.place.device).into());
    flag("--dtype", (&args.place.dtype).into());
    if let Some(threads) = args.place.threads {
        flag("--threads", threads.to_string().into());
    }
    flag("--model", catalog.default_model().into());
    flag("--speech-model", catalog.default_speech_model().into());
    if let Some(model) = &args.warm {
        flag("--warm", model.into());
    }
    flag("--drain", args.operation.drain.to_string().into());
    flag("--lease", args.operation.lease.to_string().into());
    if let Some(minutes) = args.operation.stall {
        flag("--stall", minutes.to_string().into());
    }
    flag("--log-format", args.operation.log_format.name().into());
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
