//! Merge of the user's request with the model's answer.
//!
//! The user's own values always win; changes and additions by the model cause notices.

use acestep_engine::{Notice, error::counted, texts::unix_lines};

use super::{
    compose::LmMode,
    constrain::{Field, UserValues},
    metadata::{Metadata, Scalar},
    prompt::PromptStyle,
    settings::LmSettings,
};
use crate::{Request, lyrics, prompt::INSTRUMENTAL, request::words::vocal_language};

/// Returns the metadata of `request` in the format of the prompt. They are forced in the answer.
///
/// Later upstream does not use the language for [`LmMode::Plan`]; in every other case it is used, so
/// that the plan's language matches the sung one. Upstream and acestep.cpp keep the time signature
/// as written.
pub(super) fn user_values(request: &Request, mode: &LmMode, style: PromptStyle) -> UserValues {
    let words = &request.words;
    let word = |text: &Option<String>| {
        text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let language = word(&words.vocal_language)
        .filter(|_| style != PromptStyle::Upstream || *mode != LmMode::Plan)
        .and_then(|code| vocal_language(&code).ok())
        .filter(|&code| code != "unknown")
        .map(str::to_owned);
    let timesignature = word(&words.timesignature).map(|metre| match style {
        // The model writes beats per bar, without `/4`.
        PromptStyle::Open | PromptStyle::Closed => {
            metre.strip_suffix("/4").unwrap_or(&metre).to_owned()
        }
        PromptStyle::Upstream | PromptStyle::AcestepCpp => metre,
    });
    // Whole seconds, as in the model's plans.
    let duration = words.duration.map(|seconds| (seconds as u32).max(1).to_string());
    let values = [
        (Field::Bpm, words.bpm.map(|bpm| bpm.to_string())),
        (Field::Duration, duration),
        (Field::Keyscale, word(&words.keyscale)),
        (Field::Language, language),
        (Field::Timesignature, timesignature),
    ];
    values.into_iter().filter_map(|(field, value)| Some((field, value?))).collect()
}

/// Returns the plan for codes without a text phase: upstream's user metadata.
pub(super) fn metadata(given: &UserValues) -> Metadata {
    let value = |field: Field| given.get(&field).cloned();
    Metadata {
        bpm: value(Field::Bpm).map(Scalar::Text),
        duration: value(Field::Duration).map(Scalar::Text),
        keyscale: value(Field::Keyscale),
        language: value(Field::Language),
        timesignature: value(Field::Timesignature),
        ..Metadata::default()
    }
}

/// Returns the model's plan with the user's values in place of the model's.
pub(super) fn over(given: &UserValues, plan: Metadata) -> Metadata {
    let own = metadata(given);
    // If they agree, keep the model's type: a number instead of a text.
    let number = |own: Option<Scalar>, plan: Option<Scalar>| match (own, plan) {
        (Some(own), Some(plan)) if own.to_string() == plan.to_string() => Some(plan),
        (own, plan) => own.or(plan),
    };
    Metadata {
        bpm: number(own.bpm, plan.bpm),
        duration: number(own.duration, plan.duration),
        keyscale: own.keyscale.or(plan.keyscale),
        language: own.language.or(plan.language),
        timesignature: own.timesignature.or(plan.timesignature),
        ..plan
    }
}

/// True if the song has no voice.
pub(super) fn is_instrumental(request: &Request) -> bool {
    request.words.instrumental == Some(true)
        || request.words.lyrics.as_deref().is_some_and(lyrics::is_instrumental)
}

/// Returns the lyrics for the model's prompt: those that the transformer reads.
pub(super) fn lyrics_of(request: &Request) -> String {
    if request.words.instrumental == Some(true) {
        return INSTRUMENTAL.to_owned();
    }
    let lyrics = unix_lines(request.words.lyrics.as_deref().unwrap_or_default());
    // The plan tells what was left out.
    lyrics::cleaned(&lyrics).0
}

/// Returns what a plan takes of the answer. Without `use_cot_metas` tempo, length, key and metre are the user's
/// alone, also for the codes, if another field was asked for by its name.
pub(super) fn taken(mode: &LmMode, answer: Metadata, settings: &LmSettings) -> Metadata {
    if *mode != LmMode::Plan || settings.cot_metas {
        return answer;
    }
    Metadata { bpm: None, duration: None, keyscale: None, timesignature: None, ..answer }
}

/// Merges the answer into the request; returns a notice for each change.
pub(super) fn merge(
    mode: &LmMode,
    answer: &Metadata,
    lyrics: &str,
    settings: &LmSettings,
    request: &mut Request,
) -> Vec<Notice> {
    let mut changes = Vec::new();
    let writes_all = *mode != LmMode::Plan;
    if let Some(caption) = answer.caption.as_ref().filter(|text| !text.trim().is_empty())
        && (writes_all || settings.cot_caption)
        && request.words.caption.as_ref() != Some(caption)
    {
        changes.push(said("caption", caption));
        request.words.caption = Some(caption.clone());
    }
    if writes_all {
        words(mode, lyrics, request, &mut changes);
    }
    let mut added = Vec::new();
    let mut refused = Vec::new();
    let mut fill = |what: &'static str, value: Option<String>, is_usable: bool| {
        let list = if is_usable { &mut added } else { &mut refused };
        list.extend(value.map(|value| format!("{what} {}", printable(&value, 40))));
    };
    let decides = settings.cot_metas || writes_all;
    let usable = answer.usable();
    let text = |value: &Option<Scalar>| value.as_ref().map(Scalar::to_string);
    if request.words.bpm.is_none() && decides {
        fill("bpm", text(&answer.bpm), usable.bpm.is_some());
        request.words.bpm = usable.bpm.map(i64::from);
    }
    if request.words.duration.is_none() && decides {
        fill("duration", text(&answer.duration), usable.duration.is_some());
        request.words.duration = usable.duration;
    }
    if request.words.keyscale.is_none() && decides {
        fill("key", answer.keyscale.clone(), usable.keyscale.is_some());
        request.words.keyscale = usable.keyscale;
    }
    if request.words.timesignature.is_none() && decides {
        fill("metre", answer.timesignature.clone(), usable.timesignature.is_some());
        request.words.timesignature = usable.timesignature;
    }
    let is_open = |code: &str| code.trim().eq_ignore_ascii_case("unknown");
    let asked = request.words.vocal_language.as_deref().is_none_or(is_open);
    if asked && settings.cot_language {
        let code = usable.vocal_language;
        fill("language", answer.language.clone(), code.is_some());
        request.words.vocal_language =
            code.map(str::to_owned).or_else(|| request.words.vocal_language.clone());
    }
    if !added.is_empty() {
        changes.push(Notice(format!("the language model chose {}", added.join(", "))));
    }
    if !refused.is_empty() {
        let text = refused.join(", ");
        changes.push(Notice(format!("the language model's {text} cannot be used and is left out")));
    }
    let open = [
        ("tempo", request.words.bpm.is_none()),
        ("length", request.words.duration.is_none()),
        ("key", request.words.keyscale.is_none()),
        ("metre", request.words.timesignature.is_none()),
    ];
    let open: Vec<_> = open.into_iter().filter_map(|(what, is)| is.then_some(what)).collect();
    if !open.is_empty() && decides {
        let text = format!("the language model ended without a decision on {}", open.join(", "));
        changes.push(Notice(text));
    }
    changes
}

/// Merges the lyrics of an answer. The user's lyrics for [`LmMode::Inspire`] stay, and an instrumental
/// stays one. A draft for [`LmMode::Format`] is replaced if the answer has lyrics.
fn words(mode: &LmMode, lyrics: &str, request: &mut Request, changes: &mut Vec<Notice>) {
    let given = request.words.lyrics.as_deref().unwrap_or_default().trim();
    let is_silent = is_instrumental(request);
    let keeps = !given.is_empty() && *mode == LmMode::Inspire;
    let mut say = |text: String| changes.push(Notice(text));
    if is_silent {
        if !lyrics.is_empty() && !lyrics.trim().eq_ignore_ascii_case(INSTRUMENTAL) {
            say("the language model's lyrics are left out: the song has no voice".into());
        }
        (request.words.lyrics, request.words.instrumental) = (Some(INSTRUMENTAL.to_owned()), None);
    } else if keeps {
        say("the language model's lyrics are left out: the given ones stay".into());
    } else if lyrics.is_empty() && given.is_empty() {
        say("the language model wrote no lyrics: the song has no voice".into());
        request.words.lyrics = Some(INSTRUMENTAL.to_owned());
    } else if !lyrics.is_empty() && request.words.lyrics.as_deref() != Some(lyrics) {
        let lines = lyrics.lines().filter(|line| !line.trim().is_empty()).count();
        say(format!("the language model wrote {} of lyrics", counted(lines, "line")));
        request.words.lyrics = Some(lyrics.to_owned());
    }
}

fn said(what: &str, text: &str) -> Notice {
    Notice(format!("the language model wrote the {what}: {}", printable(text, 500)))
}

/// Returns at most `most` characters of a model's text, with control characters replaced.
fn printable(text: &str, most: usize) -> String {
    let mut shown: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect();
    if text.chars().nth(most).is_some() {
        shown += " ...";
    }
    shown
}

#[cfg(test)]
mod tests;
