use super::*;
use crate::test_goldens::settings;

fn request_of(json: &str) -> Request {
    Request::from_json(json).expect(json).0
}

#[test]
fn without_use_cot_metas_the_answer_decides_no_tempo_length_key_or_metre() {
    let of = |mode: &LmMode, cot_metas| {
        taken(mode, decided(), &LmSettings { cot_metas, ..settings(&[1]) })
    };
    assert_eq!(of(&LmMode::Plan, true), decided());
    assert_eq!(of(&LmMode::Format, false), decided());
    let left = of(&LmMode::Plan, false);
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
    mode: &LmMode,
    metadata: &Metadata,
    lyrics: &str,
    mut request: Request,
) -> (Request, String) {
    let changes = merge(mode, metadata, lyrics, &settings(&[1]), &mut request);
    let changes: Vec<_> = changes.into_iter().map(|notice| notice.0).collect();
    (request, changes.join("; "))
}

#[test]
fn what_the_user_gave_stays_and_what_is_open_is_filled_in_and_said() {
    let given =
        request_of(r#"{"caption": "soul", "lyrics": "la", "bpm": 70, "vocal_language": "fr"}"#);
    let (request, said) = merged(&LmMode::Plan, &decided(), "ignored", given.clone());
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
    let (request, said) = merged(&LmMode::Plan, &metadata, "", Request::default());
    assert_eq!(request, Request::default());
    assert_eq!(
        said,
        "the language model's bpm 999, duration 3 min, key loud [31m, metre 5, language klingon \
         cannot be used and is left out; the language model ended without a decision on tempo, \
         length, key, metre"
    );
}

/// Upstream `_is_vocal_language_unset`.
#[test]
fn an_unknown_language_in_any_case_is_open() {
    for code in ["unknown", " UNKNOWN "] {
        let open = Request::default().with(|r| r.words.vocal_language = Some(code.into()));
        let (request, _) = merged(&LmMode::Plan, &decided(), "", open);
        assert_eq!(request.words.vocal_language.as_deref(), Some("en"), "{code}");
    }
}

#[test]
fn an_inspiration_writes_the_words_and_a_song_without_voice_stays_so() {
    let query = request_of(r#"{"caption": "a love song"}"#);
    let (request, said) = merged(&LmMode::Inspire, &decided(), "la\n\nla la", query);
    assert_eq!(request.words.lyrics.as_deref(), Some("la\n\nla la"));
    assert!(said.contains("wrote 2 lines of lyrics"), "{said}");

    let silent = request_of(r#"{"instrumental": true}"#);
    let (request, _) = merged(&LmMode::Inspire, &decided(), "", silent);
    assert_eq!(
        (request.words.lyrics.as_deref(), request.words.instrumental),
        (Some(INSTRUMENTAL), None)
    );
}

#[test]
fn the_users_words_and_a_song_without_voice_survive_an_inspiration() {
    let own = request_of(r#"{"lyrics": "my own"}"#);
    let (request, said) = merged(&LmMode::Inspire, &decided(), "la", own);
    assert_eq!(request.words.lyrics.as_deref(), Some("my own"));
    assert!(said.contains("the given ones stay"), "{said}");

    let silent = request_of(r#"{"instrumental": true}"#);
    let (request, said) = merged(&LmMode::Format, &decided(), "la la", silent);
    assert_eq!(request.words.lyrics.as_deref(), Some(INSTRUMENTAL));
    assert!(said.contains("the song has no voice"), "{said}");
}

fn given(request: &Request) -> UserValues {
    user_values(request, &LmMode::Plan, PromptStyle::Open)
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
    let request =
        request_of(r#"{"timesignature": "3/4", "duration": 33.7, "vocal_language": "unknown"}"#);
    let values = given(&request);
    assert_eq!(values[&Field::Duration], "33");
    assert_eq!(language_and_metre(&values), (None, Some("3")));
}

/// Upstream `inference.py`, `user_metadata`: the language is used only for [`LmMode::Format`].
#[test]
fn upstream_is_not_told_the_language_of_a_plan() {
    let request = request_of(r#"{"timesignature": "3/4", "vocal_language": "no"}"#);
    for (mode, style, expected) in [
        (LmMode::Plan, PromptStyle::Upstream, (None, Some("3/4"))),
        (LmMode::Format, PromptStyle::Upstream, (Some("no"), Some("3/4"))),
        (LmMode::Plan, PromptStyle::AcestepCpp, (Some("no"), Some("3/4"))),
    ] {
        assert_eq!(language_and_metre(&user_values(&request, &mode, style)), expected);
    }
}
