//! A language model in memory, ready to write.

use std::time::Instant;

use acestep_model::{Backend, LanguageCheckpoint, Place};

use super::{
    constrain::Grammar, generate::Writer, sample::Sampler, settings::Settings,
    vocabulary::Vocabulary,
};
use crate::{
    Error,
    observe::{Event, Observe, Stage, check},
    overflow::repeated_in_f32,
    plan::MOST_SECONDS,
};

/// Reads the model, lets `work` write with it, and drops it; where its scores overflow, once more in
/// f32.
///
/// # Errors
/// [`Error::Checkpoint`] if it cannot be read, and those of `work`.
pub(super) fn open<B: Backend, C: LanguageCheckpoint<B>, T>(
    language: &C,
    place: &Place<B>,
    settings: &Settings,
    stage: Stage,
    observe: &dyn Observe,
    mut work: impl FnMut(&Writer<'_, B>) -> Result<T, Error>,
) -> Result<T, Error> {
    check(observe)?;
    let start = Instant::now();
    observe.event(Event::Loading(stage));
    let tokenizer = language.tokenizer().map_err(Error::checkpoint)?;
    let vocabulary = Vocabulary::new(tokenizer).map_err(Error::checkpoint)?;
    let grammar = Grammar::new(&vocabulary, MOST_SECONDS as u32).map_err(Error::checkpoint)?;
    let sampler = Sampler {
        temperature: settings.temperature,
        top_k: settings.top_k,
        top_p: settings.top_p,
        repetition_penalty: settings.repetition_penalty,
    };
    let write = |place: &Place<B>| {
        let model = language.language_model(place).map_err(Error::checkpoint)?;
        check(observe)?;
        work(&Writer {
            loading: start.elapsed(),
            model: &model,
            config: language.config(),
            place,
            grammar: &grammar,
            sampler,
            max_seq: settings.max_seq,
            observe,
        })
    };
    repeated_in_f32("the language model", place, observe, |_| (), write)
}
