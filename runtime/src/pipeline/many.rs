//! Many songs, stage by stage: each network is read once, whatever their number.

use acestep_model::{Backend, Checkpoint};
use burn::tensor::Tensor;

use super::{Prepared, Song, denoise, sing};
use crate::{
    Error, Plan,
    observe::Observe,
    residency::{Parts, Residency},
};

/// Carries songs that are prepared to their end: first all of them to latents, then each to sound.
///
/// `made(i, ..)` is told of the songs of plan `i` as soon as they are finished, or of why there are
/// none; a plan that fails stops no other. With networks that are kept no longer than they are used
/// `parts` should hold on to the [last](Residency::Last): else each is read for every plan.
///
/// # Errors
/// The first that `made` gives, which ends the run.
pub fn generate_all<B: Backend, C: Checkpoint<B>, E>(
    plans: &[&Plan],
    parts: &Parts<'_, B, C>,
    prepared: Vec<Result<Prepared<B>, Error>>,
    observe: &dyn Observe,
    mut made: impl FnMut(usize, Result<Vec<Song>, Error>) -> Result<(), E>,
) -> Result<(), E> {
    debug_assert!(plans.len() < 2 || parts.residency() != Residency::WhileUsed);
    // ANCHOR: many
    let latents: Vec<Result<Tensor<B, 3>, Error>> = plans
        .iter()
        .zip(prepared)
        .map(|(plan, prepared)| denoise(plan, parts, prepared?, observe))
        .collect();
    for (i, (plan, latents)) in plans.iter().zip(latents).enumerate() {
        let songs = latents.and_then(|latents| sing(plan, parts, latents, observe));
        made(i, songs)?;
    }
    // ANCHOR_END: many
    Ok(())
}
