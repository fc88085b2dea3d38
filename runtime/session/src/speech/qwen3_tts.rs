//! Texts to speech with Qwen3-TTS.

mod keep;
mod prepare;
mod resident;
mod voice;

use acestep_engine::{Engine, Error};
use acestep_import::{Qwen3Tts, Qwen3TtsNetwork};
use acestep_model::speech::qwen3_tts::Files as _;
use acestep_speech::{
    Options, SpeechError,
    qwen3_tts::{Plan, Request, Voice, check_request, memory as needs},
};

use crate::memory;

pub(super) use keep::{base_here, first_base};
pub(super) use prepare::find_with;
pub(super) use resident::Resident;

use keep::{Recording, keep_request};
use voice::{Loaded, VoiceSource, find};

/// Checks a request as [`check_request`], and that its text is not blank: models make noise of that.
fn check(request: &Request, has_voice: bool, model: &Qwen3Tts) -> Result<(), Error> {
    if request.text.trim().is_empty() {
        return Err(SpeechError::NothingToSay { field: "text" }.into());
    }
    check_request(request, has_voice, model)
}

/// Checks a request, and returns the most prompt rows and frames of a segment of its run.
///
/// # Errors
/// The errors of [`Plan::new`].
fn positions(request: &Request, voice: &VoiceSource, model: &Qwen3Tts) -> Result<usize, Error> {
    check(request, voice.is_recording(), model)?;
    let heard = match voice {
        VoiceSource::Recording(audio, words) => {
            Some(Voice::of_length(audio.seconds(), words.as_deref(), model))
        }
        VoiceSource::Model | VoiceSource::Kept(_) => voice.kept(),
    };
    Plan::new(request, heard, 0, model)?.most_positions(model)
}

/// Refuses a model that does not fit into memory, with as many runs as `options` have, of at most
/// `positions` prompt rows and frames, and the encoders of a recording: see [`VoiceSource::recorded`].
///
/// # Errors
/// [`crate::SessionError::SpeechTooLarge`]; [`Error::Checkpoint`].
fn check_memory(
    model: &Qwen3Tts,
    engine: Engine,
    options: Options,
    positions: usize,
    recorded: Option<(f64, bool)>,
) -> Result<(), Error> {
    let (widths, rows) = (engine.widths(), options.batch_size);
    let talker = model.size(Qwen3TtsNetwork::Talker).map_err(Error::checkpoint)?;
    let talker = memory::with_tables(talker, engine);
    let size = |network| model.size(network).map(|size| size.parameters).map_err(Error::checkpoint);
    let decoder = size(Qwen3TtsNetwork::CodecDecoder)?;
    let codec = model.codec_config();
    let mut needs = vec![
        needs::talker(model.config(), talker, rows, positions, widths),
        needs::codec_decoder(&codec.decoder_config, decoder, options.chunks.others, widths),
    ];
    if let Some((seconds, has_words)) = recorded {
        if let Some(config) = &model.config().speaker_encoder_config {
            let speaker = size(Qwen3TtsNetwork::SpeakerEncoder)?;
            needs.push(needs::speaker_encoder(config, speaker, seconds, widths));
        }
        if has_words {
            let encoder = size(Qwen3TtsNetwork::CodecEncoder)?;
            needs.push(needs::codec_encoder(&codec.encoder_config, encoder, seconds, widths));
        }
    }
    memory::check_speech(&needs, engine)
}
