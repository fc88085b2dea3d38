//! Sound while it is made: a file that grows, beside the results of an attempt.
//!
//! The worker appends samples, the server follows the file. So sound passes between processes without
//! a channel of its own, and a slow client holds nothing up.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// The name of the samples in the folder of the attempt.
const SAMPLES: &str = "preview.pcm";
/// The name of a file that is there while more samples are certain to come.
const MORE: &str = "preview.more";
/// The name of their description.
const FORMAT: &str = "preview.json";

/// The form of the samples: 16-bit integers, little endian, channels interleaved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewFormat {
    /// Samples per second.
    pub sample_rate: u32,
    /// Channels.
    pub channels: u16,
}

/// A preview that is written.
#[derive(Debug)]
pub struct Preview {
    file: fs::File,
    channels: usize,
    /// Samples so far.
    written: usize,
    more: PathBuf,
    is_certain: bool,
}

impl Preview {
    /// Begins a preview in the folder of an attempt.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn begin(folder: &Path, format: PreviewFormat) -> io::Result<Self> {
        let file = fs::File::create(folder.join(SAMPLES))?;
        // The description comes last: who sees it finds the samples.
        let text = serde_json::to_vec(&format)?;
        let temporary = folder.join("preview.json.part");
        fs::write(&temporary, text)?;
        fs::rename(temporary, folder.join(FORMAT))?;
        let (channels, more) = (usize::from(format.channels), folder.join(MORE));
        Ok(Self { file, channels, written: 0, more, is_certain: false })
    }

    /// Says if more samples are certain to come after the next ones. It is said before these are written, so
    /// a reader never takes the last ones for others.
    ///
    /// # Errors
    /// A file that cannot be written or removed.
    pub fn goes_on(&mut self, is_certain: bool) -> io::Result<()> {
        match (self.is_certain, is_certain) {
            (false, true) => fs::write(&self.more, b"")?,
            (true, false) => fs::remove_file(&self.more)?,
            _ => {}
        }
        self.is_certain = is_certain;
        Ok(())
    }

    /// Appends samples, one slice for each channel. Values outside -1 to 1 are clipped.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn samples(&mut self, channels: &[&[f32]]) -> io::Result<()> {
        debug_assert_eq!(channels.len(), self.channels, "the channels of the format");
        let length = channels.first().map_or(0, |channel| channel.len());
        let mut values = Vec::with_capacity(length * self.channels);
        for index in 0..length {
            for channel in channels {
                // As in a WAV file.
                let value = (f64::from(channel[index]) * 32768.0).round();
                values.push(value.clamp(-32768.0, 32767.0) as i16);
            }
        }
        self.integers(&values)
    }

    /// Appends samples that are integers already, those of all channels at a time one after the other.
    pub(crate) fn integers(&mut self, values: &[i16]) -> io::Result<()> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.file.write_all(&bytes)?;
        self.written += values.len() / self.channels;
        Ok(())
    }

    /// Appends what is new of a part of the sound that begins at sample `start`. The part may come
    /// again, as a stage that failed begins anew; a part behind a gap is left out.
    pub(crate) fn part(&mut self, start: usize, channels: &[&[f32]]) -> io::Result<()> {
        let length = channels.first().map_or(0, |channel| channel.len());
        let known = self.written.checked_sub(start);
        let Some(known) = known.filter(|&known| known < length) else { return Ok(()) };
        let new: Vec<&[f32]> = channels.iter().map(|channel| &channel[known..]).collect();
        self.samples(&new)
    }
}

/// Removes the preview in `folder`, if there is one. A task that already follows it reads on to its end.
///
/// # Errors
/// If a file cannot be removed.
pub fn remove(folder: &Path) -> io::Result<()> {
    // The description goes first: who sees it finds the samples.
    for name in [FORMAT, MORE, SAMPLES] {
        match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

pub(crate) async fn format(folder: &Path) -> Option<PreviewFormat> {
    serde_json::from_slice(&tokio::fs::read(folder.join(FORMAT)).await.ok()?).ok()
}

/// True if more samples are certain to come after those that were read before.
pub(crate) async fn goes_on(folder: &Path) -> bool {
    tokio::fs::try_exists(folder.join(MORE)).await.unwrap_or(false)
}

/// The place of the samples.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(SAMPLES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path) -> Vec<i16> {
        let bytes = fs::read(path(folder)).expect("samples");
        bytes.chunks(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
    }

    #[test]
    fn a_part_that_comes_again_is_heard_once_and_one_behind_a_gap_never() {
        let folder = tempfile::tempdir().expect("a folder");
        let format = PreviewFormat { sample_rate: 48_000, channels: 2 };
        let mut preview = Preview::begin(folder.path(), format).expect("begun");
        let value = |n: i16| f32::from(n) / 32768.0;
        let part = |preview: &mut Preview, start: usize, values: &[i16]| {
            let left: Vec<f32> = values.iter().map(|&n| value(n)).collect();
            let right: Vec<f32> = values.iter().map(|&n| value(-n)).collect();
            preview.part(start, &[&left, &right]).expect("written");
        };
        part(&mut preview, 0, &[1, 2, 3]);
        part(&mut preview, 4, &[5]);
        // The stage began again, with smaller tiles.
        part(&mut preview, 0, &[7, 7]);
        part(&mut preview, 2, &[7, 4]);
        part(&mut preview, 4, &[5]);
        assert_eq!(written(folder.path()), [1, -1, 2, -2, 3, -3, 4, -4, 5, -5]);
        for is_certain in [true, true, false, false, true] {
            preview.goes_on(is_certain).expect("said");
            assert_eq!(folder.path().join(MORE).exists(), is_certain);
        }
        remove(folder.path()).expect("removed");
        remove(folder.path()).expect("nothing to remove");
        assert!(!folder.path().join(MORE).exists());
        assert!(!path(folder.path()).exists());
    }
}
