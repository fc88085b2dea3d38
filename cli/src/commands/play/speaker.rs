//! Playback through the speakers, with rodio.

use std::{
    num::{NonZeroU16, NonZeroU32},
    path::Path,
    thread,
    time::Duration,
};

use acestep_engine::audio::Audio;
use anyhow::{Context, Result};
use rodio::{DeviceSinkBuilder, MixerDeviceSink, Player, buffer::SamplesBuffer};

use crate::{error::CliError, interrupt, report::Report};

/// The system's speakers.
pub(in super::super) struct Speaker {
    player: Player,
    /// Playback ends when it is dropped.
    _sink: MixerDeviceSink,
}

impl Speaker {
    /// Checks that this build plays sound.
    pub(in super::super) fn check() -> Result<()> {
        Ok(())
    }

    /// Opens the default device.
    ///
    /// # Errors
    /// If there is none, or it cannot be used.
    pub(in super::super) fn open() -> Result<Self> {
        let mut sink = DeviceSinkBuilder::open_default_sink().map_err(|error| {
            CliError::new("no speaker can be used")
                .because(error)
                .hint("check the sound settings of the system, or leave the sound in its file")
        })?;
        sink.log_on_drop(false);
        Ok(Self { player: Player::connect_new(sink.mixer()), _sink: sink })
    }

    /// Adds mono samples to those that are played.
    pub(in super::super) fn play(&self, samples: &[f32], rate: u32) {
        if let Some(rate) = NonZeroU32::new(rate) {
            self.player.append(SamplesBuffer::new(NonZeroU16::MIN, rate, samples.to_vec()));
        }
    }

    /// Waits until everything is played, or Ctrl-C.
    pub(in super::super) fn wait(&self) {
        interrupt::at_once(|| self.player.sleep_until_end());
    }
}

/// Plays a song to its end.
///
/// # Errors
/// If there is no playback device, or it fails.
pub(super) fn play(audio: &Audio, song: &Path, report: &Report) -> Result<()> {
    let channels = u16::try_from(audio.channels.len()).ok().and_then(NonZeroU16::new);
    let channels = channels.with_context(|| format!("`{}` has no channels", song.display()))?;
    let rate = NonZeroU32::new(audio.sample_rate)
        .with_context(|| format!("`{}` has no sample rate", song.display()))?;
    let Speaker { player, .. } = &Speaker::open()?;
    let frames = 0..audio.samples();
    let samples: Vec<f32> =
        frames.flat_map(|i| audio.channels.iter().map(move |channel| channel[i])).collect();
    player.append(SamplesBuffer::new(channels, rate, samples));
    report.line(&format!("playing {}", song.display()));
    let bar = report.bar(Some((audio.seconds() * 1000.0) as u64), "{wide_bar} {msg}");
    interrupt::at_once(|| {
        while !player.empty() {
            let position = player.get_pos();
            bar.set_position(position.as_millis() as u64);
            let (here, all) = (position.as_secs_f64(), audio.seconds());
            bar.set_message(format!("{here:.0} of {all:.0} s"));
            thread::sleep(Duration::from_millis(100));
        }
    });
    bar.finish_and_clear();
    Ok(())
}
