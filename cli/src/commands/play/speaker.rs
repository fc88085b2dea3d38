//! Playback through the speakers, with rodio.

use std::{
    num::{NonZeroU16, NonZeroU32},
    path::Path,
    thread,
    time::Duration,
};

use acestep_engine::audio::Audio;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rodio::{DeviceSinkBuilder, Player, buffer::SamplesBuffer};

use crate::{error::CliError, interrupt, progress::Style, report::Report};

/// Plays a song to its end.
///
/// # Errors
/// If there is no playback device, or it fails.
pub(super) fn play(audio: &Audio, song: &Path, report: &Report) -> Result<()> {
    let channels = u16::try_from(audio.channels.len()).ok().and_then(NonZeroU16::new);
    let channels = channels.with_context(|| format!("`{}` has no channels", song.display()))?;
    let rate = NonZeroU32::new(audio.sample_rate)
        .with_context(|| format!("`{}` has no sample rate", song.display()))?;
    let mut sink = DeviceSinkBuilder::open_default_sink().map_err(|error| {
        CliError::new("no speaker can be used")
            .because(error)
            .hint("check the sound settings of the system; the song is in its file all the same")
    })?;
    sink.log_on_drop(false);
    let frames = 0..audio.samples();
    let samples: Vec<f32> =
        frames.flat_map(|i| audio.channels.iter().map(move |channel| channel[i])).collect();
    let player = Player::connect_new(sink.mixer());
    player.append(SamplesBuffer::new(channels, rate, samples));
    report.line(&format!("playing {}", song.display()));
    let bar = (report.progress_style() == Style::Moving).then(|| {
        let length = (audio.seconds() * 1000.0) as u64;
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}") {
            bar.set_style(style);
        }
        bar
    });
    interrupt::at_once(|| {
        while !player.empty() {
            let position = player.get_pos();
            if let Some(bar) = &bar {
                bar.set_position(position.as_millis() as u64);
                bar.set_message(format!(
                    "{:.0} of {:.0} s",
                    position.as_secs_f64(),
                    audio.seconds()
                ));
            }
            thread::sleep(Duration::from_millis(100));
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(())
}
