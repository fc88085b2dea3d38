//! The memory of a run; the VAE's tiles that fit.

use acestep_engine::{
    Device, Engine, Error, Notice, Residency, device::memory::MemoryNeed, tiling::Tiling,
};
use acestep_import::AceStep;
use acestep_model::ModelFiles as _;
use acestep_music::{
    Plan, Request, needs,
    text::{CAPTION_TOKENS, LYRIC_TOKENS},
};

use super::{Resolved, Setup};
use crate::memory::sizes;

/// Returns the memory needs of each stage, in the order of the run.
pub(super) fn needs(resolved: &Resolved) -> Result<Vec<MemoryNeed>, Error> {
    let Resolved { plan, folder, setup, .. } = resolved;
    let Setup { composition, engine, extras, inputs, .. } = &**setup;
    let mut needs = match composition {
        Some(composition) => composition.needs(&resolved.request, plan, *engine)?,
        None => vec![],
    };
    let has_condition = inputs.conditioning.is_some();
    let tokens = most_tokens(resolved)?;
    needs.extend(sizes(folder, *engine).song(plan, extras.alignment, has_condition, tokens)?);
    if let Some((judge, _)) = resolved.judge() {
        let size = judge.size().map_err(Error::checkpoint)?.parameters;
        needs.push(needs::judge(judge.config(), size, plan, engine.widths()));
    }
    Ok(needs)
}

/// Returns the most tokens of a caption prompt and of a lyric prompt that the song is made with.
fn most_tokens(resolved: &Resolved) -> Result<[usize; 2], Error> {
    let Resolved { plan, setup, .. } = resolved;
    let Setup { composition, inputs, .. } = &**setup;
    if let Some((_, given)) = &inputs.conditioning {
        return Ok([given.encoder_hidden_states.shape[1], 0]);
    }
    let words = count_tokens(resolved, [&plan.words.caption_prompt, &plan.words.lyric_prompt])?;
    let before = match &plan.edit {
        Some(edit) => count_tokens(resolved, [&edit.caption_prompt, &edit.lyric_prompt])?,
        None => words,
    };
    // The language model will add metadata to the caption, or write both.
    let open = match composition {
        Some(composition) if resolved.decided.is_none() => match composition.writes_lyrics() {
            true => [CAPTION_TOKENS, LYRIC_TOKENS],
            false => [CAPTION_TOKENS, 0],
        },
        Some(_) | None => [0; 2],
    };
    Ok([0, 1].map(|of| words[of].max(before[of]).max(open[of])))
}

/// Counts the tokens of a caption prompt and of a lyric prompt, as the networks get them.
pub(super) fn count_tokens(resolved: &Resolved, prompts: [&str; 2]) -> Result<[usize; 2], Error> {
    let count = |text: &str, most| match resolved.folder.token_ids(text, most) {
        Ok(ids) => Ok(ids.len()),
        Err(error) => Err(Error::checkpoint(error)),
    };
    Ok([count(prompts[0], CAPTION_TOKENS)?, count(prompts[1], LYRIC_TOKENS)?])
}

/// Chooses the VAE's tiles for the free memory of the device, unless the user chose them, and
/// returns a notice about it. A CPU uses upstream's tiles, because it can swap.
pub(super) fn tiling(
    request: &mut Request,
    plan: &Plan,
    folder: &AceStep,
    engine: Engine,
    residency: Residency,
) -> Result<Option<Notice>, Error> {
    if request.compute.vae_chunk.is_some() || engine.device == Device::Cpu {
        return Ok(None);
    }
    let chosen = sizes(folder, engine).tiling(plan, residency)?;
    if chosen == Tiling::default() {
        return Ok(None);
    }
    request.compute.vae_chunk = i64::try_from(chosen.chunk).ok();
    Ok(Some(Notice(format!(
        "the VAE decodes {} frames at once, for the memory of {}; `vae_chunk` decides otherwise",
        chosen.chunk, engine.device
    ))))
}
