//! The codes phase: a plan to audio codes.

use std::time::Duration;

use acestep_engine::{Error, progress::Event};
use acestep_model::Backend;

use super::{
    super::{
        constrain::{Phase, Rules},
        generate::{Answer, Prompts, Writer},
        guard, merge,
        metadata::Metadata,
        prompt::{self, PromptStyle},
        settings::LmSettings,
    },
    Call, Composed, Composing, LmMode,
};
use crate::{request::length::MOST_SECONDS, stage};

/// Number of codes of the longest song.
pub(super) const MOST_CODES: usize = 5 * MOST_SECONDS as usize;

/// Refuses a length whose codes exceed the limit on tokens.
pub(super) fn check_length(seconds: Option<f64>, settings: &LmSettings) -> Result<(), Error> {
    let target = Rules { target_seconds: seconds, ..Rules::new(Phase::Codes) }.target_codes();
    match (target, settings.max_tokens) {
        // The end token counts too.
        (Some(codes), Some(most)) if codes + 1 > most => Err(Error::OutOfRange {
            field: "max_tokens",
            value: most.to_string(),
            range: format!("at least {} for the codes of this length", codes + 1),
        }),
        _ => Ok(()),
    }
}

/// Returns the metadata of the plan that precedes the codes.
///
/// After `Inspire` or `Format`, upstream asks for codes as for any song with complete metadata,
/// that is with four fields.
fn plan_metadata(asked: &Composing<'_>, composed: &Composed) -> Metadata {
    let metadata = composed.metadata.clone();
    match (asked.settings.prompt_style, &asked.mode) {
        (PromptStyle::Upstream, LmMode::Inspire | LmMode::Format | LmMode::Custom { .. }) => {
            Metadata { caption: None, genres: None, language: None, ..metadata }
        }
        _ => metadata,
    }
}

pub(super) fn codes_phase<B: Backend>(
    asked: &Composing<'_>,
    writer: &Writer<'_, B>,
    composed: &mut Composed,
) -> Result<(), Error> {
    let settings = asked.settings;
    let style = settings.prompt_style;
    // Upstream's prompt keeps the user's caption and puts the new one into the plan. If the model
    // wrote the lyrics too, there is only the new one. acestep.cpp puts the new one in both places.
    let caption = match asked.mode {
        LmMode::Plan if style != PromptStyle::AcestepCpp => asked.request.words.caption.clone(),
        _ => composed.request.words.caption.clone(),
    };
    let caption = caption.unwrap_or_default();
    let lyrics = merge::lyrics_of(&composed.request);
    // The user's length, else the plan's, which is valid after the merge.
    let seconds = composed.request.words.duration;
    check_length(seconds, settings)?;
    if seconds.is_none() && settings.seeds.len() > 1 {
        let what = "a plan without a length, which the songs of a batch share".into();
        return Err(Error::NothingValid { what, had: composed.text.clone() });
    }
    let plan = prompt::song_plan(&plan_metadata(asked, composed), &composed.request, style);
    let conditional = writer.encode(&prompt::codes(&caption, &lyrics, &plan, style));
    let negative = settings.negative_prompt.as_deref();
    let unconditional = (settings.cfg_scale > 1.0).then(|| {
        let text = prompt::codes_unconditional(&caption, &lyrics, negative, style);
        writer.encode(&text)
    });
    let rules = Rules {
        enabled: settings.constrained,
        skip_caption: true,
        skip_language: true,
        target_seconds: seconds,
        ..Rules::new(Phase::Codes)
    };
    // The longest song has MOST_CODES codes, and one end token.
    let limit = settings.limit(Phase::Codes, seconds).min(MOST_CODES + 1);
    let prompts = Prompts {
        conditional: &conditional,
        unconditional: unconditional.as_deref().map(|ids| (ids, settings.cfg_scale)),
    };
    let answers = writer.codes(prompts, &rules, limit, &settings.seeds)?;
    let elapsed = answers.iter().map(|answer| answer.elapsed).max().unwrap_or_default();
    let loading = if composed.calls.is_empty() { writer.loading } else { Duration::ZERO };
    writer.observe.event(Event::Finished { stage: stage::LM_CODES, elapsed: loading + elapsed });
    if composed.calls.is_empty() {
        composed.timing.first_token = answers.first().map(|a| a.first_token).unwrap_or_default();
    }
    composed.timing.codes = elapsed;
    composed.timing.code_tokens = answers.iter().map(|answer| answer.tokens.len()).sum();
    let codes: Vec<Vec<u32>> = answers.iter().map(|answer| codes_of(writer, answer)).collect();
    composed.calls.push(Call {
        prompts: std::iter::once(conditional).chain(unconditional).collect(),
        written: answers.into_iter().map(|answer| answer.tokens).collect(),
    });
    guard::check_codes(&codes, composed)?;
    composed.request.source.audio_codes = Some(codes);
    Ok(())
}

fn codes_of<B: Backend>(writer: &Writer<'_, B>, answer: &Answer) -> Vec<u32> {
    let vocabulary = writer.grammar.vocabulary();
    answer.tokens.iter().filter_map(|&token| vocabulary.code_of_token(token)).collect()
}
