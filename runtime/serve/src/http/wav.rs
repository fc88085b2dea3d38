//! WAV: the header of a stream, and the samples of a file.

use std::{io, path::Path};

use acestep_engine::audio::stream;
use axum::body::Bytes;
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncSeekExt as _, Take},
};

use crate::preview::PreviewFormat;

/// The size of samples that a writer did not know.
const UNKNOWN: u32 = u32::MAX;

/// Returns the header of a WAV file of unknown length.
pub(super) fn header(format: PreviewFormat) -> Bytes {
    let PreviewFormat { sample_rate, channels } = format;
    stream::header(sample_rate, channels).into()
}

/// Opens a WAV file at its samples. Chunks behind them, such as tags, are left out.
/// Errors: `InvalidData` for a file without samples; a file that cannot be read.
pub(super) async fn samples(place: &Path) -> io::Result<Take<File>> {
    let mut file = File::open(place).await?;
    let mut riff = [0; 12];
    file.read_exact(&mut riff).await?;
    if &riff[..4] != b"RIFF" || &riff[8..] != b"WAVE" {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the result is no WAV file"));
    }
    loop {
        let mut name = [0; 4];
        file.read_exact(&mut name).await?;
        let size = file.read_u32_le().await?;
        if &name == b"data" {
            let most = if size == UNKNOWN { u64::MAX } else { u64::from(size) };
            return Ok(file.take(most));
        }
        // A chunk begins at an even place.
        file.seek(io::SeekFrom::Current(i64::from(size) + i64::from(size % 2))).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn samples_are_found_between_other_chunks_and_end_before_tags() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.wav");
        let read = async |bytes: &[u8]| -> io::Result<Vec<u8>> {
            std::fs::write(&path, bytes)?;
            let mut found = Vec::new();
            samples(&path).await?.read_to_end(&mut found).await?;
            Ok(found)
        };
        let mut file = b"RIFF\0\0\0\0WAVEodd \x03\0\0\0abc\0data\x04\0\0\0".to_vec();
        file.extend([1, 2, 3, 4]);
        file.extend(b"LIST\x02\0\0\0hi");
        assert_eq!(read(&file).await.expect("samples"), [1, 2, 3, 4]);
        let mut stream = header(PreviewFormat { sample_rate: 24_000, channels: 1 }).to_vec();
        stream.extend([5, 6]);
        assert_eq!(read(&stream).await.expect("samples"), [5, 6]);
        for wrong in [&b"fLaC"[..], b"fLaC and twelve bytes", &file[..20]] {
            read(wrong).await.expect_err("no samples");
        }
    }
}
