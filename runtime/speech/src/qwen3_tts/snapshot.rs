//! The state after the rows of a prompt that do not depend on the text, and after the sound of a
//! recording, so that a kept voice need not compute them again.
//!
//! A run with a snapshot gives the same samples as one without: both read that part of the prompt
//! apart from the rest.

use acestep_engine::Error;
use acestep_model::{Backend, nn::ForeignState, speech::qwen3_tts::Talker};
use burn::tensor::{Tensor, TensorData};

use super::{
    frames::{Frames, PromptCache, known_rows},
    networks::{CODEC_DECODER, Networks, TALKER},
    plan::Plan,
    prompt::Row,
    sound::StreamingDecoder,
};

// ANCHOR: snapshot
/// The state of talker and codec before a text.
#[derive(Debug, Clone)]
pub struct Snapshot<B: Backend> {
    pub(crate) prefix: PromptCache<B>,
    /// The codec after the frames of the recording.
    pub(crate) decoding: StreamingDecoder<B>,
}
// ANCHOR_END: snapshot

/// A snapshot on the host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SnapshotData {
    pub(crate) rows: Vec<Row>,
    pub(crate) keys_values: Vec<TensorData>,
    /// Empty if the codec has decoded nothing.
    pub(crate) codec: Vec<TensorData>,
}

impl<B: Backend> Snapshot<B> {
    /// Computes the snapshot of a plan with a voice.
    ///
    /// # Errors
    /// The errors of loading; [`Error::NotFinite`].
    pub fn new(plan: &Plan, networks: &Networks<'_, B>) -> Result<Self, Error> {
        let prefix = Frames::new(1, networks)?.prefix(plan);
        Ok(Self { prefix, decoding: StreamingDecoder::of_plan(plan, networks)? })
    }

    /// True if the prompt of `plan` begins with the rows of the snapshot, so that it is used.
    pub fn serves(&self, plan: &Plan) -> bool {
        self.prefix.rows == plan.prompt.rows[..known_rows(plan)]
    }

    /// Copies the snapshot to the host.
    pub(crate) fn to_data(&self, networks: &Networks<'_, B>) -> SnapshotData {
        let keys_values = self.prefix.keys_values.iter().flatten();
        SnapshotData {
            rows: self.prefix.rows.clone(),
            keys_values: keys_values.map(Tensor::to_data).collect(),
            codec: self.decoding.to_data(&networks.place(CODEC_DECODER)),
        }
    }

    /// Copies a snapshot to the device.
    ///
    /// # Errors
    /// [`ForeignState`] inside `Ok` if it is from another model; the errors of loading.
    pub(crate) fn from_data(
        data: &SnapshotData,
        networks: &Networks<'_, B>,
    ) -> Result<Result<Self, ForeignState>, Error> {
        let place = networks.place(TALKER);
        let dtype = place.computes_in();
        let tensor = |data: &TensorData| {
            let is_one = data.shape.len() == 4 && data.dtype == dtype;
            is_one.then(|| Tensor::<B, 4>::from_data(data.clone(), (&place.device, dtype)))
        };
        let pairs = data.keys_values.chunks(2).map(|pair| match pair {
            [k, v] => Some([tensor(k)?, tensor(v)?]),
            _ => None,
        });
        let Some(keys_values) = pairs.collect::<Option<Vec<_>>>() else {
            return Ok(Err(ForeignState));
        };
        let rows = data.rows.clone();
        let config = networks.checkpoint().config();
        let is_of_talker = Talker::cache(config, 1, rows.len(), &place).takes(&keys_values)
            && keys_values.first().is_some_and(|[k, _]| k.dims()[2] == rows.len());
        if !is_of_talker {
            return Ok(Err(ForeignState));
        }
        let decoding = StreamingDecoder::from_data(data.codec.clone(), networks)?;
        Ok(decoding.map(|decoding| Self { prefix: PromptCache { rows, keys_values }, decoding }))
    }
}
