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
}

impl Preview {
    /// Begins a preview in the folder of an attempt.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn begin(folder: &Path, format: PreviewFormat) -> io::Result<Self> {
        let file = fs::File::create(folder.join(SAMPLES))?;
        // The description comes last: who sees it finds the samples.
        let text = serde_json::to_vec(&format)?;
        let temporary = folder.join("preview.json.part");
        fs::write(&temporary, text)?;
        fs::rename(temporary, folder.join(FORMAT))?;
        Ok(Self { file, channels: usize::from(format.channels) })
    }

    /// Appends samples, one slice for each channel. Values outside -1 to 1 are clipped.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn samples(&mut self, channels: &[&[f32]]) -> io::Result<()> {
        debug_assert_eq!(channels.len(), self.channels, "the channels of the format");
        let length = channels.first().map_or(0, |channel| channel.len());
        let mut bytes = Vec::with_capacity(length * self.channels * 2);
        for index in 0..length {
            for channel in channels {
                // As in a WAV file.
                let value = (f64::from(channel[index]) * 32768.0).round();
                let value = value.clamp(-32768.0, 32767.0) as i16;
                bytes.extend(value.to_le_bytes());
            }
        }
        self.file.write_all(&bytes)
    }
}

/// Returns the format of the preview in `folder`, if one has begun.
pub async fn format(folder: &Path) -> Option<PreviewFormat> {
    serde_json::from_slice(&tokio::fs::read(folder.join(FORMAT)).await.ok()?).ok()
}

/// The place of the samples.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(SAMPLES)
}
