//! `acestep play`: plays a song, in builds with the feature `play`.

#[cfg(feature = "play")]
mod speaker;

use std::process::ExitCode;

use acestep_engine::audio::read;
use anyhow::Result;

use crate::args::{Global, after::Play};

/// Runs the command.
///
/// # Errors
/// A file that is not a sound; no speaker; a build without the feature.
pub(crate) fn run(args: &Play, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    for song in &args.songs {
        let (audio, notices) = read::read(song)?;
        report.notes(&notices);
        play(&audio, song, &report)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "play")]
use speaker::play;

#[cfg(not(feature = "play"))]
fn play(
    _: &acestep_engine::audio::Audio,
    song: &std::path::Path,
    _: &crate::report::Report,
) -> Result<()> {
    let other = if cfg!(target_os = "macos") { "afplay" } else { "ffplay" };
    let message = "this build of acestep plays nothing";
    let hint = format!(
        "build it with --features play, which on Linux wants ALSA's headers, or run `{other} {}`",
        song.display()
    );
    Err(crate::error::CliError::new(message).hint(hint).into())
}
