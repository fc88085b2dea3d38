//! FLAC files, through flacenc: lossless, with the same integers as a WAV of equal bit depth.

use flacenc::{bitsink::ByteSink, component::BitRepr, error::Verify, source::MemSource};

use super::{Audio, wav::integer, write::check};
use crate::Error;

/// Encodes a FLAC file of `bits` bits per sample; [`super::wav`] describes the rounding.
///
/// # Errors
/// [`Error::Encode`] unless there are one to eight channels of equal length and the rate is at most
/// 655 350.
pub(super) fn to_bytes(audio: &Audio, bits: u16) -> Result<Vec<u8>, Error> {
    let failed = |why: String| Error::Encode { format: "FLAC", why };
    check(audio).map_err(failed)?;
    let channels = audio.channels.len();
    let interleaved =
        |i: usize| audio.channels.iter().map(move |channel| integer(channel[i], bits));
    let samples: Vec<i32> = (0..audio.samples()).flat_map(interleaved).collect();
    let source =
        || MemSource::from_samples(&samples, channels, bits.into(), audio.sample_rate as usize);
    let predicted = encoded(flacenc::config::Encoder::default(), source()).map_err(failed)?;
    if predicted.len() <= samples.len() * usize::from(bits) / 8 {
        return Ok(predicted);
    }
    // The residual of loud 24-bit noise is too large for flacenc's Rice codes, whose parameter ends
    // at 14. Verbatim samples are then shorter.
    let mut plain = flacenc::config::Encoder::default();
    (plain.subframe_coding.use_fixed, plain.subframe_coding.use_lpc) = (false, false);
    let plain = encoded(plain, source()).map_err(failed)?;
    Ok(if plain.len() < predicted.len() { plain } else { predicted })
}

fn encoded(config: flacenc::config::Encoder, source: MemSource) -> Result<Vec<u8>, String> {
    let config = config.into_verified().map_err(|(_, error)| error.to_string())?;
    let block = config.block_size;
    let mut stream = flacenc::encode_with_fixed_block_size(&config, source, block)
        .map_err(|error| error.to_string())?;
    // flacenc includes the last block, which may be shorter, in the block sizes. Readers then
    // assume varying block sizes and fail.
    stream.stream_info_mut().set_block_sizes(block, block).map_err(|error| error.to_string())?;
    let mut sink = ByteSink::new();
    stream.write(&mut sink).map_err(|error| error.to_string())?;
    Ok(sink.into_inner())
}
