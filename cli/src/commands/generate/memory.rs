//! Whether the run fits into memory, before anything is loaded, and how large the VAE's tiles are.

use acestep_import::{Folder, Part};
use acestep_model::Configs;
use acestep_runtime::{
    Device, Engine, Error, Notice, Plan, Request, Residency, Stage,
    device::memory::{self, Need, Room, bytes_of},
    text::{CAPTION_TOKENS, LYRIC_TOKENS},
    vae::Tiling,
};
use anyhow::Result;

use super::{Job, composition::Composition};
use crate::commands::engine;

/// What each stage of `job` needs, in the order in which they run.
///
/// # Errors
/// None after the model was opened.
pub(super) fn needs(job: &Job) -> Result<Vec<Need>, acestep_import::Error> {
    let Job { plan, folder, composition, engine, .. } = job;
    let bytes = bytes_of(engine.dtype);
    let guided = plan.guidance.is_some();
    let conditioned = job.inputs.conditioning.is_some();
    let configs = folder.configs();
    let parameters = |part| folder.size(part).map(|size| size.parameters);
    // As many tokens as the networks read at most: to count them would read the tokenizer.
    let (caption, heard) = (CAPTION_TOKENS, CAPTION_TOKENS + LYRIC_TOKENS + 1);
    let rows = plan.batch_size() * if guided { 2 } else { 1 };

    let mut needs = Vec::new();
    if let Some(composition) = composition {
        needs.extend(language(composition, &job.asked.request, plan, bytes)?);
    }
    if !conditioned {
        let size = parameters(Part::TextEncoder)?;
        needs.push(Need::text_encoder(&configs.text_encoder, size, caption, bytes));
        let size = parameters(Part::Conditioner)?;
        needs.push(Need::conditioner(&configs.dit, size, heard, bytes));
    }
    if plan.is_cover() {
        let size = parameters(Part::AudioCodec)?;
        let frames = plan.codes.len() * plan.padded_frames;
        let need = Need::conditioner(&configs.dit, size, frames, bytes);
        needs.push(Need { stage: Stage::Codes, ..need });
    }
    let size = parameters(Part::Dit)?;
    needs.push(Need::diffusion(&configs.dit, size, rows, plan.padded_frames, heard, bytes));
    needs.push(sound(folder, configs, plan, plan.tiling, bytes)?);
    Ok(needs)
}

fn sound(
    folder: &Folder,
    configs: &Configs,
    plan: &Plan,
    tiling: Tiling,
    bytes: u64,
) -> Result<Need, acestep_import::Error> {
    let size = folder.size(Part::VaeDecoder)?.parameters;
    Ok(Need::vae(&configs.vae, size, plan.batch_size(), plan.padded_frames, tiling, bytes))
}

/// Words, then codes.
fn language(
    composition: &Composition,
    request: &Request,
    plan: &Plan,
    bytes: u64,
) -> Result<Vec<Need>, acestep_import::Error> {
    /// Tokens of the prompt that are no one's words, and room for what the plan adds.
    const FRAME: usize = 512;
    let folder = &composition.folder;
    let parameters = folder.size()?.parameters;
    // Two bytes a token is more than any language has.
    let prompt = FRAME + (plan.caption.len() + plan.lyrics.len()) / 2;
    let [text, codes] = composition.token_limits(request);
    let need = |stage, rows, limit| Need {
        stage,
        ..Need::language_model(folder.config(), parameters, rows, prompt + limit, bytes)
    };
    let mut needs = vec![need(Stage::LmText, 1, text)];
    if composition.writes_codes {
        needs.push(need(Stage::LmCodes, composition.code_rows(), codes));
    }
    Ok(needs)
}

/// The VAE's tiles for what is free on the device, if no one has chosen, and what to say of it. A
/// processor takes upstream's: its memory can grow.
///
/// # Errors
/// None after the model was opened.
pub(super) fn tiling(
    request: &mut Request,
    plan: &Plan,
    folder: &Folder,
    engine: Engine,
    residency: Residency,
) -> Result<Option<Notice>, acestep_import::Error> {
    if request.vae_chunk.is_some() || engine.device == Device::Cpu {
        return Ok(None);
    }
    let configs = folder.configs();
    let bytes = bytes_of(engine.dtype);
    let mut others = 0;
    if residency == Residency::Kept {
        for part in [Part::TextEncoder, Part::Conditioner, Part::AudioCodec, Part::Dit] {
            others += folder.size(part)?.parameters * bytes;
        }
    }
    let size = folder.size(Part::VaeDecoder)?.parameters;
    let (batch, frames) = (plan.batch_size(), plan.padded_frames);
    let need = |tiling| Need::vae(&configs.vae, size, batch, frames, tiling, bytes);
    let room = engine::room(engine.device);
    let chosen = memory::tiling(Tiling::default(), frames, &room, others, need);
    if chosen == Tiling::default() {
        return Ok(None);
    }
    request.vae_chunk = i64::try_from(chosen.chunk).ok();
    Ok(Some(Notice(format!(
        "the VAE decodes {} frames at once, for the memory of {}; --vae-chunk decides otherwise",
        chosen.chunk, engine.device
    ))))
}

/// What the device has.
pub(super) fn room(job: &Job) -> Room {
    engine::room(job.engine.device)
}

/// Refuses a run that cannot fit.
///
/// # Errors
/// What is needed, what there is, and what to change.
pub(super) fn check(job: &Job, residency: Residency) -> Result<()> {
    let needs = needs(job).map_err(Error::checkpoint)?;
    let name = match job.engine.device {
        Device::Cpu => "this machine".to_owned(),
        device => device.to_string(),
    };
    Ok(memory::check(&needs, residency == Residency::Kept, &room(job), &name)?)
}
