//! Plan -> source, timbre, texts -> condition, context, noise.
//!
//! Every stage finishes all songs before the next begins, so that each network is loaded once, and
//! shared inputs are computed once.

mod exchange;
mod outline;
mod stages;

use acestep_engine::{Error, host::from_host, progress::Observe};
use acestep_model::Backend;
use burn::tensor::Tensor;
use outline::{coded, hints};
use stages::{
    Stages, prompt, same_edit, same_outline, same_source, same_timbre, same_words, source_prompt,
};

use super::PlanRun;
use crate::{
    Plan,
    align::Extras,
    condition::{self, Conditions, Timbre},
    flow::{
        SamplingStart, Steering, Track, Tracks,
        region::{RepaintRegion, injected_steps},
    },
    networks::Networks,
    plan::Task,
    sounds::Sound,
    source, stage,
};

/// All inputs of sampling.
#[derive(Debug, Clone)]
pub struct SamplingInputs<B: Backend> {
    /// The conditions of the transformer.
    pub tracks: Tracks<B>,
    /// The initial noise, and the parts of a source to keep.
    pub start: SamplingStart<B>,
    /// The edited song, if there is one.
    pub edited: Option<Edited<B>>,
}

/// The inputs of an edit.
#[derive(Debug, Clone)]
pub struct Edited<B: Backend> {
    /// The song's latents, `[B, T, C]`.
    pub song: Tensor<B, 3>,
    /// The condition that describes the song before the edit.
    pub source: Track<B>,
}

/// First half of a run: converts prompts, codes and sounds to the inputs of sampling.
///
/// # Errors
/// The errors of [`generate`](super::generate).
pub fn prepare<B: Backend>(
    plan: &Plan,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<SamplingInputs<B>, Error> {
    prepare_all(&[PlanRun { plan, extras: Extras::default(), observe }], networks).remove(0)
}

/// Like [`prepare`], for many plans, stage by stage; a plan that fails does not stop the others.
///
/// The observer of the first plan receives the events of work that several plans share.
pub fn prepare_all<B: Backend>(
    runs: &[PlanRun<'_>],
    networks: &Networks<'_, B>,
) -> Vec<Result<SamplingInputs<B>, Error>> {
    let plans: Vec<&Plan> = runs.iter().map(|of| of.plan).collect();
    let observe: Vec<&dyn Observe> = runs.iter().map(|of| of.observe).collect();
    let mut stages = Stages { plans: &plans, failures: plans.iter().map(|_| None).collect() };
    // Work outside the networks needs little memory, but on a full GPU it can fail too.
    let small =
        |work: &dyn Fn() -> Result<Tensor<B, 3>, Error>| networks.catch(stage::CONDITION, work);
    // ANCHOR: stages
    let silence = stages.each(|_, _| true, |_| small(&|| networks.silence_latent())); // [1, stored, C]
    let targets = stages.each(same_source, |i| target(plans[i], &silence[i], networks, observe[i]));
    let timbres = stages.each(same_timbre, |i| timbre(plans[i], &silence[i], networks, observe[i]));
    let texts = stages
        .each(same_words, |i| condition::encode_text(networks, &[prompt(plans[i])], observe[i]));
    // An edit also needs the condition of the song before it.
    let plain_texts = stages.each(same_edit, |i| match plans[i].edit.as_ref().map(source_prompt) {
        Some(prompt) => condition::encode_text(networks, &[prompt], observe[i]).map(Some),
        None => Ok(None),
    });
    let conditions = stages.each(
        |a, b| same_words(a, b) && same_timbre(a, b),
        |i| condition::encode_condition(networks, &texts[i], &timbres[i], observe[i]), // [1, L, H]
    );
    let source_conditions = stages.each(
        |a, b| same_edit(a, b) && same_timbre(a, b),
        |i| match &plain_texts[i] {
            Some(texts) => {
                condition::encode_condition(networks, texts, &timbres[i], observe[i]).map(Some)
            }
            None => Ok(None),
        },
    );
    let followed = stages.each(same_outline, |i| {
        followed(plans[i], &targets[i], &silence[i], networks, observe[i]) // [1 or B, T, C]
    });
    let prepared = stages.each(
        |_, _| false,
        |i| {
            networks.catch(stage::CONDITION, || {
                let ingredients = Ingredients {
                    conditions: conditions[i].clone(),
                    source: source_conditions[i].clone(),
                    followed: followed[i].clone(),
                    target: targets[i].clone(),
                };
                Ok(prepared(plans[i], ingredients, &silence[i], networks))
            })
        },
    );
    // ANCHOR_END: stages
    stages.end(prepared)
}

/// Returns the latents of the source, padded to the sampled length, `[1, T, C]`.
fn target<B: Backend>(
    plan: &Plan,
    silence: &Tensor<B, 3>,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Option<Tensor<B, 3>>, Error> {
    // ANCHOR: source
    let target = source::target(plan, silence, networks, observe)?; // [1, T, C]
    Ok(target.map(|target| source::padded(target, silence, plan.length.padded_frames)))
    // ANCHOR_END: source
}

/// Returns the timbre of the song, from its references, or silence.
fn timbre<B: Backend>(
    plan: &Plan,
    silence: &Tensor<B, 3>,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Timbre<B>, Error> {
    if plan.source.references.is_empty() {
        return Ok(Timbre::of_silence(networks, silence));
    }
    let latents = |sound: &Sound| source::latents(sound, networks, observe);
    let references = plan.source.references.iter().map(latents).collect::<Result<_, _>>()?;
    Ok(Timbre::of(references))
}

/// Returns the source part of the context, `[1 or B, T, C]`.
fn followed<B: Backend>(
    plan: &Plan,
    target: &Option<Tensor<B, 3>>,
    silence: &Tensor<B, 3>,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    if plan.source.has_codes() {
        let hints = hints(plan, networks, observe)?; // [1 or B, 5 N, C]
        return Ok(source::padded(hints, silence, plan.length.padded_frames));
    }
    let target = match target {
        Some(target) if plan.source.task.has_source() => target,
        // An edit without a source task uses its song only as the start of sampling.
        _ => return Ok(source::silence(silence, plan.length.padded_frames)),
    };
    Ok(match &plan.repaint.region {
        _ if plan.source.is_cover() => coded(target, silence, networks, observe)?,
        // Lego keeps the source inside the region, because its new track accompanies it.
        Some(region) if plan.source.task == Task::Repaint => {
            source::silenced(target.clone(), &region.frames, silence)
        }
        _ => target.clone(),
    })
}

/// Results of the stages for one song.
struct Ingredients<B: Backend> {
    conditions: Conditions<B>,
    /// The condition that describes the song before an edit.
    source: Option<Conditions<B>>,
    followed: Tensor<B, 3>,
    target: Option<Tensor<B, 3>>,
}

/// Combines the results of one song.
fn prepared<B: Backend>(
    plan: &Plan,
    ingredients: Ingredients<B>,
    silence: &Tensor<B, 3>,
    networks: &Networks<'_, B>,
) -> SamplingInputs<B> {
    let Ingredients { conditions, source, followed, target } = ingredients;
    let (batch, frames) = (plan.noise.seeds.len(), plan.length.padded_frames);
    // Noise is mixed with the source itself, not with its lossy version from audio codes.
    let under_noise = match &target {
        Some(target) if plan.source.is_cover() => target.clone(),
        _ => followed.clone(),
    };
    // Every item of the batch shares the condition, unless it has audio codes of its own.
    let each = |x: Tensor<B, 3>| {
        let [_, length, width] = x.dims();
        x.expand([batch, length, width])
    };
    let generated = plan.repaint.region.as_ref().map(|region| &region.frames);
    let mask = source::mask(generated, plan.repaint.mask_mode, frames);
    let track = |hidden: Tensor<B, 3>, source: Tensor<B, 3>| Track {
        condition: each(hidden),
        context: each(source::context(source, &mask)),
    };
    let plain =
        |later: Tensor<B, 3>| (plan.cover_steps(), track(later, source::silence(silence, frames)));
    let edited = match (source, &target) {
        (Some(source), Some(target)) => Some(Edited {
            song: each(target.clone()),
            source: track(source.first.hidden, followed.clone()),
        }),
        _ => None,
    };
    let tracks = Tracks {
        first: track(conditions.first.hidden, followed),
        later: conditions.later.map(|later| plain(later.hidden)),
        steering: plan
            .sampling
            .guidance
            .map(|guidance| Steering { guidance, null: conditions.null }),
    };
    let region = match (&plan.repaint.region, target) {
        (Some(region), Some(target)) => Some(RepaintRegion {
            clean: each(target),
            generated: region.frames.clone(),
            injected_steps: injected_steps(region.transition.injection_ratio, plan.steps()),
            crossfade_frames: region.transition.crossfade_frames,
            // A sound source is spliced as samples later; a latent source has no samples.
            keeps_latents: matches!(plan.source.sound, Some(Sound::Latents(_))),
        }),
        _ => None,
    };
    let source = (plan.source.cover_noise_strength > 0.0).then(|| each(under_noise));
    SamplingInputs {
        tracks,
        start: SamplingStart { noise: initial_noise(plan, networks), source, region },
        edited,
    }
}

fn initial_noise<B: Backend>(plan: &Plan, networks: &Networks<'_, B>) -> Tensor<B, 3> {
    let (frames, channels) =
        (plan.length.padded_frames, networks.configs().dit.audio_acoustic_hidden_dim);
    let noise = (0..plan.batch_size()).flat_map(|item| plan.initial_noise(item)).collect();
    from_host(noise, frames, channels, networks.device())
}
