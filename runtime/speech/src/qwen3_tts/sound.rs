//! Frames to samples while they arrive.

use std::rc::Rc;

use acestep_engine::Error;
use acestep_model::{
    Backend, Place,
    nn::ForeignState,
    speech::qwen3_tts::codec::{Decoder, DecoderState},
};
use burn::tensor::TensorData;

use super::{
    networks::{CODEC_DECODER, Networks},
    plan::Plan,
};
use crate::codes;

/// Samples per second of the sound.
pub const SAMPLE_RATE: u32 = 24_000;

/// Decodes frames in the order of their arrival. Chunks of any sizes give the same samples.
///
/// A clone continues the same sound a second time.
#[derive(Debug, Clone)]
pub struct StreamingDecoder<B: Backend> {
    decoder: Rc<Decoder<B>>,
    state: DecoderState<B>,
    device: B::Device,
    has_begun: bool,
}

impl<B: Backend> StreamingDecoder<B> {
    /// Begins a sound. `before` are frames that come before it and are not heard: those of a
    /// recording that is continued. Without them the first sound would be too soft.
    ///
    /// # Errors
    /// The errors of loading; [`Error::NotFinite`].
    pub fn begin(before: &[Vec<u32>], networks: &Networks<'_, B>) -> Result<Self, Error> {
        let decoder = networks.codec_decoder()?;
        let (state, device) = (DecoderState::default(), networks.device().clone());
        let mut decoding = Self { decoder, state, device, has_begun: false };
        // Bounded pieces, because all their samples are in memory at once.
        for frames in before.chunks(64) {
            decoding.decode(frames)?;
        }
        Ok(decoding)
    }

    /// Begins the sound of a plan: after the recording of its voice, if it continues one.
    pub(crate) fn of_plan(plan: &Plan, networks: &Networks<'_, B>) -> Result<Self, Error> {
        let context = plan.voice.as_ref().and_then(|voice| voice.context.as_ref());
        Self::begin(context.map_or(&[][..], |context| &context.frames), networks)
    }

    /// Copies the state to the host; empty before the first frame.
    pub(crate) fn to_data(&self, place: &Place<B>) -> Vec<TensorData> {
        match self.has_begun {
            true => self.decoder.state_to_data(&self.state, place),
            false => Vec::new(),
        }
    }

    /// Continues a state of [`Self::to_data`].
    ///
    /// # Errors
    /// [`ForeignState`] inside `Ok` if it is from another codec; the errors of loading.
    pub(crate) fn from_data(
        tensors: Vec<TensorData>,
        networks: &Networks<'_, B>,
    ) -> Result<Result<Self, ForeignState>, Error> {
        let fresh = Self::begin(&[], networks)?;
        if tensors.is_empty() {
            return Ok(Ok(fresh));
        }
        let state = fresh.decoder.state_from_data(tensors, &networks.place(CODEC_DECODER));
        Ok(state.map(|state| Self { state, has_begun: true, ..fresh }))
    }

    /// Returns the samples of the next frames, from -1 to 1.
    ///
    /// # Errors
    /// [`Error::NotFinite`].
    pub fn decode(&mut self, frames: &[Vec<u32>]) -> Result<Vec<f32>, Error> {
        if frames.is_empty() {
            return Ok(Vec::new());
        }
        self.has_begun = true;
        let (decoder, state) = (&*self.decoder, &mut self.state);
        codes::decoded::<B>(frames, &self.device, |codes| decoder.forward(codes, state))
    }
}
