//! Plan -> source, timbre, texts -> condition, context, noise.
//!
//! Every stage does its work for all songs before the next begins, so that each network is read once,
//! and what songs have in common is computed once.

mod exchange;
mod outline;
mod stages;

use acestep_model::{Backend, Checkpoint};
use burn::tensor::Tensor;

use super::Wanted;
use crate::{
    Error, Plan,
    align::Wants,
    condition::{self, Heard, Timbre},
    flow::{
        Start, Steering, Track, Tracks,
        region::{Region, injected_steps},
    },
    host::from_host,
    observe::{Observe, Stage},
    plan::Task,
    residency::Parts,
    sounds::Sound,
    source,
};
use outline::{coded, hints};
use stages::{
    Stages, as_it_is, prompt, same_edit, same_outline, same_source, same_timbre, same_words,
};

/// Everything that sampling starts from.
#[derive(Debug, Clone)]
pub struct Prepared<B: Backend> {
    /// What the transformer follows.
    pub tracks: Tracks<B>,
    /// The initial noise, and what of a source is kept.
    pub start: Start<B>,
    /// The song that is edited, if one is.
    pub edited: Option<Edited<B>>,
}

/// A song that is edited.
#[derive(Debug, Clone)]
pub struct Edited<B: Backend> {
    /// Its latents, `[B, T, C]`.
    pub song: Tensor<B, 3>,
    /// The song as it is, in words.
    pub source: Track<B>,
}

/// The first half: prompts, codes and sounds to what sampling starts from.
///
/// # Errors
/// As [`generate`](super::generate).
pub fn prepare<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    parts: &Parts<'_, B, C>,
    observe: &dyn Observe,
) -> Result<Prepared<B>, Error> {
    prepare_all(&[Wanted { plan, wants: Wants::default(), observe }], parts).remove(0)
}

/// The same for many plans, stage by stage; a plan that fails stops no other.
///
/// What plans have in common is watched by the first of them.
pub fn prepare_all<B: Backend, C: Checkpoint<B>>(
    wanted: &[Wanted<'_>],
    parts: &Parts<'_, B, C>,
) -> Vec<Result<Prepared<B>, Error>> {
    let plans: Vec<&Plan> = wanted.iter().map(|of| of.plan).collect();
    let observe: Vec<&dyn Observe> = wanted.iter().map(|of| of.observe).collect();
    let mut stages = Stages { plans: &plans, failures: plans.iter().map(|_| None).collect() };
    // What is not a network's is small, but on a card that is full it fails too.
    let small =
        |work: &dyn Fn() -> Result<Tensor<B, 3>, Error>| parts.attempt(Stage::Condition, work);
    // ANCHOR: stages
    let silence = stages.each(|_, _| true, |_| small(&|| parts.silence_latent())); // [1, stored, C]
    let targets = stages.each(same_source, |i| target(plans[i], &silence[i], parts, observe[i]));
    let timbres = stages.each(same_timbre, |i| timbre(plans[i], &silence[i], parts, observe[i]));
    let texts =
        stages.each(same_words, |i| condition::read(parts, &[prompt(plans[i])], observe[i]));
    let heard = stages.each(
        |a, b| same_words(a, b) && same_timbre(a, b),
        |i| condition::listen(parts, &texts[i], &timbres[i], observe[i]), // [1, L, H]
    );
    // An edit follows the song as it is, too.
    let plain_texts = stages.each(same_edit, |i| match plans[i].flow_edit.as_ref().map(as_it_is) {
        Some(prompt) => condition::read(parts, &[prompt], observe[i]).map(Some),
        None => Ok(None),
    });
    let as_heard = stages.each(
        |a, b| same_edit(a, b) && same_timbre(a, b),
        |i| match &plain_texts[i] {
            Some(texts) => condition::listen(parts, texts, &timbres[i], observe[i]).map(Some),
            None => Ok(None),
        },
    );
    let followed = stages.each(same_outline, |i| {
        followed(plans[i], &targets[i], &silence[i], parts, observe[i]) // [1 or B, T, C]
    });
    let prepared = stages.each(
        |_, _| false,
        |i| {
            parts.attempt(Stage::Condition, || {
                let ingredients = Ingredients {
                    heard: heard[i].clone(),
                    as_it_is: as_heard[i].clone(),
                    followed: followed[i].clone(),
                    target: targets[i].clone(),
                };
                Ok(prepared(plans[i], ingredients, &silence[i], parts))
            })
        },
    );
    // ANCHOR_END: stages
    stages.end(prepared)
}

/// The latents of the source as long as what is sampled, `[1, T, C]`.
fn target<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    silence: &Tensor<B, 3>,
    parts: &Parts<'_, B, C>,
    observe: &dyn Observe,
) -> Result<Option<Tensor<B, 3>>, Error> {
    // ANCHOR: source
    let target = source::target(plan, silence, parts, observe)?; // [1, T, C]
    Ok(target.map(|target| source::padded(target, silence, plan.padded_frames)))
    // ANCHOR_END: source
}

/// Whose timbre the song takes: that of its references, or that of silence.
fn timbre<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    silence: &Tensor<B, 3>,
    parts: &Parts<'_, B, C>,
    observe: &dyn Observe,
) -> Result<Timbre<B>, Error> {
    let frames = parts.configs().dit.timbre_fix_frame;
    if plan.references.is_empty() {
        return Ok(Timbre::of_silence(silence, frames, 1));
    }
    let latents = |sound: &Sound| source::latents(sound, parts, observe);
    let references = plan.references.iter().map(latents).collect::<Result<_, _>>()?;
    Ok(Timbre::of(references, 1))
}

/// What stands in the context for a source, `[1 or B, T, C]`.
fn followed<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    target: &Option<Tensor<B, 3>>,
    silence: &Tensor<B, 3>,
    parts: &Parts<'_, B, C>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    if plan.has_codes() {
        let hints = hints(plan, parts, observe)?; // [1 or B, 5 N, C]
        return Ok(source::padded(hints, silence, plan.padded_frames));
    }
    let target = match target {
        Some(target) if plan.task.has_source() => target,
        // An edit of words alone hears its song only in what it starts from.
        _ => return Ok(source::silence(silence, plan.padded_frames)),
    };
    Ok(match &plan.region {
        _ if plan.is_cover() => coded(target, silence, parts, observe)?,
        // Lego hears what its track goes with.
        Some(region) if plan.task == Task::Repaint => {
            source::silenced(target.clone(), &region.frames, silence)
        }
        _ => target.clone(),
    })
}

/// What the stages made for one song.
struct Ingredients<B: Backend> {
    heard: Heard<B>,
    /// What an edit starts from, in words.
    as_it_is: Option<Heard<B>>,
    followed: Tensor<B, 3>,
    target: Option<Tensor<B, 3>>,
}

/// Everything of one song together.
fn prepared<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    ingredients: Ingredients<B>,
    silence: &Tensor<B, 3>,
    parts: &Parts<'_, B, C>,
) -> Prepared<B> {
    let Ingredients { heard, as_it_is, followed, target } = ingredients;
    let (batch, frames) = (plan.seeds.len(), plan.padded_frames);
    // Noise is laid over the source itself, not over what its audio codes keep of it.
    let under_noise = match &target {
        Some(target) if plan.is_cover() => target.clone(),
        _ => followed.clone(),
    };
    // Every item of the batch hears the same, unless it has codes of its own.
    let each = |x: Tensor<B, 3>| {
        let [_, length, width] = x.dims();
        x.expand([batch, length, width])
    };
    let anew = plan.region.as_ref().map(|region| &region.frames);
    let mask = source::mask(anew, plan.mask_mode, frames);
    let track = |hidden: Tensor<B, 3>, source: Tensor<B, 3>| Track {
        condition: each(hidden),
        context: each(source::context(source, &mask)),
    };
    let plain =
        |later: Tensor<B, 3>| (plan.cover_steps(), track(later, source::silence(silence, frames)));
    let edited = match (as_it_is, &target) {
        (Some(as_it_is), Some(target)) => Some(Edited {
            song: each(target.clone()),
            source: track(as_it_is.first.hidden, followed.clone()),
        }),
        _ => None,
    };
    let tracks = Tracks {
        first: track(heard.first.hidden, followed),
        later: heard.later.map(|later| plain(later.hidden)),
        steering: plan.guidance.map(|guidance| Steering { guidance, null: heard.null }),
    };
    let region = match (&plan.region, target) {
        (Some(region), Some(target)) => Some(Region {
            clean: each(target),
            anew: region.frames.clone(),
            injected_steps: injected_steps(region.repaint.injection_ratio, plan.steps()),
            crossfade_frames: region.repaint.crossfade_frames,
            // Of a sound the samples are put back; of latents there are none.
            keeps_latents: matches!(plan.source, Some(Sound::Latents(_))),
        }),
        _ => None,
    };
    let source = (plan.cover_noise_strength > 0.0).then(|| each(under_noise));
    Prepared { tracks, start: Start { noise: initial_noise(plan, parts), source, region }, edited }
}

fn initial_noise<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    parts: &Parts<'_, B, C>,
) -> Tensor<B, 3> {
    let (frames, channels) = (plan.padded_frames, parts.configs().dit.audio_acoustic_hidden_dim);
    let noise = (0..plan.batch_size()).flat_map(|item| plan.initial_noise(item)).collect();
    from_host(noise, frames, channels, parts.device())
}
