//! Frames to samples while they arrive.

use std::rc::Rc;

use acestep_engine::{Error, audio::loudness::require_finite, host::to_host};
use acestep_model::{
    Backend,
    speech::nanocodec::{Decoder, DecoderState},
};
use burn::tensor::{Int, Tensor, TensorData};

use super::networks::Networks;

/// Decodes frames in the order of their arrival. Chunks of any sizes give the same samples, up to
/// rounding.
///
/// A clone continues the same sound a second time.
#[derive(Debug, Clone)]
pub struct Decoding<B: Backend> {
    decoder: Rc<Decoder<B>>,
    state: DecoderState<B>,
    device: B::Device,
}

impl<B: Backend> Decoding<B> {
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
        let Some(first) = frames.first() else { return Ok(Vec::new()) };
        let groups = first.len();
        let of_group = |group: usize| frames.iter().map(move |frame| frame[group] as i32);
        let codes: Vec<i32> = (0..groups).flat_map(of_group).collect();
        let data = TensorData::new(codes, [groups, frames.len()]);
        let codes = Tensor::<B, 2, Int>::from_data(data, &self.device);
        let (decoder, state) = (&*self.decoder, &mut self.state);
        let samples = to_host(B::on_pool(|| decoder.forward(codes, state)));
        require_finite("the codec decoder", &samples)?;
        Ok(samples)
    }
}
