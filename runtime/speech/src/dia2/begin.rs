//! The state at the beginning of a plan.

use std::time::Instant;

use acestep_engine::{Error, Event, Observe, progress::check};
use acestep_model::{Backend, speech::dia2::BackboneState};

use super::{
    networks::{Networks, Pair},
    plan::{Plan, VoiceKind},
    snapshot::Snapshot,
    stage,
    step::RunState,
};

/// The state at the beginning of a plan without a snapshot.
pub(super) fn fresh<B: Backend>(
    plan: &Plan,
    pair: &Pair<B>,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<RunState<BackboneState<B>>, Error> {
    let streams = &plan.streams;
    let rows = plan.guidance.rows();
    let mut entries = Vec::new();
    if let VoiceKind::Recorded(prefix) = &plan.voice {
        entries.extend_from_slice(&prefix.entries);
    }
    entries.extend_from_slice(&plan.entries);
    let machine = streams.machine(entries, plan.initial_padding);
    let grid = streams.grid(streams.ids.audio_pad);
    let begin = Instant::now();
    networks.catch(stage::VOICE, || {
        let empty = pair.state(rows, streams.most_steps + 1);
        let mut state = RunState::fresh(empty, rows, grid.clone(), machine.clone(), streams);
        if let VoiceKind::Recorded(prefix) = &plan.voice {
            let total = prefix.frames.len();
            let step = |done| {
                observe.event(Event::Advanced { stage: stage::VOICE, done, total });
                check(observe)
            };
            state.read(prefix, streams, pair, &step)?;
            observe.event(Event::Finished { stage: stage::VOICE, elapsed: begin.elapsed() });
        }
        Ok(state)
    })
}

/// The state at the beginning of a plan with a snapshot.
pub(super) fn of_snapshot<B: Backend>(
    snapshot: &Snapshot<B>,
    plan: &Plan,
    pair: &Pair<B>,
    networks: &Networks<'_, B>,
) -> Result<RunState<BackboneState<B>>, Error> {
    let machine = plan.streams.machine(plan.entries.clone(), plan.initial_padding);
    networks.catch(stage::SPEECH, || {
        Ok(RunState { machine: machine.clone(), ..snapshot.restored(&plan.streams, pair) })
    })
}
