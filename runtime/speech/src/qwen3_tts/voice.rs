//! A voice of a recording: its speaker vector, and with a transcript its codes.
//!
//! Source: upstream `Qwen3TTSModel.create_voice_clone_prompt`.

use acestep_engine::{Audio, Error, Observe, audio::loudness::require_finite, host::to_host};
use acestep_model::{
    Backend,
    speech::qwen3_tts::{Files, codec},
};
use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::{
    mel,
    networks::{CODEC_ENCODER, Networks, SPEAKER_ENCODER},
    stage,
};
use crate::{codes, error::SpeechError, recording};

/// The voice of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Voice {
    /// The speaker vector.
    pub speaker: Vec<f32>,
    /// The words of the recording and its frames of codes, for speech in context.
    pub context: Option<RefRecording>,
}

/// A recording that the talker continues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefRecording {
    /// The words.
    pub transcript: String,
    /// The codes, one list per frame.
    pub frames: Vec<Vec<u32>>,
}

/// Refuses the words of a recording if there are none.
///
/// # Errors
/// [`Error::BadValue`].
pub fn check_transcript(transcript: Option<&str>) -> Result<(), Error> {
    match transcript {
        Some(words) if words.trim().is_empty() => Err(Error::BadValue {
            field: "transcript",
            value: String::new(),
            why: "it has no words; leave it out for a voice without its manner".to_owned(),
            near: None,
        }),
        _ => Ok(()),
    }
}

impl Voice {
    /// Reads the voice of a recording. Without a transcript the talker gets only the speaker vector.
    ///
    /// # Errors
    /// The errors of [`check_transcript`]; [`SpeechError::TooShort`]; [`Error::NotFinite`] if
    /// a sample is NaN or infinite; the errors of loading and of the device.
    pub fn of_recording<B: Backend>(
        sound: &Audio,
        transcript: Option<&str>,
        networks: &Networks<'_, B>,
        observe: &dyn Observe,
    ) -> Result<Self, Error> {
        check_transcript(transcript)?;
        let samples = recording::mono(sound, mel::SAMPLE_RATE, observe)?;
        let speaker =
            networks.stage(stage::SPEAKER_ENCODER, SPEAKER_ENCODER, observe, |steps| {
                let encoder = networks.speaker_encoder()?;
                steps.advanced(0, 1);
                let frames = encoder.least_frames().max(1);
                let least = (frames * 256).max(mel::LEAST_SAMPLES);
                if samples.len() < least {
                    let seconds = |samples: usize| samples as f64 / f64::from(mel::SAMPLE_RATE);
                    let (seconds, least) = (seconds(samples.len()), seconds(least));
                    return Err(SpeechError::TooShort { seconds, least }.into());
                }
                let bands = encoder.bands();
                let mel = mel::spectrogram(&samples, bands);
                let shape = [1, bands, mel.len() / bands];
                let mel = Tensor::from_data(TensorData::new(mel, shape), networks.device());
                let speaker = to_host(encoder.forward(mel));
                require_finite("the speaker encoder", &speaker)?;
                steps.advanced(1, 1);
                Ok(speaker)
            })?;
        let encoder = || networks.codec_encoder();
        let context = match transcript {
            None => None,
            Some(transcript) => Some(RefRecording {
                transcript: transcript.to_owned(),
                frames: recording::frames_of(&samples, networks, CODEC_ENCODER, encoder, observe)?,
            }),
        };
        Ok(Self { speaker, context })
    }

    /// Returns a voice of zeros, as large as for a recording of `seconds`: the lengths of a plan are known
    /// before the recording is encoded.
    pub fn of_length(seconds: f64, transcript: Option<&str>, model: &dyn Files) -> Self {
        let codec = &model.codec_config().decoder_config;
        let samples = (seconds * f64::from(mel::SAMPLE_RATE)).ceil() as usize;
        let frames = samples.div_ceil(codec.samples_per_frame());
        let context = |transcript: &str| RefRecording {
            transcript: transcript.to_owned(),
            frames: vec![vec![0; codec.num_quantizers]; frames],
        };
        let width = model.config().talker_config.layers.hidden_size;
        Self { speaker: vec![0.0; width], context: transcript.map(context) }
    }

    /// Checks that the voice was made with a model of these sizes.
    ///
    /// # Errors
    /// [`SpeechError::ForeignVoice`].
    pub fn check(&self, width: usize, codec: &codec::DecoderConfig) -> Result<(), Error> {
        let foreign = |why: String| Error::from(SpeechError::ForeignVoice { why });
        if self.speaker.len() != width {
            let own = self.speaker.len();
            let why = format!("its vector has {own} numbers, and the model's have {width}");
            return Err(foreign(why));
        }
        let Some(context) = &self.context else { return Ok(()) };
        codes::check(&context.frames, codec.num_quantizers, codec.codebook_size).map_err(foreign)
    }
}
