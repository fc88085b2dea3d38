//! The same stages in PyTorch, if it is installed: runs a script of ours in a process of its own.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use acestep_engine::{Device, device::dtype::name};
use anyhow::{Context, Result};
use burn::tensor::DType;
use serde::Deserialize;

use super::speed::Task;
use crate::{
    Host,
    rows::{Results, Torch},
};

/// The Python script.
const SCRIPT: &str = include_str!("../../../../scripts/torch_speed.py");

/// A line of the script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ScriptLine {
    Begin(String),
    Torch(String),
    Row(Torch),
}

/// Runs every task with `python` and adds the results. Returns the reason if it could not run.
///
/// # Errors
/// If the script's files cannot be written.
pub(crate) fn run(
    python: &OsStr,
    device: Device,
    dtype: &str,
    tasks: &[Task],
    host: &dyn Host,
    results: &mut Results,
) -> Result<Option<String>> {
    let device = match device {
        Device::Cpu => "cpu".to_owned(),
        Device::Cuda(index) => format!("cuda:{index}"),
        Device::Wgpu(_) => return Ok(Some("PyTorch computes on no Vulkan device".to_owned())),
    };
    if dtype == name(DType::I8) {
        return Ok(Some(format!("it has no weights in {dtype}; `dtype: bf16` compares")));
    }
    let folder = tempfile::tempdir().context("cannot make a folder for PyTorch's script")?;
    let (script, list) = (folder.path().join("torch_speed.py"), folder.path().join("tasks.json"));
    let tasks = tasks.iter().map(|task| task.for_torch()).collect::<Result<Vec<_>>>()?;
    std::fs::write(&script, SCRIPT).context("cannot write PyTorch's script")?;
    std::fs::write(&list, serde_json::to_vec(&tasks)?).context("cannot write PyTorch's tasks")?;

    let mut command = Command::new(python);
    command.arg(&script).args(["--device", &device, "--dtype", dtype, "--tasks"]).arg(&list);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            return Ok(Some(format!("`{}` cannot be run: {error}", python.to_string_lossy())));
        }
    };
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(ScriptLine::Begin(id)) => host.line(&format!("torch             {id}")),
                Ok(ScriptLine::Torch(version)) => results.torch = Some(version),
                Ok(ScriptLine::Row(row)) => {
                    let time = row.wall_s.map(|seconds| format!("{:.3} ms", seconds * 1e3));
                    let time = time.or(row.error.clone()).unwrap_or_default();
                    host.line(&format!("         {}: {time}", row.mode));
                    results.torch_speeds.push(row);
                }
                // Compilers print there too.
                Err(_) => {}
            }
        }
    }
    let status = child.wait().context("cannot wait for PyTorch")?;
    Ok(match (&results.torch, status.success()) {
        (None, _) => Some("PyTorch is not there, or does not start".to_owned()),
        (Some(_), false) => Some(format!("PyTorch's script ended with {status}")),
        (Some(_), true) => None,
    })
}
