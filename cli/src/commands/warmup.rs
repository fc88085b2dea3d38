//! `acestep warmup`: makes a song and discards it, so that a GPU's kernels are compiled and tuned.

use std::{path::Path, sync::Arc, time::Instant};

use acestep_engine::{
    Device, Engine, Observe, Residency,
    device::kernels::{self, Kernels},
    error::size,
};
use acestep_import::{BUILT_IN_MODELS, Layout, TINY, acestep::MODELS, built_in};
use acestep_music::Request;
use acestep_session::{
    language::{self, TokenLimits},
    song::{self, ExtraOptions, Order, Resolved, describe::headline},
};
use anyhow::Result;

use super::engine::{self, Started};
use crate::{
    args::{Global, doctor::Warmup},
    error::CliError,
    progress::{self, Progress},
    report::Report,
    settings,
};

pub(crate) fn run(args: &Warmup, global: &Global) -> Result<()> {
    let report = global.report();
    let Started { engine, kernels, notices } = engine::start(&args.place)?;
    if engine.device == Device::Cpu {
        report.line("cpu: a processor's kernels are compiled already, there is nothing to do");
        return Ok(());
    }
    let kept = folder(&kernels)?;
    report.notes(&notices);
    let layout = settings::layout();
    let model = args.model.clone().or_else(settings::configured_model).unwrap_or_else(|| {
        let [default, ..] = &MODELS;
        let is_here = layout.resolve(default.name).is_ok();
        if is_here { default.name } else { BUILT_IN_MODELS[0].name }.to_owned()
    });
    if built_in(&model).is_some() {
        report.note(
            "the kernels of the built-in model are warmed up: those of a released model, which are \
             more and larger, want --model",
        );
    }
    let before = kernels::size(kept);
    let start = Instant::now();
    let order = order(args, engine, model, &layout);
    let song = rehearse(order, &report)?;
    engine::remember(&kernels, engine, &song.models());
    let after = kernels::size(kept);
    report.line(&format!(
        "{engine}: warm after {} · {} of kernels in {}, {} of them new",
        progress::seconds(start.elapsed()),
        size(after),
        kept.display(),
        size(after.saturating_sub(before)),
    ));
    Ok(())
}

/// Returns the folder of kernels. Without one, minutes of work would be lost.
fn folder(kernels: &Kernels) -> Result<&Path, CliError> {
    kernels.folder.as_deref().ok_or_else(|| {
        let why =
            kernels.notice.as_ref().map_or("compiled kernels are not kept", |why| why.0.as_str());
        CliError::new(why).hint("set ACESTEP_CACHE_DIR to a folder you may write to")
    })
}

/// Returns a song that needs all networks. The language model plans it if there is one.
fn order<'a>(args: &Warmup, engine: Engine, model: String, layout: &'a Layout) -> Order<'a> {
    let configured = args.lm_model.clone().or_else(settings::lm_model);
    let language_model = configured.or_else(|| match built_in(&model) {
        Some(model) => Some(model.name.to_owned()),
        None => layout.resolve_language_model(None).ok().map(|found| found.name),
    });
    let request = Request::default().with(|r| {
        r.words.caption = Some("a test of all stages".into());
        r.words.lyrics = Some("[Verse]\nla la la".into());
        r.words.duration = Some(args.duration);
        r.noise.seed = Some(vec![1]);
        r.language.thinking = Some(language_model.is_some());
        if language_model.as_deref() == Some(TINY) {
            // With these settings a random network soon ends its answer.
            (r.language.lm_temperature, r.language.lm_top_p) = (Some(2.0), Some(1.0));
        }
        r.language.lm_model = language_model;
    });
    Order {
        request,
        model,
        notices: vec![],
        noise: None,
        conditioning: None,
        limits: TokenLimits::default(),
        genres: None,
        language_model: None,
        engine,
        residency: Residency::LastUsed,
        layout,
    }
}

/// Makes the song and discards it, with all loading and computing of a real run.
fn rehearse(order: Order<'_>, report: &Report) -> Result<Resolved> {
    let engine = order.engine;
    let folder = Arc::new(acestep_import::open(&order.model, order.layout)?);
    let progress = Progress::new(*report);
    let observe: &dyn Observe = &progress;
    let planned = order.plan(folder, observe).map_err(|failed| {
        // The notices may explain the error.
        report.notes(&failed.notices);
        failed.error
    })?;
    let mut song = planned.resolve(ExtraOptions::new(false, false, None)?, false)?;
    song.check_memory()?;
    let setup = song.setup.clone();
    if let Some(composition) = &setup.composition {
        let asked = (composition.composing(&song.request), observe);
        let composed = language::compose_all(&[asked], &composition.folder, engine)?.remove(0)?;
        report.notes(&composed.changes);
        song = song.completed(composed)?;
        song.check_memory()?;
    }
    report.line(&headline(&song));
    let made = song::songs(&[(&song, observe)], None, &mut |_, made| made.map(drop));
    progress.finish();
    made?;
    Ok(song)
}

#[cfg(test)]
mod tests {
    use acestep_engine::Notice;

    use super::*;
    use crate::{error, exit, hint};

    #[test]
    fn nothing_is_compiled_where_it_cannot_be_kept() {
        let notice = "compiled kernels are not kept: cannot write to `x`: it is a file";
        let kernels = Kernels { folder: None, is_first: true, notice: Some(Notice(notice.into())) };
        let refused = anyhow::Error::from(folder(&kernels).expect_err("it cannot be kept"));
        assert_eq!(refused.to_string(), notice);
        assert_eq!(error::code_of(&refused), exit::FAILED);
        assert!(hint::of(&refused).is_some_and(|hint| hint.contains("ACESTEP_CACHE_DIR")));
    }
}
