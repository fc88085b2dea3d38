//! Start of sampling besides the seed's noise, and post-processing of the latents.

use acestep_engine::{
    Error, Notice,
    check::{above, real, whole},
};

use super::{GuidanceMode, Plan, seeds, song::Song};
use crate::{
    Request,
    flow::{edit::Window, solver::Solver},
    prompt,
};

/// A variation of a song: see [`retaken`](crate::flow::latents::retaken).
#[derive(Debug, Clone, PartialEq)]
pub struct Retake {
    /// One per song: seeds of the second noise.
    pub seeds: Vec<u64>,
    /// Share of the second noise, 0 to 1.
    pub variance: f64,
}

/// An edit of a song from one description to another: see [`edit`](crate::flow::edit).
#[derive(Debug, Clone, PartialEq)]
pub struct FlowEdit {
    /// Description of the source.
    pub source_caption: String,
    /// Lyrics of the source.
    pub source_lyrics: String,
    /// Full text for the caption encoder, as [`Plan::caption_prompt`] but for the source.
    pub caption_prompt: String,
    /// Full text for the lyric encoder.
    pub lyric_prompt: String,
    /// The steps that edit, and the number of noise samples.
    pub window: Window,
    /// Seeds of the noise, one per song: those of `retake_seed` if it is given.
    pub seeds: Vec<u64>,
}

/// Largest number of noise samples per step of an edit.
const MOST_DRAWS: u32 = 16;
/// Far beyond any useful value.
const MOST_SHIFT: f64 = 10.0;
const MOST_RESCALE: f64 = 10.0;

pub(super) fn retake(
    request: &Request,
    songs: usize,
    notices: &mut Vec<Notice>,
) -> Result<Option<Retake>, Error> {
    let variance = real("retake_variance", request.retake_variance.unwrap_or(0.0), 0.0, 1.0)?;
    if variance == 0.0 || is_edit(request) {
        if request.retake_seed.is_some() && !is_edit(request) {
            let text = "`retake_seed` has no effect without `retake_variance`";
            notices.push(Notice(text.into()));
        }
        return Ok(None);
    }
    let seeds = seeds::for_songs("retake_seed", request.retake_seed.as_deref(), songs)?;
    Ok(Some(Retake { seeds, variance }))
}

/// True if the request edits a song.
pub(super) fn is_edit(request: &Request) -> bool {
    request.flow_edit_morph.unwrap_or(false)
}

/// Returns the share of the source in the initial latents; 0 without a source.
pub(super) fn cover_noise_strength(
    request: &Request,
    has_source: bool,
    notices: &mut Vec<Notice>,
) -> Result<f64, Error> {
    let strength = request.cover_noise_strength.unwrap_or(0.0);
    let strength = real("cover_noise_strength", strength, 0.0, 1.0)?;
    if strength > 0.0 && !has_source {
        let text = "`cover_noise_strength` has no effect: there is no source to start from";
        notices.push(Notice(text.into()));
        return Ok(0.0);
    }
    Ok(strength)
}

/// Returns factor and offset for the finished latents.
pub(super) fn latents(request: &Request) -> Result<(f32, f32), Error> {
    let rescale = request.latent_rescale.unwrap_or(1.0);
    let rescale = above("latent_rescale", rescale, 0.0, MOST_RESCALE)?;
    let shift = request.latent_shift.unwrap_or(0.0);
    let shift = real("latent_shift", shift, -MOST_SHIFT, MOST_SHIFT)?;
    Ok((rescale as f32, shift as f32))
}

/// Decides the edit: `song` is the target, `songs` are the seeds of the songs.
pub(super) fn flow_edit(
    request: &Request,
    song: &Song,
    songs: &[u64],
    notices: &mut Vec<Notice>,
) -> Result<Option<FlowEdit>, Error> {
    let share =
        |field, value: Option<f64>, default| real(field, value.unwrap_or(default), 0.0, 1.0);
    let n_min = share("flow_edit_n_min", request.flow_edit_n_min, 0.0)?;
    let n_max = share("flow_edit_n_max", request.flow_edit_n_max, 1.0)?;
    let n_avg = whole("flow_edit_n_avg", request.flow_edit_n_avg.unwrap_or(1), 1, MOST_DRAWS)?;
    if !is_edit(request) {
        let words = [&request.flow_edit_source_caption, &request.flow_edit_source_lyrics];
        let has_words = words.into_iter().flatten().any(|text| !text.trim().is_empty());
        if has_words || (n_min, n_max, n_avg) != (0.0, 1.0, 1) {
            let text = "the settings of an edit have no effect without `flow_edit_morph`";
            notices.push(Notice(text.into()));
        }
        return Ok(None);
    }
    if n_min > n_max {
        return Err(Error::Conflict(format!(
            "`flow_edit_n_min: {n_min}` is above `flow_edit_n_max: {n_max}`: exchange \
             them"
        )));
    }
    let source_caption = request.flow_edit_source_caption.clone().unwrap_or_default();
    let source_lyrics = request.flow_edit_source_lyrics.clone().unwrap_or_default();
    if source_caption.trim().is_empty() && source_lyrics.trim().is_empty() {
        let text = "the edit knows nothing of the song as it is: `flow_edit_source_caption` and \
                    `flow_edit_source_lyrics` are both empty";
        notices.push(Notice(text.into()));
    }
    let seeds = match &request.retake_seed {
        Some(given) => seeds::for_songs("retake_seed", Some(given), songs.len())?,
        None => songs.to_vec(),
    };
    let window = Window { n_min, n_max, n_avg: n_avg as usize };
    let metas = song.metas.to_text();
    Ok(Some(FlowEdit {
        caption_prompt: prompt::caption_prompt(&song.instruction, &source_caption, &metas),
        lyric_prompt: prompt::lyric_prompt(song.vocal_language, &source_lyrics),
        source_caption,
        source_lyrics,
        window,
        seeds,
    }))
}

/// Removes settings that an edit does not use from its plan, as upstream does, with a notice; ends
/// the schedule at 0.
pub(super) fn keep_to_edit(plan: &mut Plan, request: &Request, notices: &mut Vec<Notice>) {
    if plan.flow_edit.is_none() {
        return;
    }
    let mut unused = Vec::new();
    if plan.solver != Solver::Euler {
        unused.push(plan.solver.name());
        plan.solver = Solver::Euler;
    }
    if plan.dcw.take().is_some() {
        unused.push("`dcw_enabled`");
    }
    if let Some(guidance) = &mut plan.guidance
        && !matches!(guidance.mode, GuidanceMode::Apg | GuidanceMode::Cfg)
    {
        unused.push(guidance.mode.name());
        guidance.mode = GuidanceMode::Apg;
    }
    if std::mem::take(&mut plan.cover_noise_strength) > 0.0 {
        unused.push("`cover_noise_strength`");
    }
    if plan.audio_cover_strength < 1.0 {
        (plan.audio_cover_strength, plan.non_cover_prompt) = (1.0, None);
        unused.push("`audio_cover_strength`");
    }
    if request.retake_variance.is_some_and(|variance| variance > 0.0) {
        unused.push("`retake_variance`");
    }
    if !unused.is_empty() {
        let text =
            format!("an edit takes Euler steps and no other start: {} not used", unused.join(", "));
        notices.push(Notice(text));
    }
    if plan.terminal > 0.0 {
        let text = format!("an edit ends at time 0: a step from {} is added", plan.terminal);
        notices.push(Notice(text));
        plan.timesteps.push(std::mem::take(&mut plan.terminal));
    }
}
