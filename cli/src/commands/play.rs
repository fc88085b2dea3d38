//! `acestep play`: plays a song, in builds with the feature `play`.

#[cfg(feature = "play")]
mod speaker;

use acestep_engine::audio::read;
use anyhow::Result;

use crate::args::{Global, after::Play};

/// Runs the command.
///
/// # Errors
/// A file that is not a sound; no speaker; a build without the feature.
pub(crate) fn run(args: &Play, global: &Global) -> Result<()> {
    let report = global.report();
    for song in &args.songs {
        let (audio, notices) = read::read(song, &crate::interrupt::STOP)?;
        report.notes(&notices);
        play(&audio, song, &report)?;
    }
    Ok(())
}

#[cfg(feature = "play")]
pub(super) use speaker::Speaker;
#[cfg(feature = "play")]
use speaker::play;

#[cfg(not(feature = "play"))]
fn play(
    _: &acestep_engine::audio::Audio,
    song: &std::path::Path,
    _: &crate::report::Report,
) -> Result<()> {
    let other = if cfg!(target_os = "macos") { "afplay" } else { "ffplay" };
    Err(plays_nothing(&format!("run `{other} \"{}\"`", song.display())).into())
}

#[cfg(not(feature = "play"))]
fn plays_nothing(instead: &str) -> crate::error::CliError {
    let hint =
        format!("build it with --features play, which on Linux wants ALSA's headers, or {instead}");
    crate::error::CliError::new("this build of acestep plays nothing").hint(hint)
}

/// The speakers, which this build cannot use: there is no value of this type.
#[cfg(not(feature = "play"))]
pub(super) enum Speaker {}

#[cfg(not(feature = "play"))]
impl Speaker {
    /// Returns an error: this build plays nothing.
    pub(super) fn check() -> Result<()> {
        Err(plays_nothing("pipe it to a player: `acestep speak .. -o - | aplay`").into())
    }

    /// As [`Self::check`].
    pub(super) fn open() -> Result<Self> {
        Self::check()?;
        anyhow::bail!("there are no speakers")
    }

    pub(super) fn play(&self, _: &[f32], _: u32) {
        match *self {}
    }

    pub(super) fn wait(&self) {
        match *self {}
    }
}
