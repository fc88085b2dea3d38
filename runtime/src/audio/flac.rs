//! FLAC files, through flacenc: the integers of a WAV of the same width, without loss.

use flacenc::{bitsink::ByteSink, component::BitRepr, error::Verify, source::MemSource};

use super::{Audio, wav::integer, write::check};
use crate::Error;

/// A FLAC file of `bits` bits a sample; see [`super::wav`] for how they are rounded.
///
/// # Errors
/// [`Error::Encode`] for other channels than one to eight of one length, and rates beyond 655 350.
pub(super) fn to_bytes(audio: &Audio, bits: u16) -> Result<Vec<u8>, Error> {
    let failed = |why: String| Error::Encode { format: "FLAC", why };
    check(audio).map_err(failed)?;
    let channels = audio.channels.len();
    let interleaved =
        |i: usize| audio.channels.iter().map(move |channel| integer(channel[i], bits));
    let samples: Vec<i32> = (0..audio.samples()).flat_map(interleaved).collect();
    let config = flacenc::config::Encoder::default()
        .into_verified()
        .map_err(|(_, error)| failed(error.to_string()))?;
    let rate = audio.sample_rate as usize;
    let source = MemSource::from_samples(&samples, channels, bits.into(), rate);
    let block = config.block_size;
    let mut stream = flacenc::encode_with_fixed_block_size(&config, source, block)
        .map_err(|error| failed(error.to_string()))?;
    // flacenc counts the last block, which may be shorter; readers take the file for one of varying
    // blocks then, and give up.
    stream
        .stream_info_mut()
        .set_block_sizes(block, block)
        .map_err(|error| failed(error.to_string()))?;
    let mut sink = ByteSink::new();
    stream.write(&mut sink).map_err(|error| failed(error.to_string()))?;
    Ok(sink.into_inner())
}
