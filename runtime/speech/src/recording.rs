//! Recordings to codes by Mimi's encoder.

use std::rc::Rc;

use acestep_engine::{
    Audio, Error, NetworkCache, NetworkSpec, Observe,
    audio::{loudness::require_finite, resample::to_mono},
};
use acestep_model::{Backend, speech::mimi::Encoder};
use burn::tensor::Tensor;

use crate::resample::resampled;

/// Returns the mean of the channels at `rate`. As in upstream, nothing is clipped.
///
/// # Errors
/// [`Error::NotFinite`] if a sample is NaN or infinite; [`Error::Conflict`] if the channels have different
/// lengths, or there are none, or a rate is implausible; [`Error::Cancelled`].
pub(crate) fn mono(sound: &Audio, rate: u32, observe: &dyn Observe) -> Result<Vec<f32>, Error> {
    sound.channels.iter().try_for_each(|channel| require_finite("the recording", channel))?;
    let mean = to_mono(sound, sound.sample_rate)?;
    resampled(&mean, sound.sample_rate, rate, observe)
}

/// Encodes samples at 24 kHz to frames of codes with `network`, which `encoder` loads.
pub(crate) fn frames_of<B: Backend>(
    samples: &[f32],
    networks: &NetworkCache<'_, B>,
    network: NetworkSpec,
    encoder: impl Fn() -> Result<Rc<Encoder<B>>, Error>,
    observe: &dyn Observe,
) -> Result<Vec<Vec<u32>>, Error> {
    networks.stage(network.stage, network, observe, |steps| {
        let encoder = encoder()?;
        steps.advanced(0, 1);
        let codes = encoder.forward(Tensor::from_data(samples, networks.device()));
        let [groups, frames] = codes.dims();
        let codes: Vec<u32> = codes.into_data().iter::<i64>().map(|code| code as u32).collect();
        steps.advanced(1, 1);
        let frame = |frame| (0..groups).map(|group| codes[group * frames + frame]).collect();
        Ok((0..frames).map(frame).collect())
    })
}
