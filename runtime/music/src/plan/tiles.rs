//! Tiling of the latents for the VAE.

use acestep_engine::{Error, Notice, check::whole, tiling::Tiling};

/// More frames than any song has.
const MOST_FRAMES: u32 = 1_000_000;

/// Overlap with which a tile sounds exactly as in the whole song.
const EXACT_OVERLAP: usize = 9;

/// Returns the tiling for `frames`; `chunk` and `overlap` default to `usual`.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn decide(
    (chunk, overlap): (Option<i64>, Option<i64>),
    usual: Tiling,
    frames: usize,
    notices: &mut Vec<Notice>,
) -> Result<Tiling, Error> {
    let chunk = chunk.map(|asked| whole("vae_chunk", asked, 1, MOST_FRAMES)).transpose()?;
    let overlap = overlap.map(|asked| whole("vae_overlap", asked, 0, MOST_FRAMES)).transpose()?;
    let chunk = chunk.map_or(usual.chunk, |asked| asked as usize);
    let overlap = overlap.map_or(usual.overlap, |asked| asked as usize);
    let fitted = Tiling { chunk, overlap }.fitted()?;
    if fitted.overlap != overlap {
        notices.push(Notice(format!(
            "a VAE overlap of {overlap} frames does not fit into chunks of {chunk}; it counts as {}",
            fitted.overlap
        )));
    }
    if frames > chunk && fitted.overlap < EXACT_OVERLAP {
        notices.push(Notice(format!(
            "a VAE overlap of {} frames can be heard where chunks meet; one of {EXACT_OVERLAP} \
             cannot",
            fitted.overlap
        )));
    }
    Ok(fitted)
}
