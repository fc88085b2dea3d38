//! The reference's server: a voice that is kept, and two requests from it.

use acestep_engine::{Unobserved, sampling::Draws};
use acestep_import::Dia2;
use acestep_model::{Backend, Place};
use acestep_speech::{
    Chunks,
    dia2::{
        Chooser, DrawSettings, Guidance, Networks, Plan, Prefix, Request, Run, RunState, Snapshot,
        Speakers, Speaking, StreamItem, reader, sanitised, streams,
    },
    pcm16,
};
use anyhow::Result;

use super::{
    recorded::Recorded,
    recordings::recordings,
    runs::{buffer, codes, first, keys_values, step_tokens},
};
use crate::{
    families::GoldenSource,
    golden::{set::Set, sheet::Sheet},
};

/// All of the server.
pub(super) fn compare<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let model = of.dialogue.of("")?;
    sheet.attempt("", |sheet| all(sheet, &of.set, model, place))
}

fn all<B: Backend>(sheet: &mut Sheet<'_>, set: &Set, model: &Dia2, place: &Place<B>) -> Result<()> {
    let note = &set.json("logic/runs.json")?["server"];
    let networks = Networks::<B>::new(model, place.clone());
    let recordings = recordings(set, &["pre1.wav"], &networks)?;
    let streams = streams(model)?;
    let reader = reader(&streams, model)?;
    let prefix = Prefix::new(&recordings, &reader, streams.most_steps)?;
    let bos = streams.ids.audio_bos;

    // Both rows, as the reference, also without guidance.
    let recorded = Recorded::new(networks.pair()?);
    let empty = networks.pair()?.state(2, streams.most_steps + 1);
    let machine = streams.machine(prefix.entries.clone(), 0);
    let mut kept = RunState::fresh(empty, 2, streams.grid(bos), machine, &streams);
    kept.read(&prefix, &streams, &recorded, &|_| Ok(()))?;
    recorded.take();
    kept.rest(&streams, &recorded)?;
    first(sheet, "cooldown.cb0", &recorded.take().code)?;
    keys_values(sheet, "snapshot.", &kept.networks)?;
    buffer(sheet, "snapshot.audio_buf", kept.grid.columns(), bos.into())?;
    step_tokens(sheet, "snapshot.", &kept, &streams);

    let snapshot = Snapshot::new(&recordings, 1, &networks, &Unobserved)?;
    for (index, request) in note["requests"].as_array().into_iter().flatten().enumerate() {
        let script = request["text"].as_str().unwrap_or_default();
        let greedy = DrawSettings { temperature: 0.0, top_k: 50 };
        let guidance = Guidance { scale: 1.0, filter_k: 50 };
        let drawing = Box::new(Draws::new(0, 1));
        let chooser = Chooser { guidance, text: greedy, audio: greedy, drawing };
        let state =
            RunState { machine: streams.machine(reader.script(script)?, 0), ..kept.clone() };
        let known = (prefix.frames.len(), usize::MAX);
        let recorded = Recorded::new(networks.pair()?);
        let mut run = Run::new(state, known, chooser, streams.clone(), recorded);
        while run.advance()?.is_some() {}
        let log = run.networks().take();
        let columns = &run.state().grid.columns()[..=run.state().step];
        codes(sheet, &format!("req{index}.grid"), columns);
        let frames: Vec<_> = (0..).map_while(|frame| run.frame(frame)).collect();
        let frames: Vec<_> =
            frames.into_iter().map(|frame| sanitised(frame, streams.codebook_size)).collect();
        codes(sheet, &format!("req{index}.aligned"), &frames);
        first(sheet, &format!("req{index}.hidden"), &log.hidden)?;
        let half = |row: &Vec<f32>| row[..row.len() / 2].to_vec();
        let conditional: Vec<_> = log.code.iter().map(half).collect();
        first(sheet, &format!("req{index}.cb0"), &conditional)?;

        // The public front, frame by frame.
        let request = Request {
            script: script.to_owned(),
            cfg_scale: Some(1.0),
            temperature: Some(0.0),
            ..Request::default()
        };
        let plan = Plan::new(&request, Speakers::Kept, 0, model)?;
        let chunks = Chunks { first: 1, others: 1 };
        let speaking = Speaking::begin(plan, Some(&snapshot), &networks, chunks, &Unobserved)?;
        let mut samples = Vec::new();
        for made in speaking {
            if let StreamItem::Samples(next) = made? {
                samples.extend(next);
            }
        }
        sheet.close_values(&format!("req{index}.wave"), &[samples.len()], &samples);
        let pcm: Vec<f32> = pcm16(&samples).into_iter().map(f32::from).collect();
        sheet.close_values(&format!("req{index}.pcm16"), &[pcm.len()], &pcm);
    }
    Ok(())
}
