//! Texts to speech with Magpie TTS: named voices, many languages.

use acestep_engine::{Engine, Error};
use acestep_import::{Magpie, MagpieNetwork};
use acestep_model::speech::magpie::Files as _;
use acestep_speech::{
    Options,
    magpie::{MagpieError, Plan, memory as needs},
};

mod prepare;
mod resident;

use super::reason::Reason;
use crate::memory;

pub(super) use prepare::find;
pub(super) use resident::Resident;

/// Returns the reason of an error of this family.
pub(super) fn reason(error: &Error) -> Option<Reason> {
    let field = |field: &str| Some(field.to_owned());
    Some(match error.family::<MagpieError>()? {
        MagpieError::Voice { .. } => ("voice_not_found", field("voice")),
        // A client of a server has no say in its dictionary, only in the language.
        MagpieError::Language { .. }
        | MagpieError::LanguageTool { .. }
        | MagpieError::LanguageSettings { .. }
        | MagpieError::Dictionary { .. } => ("bad_value", field("language")),
        MagpieError::Analysis { .. } | MagpieError::NothingToSay { .. } => {
            ("bad_value", field("text"))
        }
        MagpieError::BadPinyin { .. } => ("bad_value", field("pinyin")),
        MagpieError::TooLong { field: name, .. } => ("prompt_too_long", field(name)),
        MagpieError::Scores { .. } => ("bad_result", None),
        _ => return None,
    })
}

/// Refuses a model that does not fit into memory with these plans.
///
/// # Errors
/// [`crate::SessionError::SpeechTooLarge`]; [`Error::Checkpoint`].
fn check_memory(
    plans: &[Plan],
    model: &Magpie,
    engine: Engine,
    options: Options,
) -> Result<(), Error> {
    let size = |network| model.size(network).map(|size| size.parameters).map_err(Error::checkpoint);
    let writers = [MagpieNetwork::Encoder, MagpieNetwork::Decoder, MagpieNetwork::LocalTransformer];
    let writers = writers.into_iter().map(size).sum::<Result<u64, _>>()?;
    let steps = plans.iter().map(|plan| plan.options.most_steps).max().unwrap_or(0);
    let codec = size(MagpieNetwork::CodecDecoder)?;
    let (widths, frames) = (engine.widths(), options.chunks.others);
    let needs = [
        needs::decoder(model.config(), model.sizes(), writers, steps, widths),
        needs::codec_decoder(model.codec_config(), codec, frames),
    ];
    memory::check_speech(&needs, engine)
}
