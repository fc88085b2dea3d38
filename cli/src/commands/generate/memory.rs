//! Checks before loading whether the run fits into memory, and chooses the VAE's tiles.

use acestep_engine::{
    Device, Engine, Error, Notice, Residency,
    device::memory::{self, MemoryNeed},
    tiling::Tiling,
};
use acestep_import::{AceStep, Network};
use acestep_music::{
    Plan, Request,
    align::attention_maps,
    stage,
    text::{CAPTION_TOKENS, LYRIC_TOKENS},
    tokenize::CODES_AT_ONCE,
};
use anyhow::Result;

use super::{Resolved, resolved::Setup, run};
use crate::commands::{engine, memory as common};

/// Returns the memory needs of each stage, in the order of the run.
///
/// # Errors
/// None after the model was opened.
pub(super) fn needs(resolved: &Resolved) -> Result<Vec<MemoryNeed>, acestep_import::Error> {
    let Resolved { plan, folder, setup, .. } = resolved;
    let Setup { composition, engine, .. } = &**setup;
    let widths = engine.widths();
    let guided = plan.sampling.guidance.is_some();
    let conditioned = setup.inputs.conditioning.is_some();
    let configs = folder.configs();
    let parameters = |part| folder.size(part).map(|size| size.parameters);
    // Use the maximum token counts: exact counts would require the tokenizer.
    let (caption, heard) = (CAPTION_TOKENS, CAPTION_TOKENS + LYRIC_TOKENS + 1);
    let rows = plan.batch_size() * if guided { 2 } else { 1 };

    let mut needs = Vec::new();
    if let Some(composition) = composition {
        needs.extend(composition.needs(&resolved.request, plan, *engine)?);
    }
    if let Some(frames) = run::encoded_frames(plan) {
        needs.push(common::encoder(folder, frames, *engine)?);
    }
    if !conditioned {
        let size = parameters(Network::TextEncoder)?;
        needs.push(acestep_music::memory::text_encoder(
            &configs.text_encoder,
            size,
            caption,
            widths,
        ));
    }
    if !conditioned || guided {
        // With a given condition, guidance still encodes the unconditional input.
        let timbres = plan.source.references.len().max(1) * configs.dit.timbre_fix_frame;
        let heard = if conditioned { 0 } else { heard.max(timbres) };
        let size = parameters(Network::Conditioner)?;
        needs.push(acestep_music::memory::conditioner(&configs.dit, size, heard, widths));
    }
    if plan.source.has_codes() || plan.source.is_cover() {
        let size = parameters(Network::AudioCodec)?;
        let frames = match plan.source.has_codes() {
            true => plan.source.codes.len() * plan.length.padded_frames,
            // Processed in pieces.
            false => plan.length.padded_frames.min(CODES_AT_ONCE * configs.dit.pool_window_size),
        };
        let need = acestep_music::memory::conditioner(&configs.dit, size, frames, widths);
        needs.push(MemoryNeed { stage: stage::CODES, ..need });
    }
    let size = parameters(Network::Dit)?;
    needs.push(acestep_music::memory::diffusion(
        &configs.dit,
        size,
        rows,
        plan.length.padded_frames,
        heard,
        widths,
    ));
    if setup.after.wants.anything() && attention_maps::has_words(&plan.words.lyrics) {
        let heads = attention_maps::heads(&configs.dit).unwrap_or_default();
        // A token has at least one byte.
        let words = plan.words.caption_prompt.len() + plan.words.lyric_prompt.len() + 1;
        let (frames, tokens) = (plan.length.padded_frames, heard.min(words));
        needs.push(acestep_music::memory::alignment(
            &configs.dit,
            size,
            &heads,
            frames,
            tokens,
            widths,
        ));
    }
    needs.push(decoder(folder, plan, *engine)?(plan.tiling));
    if let Some((judge, _)) = resolved.judge() {
        let words = common::prompt_tokens(plan.words.caption.len() + plan.words.lyrics.len());
        let codes = plan.source.codes.iter().map(Vec::len).max().unwrap_or(0);
        let size = judge.size()?.parameters;
        needs.push(acestep_music::memory::judge(judge.config(), size, words + codes, widths));
    }
    Ok(needs)
}

/// Returns the need of the VAE's decoder as a function of its tiles.
fn decoder<'a>(
    folder: &'a AceStep,
    plan: &Plan,
    engine: Engine,
) -> Result<impl Fn(Tiling) -> MemoryNeed + use<'a>, acestep_import::Error> {
    let (vae, size) = (&folder.configs().vae, folder.size(Network::VaeDecoder)?.parameters);
    let (songs, frames, widths) = (plan.batch_size(), plan.length.padded_frames, engine.widths());
    Ok(move |tiling| acestep_music::memory::vae(vae, size, songs, frames, tiling, widths))
}

/// Chooses the VAE's tiles for the free memory of the device, unless the user chose them, and
/// returns a notice about it. A CPU uses upstream's tiles, because it can swap.
///
/// # Errors
/// None after the model was opened.
pub(super) fn tiling(
    request: &mut Request,
    plan: &Plan,
    folder: &AceStep,
    engine: Engine,
    residency: Residency,
) -> Result<Option<Notice>, acestep_import::Error> {
    if request.compute.vae_chunk.is_some() || engine.device == Device::Cpu {
        return Ok(None);
    }
    let widths = engine.widths();
    let mut others = 0;
    if residency == Residency::Kept {
        let encoder = run::encoded_frames(plan).map(|_| Network::VaeEncoder);
        let parts = [Network::TextEncoder, Network::Conditioner, Network::AudioCodec, Network::Dit];
        for part in parts.into_iter().chain(encoder) {
            let count = folder.size(part)?.parameters;
            others += match part {
                Network::Dit => widths.weights(count),
                _ => widths.weights_of_others(count),
            };
        }
    }
    let (need, room) = (decoder(folder, plan, engine)?, engine::room(engine.device));
    let chosen = memory::tiling(Tiling::default(), plan.length.padded_frames, &room, others, need);
    if chosen == Tiling::default() {
        return Ok(None);
    }
    request.compute.vae_chunk = i64::try_from(chosen.chunk).ok();
    Ok(Some(Notice(format!(
        "the VAE decodes {} frames at once, for the memory of {}; --vae-chunk decides otherwise",
        chosen.chunk, engine.device
    ))))
}

/// Refuses a run that does not fit.
///
/// # Errors
/// Too little memory: the error names the need, the available memory, and a remedy.
pub(super) fn check(resolved: &Resolved) -> Result<()> {
    let needs = needs(resolved).map_err(Error::checkpoint)?;
    common::check(&needs, resolved.setup.residency == Residency::Kept, resolved.setup.engine)
}

#[cfg(test)]
mod tests {
    use acestep_engine::files::Existing;
    use acestep_music::{
        exchange::{Array3, Conditioning},
        flow::guidance::Guidance,
        plan::GuidanceMode,
    };

    use super::*;
    use crate::{args, commands::generate::resolve::resolve, report::Report};

    /// Guidance needs the conditioner's weights for the unconditional input.
    #[test]
    fn conditioning_of_a_file_needs_the_conditioner_only_with_guidance() {
        let folder = tempfile::tempdir().expect("a folder");
        let array = |shape: [usize; 3]| Array3::new(shape, vec![0.0; shape.iter().product()]);
        let conditioning = Conditioning {
            encoder_hidden_states: array([1, 4, 64]),
            context_latents: array([1, 128, 32]),
            initial_noise: array([1, 128, 16]),
        };
        conditioning.save(folder.path(), Existing::Keep).expect("files");
        let path = folder.path().to_str().expect("a name");
        let words = ["--model", "tiny", "--duration", "1", "--conditioning", path];
        let args = args::generate_args(words.iter().map(Into::into).collect()).expect("flags");
        let mut job = resolve(&args, &Report::SILENT).expect("a song");
        let stages = |job: &Resolved| -> Vec<acestep_engine::Stage> {
            needs(job).expect("built in").into_iter().map(|need| need.stage).collect()
        };
        assert_eq!(stages(&job), [stage::DIFFUSION, stage::VAE]);
        // The built-in model has no guidance.
        let mode = GuidanceMode::Apg;
        job.plan.sampling.guidance = Some(Guidance { scale: 3.0, mode, interval: (0.0, 1.0) });
        assert_eq!(stages(&job), [stage::CONDITION, stage::DIFFUSION, stage::VAE]);
    }
}
