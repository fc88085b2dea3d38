//! Frames to samples while they arrive.

use std::rc::Rc;

use acestep_engine::Error;
use acestep_model::{
    Backend,
    speech::nanocodec::{Decoder, DecoderState},
};

use super::networks::Networks;
use crate::codes;

/// Decodes frames in the order of their arrival. Chunks of any sizes give the same samples, up to
/// rounding.
///
/// A clone continues the same sound a second time.
#[derive(Debug, Clone)]
pub struct StreamingDecoder<B: Backend> {
    decoder: Rc<Decoder<B>>,
    state: DecoderState<B>,
    device: B::Device,
}

impl<B: Backend> StreamingDecoder<B> {
    /// Begins a sound.
    ///
    /// # Errors
    /// The errors of loading.
    pub fn begin(networks: &Networks<'_, B>) -> Result<Self, Error> {
        let (decoder, device) = (networks.codec_decoder()?, networks.device().clone());
        Ok(Self { decoder, state: DecoderState::default(), device })
    }

    /// Returns the samples of the next frames, from -1 to 1.
    ///
    /// # Errors
    /// [`Error::NotFinite`].
    pub fn decode(&mut self, frames: &[Vec<u32>]) -> Result<Vec<f32>, Error> {
        if frames.is_empty() {
            return Ok(Vec::new());
        }
        let (decoder, state) = (&*self.decoder, &mut self.state);
        codes::decoded::<B>(frames, &self.device, |codes| decoder.forward(codes, state))
    }
}
