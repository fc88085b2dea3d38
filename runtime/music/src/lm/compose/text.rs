//! The text phase: metadata, perhaps caption and lyrics.

use acestep_engine::{Error, progress::Event};
use acestep_model::Backend;

use super::{
    super::{
        constrain::{Field, Phase, Rules, UserValues},
        generate::Writer,
        guard, merge, parse,
        prompt::{self, PromptStyle},
        settings::LmSettings,
    },
    Call, Composed, Composing, LmMode,
};
use crate::stage;

pub(super) fn text_phase<B: Backend>(
    asked: &Composing<'_>,
    given: &UserValues,
    writer: &Writer<'_, B>,
    composed: &mut Composed,
) -> Result<(), Error> {
    let answer =
        write_text(writer, &question(asked), rules(asked, given), asked.settings, composed)?;
    let words = without_end(writer, &answer);
    let metadata = parse::metadata(words);
    guard::require_metadata(&metadata, &answer)?;
    let metadata = merge::taken(&asked.mode, metadata, asked.settings);
    composed.changes.extend(merge::merge(
        &asked.mode,
        &metadata,
        &parse::lyrics(words),
        asked.settings,
        &mut composed.request,
    ));
    // The user's values stay in the plan, even if the model omitted or changed them.
    composed.metadata = merge::over(given, metadata);
    composed.text = answer;
    Ok(())
}

/// Returns the prompt of the text phase.
fn question(asked: &Composing<'_>) -> String {
    let request = asked.request;
    let caption = request.words.caption.as_deref().unwrap_or_default();
    let lyrics = merge::lyrics_of(request);
    let is_acestep_cpp = asked.settings.prompt_style == PromptStyle::AcestepCpp;
    match &asked.mode {
        LmMode::Plan => prompt::plan(caption, &lyrics),
        LmMode::Inspire if is_acestep_cpp => prompt::acestep_cpp::inspire(caption, &lyrics),
        LmMode::Inspire => {
            prompt::inspire(prompt::or_no_input(caption), merge::is_instrumental(request))
        }
        LmMode::Format if is_acestep_cpp => prompt::acestep_cpp::format(caption, &lyrics),
        LmMode::Format => {
            prompt::format(prompt::or_no_input(caption), prompt::or_instrumental(&lyrics))
        }
        LmMode::Custom { system, user } => prompt::custom(system, user),
    }
}

/// Returns the rules for the answer of the text phase.
fn rules(asked: &Composing<'_>, given: &UserValues) -> Rules {
    let settings = asked.settings;
    let (enabled, user) = (settings.constrained, given.clone());
    if asked.mode == LmMode::Plan {
        return Rules {
            enabled,
            user,
            skip_caption: !settings.cot_caption,
            skip_language: !settings.cot_language,
            stop_at_reasoning: true,
            ..Rules::new(Phase::Cot)
        };
    }
    let is_upstreams = settings.prompt_style != PromptStyle::AcestepCpp;
    // Upstream skips the language if the user gave it.
    let is_format = is_upstreams && asked.mode == LmMode::Format;
    let skip_language = is_format && given.contains_key(&Field::Language);
    // acestep.cpp has no genres.
    let genres = asked.genres.clone().filter(|_| is_upstreams);
    let skip_genres = genres.is_none();
    Rules { enabled, user, skip_language, skip_genres, genres, ..Rules::new(Phase::Understand) }
}

/// Runs the text phase; returns its answer.
pub(super) fn write_text<B: Backend>(
    writer: &Writer<'_, B>,
    text: &str,
    rules: Rules,
    settings: &LmSettings,
    composed: &mut Composed,
) -> Result<String, Error> {
    let ids = writer.encode(text);
    let limit = settings.limit(rules.phase, None);
    let seed = settings.seeds.first().copied().unwrap_or_default();
    let answer = writer.text(&ids, rules, limit, seed)?;
    let elapsed = writer.loading + answer.elapsed;
    writer.observe.event(Event::Finished { stage: stage::LM_TEXT, elapsed });
    composed.timing.first_token = answer.first_token;
    composed.timing.text = answer.elapsed;
    composed.timing.text_tokens = answer.tokens.len();
    let text = writer.decode(&answer.tokens);
    composed.calls.push(Call { prompts: vec![ids], written: vec![answer.tokens] });
    Ok(text)
}

/// Removes the end token from the answer. A model that stops within a caption would leave it there.
pub(super) fn without_end<'a, B: Backend>(writer: &Writer<'_, B>, answer: &'a str) -> &'a str {
    let vocabulary = writer.grammar.vocabulary();
    let ends = [vocabulary.end, vocabulary.pad].map(|token| writer.decode(&[token]));
    ends.iter().find_map(|end| answer.strip_suffix(end.as_str())).unwrap_or(answer)
}
