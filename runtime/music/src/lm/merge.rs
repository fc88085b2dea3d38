//! Merge of the user's request with the model's answer.
//!
//! The user's own values always win; changes and additions by the model cause notices.

use acestep_engine::{Notice, texts::unix_lines};

use super::{
    compose::Ask,
    constrain::{Field, UserValues},
    metadata::{Metadata, Scalar},
    prompt::PromptStyle,
    settings::Settings,
};
use crate::{Request, lyrics, prompt::INSTRUMENTAL, request::words::vocal_language};

/// Returns the metadata of `request` in the format of the prompt. They are forced in the answer.
///
/// Later upstream does not use the language for [`Ask::Plan`]; in every other case it is used, so
/// that the plan's language matches the sung one. Upstream and acestep.cpp keep the time signature
/// as written.
pub(super) fn user_values(request: &Request, ask: &Ask, style: PromptStyle) -> UserValues {
    let words = &request.words;
    let word = |text: &Option<String>| {
        text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let language = word(&words.vocal_language)
        .filter(|_| style != PromptStyle::Upstream || *ask != Ask::Plan)
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
    lyrics::sung(&lyrics).0
}

/// Returns what a plan takes of the answer. Without `use_cot_metas` tempo, length, key and metre are the user's
/// alone, also for the codes, if another field was asked for by its name.
pub(super) fn taken(ask: &Ask, answer: Metadata, settings: &Settings) -> Metadata {
    if *ask != Ask::Plan || settings.cot_metas {
        return answer;
    }
    Metadata { bpm: None, duration: None, keyscale: None, timesignature: None, ..answer }
}

/// Merges the answer into the request; returns a notice for each change.
pub(super) fn merge(
    ask: &Ask,
    answer: &Metadata,
    lyrics: &str,
    settings: &Settings,
    request: &mut Request,
) -> Vec<Notice> {
    let mut changes = Vec::new();
    let writes_all = *ask != Ask::Plan;
    if let Some(caption) = answer.caption.as_ref().filter(|text| !text.trim().is_empty())
        && (writes_all || settings.cot_caption)
        && request.words.caption.as_ref() != Some(caption)
    {
        changes.push(said("caption", caption));
        request.words.caption = Some(caption.clone());
    }
    if writes_all {
        words(ask, lyrics, request, &mut changes);
    }
    let mut added = Vec::new();
    let mut refused = Vec::new();
    let mut fill = |what: &'static str, value: Option<String>, is_usable: bool| {
        if let Some(value) = value {
            (if is_usable { &mut added } else { &mut refused })
                .push(format!("{what} {}", printable(&value, 40)));
        }
        is_usable
    };
    let decides = settings.cot_metas || writes_all;
    let usable = answer.usable();
    if request.words.bpm.is_none() && decides {
        fill("bpm", answer.bpm.as_ref().map(Scalar::to_string), usable.bpm.is_some());
        request.words.bpm = usable.bpm.map(i64::from);
    }
    if request.words.duration.is_none() && decides {
        fill(
            "duration",
            answer.duration.as_ref().map(Scalar::to_string),
            usable.duration.is_some(),
        );
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
    let asked = request.words.vocal_language.as_deref().is_none_or(|code| code.trim() == "unknown");
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

/// Merges the lyrics of an answer. The user's lyrics for [`Ask::Inspire`] stay, and an instrumental
/// stays one. A draft for [`Ask::Format`] is replaced if the answer has lyrics.
fn words(ask: &Ask, lyrics: &str, request: &mut Request, changes: &mut Vec<Notice>) {
    let given = request.words.lyrics.as_deref().unwrap_or_default().trim();
    let is_silent = is_instrumental(request);
    let keeps = !given.is_empty() && *ask == Ask::Inspire;
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
        let lines = if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
        say(format!("the language model wrote {lines} of lyrics"));
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
mod tests {
    use super::*;

    fn settings() -> Settings {
        let request = Request::default();
        request.language.plan(&request.words, &[1], &mut vec![]).expect("defaults")
    }

    fn request_of(json: &str) -> Request {
        Request::from_json(json).expect(json).0
    }

    #[test]
    fn without_use_cot_metas_the_answer_decides_no_tempo_length_key_or_metre() {
        let of =
            |ask: &Ask, cot_metas| taken(ask, decided(), &Settings { cot_metas, ..settings() });
        assert_eq!(of(&Ask::Plan, true), decided());
        assert_eq!(of(&Ask::Format, false), decided());
        let left = of(&Ask::Plan, false);
        assert_eq!((&left.bpm, &left.duration, &left.keyscale), (&None, &None, &None));
        assert_eq!(
            (left.timesignature, left.caption, left.language),
            (None, decided().caption, decided().language)
        );
    }

    /// Time stamps of an LRC file are sung by neither network.
    #[test]
    fn the_language_model_reads_the_lyrics_of_the_transformer() {
        let request = request_of(r#"{"lyrics": "[ti:a]\r\n[00:12.30]Hello\r\n[00:14.00]you"}"#);
        assert_eq!(lyrics_of(&request), "Hello\nyou");
        let plain = request_of(r#"{"lyrics": "[Verse]\nHello\n"}"#);
        assert_eq!(lyrics_of(&plain), "[Verse]\nHello\n");
    }

    fn decided() -> Metadata {
        Metadata {
            bpm: Some(Scalar::Whole(92)),
            caption: Some("slow soul".into()),
            duration: Some(Scalar::Whole(64)),
            genres: None,
            keyscale: Some("F# minor".into()),
            language: Some("en".into()),
            timesignature: Some("3".into()),
        }
    }

    fn merged(
        ask: &Ask,
        metadata: &Metadata,
        lyrics: &str,
        mut request: Request,
    ) -> (Request, String) {
        let changes = merge(ask, metadata, lyrics, &settings(), &mut request);
        let changes: Vec<_> = changes.into_iter().map(|notice| notice.0).collect();
        (request, changes.join("; "))
    }

    #[test]
    fn what_the_user_gave_stays_and_what_is_open_is_filled_in_and_said() {
        let given =
            request_of(r#"{"caption": "soul", "lyrics": "la", "bpm": 70, "vocal_language": "fr"}"#);
        let (request, said) = merged(&Ask::Plan, &decided(), "ignored", given.clone());
        let expected = given.with(|r| {
            r.words.caption = Some("slow soul".into());
            r.words.duration = Some(64.0);
            r.words.keyscale = Some("F# minor".into());
            r.words.timesignature = Some("3".into());
        });
        assert_eq!(request, expected);
        assert_eq!(
            said,
            "the language model wrote the caption: slow soul; the language model chose duration \
             64, key F# minor, metre 3"
        );
    }

    #[test]
    fn values_that_no_song_has_are_left_out_and_named() {
        let metadata = Metadata {
            bpm: Some(Scalar::Whole(999)),
            duration: Some(Scalar::Text("3 min".into())),
            keyscale: Some("loud\u{1b}[31m".into()),
            timesignature: Some("5".into()),
            language: Some("klingon".into()),
            ..Metadata::default()
        };
        let (request, said) = merged(&Ask::Plan, &metadata, "", Request::default());
        assert_eq!(request, Request::default());
        assert_eq!(
            said,
            "the language model's bpm 999, duration 3 min, key loud [31m, metre 5, language klingon \
             cannot be used and is left out; the language model ended without a decision on tempo, \
             length, key, metre"
        );
    }

    #[test]
    fn an_inspiration_writes_the_words_and_a_song_without_voice_stays_so() {
        let query = request_of(r#"{"caption": "a love song"}"#);
        let (request, said) = merged(&Ask::Inspire, &decided(), "la\n\nla la", query);
        assert_eq!(request.words.lyrics.as_deref(), Some("la\n\nla la"));
        assert!(said.contains("wrote 2 lines of lyrics"), "{said}");

        let silent = request_of(r#"{"instrumental": true}"#);
        let (request, _) = merged(&Ask::Inspire, &decided(), "", silent);
        assert_eq!(
            (request.words.lyrics.as_deref(), request.words.instrumental),
            (Some(INSTRUMENTAL), None)
        );
    }

    #[test]
    fn the_users_words_and_a_song_without_voice_survive_an_inspiration() {
        let own = request_of(r#"{"lyrics": "my own"}"#);
        let (request, said) = merged(&Ask::Inspire, &decided(), "la", own);
        assert_eq!(request.words.lyrics.as_deref(), Some("my own"));
        assert!(said.contains("the given ones stay"), "{said}");

        let silent = request_of(r#"{"instrumental": true}"#);
        let (request, said) = merged(&Ask::Format, &decided(), "la la", silent);
        assert_eq!(request.words.lyrics.as_deref(), Some(INSTRUMENTAL));
        assert!(said.contains("the song has no voice"), "{said}");
    }

    fn given(request: &Request) -> UserValues {
        user_values(request, &Ask::Plan, PromptStyle::Open)
    }

    /// Returns the language and the time signature.
    fn language_and_metre(values: &UserValues) -> (Option<&str>, Option<&str>) {
        let value = |field: Field| values.get(&field).map(String::as_str);
        (value(Field::Language), value(Field::Timesignature))
    }

    #[test]
    fn what_the_user_gave_stands_in_the_plan_that_codes_follow() {
        let request = request_of(r#"{"bpm": 120, "duration": 0.5, "vocal_language": "EN"}"#);
        let plan = over(&given(&request), Metadata { language: None, ..decided() });
        assert_eq!(plan.bpm, Some(Scalar::Text("120".into())));
        assert_eq!(plan.duration, Some(Scalar::Text("1".into())));
        assert_eq!(
            (plan.language.as_deref(), plan.keyscale.as_deref()),
            (Some("en"), Some("F# minor"))
        );
        let agreed = over(&given(&request_of(r#"{"bpm": 92}"#)), decided());
        assert_eq!(agreed, decided());
    }

    #[test]
    fn a_metre_in_fourths_is_given_as_its_beats() {
        let request = request_of(
            r#"{"timesignature": "3/4", "duration": 33.7, "vocal_language": "unknown"}"#,
        );
        let values = given(&request);
        assert_eq!(values[&Field::Duration], "33");
        assert_eq!(language_and_metre(&values), (None, Some("3")));
    }

    /// Upstream `inference.py`, `user_metadata`: the language is used only for [`Ask::Format`].
    #[test]
    fn upstream_is_not_told_the_language_of_a_plan() {
        let request = request_of(r#"{"timesignature": "3/4", "vocal_language": "no"}"#);
        for (ask, style, expected) in [
            (Ask::Plan, PromptStyle::Upstream, (None, Some("3/4"))),
            (Ask::Format, PromptStyle::Upstream, (Some("no"), Some("3/4"))),
            (Ask::Plan, PromptStyle::AcestepCpp, (Some("no"), Some("3/4"))),
        ] {
            assert_eq!(language_and_metre(&user_values(&request, &ask, style)), expected);
        }
    }
}
