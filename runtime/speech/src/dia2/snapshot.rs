//! The state after the recordings of the speakers, as one value: keys and values, the grid of codes,
//! the tokens of the next step, and the past of the codec.
//!
//! Any number of scripts begin from it. A run from a snapshot gives the same samples as one that reads
//! the recordings anew. The script is not known when the recordings are read, so a rest of six frames
//! comes after them; upstream's own continuation of recordings needs the script first.
//!
//! Source: the real-time server of stream-dia2 at 405d82f.

use acestep_engine::{Error, Event, Observe, progress::check};
use acestep_model::{Backend, speech::dia2::BackboneState};
use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::{
    error::Dia2Error,
    grid::Grid,
    networks::{BACKBONE, CODEC_DECODER, Networks, Pair, reader, streams},
    plan::Plan,
    prefix::{MOST_PREFIX, Prefix, Recording},
    sound::StreamingDecoder,
    stage,
    step::{REST, RunState},
    streams::Streams,
};

/// The state before a script.
#[derive(Debug, Clone)]
pub struct Snapshot<B: Backend> {
    /// Its keys and values have room for no further step, so a kept voice is as small as its recordings.
    state: RunState<BackboneState<B>>,
    /// Frames of the recordings.
    pub(super) known: usize,
    /// Frames that the codec has decoded.
    pub(super) decoded: usize,
    pub(super) decoding: StreamingDecoder<B>,
}

impl<B: Backend> Snapshot<B> {
    /// Reads recordings of speaker 1 and, if there are two, of speaker 2: [`MOST_PREFIX`] frames at most.
    /// `rows` is the number of rows of the runs: [`Guidance::rows`](super::Guidance::rows).
    ///
    /// # Errors
    /// The errors of loading and of the device; [`Error::Cancelled`].
    pub fn new(
        recordings: &[Recording],
        rows: usize,
        networks: &Networks<'_, B>,
        observe: &dyn Observe,
    ) -> Result<Self, Error> {
        Self::within(MOST_PREFIX, recordings, rows, networks, observe)
    }

    /// As [`Self::new`], with `most` frames of the recordings at most. A notice tells of longer ones.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn within(
        most: usize,
        recordings: &[Recording],
        rows: usize,
        networks: &Networks<'_, B>,
        observe: &dyn Observe,
    ) -> Result<Self, Error> {
        let streams = streams(networks.checkpoint())?;
        let reader = reader(&streams, networks.checkpoint())?;
        let prefix = Prefix::cut(recordings, &reader, most_frames(most, &streams));
        for notice in prefix.notices("are left out") {
            observe.event(Event::Noticed(notice));
        }
        check(observe)?;
        observe.event(Event::Loading(stage::VOICE));
        networks.catch(stage::VOICE, || {
            let pair = networks.pair()?;
            let empty = pair.state(rows, streams.most_steps + 1);
            let machine = streams.machine(prefix.entries.clone(), 0);
            let grid = streams.grid(streams.ids.audio_bos);
            let mut state = RunState::fresh(empty, rows, grid, machine, &streams);
            let total = prefix.frames.len();
            let step = |done| {
                observe.event(Event::Advanced { stage: stage::VOICE, done, total });
                check(observe)
            };
            if total > 0 {
                state.read(&prefix, &streams, &pair, &step)?;
                state.rest(&streams, &pair)?;
            }
            state.machine = streams.machine(Vec::new(), 0);
            let mut decoding = StreamingDecoder::begin(networks)?;
            let frames = state.frames();
            let fixed: Vec<_> = (0..frames).filter_map(|frame| state.grid.frame(frame)).collect();
            decoding.decode(&fixed)?;
            let state = with_room(state, 0, &pair);
            Ok(Self { state, known: total, decoded: fixed.len(), decoding })
        })
    }

    /// True if runs of `plan` can begin from it.
    pub fn serves(&self, plan: &Plan) -> bool {
        self.state.rows == plan.guidance.rows()
    }

    /// The step at which a script begins.
    pub fn start(&self) -> usize {
        self.state.step
    }

    /// Bytes of its keys and values, of the past of its codec, and of its codes.
    pub fn bytes(&self, networks: &Networks<'_, B>) -> u64 {
        let codec = self.decoding.to_data(&networks.place(CODEC_DECODER));
        let codec: usize = codec.iter().map(|data| data.bytes.len()).sum();
        let codes: usize = self.state.grid.columns().iter().map(Vec::len).sum();
        self.state.networks.bytes() + (codec + codes * size_of::<u32>()) as u64
    }

    /// A state that a run goes on from, with room for all steps of the model.
    pub(super) fn restored(&self, streams: &Streams, pair: &Pair<B>) -> RunState<BackboneState<B>> {
        let room = (streams.most_steps + 1).saturating_sub(self.state.networks.steps());
        with_room(self.state.clone(), room, pair)
    }

    /// The state before a script.
    pub fn state(&self) -> &RunState<BackboneState<B>> {
        &self.state
    }

    /// Copies the snapshot to the host.
    pub(super) fn to_data(&self, networks: &Networks<'_, B>) -> SnapshotData {
        let Self { state, known, decoded, decoding } = self;
        // Before the first step there is nothing to copy.
        let rows = if state.step > 0 { state.rows } else { 0 };
        let rows = (0..rows).flat_map(|row| state.networks.row(row));
        SnapshotData {
            said: SnapshotHeader {
                rows: state.rows,
                known: *known,
                decoded: *decoded,
                step: state.step,
                tokens: state.tokens.clone(),
                grid: state.grid.clone(),
            },
            keys_values: rows.flatten().map(|tensor| tensor.to_data()).collect(),
            codec: decoding.to_data(&networks.place(CODEC_DECODER)),
        }
    }

    /// Copies the first `rows` rows of a snapshot to the device.
    ///
    /// # Errors
    /// [`Dia2Error::ForeignSnapshot`] if it is from another model; the errors of loading.
    pub(super) fn from_data(
        data: &SnapshotData,
        rows: usize,
        networks: &Networks<'_, B>,
    ) -> Result<Self, Error> {
        let foreign = |why: &str| Error::from(Dia2Error::ForeignSnapshot { why: why.to_owned() });
        let streams = streams(networks.checkpoint())?;
        let SnapshotData { said, keys_values, codec } = data;
        if !said.fits(&streams) || rows > said.rows {
            return Err(foreign("its streams are others"));
        }
        let decoder = &networks.checkpoint().config().model.decoder;
        let place = networks.place(BACKBONE);
        let dtype = place.computes_in();
        let per_row = 2 * decoder.n_layer;
        let shape = [1, decoder.kv_heads, said.step, decoder.gqa_head_dim];
        let fits = |data: &TensorData| data.shape.to_vec() == shape && data.dtype == dtype;
        let kept = if said.step > 0 { said.rows } else { 0 };
        if keys_values.len() != kept * per_row || !keys_values.iter().all(fits) {
            return Err(foreign("its keys and values have other sizes"));
        }
        let pair = networks.pair()?;
        let mut state = pair.state(rows, said.step.max(1));
        for (row, values) in keys_values.chunks(per_row).take(rows).enumerate() {
            let tensor = |data: &TensorData| -> Tensor<B, 4> {
                Tensor::from_data(data.clone(), (&place.device, dtype))
            };
            let pairs = values.chunks(2).map(|pair| [tensor(&pair[0]), tensor(&pair[1])]);
            state.set_row(row, pairs.collect());
        }
        let decoding = StreamingDecoder::from_data(codec.clone(), networks)?
            .map_err(|_| foreign("its codec is another one"))?;
        let state = RunState {
            networks: state,
            rows,
            grid: said.grid.clone(),
            tokens: said.tokens.clone(),
            machine: streams.machine(Vec::new(), 0),
            step: said.step,
        };
        Ok(Self { state, known: said.known, decoded: said.decoded, decoding })
    }
}

/// Copies keys and values into a state with room for `room` more steps.
fn with_room<B: Backend>(
    state: RunState<BackboneState<B>>,
    room: usize,
    pair: &Pair<B>,
) -> RunState<BackboneState<B>> {
    let steps = state.networks.steps() + room;
    let mut networks = pair.state(state.rows, steps.max(1));
    // Before the first step there is nothing to copy.
    let filled = if state.networks.steps() > 0 { state.rows } else { 0 };
    for row in 0..filled {
        networks.set_row(row, state.networks.row(row));
    }
    RunState { networks, ..state }
}

/// Returns the most frames of recordings that a snapshot reads: `most`, unless the model has fewer steps.
fn most_frames(most: usize, streams: &Streams) -> usize {
    most.min(streams.most_steps.saturating_sub(REST + 1))
}

/// The numbers of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SnapshotHeader {
    pub(super) rows: usize,
    known: usize,
    decoded: usize,
    step: usize,
    tokens: Vec<u32>,
    grid: Grid,
}

impl SnapshotHeader {
    /// True if a model with these streams can have these numbers.
    fn fits(&self, streams: &Streams) -> bool {
        let Self { rows, known, decoded, step, tokens, grid } = self;
        (1..=2).contains(rows)
            && *step < streams.most_steps
            && known <= step
            && *decoded <= grid.complete(step + 1)
            && decoded <= step
            && tokens.len() == 2 + streams.delays.len()
            && grid.is_of(&streams.delays)
    }
}

/// A snapshot on the host.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SnapshotData {
    pub(super) said: SnapshotHeader,
    pub(super) keys_values: Vec<TensorData>,
    /// Empty if the codec has decoded nothing.
    pub(super) codec: Vec<TensorData>,
}
