//! Frames to samples while they arrive.

use std::rc::Rc;

use acestep_engine::{Error, audio::loudness::require_finite, host::to_host};
use acestep_model::{
    Backend,
    speech::qwen3_tts::codec::{Decoder, DecoderState},
};
use burn::tensor::{Int, Tensor, TensorData};

use crate::networks::Networks;

/// Samples per second of the sound.
pub const SAMPLE_RATE: u32 = 24_000;

/// Decodes frames in the order of their arrival. Chunks of any sizes give the same samples.
///
/// A clone continues the same sound a second time.
#[derive(Debug, Clone)]
pub struct Decoding<B: Backend> {
    decoder: Rc<Decoder<B>>,
    state: DecoderState<B>,
    device: B::Device,
}

impl<B: Backend> Decoding<B> {
    /// Begins a sound. `before` are frames that come before it and are not heard: those of a
    /// recording that is continued. Without them the first sound would be too soft.
    ///
    /// # Errors
    /// The errors of loading; [`Error::NotFinite`].
    pub fn begin(before: &[Vec<u32>], networks: &Networks<'_, B>) -> Result<Self, Error> {
        let decoder = networks.codec_decoder()?;
        let (state, device) = (DecoderState::default(), networks.device().clone());
        let mut decoding = Self { decoder, state, device };
        // Bounded pieces, because all their samples are in memory at once.
        for frames in before.chunks(64) {
            decoding.decode(frames)?;
        }
        Ok(decoding)
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
