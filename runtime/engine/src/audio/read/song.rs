//! Reads sound for a network: a source, a reference, or a song to describe, encode or train on. The
//! same rules apply to all of them.

use std::path::Path;

use super::{Problem, read_all};
use crate::{
    Error, Notice,
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

/// Reads a song as [`read`](super::read()) does. It must last at least `least` seconds, the
/// duration of a latent frame.
///
/// # Errors
/// The errors of [`read`](super::read()); [`Error::Unheard`] with [`Problem::Silent`] or
/// [`Problem::TooShort`].
pub fn song(path: &Path, least: f64) -> Result<(Audio, Vec<Notice>), Error> {
    let (audio, mut notices, channels) = read_all(path)?;
    let unheard = |problem| Error::Unheard { path: path.to_owned(), problem };
    let peak = peak(&audio);
    if peak < SILENT {
        return Err(unheard(Problem::Silent { channels }));
    }
    let seconds = audio.seconds();
    if seconds < least {
        return Err(unheard(Problem::TooShort { seconds, least }));
    }
    if peak < QUIET {
        let decibels = 20.0 * peak.log10();
        let path = path.display();
        notices.push(Notice(format!("`{path}` is very quiet: its peak is at {decibels:.0} dB")));
    }
    let clipped = clipped(&audio);
    // For samples above full scale there is already a notice that they will be clipped.
    if clipped > CLIPPED && peak <= 1.0 {
        let (path, share) = (path.display(), 100.0 * clipped);
        let text = format!("`{path}` is clipped: {share:.1} % of its samples lie at full scale");
        notices.push(Notice(text));
    }
    Ok((audio, notices))
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
    use crate::audio::wav::{WavFormat, to_bytes};

    fn decoded(channels: Vec<Vec<f32>>) -> Result<Vec<String>, Problem> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.wav");
        let audio = Audio { channels, sample_rate: 1_000 };
        let bytes = to_bytes(&audio, WavFormat::Float32).expect("a WAV");
        std::fs::write(&path, bytes).expect("written");
        match song(&path, 0.04) {
            Ok((_, notices)) => Ok(notices.into_iter().map(|notice| notice.0).collect()),
            Err(Error::Unheard { problem, path: named }) => {
                assert_eq!(named, path);
                Err(problem)
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// A square wave with a period of twenty samples.
    fn square(height: f32, samples: usize) -> Vec<f32> {
        (0..samples).map(|i| if i / 10 % 2 == 0 { height } else { -height }).collect()
    }

    #[test]
    fn silence_is_refused_and_what_is_nearly_silent_is_said() {
        assert_eq!(decoded(vec![vec![0.0; 100]; 2]), Err(Problem::Silent { channels: 2 }));
        assert_eq!(decoded(vec![vec![9e-7; 100]]), Err(Problem::Silent { channels: 1 }));
        let text = "its peak is at -80 dB";
        let said = decoded(vec![square(1e-4, 100)]).expect("a sound");
        assert!(said.len() == 1 && said[0].ends_with(text), "{said:?}");
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
    fn less_than_a_frame_is_refused() {
        let problem = decoded(vec![square(0.5, 39)]).expect_err("short");
        assert_eq!(problem, Problem::TooShort { seconds: 0.039, least: 0.04 });
        assert_eq!(decoded(vec![square(0.5, 40)]), Ok(vec![]));
    }

    #[test]
    fn flat_tops_are_said_and_single_peaks_are_not() {
        let said = decoded(vec![square(1.0, 100), square(0.5, 100)]).expect("a sound");
        assert!(said.len() == 1, "{said:?}");
        assert!(said[0].ends_with("is clipped: 50.0 % of its samples lie at full scale"));
        let peaks = (0..100).map(|i| if i % 4 == 0 { 1.0 } else { -0.2 }).collect();
        assert_eq!(decoded(vec![peaks]), Ok(vec![]));
        let above = decoded(vec![square(1.5, 100)]).expect("a sound");
        assert!(above.len() == 1 && above[0].contains("above full scale"), "{above:?}");
    }
}
