//! Conversion of the sampling inputs to and from files of other programs.

use acestep_engine::{Error, host::to_host};
use acestep_model::Backend;
use burn::tensor::{Tensor, TensorData};

use super::SamplingInputs;
use crate::{
    Plan,
    exchange::{Array3, Conditioning},
    flow::{SamplingStart, Steering, Track, Tracks},
    networks::Networks,
    stage,
};

impl<B: Backend> SamplingInputs<B> {
    /// Returns the exchanged inputs: the first condition and the noise.
    ///
    /// # Errors
    /// [`Error::Conflict`] for inputs that the files cannot hold: a later condition, a source or an
    /// edit.
    pub fn to_conditioning(&self) -> Result<Conditioning, Error> {
        if self.tracks.later.is_some() {
            let why = "conditioning files hold one condition: `dump_conditioning` needs \
                       `audio_cover_strength: 1`";
            return Err(Error::Conflict(why.into()));
        }
        let SamplingStart { region, source, .. } = &self.start;
        if region.is_some() || source.is_some() || self.edited.is_some() {
            let why = "conditioning files hold nothing of a source that is kept: leave \
                       `dump_conditioning` out";
            return Err(Error::Conflict(why.into()));
        }
        let array = |x: &Tensor<B, 3>| Array3::new(x.dims(), to_host(x.clone()));
        Ok(Conditioning {
            encoder_hidden_states: array(&self.tracks.first.condition),
            context_latents: array(&self.tracks.first.context),
            initial_noise: array(&self.start.noise),
        })
    }

    /// Uses another program's conditioning; guidance uses the checkpoint's null condition.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the arrays do not fit each other, the checkpoint or the plan;
    /// [`Error::DeviceFailed`] if a GPU fails.
    pub fn from_conditioning(
        conditioning: Conditioning,
        plan: &Plan,
        networks: &Networks<'_, B>,
    ) -> Result<Self, Error> {
        let Conditioning { encoder_hidden_states, context_latents, initial_noise } = conditioning;
        let config = &networks.configs().dit;
        let (channels, width) = (config.audio_acoustic_hidden_dim, config.encoder_shape().hidden());
        let [batch, frames] = [plan.noise.seeds.len(), plan.length.padded_frames];
        let length = encoder_hidden_states.shape[1];
        for (name, found, wanted) in [
            ("encoder_hidden_states", encoder_hidden_states.shape, [batch, length, width]),
            ("context_latents", context_latents.shape, [batch, frames, 2 * channels]),
            ("initial_noise", initial_noise.shape, [batch, frames, channels]),
        ] {
            if found != wanted {
                let why = format!("{name} is {found:?}, but this model and plan need {wanted:?}");
                return Err(Error::Conflict(why));
            }
        }
        let tensor = |array: Array3| {
            Tensor::from_data(TensorData::new(array.data, array.shape), networks.device())
        };
        networks.catch(stage::CONDITION, || {
            let steering = match plan.sampling.guidance {
                Some(guidance) => {
                    Some(Steering { guidance, null: networks.conditioner()?.null_condition() })
                }
                None => None,
            };
            let condition = tensor(encoder_hidden_states);
            let first = Track { condition, context: tensor(context_latents) };
            let tracks = Tracks { first, later: None, steering };
            Ok(Self { tracks, start: tensor(initial_noise).into(), edited: None })
        })
    }
}
