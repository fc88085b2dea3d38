//! Reads sound for a network: a source, a reference, or a song to describe, encode or train on. The
//! same rules apply to all of them. Recordings of speech have other ones: see [`recording`].

use std::path::Path;

use super::{MOST_SAMPLES, Problem, SONG, Use, read_within};
use crate::{
    Error, Notice, Observe,
    audio::{Audio, loudness::peak},
};

/// A peak below this is silence, as in upstream.
pub const SILENT: f32 = 1e-6;

/// A peak below this gives a notice: -60 dB.
const QUIET: f32 = 1e-3;

/// Absolute values from here on are at full scale, also for 16-bit samples.
const FULL: f32 = 0.9999;

/// This many consecutive samples at full scale are clipped; fewer may be a real peak.
const FLAT: usize = 3;

/// The audible share of clipped samples: one in a thousand.
const CLIPPED: f64 = 1e-3;

/// Reads a song as [`read`](super::read()) does, for a network whose sound has `rate` samples a
/// second. It must last at least `least` seconds, the duration of a latent frame.
///
/// # Errors
/// The errors of [`read`](super::read()); [`Error::Unheard`] with [`Problem::Silent`] or
/// [`Problem::TooShort`]; [`Error::Cancelled`].
pub fn song(
    path: &Path,
    least: f64,
    rate: u32,
    observe: &dyn Observe,
) -> Result<(Audio, Vec<Notice>), Error> {
    let (audio, mut notices, channels) = read_within(path, SONG, observe)?;
    if peak(&audio) < SILENT {
        let problem = Problem::Silent { channels };
        return Err(Error::Unheard { path: path.to_owned(), problem });
    }
    notices.extend(check(&audio, path, least, rate)?);
    if audio.channels.len() == 1 {
        notices.push(Notice(format!("`{}` has 1 channel: it is doubled", path.display())));
    }
    Ok((audio, notices))
}

/// Reads a recording of speech for a network at `rate`. It must last at least `least` seconds: all its
/// channels, also beyond full scale. Silence is a notice, because models of speech have an answer to it.
///
/// # Errors
/// The errors of [`read`](super::read()); [`Error::Unheard`] with [`Problem::TooShort`];
/// [`Error::Cancelled`].
pub fn recording(
    path: &Path,
    least: f64,
    rate: u32,
    observe: &dyn Observe,
) -> Result<(Audio, Vec<Notice>), Error> {
    let (audio, mut notices, _) = read_within(path, (Use::Recording, MOST_SAMPLES), observe)?;
    // For more channels there is already a notice.
    if audio.channels.len() == 2 {
        let path = path.display();
        notices.push(Notice(format!("`{path}` has 2 channels: their mean is read")));
    }
    notices.extend(check(&audio, path, least, rate)?);
    Ok((audio, notices))
}

/// Refuses sound of less than `least` seconds. Returns notices about its level, and about its rate
/// unless that is `rate`.
fn check(audio: &Audio, path: &Path, least: f64, rate: u32) -> Result<Vec<Notice>, Error> {
    let (seconds, peak) = (audio.seconds(), peak(audio));
    if seconds < least {
        let problem = Problem::TooShort { seconds, least };
        return Err(Error::Unheard { path: path.to_owned(), problem });
    }
    let (path, mut notices) = (path.display(), Vec::new());
    let own = audio.sample_rate;
    if own != rate {
        notices.push(Notice(format!("`{path}` has {own} Hz: it is resampled to {rate} Hz")));
    }
    if peak < SILENT {
        notices.push(Notice(format!("`{path}` is silent: check that it is the right file")));
    } else if peak < QUIET {
        let decibels = 20.0 * peak.log10();
        notices.push(Notice(format!("`{path}` is very quiet: its peak is at {decibels:.0} dB")));
    }
    let clipped = clipped(audio);
    // For samples above full scale there is already a notice.
    if clipped > CLIPPED && peak <= 1.0 {
        let share = 100.0 * clipped;
        let text = format!("`{path}` is clipped: {share:.1} % of its samples lie at full scale");
        notices.push(Notice(text));
    }
    Ok(notices)
}

/// The share of clipped samples.
fn clipped(audio: &Audio) -> f64 {
    let side = |x: &f32| if x.abs() >= FULL { x.signum() } else { 0.0 };
    let of_channel = |channel: &Vec<f32>| -> usize {
        let tops = channel.chunk_by(|a, b| side(a) == side(b));
        tops.filter(|top| top.len() >= FLAT && side(&top[0]) != 0.0).map(<[f32]>::len).sum()
    };
    let flat: usize = audio.channels.iter().map(of_channel).sum();
    flat as f64 / (audio.samples() * audio.channels.len()).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Unobserved, audio::wav::to_bytes};

    type Reader = fn(&Path, f64, u32) -> Result<(Audio, Vec<Notice>), Error>;

    fn song(path: &Path, least: f64, rate: u32) -> Result<(Audio, Vec<Notice>), Error> {
        super::song(path, least, rate, &Unobserved)
    }

    fn recording(path: &Path, least: f64, rate: u32) -> Result<(Audio, Vec<Notice>), Error> {
        super::recording(path, least, rate, &Unobserved)
    }

    /// Returns what is said of a song, without the last sentence about a single channel.
    fn decoded(channels: Vec<Vec<f32>>) -> Result<Vec<String>, Problem> {
        let (audio, mut said) = read_with(song, channels)?;
        if audio.channels.len() == 1 {
            let last = said.pop().expect("a notice");
            assert!(last.ends_with("has 1 channel: it is doubled"), "{last}");
        }
        Ok(said)
    }

    fn read_with(reader: Reader, channels: Vec<Vec<f32>>) -> Result<(Audio, Vec<String>), Problem> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.wav");
        let audio = Audio { channels, sample_rate: 1_000 };
        let bytes = to_bytes(&audio, 32, &Unobserved).expect("a WAV");
        std::fs::write(&path, bytes).expect("written");
        match reader(&path, 0.04, 1_000) {
            Ok((audio, notices)) => {
                Ok((audio, notices.into_iter().map(|notice| notice.0).collect()))
            }
            Err(Error::Unheard { problem, path: named }) => {
                assert_eq!(named, path);
                Err(problem)
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn is_all(said: &[String], text: &str) {
        assert!(said.len() == 1 && said[0].ends_with(text), "{said:?}");
    }

    /// A square wave with a period of twenty samples.
    fn square(height: f32, samples: usize) -> Vec<f32> {
        (0..samples).map(|i| if i / 10 % 2 == 0 { height } else { -height }).collect()
    }

    #[test]
    fn silence_is_refused_and_what_is_nearly_silent_is_said() {
        assert_eq!(decoded(vec![vec![0.0; 100]; 2]), Err(Problem::Silent { channels: 2 }));
        assert_eq!(decoded(vec![vec![9e-7; 100]]), Err(Problem::Silent { channels: 1 }));
        let said = decoded(vec![square(1e-4, 100)]).expect("a sound");
        is_all(&said, "its peak is at -80 dB");
        assert_eq!(decoded(vec![square(0.01, 100)]), Ok(vec![]));
    }

    /// For example a film with sound only in the centre channel.
    #[test]
    fn two_silent_channels_of_six_are_refused_with_a_remedy() {
        let mut channels = vec![vec![0.0; 100]; 6];
        channels[2] = square(0.5, 100);
        let problem = decoded(channels).expect_err("silent");
        let text = "of its 6 channels the first two, which are read, are silent";
        assert_eq!(problem.to_string(), text);
        assert!(problem.hint().contains("-ac 2"));
    }

    #[test]
    fn a_silent_recording_of_speech_is_said_and_not_refused() {
        let silent = vec![vec![0.0; 100]];
        let (audio, said) = read_with(recording, silent.clone()).expect("a sound");
        assert_eq!(audio.channels, silent);
        is_all(&said, "is silent: check that it is the right file");
    }

    #[test]
    fn a_recording_of_speech_keeps_all_channels_and_what_is_above_full_scale() {
        let channels: Vec<_> = (1..=4).map(|k| square(0.5 * k as f32, 100)).collect();
        let (audio, said) = read_with(recording, channels.clone()).expect("a sound");
        assert_eq!(audio.channels, channels);
        let [of_channels, above] = &said[..] else { panic!("{said:?}") };
        assert!(of_channels.ends_with("has 4 channels: their mean is read"), "{of_channels}");
        // Two of the four channels, 1.5 and 2.
        assert!(above.ends_with("has 200 samples above full scale"), "{above}");
    }

    #[test]
    fn another_rate_and_a_mean_of_channels_are_said() {
        let stereo = || vec![square(0.5, 100), square(0.25, 100)];
        assert_eq!(decoded(stereo()), Ok(vec![]));
        let at = read_with(|path, least, _| song(path, least, 48_000), stereo());
        is_all(&at.expect("a sound").1, "has 1000 Hz: it is resampled to 48000 Hz");
        let (audio, said) = read_with(recording, stereo()).expect("a sound");
        assert_eq!(audio.channels, stereo());
        is_all(&said, "has 2 channels: their mean is read");
    }

    #[test]
    fn less_than_a_frame_is_refused() {
        let short = |reader: Reader| read_with(reader, vec![square(0.5, 39)]).expect_err("short");
        for problem in [short(song), short(recording)] {
            assert_eq!(problem, Problem::TooShort { seconds: 0.039, least: 0.04 });
        }
        assert_eq!(decoded(vec![square(0.5, 40)]), Ok(vec![]));
    }

    #[test]
    fn flat_tops_are_said_and_single_peaks_are_not() {
        let said = decoded(vec![square(1.0, 100), square(0.5, 100)]).expect("a sound");
        is_all(&said, "is clipped: 50.0 % of its samples lie at full scale");
        let peaks = (0..100).map(|i| if i % 4 == 0 { 1.0 } else { -0.2 }).collect();
        assert_eq!(decoded(vec![peaks]), Ok(vec![]));
        let above = decoded(vec![square(1.5, 100)]).expect("a sound");
        assert!(above.len() == 1 && above[0].contains("above full scale"), "{above:?}");
    }
}
