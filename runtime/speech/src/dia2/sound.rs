//! Frames to samples while they arrive.

use std::rc::Rc;

use acestep_engine::Error;
use acestep_model::{
    Backend, Place,
    nn::ForeignState,
    speech::mimi::{Decoder, DecoderState},
};
use burn::tensor::TensorData;

use super::{
    grid::sanitised,
    memory::MOST_DECODED,
    networks::{CODEC_DECODER, Networks},
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
    codebook_size: usize,
    has_begun: bool,
}

impl<B: Backend> StreamingDecoder<B> {
    /// Begins a sound.
    ///
    /// # Errors
    /// The errors of loading.
    pub fn begin(networks: &Networks<'_, B>) -> Result<Self, Error> {
        let decoder = networks.codec_decoder()?;
        let (state, device) = (DecoderState::default(), networks.device().clone());
        let codebook_size = networks.checkpoint().codec_config().codebook_size;
        Ok(Self { decoder, state, device, codebook_size, has_begun: false })
    }

    /// Samples of a frame.
    pub fn samples_per_frame(&self) -> usize {
        self.decoder.samples_per_frame()
    }

    /// Returns the samples of the next frames, from -1 to 1. Ids that are no codes are heard as
    /// code 0. A frame may have the codes of the first codebooks alone.
    ///
    /// # Errors
    /// [`Error::NotFinite`].
    pub fn decode(&mut self, frames: &[Vec<u32>]) -> Result<Vec<f32>, Error> {
        let mut samples = Vec::new();
        let equal = frames.chunk_by(|a, b| a.len() == b.len());
        // Recordings come whole; the memory that a run needs is counted for so many frames.
        for frames in equal.flat_map(|frames| frames.chunks(MOST_DECODED)) {
            samples.append(&mut self.decode_equal(frames)?);
        }
        Ok(samples)
    }

    /// Decodes frames with equally many codes.
    fn decode_equal(&mut self, frames: &[Vec<u32>]) -> Result<Vec<f32>, Error> {
        self.has_begun = true;
        let frames: Vec<_> =
            frames.iter().map(|frame| sanitised(frame.clone(), self.codebook_size)).collect();
        let (decoder, state) = (&*self.decoder, &mut self.state);
        let decode = |codes| decoder.forward(codes, state);
        let mut samples = codes::decoded::<B>(&frames, &self.device, decode)?;
        samples.iter_mut().for_each(|sample| *sample = sample.clamp(-1.0, 1.0));
        Ok(samples)
    }

    /// Copies the state to the host; empty before the first frame.
    pub(super) fn to_data(&self, place: &Place<B>) -> Vec<TensorData> {
        match self.has_begun {
            true => self.decoder.state_to_data(&self.state, place),
            false => Vec::new(),
        }
    }

    /// Continues a state of [`Self::to_data`].
    ///
    /// # Errors
    /// [`ForeignState`] inside `Ok` if it is from another codec; the errors of loading.
    pub(super) fn from_data(
        tensors: Vec<TensorData>,
        networks: &Networks<'_, B>,
    ) -> Result<Result<Self, ForeignState>, Error> {
        let fresh = Self::begin(networks)?;
        if tensors.is_empty() {
            return Ok(Ok(fresh));
        }
        let state = fresh.decoder.state_from_data(tensors, &networks.place(CODEC_DECODER));
        Ok(state.map(|state| Self { state, has_begun: true, ..fresh }))
    }
}
