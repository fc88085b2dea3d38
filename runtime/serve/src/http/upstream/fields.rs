//! Names and values of upstream's requests, in our spelling.
//!
//! [`Request::from_object`] knows most names; here are those of the REST server alone.

use acestep_music::{
    Request,
    request::{Takes, language::NO_USER_INPUT, snake_case},
};
use serde_json::{Map, Value};

use super::{flag, is_set, wrong};
use crate::{
    http::{ApiError, formats, input},
    job::Kind,
};

/// The REST server's names of our keys.
const NAMES: [(&str, &str); 11] = [
    ("src_audio_path", "src_audio"),
    ("source_audio_path", "src_audio"),
    ("ctx_audio_path", "src_audio"),
    ("ctx_audio", "src_audio"),
    ("reference_audio_path", "reference_audio"),
    ("ref_audio_path", "reference_audio"),
    ("ref_audio", "reference_audio"),
    ("cover_strength", "audio_cover_strength"),
    ("instruments", "track_classes"),
    ("cot-caption", "use_cot_caption"),
    ("cot-language", "use_cot_language"),
];
/// Languages that a wish may name, each with its code.
const LANGUAGES: &str = "english en chinese zh 中文 zh mandarin zh japanese ja 日本語 ja korean ko \
    한국어 ko spanish es español es french fr français fr german de deutsch de italian it italiano it \
    portuguese pt português pt russian ru русский ru bengali bn hindi hi arabic ar thai th \
    vietnamese vi indonesian id turkish tr dutch nl polish pl";
/// Words that follow the verb "polish": there it is no language.
const POLISHED: [&str; 10] =
    ["the", "this", "that", "these", "those", "it", "my", "our", "your", "up"];
/// Objects with more fields.
const NESTED: [&str; 5] = ["param_obj", "metas", "meta", "metadata", "user_metadata"];
/// Flags that choose another task than a song.
const TASKS: [&str; 3] = ["analysis_only", "full_analysis_only", "extract_codes_only"];

/// A request in our spelling.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) kind: Kind,
    pub(super) request: Map<String, Value>,
    /// Messages about fields that were not read.
    pub(super) notices: Vec<String>,
}

/// Reads the body of `/release_task`.
/// Errors: a value that cannot be read; a format that this build does not write.
pub(super) fn read(body: Map<String, Value>) -> Result<Read, ApiError> {
    let mut request = Map::new();
    let mut notices = Vec::new();
    for (written, value) in body {
        match snake_case(&written) {
            key if key == "ai_token" => {}
            key if NESTED.contains(&key.as_str()) => {
                let value = nested(&key, value)?;
                request.insert(key, value);
            }
            _ => add(&mut request, written, value)?,
        }
    }
    let is_random = is_set(&request, "use_random_seed")?;
    request.remove("use_random_seed");
    if is_random {
        request.remove("seed");
        request.remove("seeds");
    }
    let [plans, describes, lists_codes] = TASKS.map(|task| is_set(&request, task));
    let (describes, lists_codes) = (describes?, lists_codes?);
    let kind = match (describes || lists_codes, plans?) {
        (true, _) => Kind::Understand,
        (false, true) => Kind::Compose,
        (false, false) => Kind::Generate,
    };
    TASKS.iter().for_each(|task| drop(request.remove(*task)));
    if kind == Kind::Generate {
        // The default of upstream's server: no audio codes. Texts can still be asked for.
        request.entry("thinking").or_insert(false.into());
    }
    read_wish(&mut request)?;
    input::open_end(&mut request);
    drop_unused(kind, &mut request, &mut notices);
    drop_unknown(&mut request, &mut notices)?;
    match kind {
        Kind::Understand => {
            let audio = request.remove("src_audio").or_else(|| request.remove("reference_audio"));
            if request.contains_key("reference_audio") {
                let text = "`reference_audio` is not read: the analysis is of `src_audio`";
                notices.push(text.to_owned());
            }
            let keeps = ["model", "lm_model", "lm_temperature", "lm_top_p", "lm_top_k", "seed"];
            request.retain(|key, _| keeps.contains(&key.as_str()));
            if !describes {
                request.insert("codes_only".to_owned(), true.into());
            }
            match audio {
                Some(audio) => request.insert("audio".to_owned(), audio),
                None => return Err(wrong("src_audio", "an analysis needs a sound")),
            };
        }
        Kind::Compose => {
            request.insert("mode".to_owned(), "plan".into());
        }
        _ => {
            input::rename(&mut request, &[("output_format", "audio_format")])?;
            let format = match request.get("audio_format") {
                None => formats::choose("audio_format", None)?,
                Some(Value::String(name)) => formats::choose("audio_format", Some(name))?,
                Some(_) => return Err(wrong("audio_format", "it must be a text")),
            };
            request.insert("audio_format".to_owned(), format.name().into());
        }
    }
    Ok(Read { kind, request, notices })
}

/// Reads a wish as upstream does: it may be one for an instrumental, or name the language of the voice. Sample
/// mode without any words is a wish for any song.
fn read_wish(request: &mut Map<String, Value>) -> Result<(), ApiError> {
    if ["prompt", "caption"].iter().any(|key| request.contains_key(*key)) {
        return Ok(());
    }
    let text = |key: &&str| request.get(*key).and_then(Value::as_str).map(str::to_lowercase);
    let Some(wish) = ["sample_query", "description", "desc"].iter().find_map(text) else {
        if is_set(request, "sample_mode")? {
            request.insert("caption".to_owned(), NO_USER_INPUT.into());
        }
        return Ok(());
    };
    let marks = ["instrumental", "pure music", "pure instrument"];
    let words: Vec<&str> = wish.split(|c: char| !c.is_alphanumeric()).collect();
    let is_solo = wish.trim_end().ends_with(" solo") || wish.trim() == "solo";
    let has_voice = request.contains_key("lyrics") || request.contains_key("instrumental");
    if !has_voice && (is_solo || marks.iter().any(|mark| wish.contains(*mark))) {
        request.insert("instrumental".to_owned(), true.into());
    }
    let names: Vec<&str> = LANGUAGES.split_whitespace().collect();
    let is_verb = |at: usize| {
        let follows = words.get(at + 1).is_some_and(|next| POLISHED.contains(next));
        words[at] == "polish" && follows && (at == 0 || words[at - 1] != "in")
    };
    let is_named = |name: &str| (0..words.len()).any(|at| words[at] == name && !is_verb(at));
    let named = names.chunks(2).find(|pair| is_named(pair[0]));
    let is_open = ["vocal_language", "language"].iter().all(|key| !request.contains_key(*key));
    if let Some(pair) = named.filter(|_| is_open) {
        request.insert("vocal_language".to_owned(), pair[1].into());
    }
    Ok(())
}

/// Adds a field. Of two spellings the one with a value counts; two values are an error.
fn add(request: &mut Map<String, Value>, written: String, value: Value) -> Result<(), ApiError> {
    let (key, value) = spelled(snake_case(&written), value)?;
    let Some(value) = value else { return Ok(()) };
    if request.get(&key).is_some_and(|other| *other != value) {
        let message = format!("`{written}` and another field of that meaning differ");
        return Err(ApiError::bad("repeated_key", message).param(written));
    }
    request.insert(key, value);
    Ok(())
}

/// Spells one field as ours; `None` for a value that means "not set" there.
fn spelled(key: String, value: Value) -> Result<(String, Option<Value>), ApiError> {
    let ours = NAMES.iter().find(|(theirs, _)| *theirs == key).map(|(_, ours)| *ours);
    let key = match (key.as_str(), flag(&value)) {
        // The text of a language model has this name too.
        ("cot_caption", Some(_)) => "use_cot_caption".to_owned(),
        _ => ours.map_or(key, str::to_owned),
    };
    let is_flag = Request::takes(&key) == Takes::Flag && Request::known_keys().any(|k| k == key);
    let value = match value {
        Value::Null => None,
        Value::String(text) if text.trim().is_empty() => None,
        Value::String(text) if key == "chunk_mask_mode" && text == "auto" => None,
        value if is_flag => {
            let flag = flag(&value).ok_or_else(|| wrong(&key, "it must be true or false"))?;
            Some(flag.into())
        }
        value => Some(value),
    };
    Ok((key, value))
}

/// Reads an object of more fields, which a form sends as JSON text.
fn nested(key: &str, value: Value) -> Result<Value, ApiError> {
    let refused = || wrong(key, "it must be an object, or JSON text of one");
    let object = match value {
        Value::Null => Map::new(),
        Value::Object(object) => object,
        Value::String(text) if text.trim().is_empty() => Map::new(),
        Value::String(text) => match input::json_of(&text, |_| refused())? {
            Value::Object(object) => object,
            _ => return Err(refused()),
        },
        _ => return Err(refused()),
    };
    let mut fields = Map::new();
    for (name, value) in object {
        // A file is named at the top, where it is checked.
        add(&mut fields, name, value)?;
    }
    Ok(fields.into())
}

/// Removes fields that upstream's clients always send and that have no use here, with a notice for each.
fn drop_unused(kind: Kind, request: &mut Map<String, Value>, notices: &mut Vec<String>) {
    if request.remove("global_caption").is_some() {
        let text = "`global_caption` is not read: no model here was trained with one";
        notices.push(text.to_owned());
    }
    let is_text = request.get("task_type").and_then(Value::as_str) == Some("text2music");
    // An analysis hears its source, whatever the task of a song would be.
    if is_text && kind != Kind::Understand && request.remove("src_audio").is_some() {
        notices.push("`src_audio` is not read: text2music has no source".to_owned());
    }
}

/// Removes fields that no request has, with a notice for each: upstream ignores them.
fn drop_unknown(
    request: &mut Map<String, Value>,
    notices: &mut Vec<String>,
) -> Result<(), ApiError> {
    let mut dropped = Vec::new();
    // The objects that are read have been read already: their keys are in our spelling.
    let mut keep = |object: &mut Map<String, Value>, is_inner: bool| {
        object.retain(|key, _| {
            let is_known = Request::knows(key) || !is_inner && NESTED.contains(&key.as_str());
            if !is_known {
                dropped.push(key.clone());
            }
            is_known
        });
    };
    keep(request, false);
    for name in NESTED {
        if let Some(Value::Object(inner)) = request.get_mut(name) {
            keep(inner, true);
        }
    }
    dropped.sort();
    dropped.dedup();
    if dropped.len() > input::MOST_UNKNOWN {
        return Err(input::too_many_unknown(&dropped[0]));
    }
    notices.extend(dropped.iter().map(|key| format!("`{key}` is not read")));
    match Request::from_object(request.clone()) {
        Ok(_) => Ok(()),
        Err(error) => Err(ApiError::from(crate::error::of(&error))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(body: Value) -> Result<Read, ApiError> {
        let Value::Object(body) = body else { panic!("an object") };
        read(body)
    }

    #[test]
    fn upstreams_spellings_become_ours_and_unknown_fields_are_said() {
        let read = of(json!({
            "prompt": "piano", "keyScale": "C major", "use_adg": "off", "thinking": "y",
            "param_obj": "{\"duration\": 30, \"projectName\": \"x\"}", "ai_token": "secret",
            "chunk_mask_mode": "auto", "cover_strength": 0.5, "instruments": ["drums"],
            "audio_format": "flac", "trackId": 7, "sourceAudioPath": "id", "cot-language": "no",
        }))
        .expect("a request");
        let (request, _) = Request::from_object(read.request.clone()).expect("ours");
        assert_eq!(request.words.caption.as_deref(), Some("piano"));
        assert_eq!(request.words.keyscale.as_deref(), Some("C major"));
        assert_eq!(request.words.duration, Some(30.0));
        assert_eq!(request.source.audio_cover_strength, Some(0.5));
        assert_eq!(request.source.track_classes.as_deref(), Some(&["drums".to_owned()][..]));
        assert_eq!(request.source.src_audio.as_deref(), Some("id"));
        assert_eq!(request.language.thinking, Some(true));
        assert_eq!(request.language.use_cot_language, Some(false));
        assert_eq!(request.sampling.use_adg, Some(false));
        let expected = ["`project_name` is not read", "`track_id` is not read"];
        let mut notices = read.notices;
        notices.sort();
        assert_eq!(notices, expected);
    }

    #[test]
    fn a_random_seed_is_no_seed_and_a_seed_alone_is_one() {
        let seed = |body| of(body).expect("a request").request.get("seed").cloned();
        assert_eq!(seed(json!({ "seed": 7, "use_random_seed": true })), None);
        assert_eq!(seed(json!({ "seed": 7, "use_random_seed": false })), Some(json!(7)));
        assert_eq!(seed(json!({ "seed": "7,8" })), Some(json!("7,8")));
    }

    #[test]
    fn a_wish_names_a_language_and_an_instrumental_and_needs_no_codes() {
        let request = |body| {
            let read = of(body).expect("a request");
            Request::from_object(read.request).expect("ours").0
        };
        let wish = request(json!({ "sample_query": "Italian pop, make it slow" }));
        assert_eq!(wish.words.vocal_language.as_deref(), Some("it"));
        assert_eq!((wish.words.instrumental, wish.language.thinking), (None, Some(false)));
        let solo = request(json!({ "desc": "a piano solo", "thinking": true, "language": "en" }));
        assert_eq!((solo.words.instrumental, solo.language.thinking), (Some(true), Some(true)));
        assert_eq!(solo.words.vocal_language.as_deref(), Some("en"));
        let any = request(json!({ "sample_mode": true }));
        assert_eq!(any.words.caption.as_deref(), Some(NO_USER_INPUT));
        assert_eq!(any.language.lm_mode.as_deref(), Some("inspire"));
    }

    #[test]
    fn to_polish_is_a_verb_and_polish_a_language() {
        for (wish, language) in [
            ("Polish the mix of a calm song", None),
            ("slow rock, please polish it up", None),
            ("an English ballad, and polish the drums", Some("en")),
            ("a Polish song", Some("pl")),
            ("polish folk", Some("pl")),
            ("sung in Polish the whole time", Some("pl")),
            ("Polish, the words of a poet", Some("pl")),
            ("polish the mix of a Polish song", Some("pl")),
        ] {
            let read = of(json!({ "sample_query": wish })).expect("a request");
            let found = read.request.get("vocal_language").and_then(Value::as_str);
            assert_eq!(found, language, "{wish}");
        }
    }

    #[test]
    fn an_end_of_0_is_the_end_of_the_source_except_before_it() {
        let end = |start, end| {
            let body = json!({ "prompt": "x", "repainting_start": start, "repainting_end": end });
            of(body).expect("a request").request.get("repainting_end").cloned()
        };
        assert_eq!(end(json!(5), json!("0.0")), None);
        assert_eq!(end(json!(-5), json!(0)), Some(json!(0)));
        assert_eq!(end(json!(5), json!(8)), Some(json!(8)));
    }

    #[test]
    fn a_value_that_cannot_be_read_is_refused() {
        for body in [
            json!({ "prompt": "x", "bpm": "fast" }),
            json!({ "prompt": "x", "thinking": "perhaps" }),
            json!({ "prompt": "x", "caption": "y" }),
            json!({ "prompt": "x", "audio_format": "aac" }),
            json!({ "prompt": "x", "metas": [1] }),
            json!({ "full_analysis_only": true }),
            (0..65).map(|key| (format!("x{key}"), json!(1))).collect(),
        ] {
            of(body.clone()).expect_err(&body.to_string());
        }
        for metas in [json!({ "keyScale": "C", "key_scale": "D" }), json!(r#"{"x":1,"x":2}"#)] {
            let two = of(json!({ "prompt": "x", "metas": metas })).expect_err("two values");
            assert_eq!(two.error.code, "repeated_key");
        }
    }

    #[test]
    fn what_a_client_always_sends_is_no_error() {
        let body = json!({
            "task_type": "text2music", "prompt": "x", "src_audio": "id", "global_caption": "y",
            "negative_prompt": "", "bpm": null, "audio_format": "wav", "output_format": "wav",
        });
        let read = of(body).expect("a request");
        assert!(!read.request.contains_key("src_audio"));
        assert_eq!(read.notices.len(), 2, "{:?}", read.notices);
        Request::from_object(read.request).expect("one format");
    }

    #[test]
    fn many_unknown_keys_are_passed_over_in_one_pass() {
        let mut body: Map<String, Value> = (0..40).map(|n| (format!("x{n}"), json!(n))).collect();
        body.insert("prompt".to_owned(), "piano".into());
        body.insert("metas".to_owned(), json!({ "y": 1, "x1": 2, "bpm": 90, "metas": {} }));
        let read = read(body).expect("a request");
        assert_eq!(read.notices.len(), 42, "{:?}", read.notices);
        let (request, _) = Request::from_object(read.request).expect("ours");
        assert!(request.words.bpm.is_some());
    }

    #[test]
    fn an_analysis_is_another_task() {
        let kind = |body| of(body).expect("a request").kind;
        let described = json!({ "src_audio": "id", "full_analysis_only": true });
        assert_eq!(kind(described), Kind::Understand);
        // Upstream analyses the source alone.
        let two = json!({
            "ref_audio": "r", "src_audio": "s", "full_analysis_only": true, "task_type": "text2music",
        });
        let read = of(two).expect("a request");
        assert_eq!(read.request["audio"], "s");
        let text = "`reference_audio` is not read: the analysis is of `src_audio`";
        assert_eq!(read.notices, [text]);
        let codes = of(json!({ "src_audio": "s", "extract_codes_only": true })).expect("a request");
        assert_eq!((codes.kind, &codes.request["codes_only"]), (Kind::Understand, &json!(true)));
        assert_eq!(kind(json!({ "prompt": "x", "analysis_only": "1" })), Kind::Compose);
        assert_eq!(kind(json!({ "prompt": "x", "analysis_only": false })), Kind::Generate);
    }
}
