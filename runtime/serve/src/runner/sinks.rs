//! Results on disk: sound files, peaks, texts.

use std::io::Write as _;

use acestep_engine::{
    Audio, Error, Existing, Notice,
    audio::{
        encoding::EncodingOptions,
        format::{Encoding, Format},
        tags::Tags,
        write,
    },
    write_whole,
};
use serde_json::json;

use crate::{
    job::{Content, RunOutput},
    worker::JobTask,
};

/// Columns of the picture of a waveform.
const COLUMNS: usize = 2000;
/// The most pairs of samples that a picture is made of.
const MOST_PAIRS: usize = 1 << 16;

/// Returns the encoding of sound files. A format that is not built in, or does not exist, is an error.
pub(super) fn encoding(
    format: Option<&str>,
    options: EncodingOptions,
    notices: &mut Vec<Notice>,
) -> Result<Encoding, Error> {
    let format: Format = format.map(str::parse).transpose()?.unwrap_or_default();
    Encoding::resolve(options, format.require()?, notices)
}

/// Writes a sound of a job, and its waveform.
pub(super) fn sound(
    task: &mut JobTask<'_>,
    track: u32,
    audio: &Audio,
    encoding: &Encoding,
    tags: Option<&Tags>,
    seed: Option<u64>,
) -> Result<(), Error> {
    let name = name(track, encoding);
    let bytes = write::to_bytes(audio, encoding, tags, task.observe)?;
    write_whole(&task.folder.join(&name), Existing::Replace, |file| file.write_all(&bytes))?;
    let mut peaks = Peaks::new();
    peaks.add(&audio.channels);
    made(task, track, name, seed, (&peaks, audio.sample_rate))
}

pub(super) fn name(track: u32, encoding: &Encoding) -> String {
    format!("{track}.{}", encoding.format.extension())
}

/// Adds a sound that is written to the results, and writes its waveform.
pub(super) fn made(
    task: &mut JobTask<'_>,
    track: u32,
    name: String,
    seed: Option<u64>,
    (peaks, sample_rate): (&Peaks, u32),
) -> Result<(), Error> {
    let seconds = peaks.samples as f64 / f64::from(sample_rate);
    task.made.push(RunOutput {
        track,
        content: Content::Audio,
        name,
        seed,
        seconds: Some(seconds),
    });
    let text = json!({ "duration": seconds, "peaks": peaks.columns() }).to_string();
    file(task, track, Content::Peaks, "peaks.json", text)
}

/// Writes another result of a song, whose name begins with the song's number.
pub(super) fn file(
    task: &mut JobTask<'_>,
    track: u32,
    content: Content,
    suffix: &str,
    bytes: impl AsRef<[u8]>,
) -> Result<(), Error> {
    named(task, track, content, format!("{track}.{suffix}"), bytes)
}

/// Writes another result of a job.
pub(super) fn named(
    task: &mut JobTask<'_>,
    track: u32,
    content: Content,
    name: String,
    bytes: impl AsRef<[u8]>,
) -> Result<(), Error> {
    let bytes = bytes.as_ref();
    write_whole(&task.folder.join(&name), Existing::Replace, |file| file.write_all(bytes))?;
    task.made.push(RunOutput { track, content, name, seed: None, seconds: None });
    Ok(())
}

/// The smallest and the largest samples of a sound that arrives in pieces.
pub(super) struct Peaks {
    pairs: Vec<[f32; 2]>,
    stretch: usize,
    samples: usize,
}

impl Peaks {
    pub(super) fn new() -> Self {
        Self { pairs: Vec::new(), stretch: 1, samples: 0 }
    }

    /// Takes the next samples of each channel.
    pub(super) fn add(&mut self, channels: &[impl AsRef<[f32]>]) {
        for i in 0..channels.first().map_or(0, |channel| channel.as_ref().len()) {
            if self.samples.is_multiple_of(self.stretch) {
                if self.pairs.len() == MOST_PAIRS {
                    self.pairs = self.pairs.chunks(2).map(both).collect();
                    self.stretch *= 2;
                }
                self.pairs.push([0.0; 2]);
            }
            if let Some([low, high]) = self.pairs.last_mut() {
                for channel in channels {
                    let x = channel.as_ref()[i];
                    (*low, *high) = (x.min(*low), x.max(*high));
                }
            }
            self.samples += 1;
        }
    }

    /// Returns the smallest and the largest sample of each column: one after the other.
    fn columns(&self) -> Vec<f64> {
        let (pairs, columns) = (&self.pairs, COLUMNS.min(self.pairs.len()));
        let of_column = |column: usize| {
            let range = column * pairs.len() / columns..(column + 1) * pairs.len() / columns;
            // Three digits are more than a picture shows.
            both(&pairs[range]).map(|x| (f64::from(x) * 1000.0).round() / 1000.0)
        };
        (0..columns).flat_map(of_column).collect()
    }
}

/// Returns the smallest and the largest sample of all pairs.
fn both(pairs: &[[f32; 2]]) -> [f32; 2] {
    pairs.iter().fold([0.0; 2], |[a, b], &[low, high]| [low.min(a), high.max(b)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 200 000 samples are 50 000 stretches of four, 25 for each column, so column 7 begins at sample 700. Its
    /// values are 0.7 and -0.7 in the middle.
    #[test]
    fn a_waveform_of_pieces_has_the_peaks_of_its_columns() {
        let mut sound = vec![0.25f32; 200_000];
        (sound[700], sound[701], sound[799]) = (0.7004, 0.1, -0.7);
        let mut peaks = Peaks::new();
        sound.chunks(1_920).for_each(|piece| peaks.add(&[piece]));
        assert_eq!((peaks.pairs.len(), peaks.stretch, peaks.samples), (50_000, 4, 200_000));
        let columns = peaks.columns();
        assert_eq!(columns.len(), 4000);
        assert_eq!(columns[12..18], [0.0, 0.25, -0.7, 0.7, 0.0, 0.25]);
        // A short sound has a column for each sample; the second channel counts too.
        let mut short = Peaks::new();
        short.add(&[[0.5f32, -0.5], [0.75, 0.0]]);
        assert_eq!(short.columns(), [0.0, 0.75, -0.5, 0.0]);
        assert!(Peaks::new().columns().is_empty());
    }
}
