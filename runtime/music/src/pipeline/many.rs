//! Generates many songs stage by stage: each network is loaded once, for any number of songs.

use acestep_engine::{Error, progress::Observe};
use acestep_model::Backend;

use super::{Rendered, SamplingInputs, decode_songs, denoise, trim_to_host};
use crate::{
    Plan,
    align::{self, Extras},
    networks::Networks,
};

/// A plan, the additional results for its songs, and the observer of its progress.
#[derive(Clone, Copy)]
pub struct PlanRun<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The additional results.
    pub extras: Extras,
    /// Receives events for this plan only.
    pub observe: &'a dyn Observe,
}

/// Finishes prepared songs: first all of them to latents, then each to sound.
///
/// `made(i, ..)` receives the songs of plan `i`, or its error, as soon as they are finished. A plan
/// that fails does not stop the others; it fails if none of its songs is usable. `networks` should
/// keep the [last](acestep_engine::Residency::LastUsed) network, or all; otherwise each network is
/// loaded for every plan.
///
/// # Errors
/// The first error of `made`, which ends the run.
pub fn generate_all<B: Backend, E>(
    runs: &[PlanRun<'_>],
    networks: &Networks<'_, B>,
    prepared: Vec<Result<SamplingInputs<B>, Error>>,
    mut made: impl FnMut(usize, Result<Rendered, Error>) -> Result<(), E>,
) -> Result<(), E> {
    // ANCHOR: many
    let of = |(&PlanRun { plan, extras, observe }, prepared): (
        &PlanRun<'_>,
        Result<SamplingInputs<B>, Error>,
    )| {
        let prepared = prepared?;
        let followed = prepared.tracks.first.clone();
        let latents = denoise(plan, networks, prepared, observe)?;
        // Uses the same network, which is still loaded.
        let aligned =
            align::attention_maps::songs(plan, extras, networks, &followed, &latents, observe);
        Ok((latents, aligned))
    };
    let latents: Vec<Result<_, Error>> = runs.iter().zip(prepared).map(of).collect();
    for (i, (&PlanRun { plan, observe, .. }, latents)) in runs.iter().zip(latents).enumerate() {
        let rendered = latents.and_then(|(latents, aligned)| {
            let songs = decode_songs(plan, networks, latents.clone(), observe)?;
            Ok(Rendered { songs, latents: trim_to_host(plan, latents, networks)?, aligned })
        });
        made(i, rendered)?;
    }
    // ANCHOR_END: many
    Ok(())
}
