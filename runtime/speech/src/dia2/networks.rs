//! The networks of a model, each loaded when it is needed.

use std::rc::Rc;

use acestep_engine::Error;
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
use crate::networks::{family_networks, rows_of};

family_networks! {
    /// Steps of text and codes.
    BACKBONE = "the backbone", SPEECH, All => backbone: Backbone<B>;
    /// The codes of a step.
    DEPFORMER = "the depformer", SPEECH, All => depformer: Depformer<B>;
    /// Codes to samples.
    CODEC_DECODER = "the codec decoder", CODEC_DECODER, F32
        => codec_decoder: mimi::Decoder<B>, beside BACKBONE;
    /// A recording to codes.
    CODEC_ENCODER = "the codec encoder", CODEC_ENCODER, F32 => codec_encoder: mimi::Encoder<B>;
}

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

impl<B: Backend> Networks<'_, B> {
    /// Returns backbone and depformer.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn pair(&self) -> Result<Pair<B>, Error> {
        let (backbone, depformer) = (self.backbone()?, self.depformer()?);
        let places = [self.place(BACKBONE), self.place(DEPFORMER)];
        Ok(Pair { backbone, depformer, places })
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
