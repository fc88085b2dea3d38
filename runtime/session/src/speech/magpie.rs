//! Texts to speech with Magpie TTS: named voices, many languages.

use acestep_engine::{Engine, Error, Notice, Observe};
use acestep_import::{Magpie, MagpieNetwork};
use acestep_model::{Backend, speech::magpie::Files as _};
use acestep_speech::{
    Options, StreamItem,
    magpie::{MagpieError, Networks, Plan, Speaking, memory as needs},
};

mod prepare;
mod resident;

use super::{Sink, of_line, reason::Reason};
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
        MagpieError::Analysis { .. } => ("bad_value", field("text")),
        MagpieError::BadPinyin { .. } => ("bad_value", field("pinyin")),
        MagpieError::NothingToSay { .. } => ("bad_value", field("text")),
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

/// Speaks plans one after the other, and returns their notices; with `lines` they name the text by its
/// number.
///
/// # Errors
/// The errors of [`Speaking`] and of `sink`.
fn speak_with<B: Backend>(
    plans: Vec<Plan>,
    networks: &Networks<'_, B>,
    (options, lines): (Options, bool),
    observe: &dyn Observe,
    sink: &mut dyn Sink,
) -> Result<Vec<Notice>, Error> {
    let mut notices = Vec::new();
    for (index, plan) in plans.into_iter().enumerate() {
        notices.extend(plan.notices.iter().map(|notice| of_line(notice, index, lines)));
        // Only the first text waits for what was before the run.
        let since = options.since.filter(|_| index == 0);
        for made in Speaking::begin(plan, networks, Options { since, ..options }, observe)? {
            match made? {
                StreamItem::Samples(samples) => sink.samples(index, &samples)?,
                StreamItem::Done(spoken) => sink.done(index, spoken)?,
            }
        }
    }
    Ok(notices)
}
