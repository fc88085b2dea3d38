//! Many songs, stage by stage: each network is read once, whatever their number.

use acestep_model::{Backend, Checkpoint};

use super::{Prepared, Rendered, denoise, heard, sing};
use crate::{
    Error, Plan,
    align::{self, Wants},
    observe::Observe,
    residency::Parts,
};

/// A plan, what is wanted of its songs besides their sound, and who watches them come to be.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The songs.
    pub plan: &'a Plan,
    /// What is found in them.
    pub wants: Wants,
    /// Who is told of the work on them, and of that on no others.
    pub observe: &'a dyn Observe,
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { plan, wants, observe: _ } = self;
        f.debug_struct("Wanted").field("plan", plan).field("wants", wants).finish_non_exhaustive()
    }
}

/// Carries songs that are prepared to their end: first all of them to latents, then each to sound.
///
/// `made(i, ..)` is told of the songs of plan `i` as soon as they are finished, or of why there are
/// none; a plan that fails stops no other. `parts` should hold on to the
/// [last](crate::Residency::Last) network, or to all: else each is read for every plan.
///
/// # Errors
/// The first that `made` gives, which ends the run.
pub fn generate_all<B: Backend, C: Checkpoint<B>, E>(
    wanted: &[Wanted<'_>],
    parts: &Parts<'_, B, C>,
    prepared: Vec<Result<Prepared<B>, Error>>,
    mut made: impl FnMut(usize, Result<Rendered, Error>) -> Result<(), E>,
) -> Result<(), E> {
    // ANCHOR: many
    let of = |(&Wanted { plan, wants, observe }, prepared): (
        &Wanted<'_>,
        Result<Prepared<B>, Error>,
    )| {
        let prepared = prepared?;
        let followed = prepared.tracks.first.clone();
        let latents = denoise(plan, parts, prepared, observe)?;
        // The same network: it is not read again.
        let aligned = align::gaze::songs(plan, wants, parts, &followed, &latents, observe);
        Ok((latents, aligned))
    };
    let latents: Vec<Result<_, Error>> = wanted.iter().zip(prepared).map(of).collect();
    for (i, (&Wanted { plan, observe, .. }, latents)) in wanted.iter().zip(latents).enumerate() {
        let rendered = latents.and_then(|(latents, aligned)| {
            let songs = sing(plan, parts, latents.clone(), observe)?;
            Ok(Rendered { songs, latents: heard(plan, latents, parts)?, aligned })
        });
        made(i, rendered)?;
    }
    // ANCHOR_END: many
    Ok(())
}
