//! The networks of a model, each loaded when it is needed.

use std::{fmt, ops::Deref, rc::Rc};

use acestep_engine::{
    Error, Lent, Residency,
    host::to_host,
    networks::{Network, NetworkCache, WeightTypes},
};
use acestep_model::{
    Backend, Place,
    kernel::Precision,
    speech::{
        dia2::{Backbone, BackboneState, Checkpoint, Depformer, DepformerState, Files},
        mimi,
    },
};
use burn::tensor::Tensor;

use super::{
    ids::Ids,
    script::Reader,
    stage,
    step::{Read, StepNetworks},
    streams::Streams,
};

/// Steps of text and codes.
pub const BACKBONE: Network =
    Network { name: "the backbone", stage: stage::SPEECH, types: WeightTypes::All };
/// The codes of a step.
pub const DEPFORMER: Network =
    Network { name: "the depformer", stage: stage::SPEECH, types: WeightTypes::All };
/// Codes to samples.
pub const CODEC_DECODER: Network =
    Network { name: "the codec decoder", stage: stage::CODEC_DECODER, types: WeightTypes::F32 };
/// A recording to codes.
pub const CODEC_ENCODER: Network =
    Network { name: "the codec encoder", stage: stage::CODEC_ENCODER, types: WeightTypes::F32 };

/// Frames per second of the codec.
pub(super) const FRAME_RATE: f64 = 12.5;

/// Returns the constants of a model.
///
/// # Errors
/// [`Error::Checkpoint`].
pub fn streams(model: &dyn Files) -> Result<Streams, Error> {
    let data = &model.config().data;
    let tokenizer = model.tokenizer().map_err(Error::Checkpoint)?;
    let stated = Ids {
        bos: 0,
        zero: data.text_zero_token_id,
        pad: data.text_pad_token_id,
        new_word: data.text_new_word_token_id,
        speakers: [data.text_new_word_token_id; 2],
        audio_bos: data.audio_bos(),
        audio_pad: data.audio_pad(),
    };
    let bos = model.bos_token_id().map_err(Error::Checkpoint)?;
    Ok(Streams {
        ids: stated.with(bos, tokenizer),
        delays: data.delay_pattern.clone(),
        ahead: data.second_stream_ahead,
        most_steps: model.config().runtime.max_context_steps,
        codebook_size: model.codec_config().codebook_size,
        frame_rate: FRAME_RATE,
    })
}

/// Returns the reader of scripts of a model.
///
/// # Errors
/// [`Error::Checkpoint`].
pub fn reader<'a>(streams: &Streams, model: &'a dyn Files) -> Result<Reader<'a>, Error> {
    let tokenizer = model.tokenizer().map_err(Error::Checkpoint)?;
    Ok(Reader { tokenizer, ids: streams.ids, frame_rate: streams.frame_rate })
}

/// The networks of a checkpoint on a device. Stages run through the [`NetworkCache`] to which this
/// dereferences.
pub struct Networks<'a, B: Backend> {
    checkpoint: Lent<'a, dyn Checkpoint<B> + 'a>,
    cache: NetworkCache<'a, B>,
}

impl<B: Backend> fmt::Debug for Networks<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cache.fmt(f)
    }
}

impl<'a, B: Backend> Deref for Networks<'a, B> {
    type Target = NetworkCache<'a, B>;

    fn deref(&self) -> &Self::Target {
        &self.cache
    }
}

impl<'a, B: Backend> Networks<'a, B> {
    /// All networks in `place`. Nothing is loaded yet. What is loaded stays in memory: all work in
    /// turn.
    pub fn new(checkpoint: &'a dyn Checkpoint<B>, place: Place<B>) -> Self {
        Self::of(Lent::Borrowed(checkpoint), place)
    }

    /// As [`Self::new`], with a checkpoint that the networks share.
    pub fn of(checkpoint: Lent<'a, dyn Checkpoint<B> + 'a>, place: Place<B>) -> Self {
        let files = checkpoint.clone();
        let is_unchanged = move || files.unchanged().map_err(Error::Checkpoint);
        Self { checkpoint, cache: NetworkCache::new(place, Residency::Kept, is_unchanged) }
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> &(dyn Checkpoint<B> + 'a) {
        &*self.checkpoint
    }

    /// Returns backbone and depformer.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn pair(&self) -> Result<Pair<B>, Error> {
        let read = |place: &Place<B>| self.checkpoint.backbone(place);
        let backbone = self.load(BACKBONE, |place| read(place).map_err(Error::Checkpoint))?;
        let read = |place: &Place<B>| self.checkpoint.depformer(place);
        let depformer = self.load(DEPFORMER, |place| read(place).map_err(Error::Checkpoint))?;
        let places = [self.place(BACKBONE), self.place(DEPFORMER)];
        Ok(Pair { backbone, depformer, places })
    }

    /// Returns the decoder of the codec. It computes in f32, with a precision that depends on the type of the
    /// backbone.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn codec_decoder(&self) -> Result<Rc<mimi::Decoder<B>>, Error> {
        let precision = Precision::beside(self.place(BACKBONE).dtype);
        let read = |place: &Place<B>| self.checkpoint.codec_decoder(place, precision);
        self.load(CODEC_DECODER, |place| read(place).map_err(Error::Checkpoint))
    }

    /// Returns the encoder of the codec.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn codec_encoder(&self) -> Result<Rc<mimi::Encoder<B>>, Error> {
        let read = |place: &Place<B>| self.checkpoint.codec_encoder(place);
        self.load(CODEC_ENCODER, |place| read(place).map_err(Error::Checkpoint))
    }
}

/// Backbone and depformer.
#[derive(Debug, Clone)]
pub struct Pair<B: Backend> {
    backbone: Rc<Backbone<B>>,
    depformer: Rc<Depformer<B>>,
    places: [Place<B>; 2],
}

impl<B: Backend> Pair<B> {
    /// Creates an empty state for `rows` rows of at most `steps` steps.
    pub fn state(&self, rows: usize, steps: usize) -> BackboneState<B> {
        self.backbone.state(rows, steps, &self.places[0])
    }
}

impl<B: Backend> StepNetworks for Pair<B> {
    type State = BackboneState<B>;
    type Hidden = Tensor<B, 3>;
    type Stages = DepformerState<B>;

    fn step(
        &self,
        tokens: &[Vec<u32>],
        position: usize,
        state: &mut Self::State,
    ) -> Result<Read<Self::Hidden>, Error> {
        let backbone = &*self.backbone;
        let output = B::on_pool(|| backbone.step(tokens, position, state));
        let (action, code) = (rows_of(output.action), rows_of(output.cb0));
        Ok(Read { hidden: output.hidden, action, code })
    }

    fn stages(&self, rows: usize) -> Self::Stages {
        self.depformer.state(rows, &self.places[1])
    }

    fn stage(
        &self,
        stage: usize,
        hidden: &Self::Hidden,
        previous: u32,
        [main, second]: [u32; 2],
        stages: &mut Self::Stages,
    ) -> Result<Vec<Vec<f32>>, Error> {
        let (hidden, text) = (hidden.clone(), Some((main, second)));
        let depformer = &*self.depformer;
        let logits = B::on_pool(|| depformer.stage(stage, hidden, previous, text, stages));
        Ok(rows_of(logits))
    }
}

/// Copies logits to the host, by row.
fn rows_of<B: Backend>(logits: Tensor<B, 2>) -> Vec<Vec<f32>> {
    let [_, width] = logits.dims();
    to_host(logits).chunks(width).map(<[f32]>::to_vec).collect()
}
