//! Makes one second of a song with the built-in model, in a child process.

use std::{
    io::Read,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use acestep_engine::{
    Device, Error,
    device::{choice, dtype, listing::Listing},
};
use acestep_session::doctor::{Check, Status};
use anyhow::{Context, Result};
use burn::tensor::DType;
use serde_json::json;

use crate::{
    args::{device::Where, values::words},
    interrupt, settings,
};

/// Time limit for a CPU.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for a GPU, whose kernels may have to be compiled first.
const PATIENCE_WITH_CARDS: Duration = Duration::from_secs(600);

/// Returns the devices to test: the chosen one, else all that `auto` could use.
pub(super) fn devices(listing: &Listing, chosen: Option<Device>) -> Vec<Device> {
    match chosen {
        Some(device) if choice::check(device, listing).is_ok() => vec![device],
        Some(_) => vec![],
        None => choice::usable(listing),
    }
}

/// Returns the line that is printed before the song is made.
pub(super) fn announcement(device: Device) -> String {
    let first = "; the first time this takes minutes, as kernels are compiled";
    let more = if device.is_gpu() { first } else { "" };
    format!("making a second of a song on {device}{more}")
}

/// Returns the check for a device without this type; nobody chose the device, so nothing is broken.
pub(super) fn impossible(device: Device, dtype: DType) -> Check {
    let detail = format!("none made: it does not compute in {}", dtype::name(dtype));
    Check::new(Status::Missing, "song", device.to_string(), detail)
}

/// Makes the song and returns its check, with the time it took. Type and threads are those of `place`.
pub(super) fn make(device: Device, place: &Where) -> Result<Check> {
    let folder = tempfile::tempdir().context("cannot make a folder for the song")?;
    let name = device.to_string();
    let start = Instant::now();
    let mut command = command(&name, place, &folder.path().join("song.wav"))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run this program once more")?;
    // Read while the child runs: a full pipe would block it.
    let stderr = child.stderr.take();
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        // After a read error the text so far is used.
        let _ = stderr.map(|mut stderr| stderr.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    let patience = if device == Device::Cpu { PATIENCE } else { PATIENCE_WITH_CARDS };
    let status = wait(&mut child, start + patience)?;
    let elapsed = start.elapsed();
    let said = reader.join().unwrap_or_default();
    Ok(judge(&name, status, &said, elapsed))
}

/// Returns the command that makes the song at `path`.
fn command(device: &str, place: &Where, path: &Path) -> Result<Command> {
    let mut command = settings::child()?;
    command
        .args(["generate", "a test", "--model", "tiny", "--no-thinking", "--duration", "1"])
        .args(["--seed", "1", "--color", "never", "--json"])
        .args(["--device", device, "--dtype", &place.dtype])
        .args(words("--output", Some(path)))
        .args(words("--threads", place.threads.map(|count| count.to_string())));
    Ok(command)
}

/// Waits for the child to end, or kills it after the deadline and returns `None`.
fn wait(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if interrupt::was_pressed() || Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            if interrupt::was_pressed() {
                return Err(Error::Cancelled.into());
            }
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn judge(name: &str, status: Option<ExitStatus>, said: &str, elapsed: Duration) -> Check {
    let seconds = elapsed.as_secs_f64();
    let figures = json!({ "seconds": seconds });
    let state = |state, detail: String| Check::new(state, "song", name, detail);
    let check = match status {
        Some(status) if status.success() => {
            let detail = format!("one second with the built-in model in {seconds:.1} s");
            state(Status::Ok, detail)
        }
        Some(status) => {
            let error = said.lines().find_map(|line| line.strip_prefix("error: "));
            let cause = said.lines().find_map(|line| line.trim().strip_prefix("cause: "));
            let last = said.lines().rfind(|line| !line.trim().is_empty());
            let what = error.or(last).map_or_else(|| status.to_string(), str::to_owned);
            let cause = cause.map_or(String::new(), |cause| format!(": {cause}"));
            let hint = format!("acestep generate test --model tiny --device {name} -v shows more");
            state(Status::Broken, format!("{what}{cause}")).hint(Some(hint))
        }
        None => {
            let hint = format!("acestep warmup --device {name} compiles its kernels ahead");
            state(Status::Broken, format!("not done after {seconds:.0} s")).hint(Some(hint))
        }
    };
    check.with(figures)
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;

    #[test]
    fn the_song_is_made_with_the_typed_threads() {
        let words = |threads| {
            let place = Where { device: "auto".into(), dtype: "f32".into(), threads };
            let command = command("cpu", &place, Path::new("song.wav")).expect("a command");
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert!(words(NonZero::new(3)).contains("--device cpu --dtype f32 "));
        assert!(words(NonZero::new(3)).contains(" --threads 3"));
        assert!(!words(None).contains("--threads"));
    }

    #[test]
    fn what_a_song_died_of_is_in_its_detail() {
        let said = "note: first run\nerror: the VAE gave silence\n  cause: it is quiet\n";
        let status = Command::new("false").status();
        // Not every system has `false`.
        let Ok(status) = status else { return };
        let check = judge("cpu", Some(status), said, Duration::from_secs(1));
        assert_eq!(check.detail, "the VAE gave silence: it is quiet");
        assert_eq!(check.state, Status::Broken);
        let check = judge("cpu", None, "", Duration::from_secs(90));
        assert_eq!((check.state, &*check.detail), (Status::Broken, "not done after 90 s"));
    }
}
