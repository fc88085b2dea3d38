//! How latents are cut for the VAE.

use super::limits::whole;
use crate::{Error, Notice, Request, vae::Tiling};

/// More frames than any song has.
const MOST_FRAMES: u32 = 1_000_000;

/// With as many frames to either side a tile sounds as it would in the whole song.
const EXACT_OVERLAP: usize = 9;

/// `frames` are sampled.
pub(super) fn decide(
    request: &Request,
    frames: usize,
    notices: &mut Vec<Notice>,
) -> Result<Tiling, Error> {
    let Tiling { mut chunk, mut overlap } = Tiling::default();
    if let Some(asked) = request.vae_chunk {
        chunk = whole("vae-chunk", asked, 1, MOST_FRAMES)? as usize;
    }
    if let Some(asked) = request.vae_overlap {
        overlap = whole("vae-overlap", asked, 0, MOST_FRAMES)? as usize;
    }
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
