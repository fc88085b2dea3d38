//! Speech of every family, with the tiny models and their real networks.

use std::fs;

use acestep_engine::{Existing, Unobserved};
use acestep_session::speech::{self, Fields};
use serde_json::{Value, json};

use crate::{
    real::{ENGINE, Real, SCRIPT, base64, recording},
    realtime::Socket,
    web::{body, bytes, with},
};

/// Each family: its model, a text, fields of its own, and samples per second.
fn families() -> [(&'static str, &'static str, Value, u32); 3] {
    [
        ("tiny-speech", "Hello there.", json!({ "voice": "ryan", "max_new_tokens": 8 }), 24_000),
        ("dia2-1b", SCRIPT, json!({ "max_steps": 30, "cfg_filter_k": 3 }), 24_000),
        (
            "magpie-357m",
            "The old dog.",
            json!({ "voice": "2", "language": "en", "max_decoder_steps": 12, "cfg_scale": 2.0 }),
            22_050,
        ),
    ]
}

/// Row 2: the same seed and the same voice give the same sound.
#[tokio::test(flavor = "multi_thread")]
async fn row_02_speech_of_each_family_is_that_of_the_command_line_and_of_its_stream() {
    let real = Real::start().await;
    for (model, text, fields, rate) in families() {
        let mut request = fields.clone();
        request["seed"] = 4.into();
        let own = real.own(model, text, request.clone());
        assert!(own.len() > 2000, "{model}: {} bytes", own.len());
        request["text"] = text.into();
        request["model"] = model.into();
        let job = real.job(request.clone());
        assert_eq!(job["state"], "done", "{job:#}");
        let file = real.output(&job, "1.wav");
        assert!(file[44..] == own, "{model}: {} and {} bytes", file.len() - 44, own.len());
        let found = u32::from_le_bytes(file[24..28].try_into().expect("four bytes"));
        assert_eq!(found, rate, "{model}");
        // As OpenAI's clients ask, with samples while they are made.
        let asked = json!({ "input": text, "model": model, "seed": 4, "response_format": "pcm" });
        let answer = real.api().post("/v1/audio/speech", &with(fields, &asked));
        assert_eq!(answer.headers()["x-sample-rate"], rate.to_string());
        let streamed = bytes(answer);
        assert!(streamed == own, "{model}: {} and {} bytes", streamed.len(), own.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_tell_their_fields_voices_and_languages() {
    let real = Real::start().await;
    let [server, models] = ["/v1/server", "/v1/models"].map(|path| body(real.api().get(path)));
    let of = |id: &str| {
        let all = server["models"].as_array().expect("models");
        all.iter().find(|model| model["id"] == id).unwrap_or_else(|| panic!("{id}")).clone()
    };
    let has = |id: &str, field: &str| {
        of(id)["speech"]["fields"].as_array().expect("fields").contains(&json!(field))
    };
    assert!(has("dia2-1b", "speaker_1") && has("dia2-1b", "words_2"));
    assert!(has("dia2-1b", "voice") && !has("dia2-1b", "instruct"));
    assert!(has("magpie-357m", "language") && !has("magpie-357m", "reference"));
    assert!(has("tiny-speech", "instruct") && !has("tiny-speech", "cfg_scale"));
    assert_eq!(of("magpie-357m")["speech"]["sample_rate"], 22_050);
    assert_eq!(of("dia2-1b")["speech"]["can_append"], true);
    // Magpie TTS finds out no language; the others do, or have none.
    assert_eq!(of("magpie-357m")["speech"]["default_language"], "en");
    for other in ["dia2-1b", "tiny-speech"] {
        assert_eq!(of(other)["speech"].get("default_language"), None, "{other}");
    }
    let languages = of("magpie-357m")["supports"].as_array().expect("languages").len();
    assert_eq!(languages, 7, "of the tokenizers of the tiny archive");
    let voices = server["voices"].as_array().expect("voices").iter();
    let of_magpie = voices.filter(|voice| voice["model"] == "magpie-357m").count();
    assert_eq!(of_magpie, 5);
    let ids = models["data"].as_array().expect("models").iter().map(|model| model["id"].clone());
    assert!(ids.into_iter().any(|id| id == "magpie-357m"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_field_voice_or_model_is_refused_by_name() {
    let real = Real::start().await;
    let id = real.send(recording(900.0).0);
    for (request, status, code, words) in [
        (
            json!({ "model": "dia2-1b", "reference": id }),
            400,
            "unknown_key",
            "takes no `reference`",
        ),
        (json!({ "model": "dia2-1b", "voice": "x" }), 404, "voice_not_found", "`x`"),
        (json!({ "model": "dia2-1b", "top_p": 0.5 }), 400, "unknown_key", "top_p"),
        (json!({ "model": "magpie-357m", "voice": "Nobody" }), 404, "voice_not_found", "Nobody"),
        (json!({ "model": "magpie-357m", "language": "xx" }), 400, "bad_value", "xx"),
        (json!({ "model": "magpie-357m", "instruct": "x" }), 400, "unknown_key", "instruct"),
        (
            json!({ "model": "magpie-357m", "topk": 5, "top_k": 6 }),
            400,
            "repeated_key",
            "`topk` 5 and `top_k` 6",
        ),
        (json!({ "model": "magpie-357m", "text": " " }), 400, "bad_value", "nothing to say"),
        (json!({ "model": "tiny-speech", "text": " " }), 400, "bad_value", "nothing to say"),
        (json!({ "model": "dia2-1b", "text": "[S1]" }), 400, "bad_value", "nothing to say"),
        (json!({ "model": "tiny-speech", "voice": "Nobody" }), 400, "bad_value", "Nobody"),
        (json!({ "model": "tiny-speech", "cfg_scale": 2 }), 400, "unknown_key", "cfg_scale"),
        (json!({ "model": "tiny-speech", "append": true }), 400, "bad_value", "while it speaks"),
        (
            json!({ "model": "tiny-speech", "timestamps": "srt" }),
            400,
            "bad_value",
            "times of words",
        ),
        (json!({ "model": "dia2-3b" }), 404, "model_not_found", "dia2-3b"),
        (json!({ "model": "dia2-1b", "cfg_scale": 0 }), 400, "out_of_range", "cfg_scale"),
        (json!({ "model": "dia2-1b", "cfg_scale": "x" }), 400, "bad_value", "invalid type"),
        (json!({ "model": "dia2-1b", "chunk_frames": 0 }), 400, "bad_value", "chunk_frames"),
        (json!({ "model": "dia2-1b", "timestamps": "doc" }), 400, "bad_value", "timestamps"),
        (json!({ "model": "dia2-1b", "words_1": [] }), 400, "bad_value", "no words"),
        (json!({ "model": "dia2-1b", "snapshot": true }), 400, "conflict", "speaker_1"),
        (
            json!({ "model": "dia2-1b", "speaker_1": "/etc/passwd" }),
            404,
            "file_not_found",
            "speaker_1",
        ),
        (json!({ "model": "dia2-1b", "text": "<break time=\"1,5s\"/>" }), 400, "bad_value", "1,5s"),
    ] {
        let sent = with(json!({ "text": "hello" }), &request);
        let answer = real.api().post("/v1/jobs", &json!({ "kind": "speak", "request": sent }));
        let (found, error) = (answer.status().as_u16(), body(answer)["error"].clone());
        assert_eq!((found, &error["code"]), (status, &json!(code)), "{request}: {error:#}");
        assert!(error.to_string().contains(words), "{request}: {error:#}");
    }
}

/// Words of a script are a result. A recording without words is refused, with them it speaks as the command
/// line does.
#[tokio::test(flavor = "multi_thread")]
async fn row_13_recordings_with_words_give_a_dialogue_their_voices() {
    let real = Real::start().await;
    let (sound, words) = recording(900.0);
    let id = real.send(sound.clone());
    let text_of_words = real.send(words.to_string().into_bytes());
    let mut request = json!({
        "model": "dia2-1b", "text": SCRIPT, "seed": 4, "max_steps": 30, "speaker_1": id,
    });
    let refused = real.job(request.clone());
    assert_eq!(refused["error"]["code"], "bad_value", "{refused:#}");
    let path = real.folder.path().join("me.wav");
    fs::write(&path, sound).expect("written");
    let fields = json!({ "speaker_1": path, "words_1": words, "seed": 4, "max_steps": 30 });
    let own = real.own("dia2-1b", SCRIPT, fields);
    request["timestamps"] = "srt".into();
    // Once as the words, once as their file: the second takes the codes from memory.
    for words in [words, text_of_words] {
        request["words_1"] = words;
        let job = real.job(request.clone());
        assert_eq!(job["state"], "done", "{job:#}");
        assert!(real.output(&job, "1.wav")[44..] == own, "another sound");
        let json = real.output(&job, "1.words.json");
        let found: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(found[0]["text"], "hello", "{found:#}");
        let srt = String::from_utf8(real.output(&job, "1.words.srt")).expect("text");
        assert!(srt.starts_with("1\n00:00:0"), "{srt}");
    }
}

/// Rows 20, 32: the greeting, samples, the end. Text that arrives letter by letter is spoken as the whole.
#[tokio::test(flavor = "multi_thread")]
async fn row_23_text_that_arrives_while_it_is_spoken_is_spoken_as_the_whole() {
    let real = Real::start().await;
    let request = json!({ "model": "dia2-1b", "text": SCRIPT, "seed": 4, "max_steps": 60 });
    let job = real.job(request);
    let whole = real.output(&job, "1.wav")[44..].to_vec();
    let mut socket = Socket::at(&real.running, "/v1/realtime").await;
    let (ready, _) = socket.heard().await;
    assert_eq!((&ready["event"], &ready["sample_rate"]), (&json!("ready"), &json!(24_000)));
    assert!(ready["version"].is_string() && ready["model"] == "dia2-1b", "{ready}");
    for letter in SCRIPT.chars() {
        socket.send(json!({ "type": "append", "text": letter, "seed": 4, "max_steps": 60 })).await;
    }
    socket.send(json!({ "type": "end" })).await;
    let (job, _) = socket.heard().await;
    assert_eq!((&job["event"], &job["sample_rate"]), (&json!("job"), &json!(24_000)), "{job}");
    let (done, heard) = socket.heard().await;
    assert_eq!(done["event"], "done", "{done}");
    assert!(done["chunks"].as_u64() > Some(0));
    assert!(heard == whole, "{} and {} bytes", heard.len(), whole.len());
    // Another text on the same connection, whole.
    let text = json!({ "type": "tts", "text": SCRIPT, "seed": 4, "max_steps": 60 });
    let (done, heard) = socket.spoken(with(text, &json!({ "chunk_frames": 3 }))).await;
    assert!(heard.concat() == whole, "{done}");
}

/// Rows 17 to 19, 22 and 26: the state after recordings is read once, said to be there, and restored: the
/// second text with a seed is the first one.
#[tokio::test(flavor = "multi_thread")]
async fn row_22_a_voice_is_read_once_and_every_text_begins_from_its_state() {
    let real = Real::start().await;
    let (sound, words) = recording(900.0);
    let (other, _) = recording(1700.0);
    let mut socket = Socket::ready(&real.running, "/v1/realtime?model=dia2-1b").await;
    socket.send(json!({ "type": "ping" })).await;
    assert_eq!(socket.heard().await.0["event"], "pong");
    socket.send(json!({ "type": "set_voice", "speaker_1": real.send(sound) })).await;
    let (error, _) = socket.heard().await;
    assert_eq!(error["error"]["param"], "words_1", "{error}");
    let speaker = real.send(recording(900.0).0);
    let voice = json!({ "type": "set_voice", "speaker_1": speaker, "words_1": words });
    let both = base64(&other);
    let both = json!({
        "type": "set_voice", "speaker_1": speaker, "words_1": words,
        "speaker_2": both, "format_2": ".wav", "words_2": words,
    });
    let mut all = Vec::new();
    for voice in [&voice, &both, &voice] {
        let ready = socket.voiced(voice.clone()).await;
        assert_eq!(ready["speaker_1"], true);
        assert_eq!(ready["speaker_2"], voice["speaker_2"].is_string());
        for text in ["[S1] hello there", "[S2] no", "[S1] hello there"] {
            let text = json!({ "type": "tts", "text": text, "seed": 4, "max_steps": 40 });
            let heard = socket.spoken(text).await.1.concat();
            assert!(heard.len() > 1920 && heard.len().is_multiple_of(3840), "{}", heard.len());
            all.push(heard);
        }
    }
    let [a, b, again, c, .., last] = &all[..] else { panic!("nine texts") };
    assert!(a == again && a == last, "the state is restored");
    assert!(a != b && a != c, "another text, another voice");
    // Without its voice the model makes one up.
    socket.send(json!({ "type": "set_voice", "clear": true })).await;
    let (ready, _) = socket.heard().await;
    assert_eq!((&ready["event"], &ready["speaker_1"]), (&json!("voice_ready"), &json!(false)));
    let text = json!({ "type": "tts", "text": "[S1] hello there", "seed": 4, "max_steps": 40 });
    assert!(socket.spoken(text).await.1.concat() != *a, "no voice is left");
    socket.send(json!({ "type": "close" })).await;
    assert_eq!(socket.heard().await.0, Value::Null);
}

/// Row 21: wrong settings are an error with a word, and the connection stays open.
#[tokio::test(flavor = "multi_thread")]
async fn row_21_nonsense_is_an_error_and_the_next_text_is_spoken() {
    let real = Real::start().await;
    let mut socket = Socket::ready(&real.running, "/v1/realtime").await;
    for (nonsense, code) in [
        (json!({ "type": "sing" }), "bad_message"),
        (json!({ "type": "tts", "text": "hello", "temperature": -1 }), "out_of_range"),
        (json!({ "type": "tts", "text": "hello", "instruct": "x" }), "unknown_key"),
        (json!({ "type": "tts", "text": "hello", "voice": "x" }), "voice_not_found"),
        (json!({ "type": "tts", "text": "x".repeat(70_000) }), "too_long"),
        (
            json!({ "type": "set_voice", "speaker_2": "AAAA", "words_2": recording(1.0).1 }),
            "conflict",
        ),
    ] {
        socket.send(nonsense.clone()).await;
        let (mut event, _) = socket.heard().await;
        if event["event"] == "warming" {
            event = socket.heard().await.0;
        }
        assert_eq!(event["error"]["code"], code, "{nonsense:.80}: {event}");
    }
    let text = json!({ "type": "tts", "text": "[S1] no", "seed": 1, "max_steps": 30 });
    socket.spoken(text).await;
    let other = Socket::at(&real.running, "/v1/realtime?model=magpie-357m").await.heard().await.0;
    assert_eq!(other["sample_rate"], 22_050, "{other}");
}

/// Rows 1 and 19: a voice that `acestep voice make` kept begins every text.
#[tokio::test(flavor = "multi_thread")]
async fn row_19_a_kept_voice_of_a_dialogue_speaks_as_on_the_command_line() {
    let real = Real::start().await;
    let (sound, words) = recording(900.0);
    let path = real.folder.path().join("me.wav");
    fs::write(&path, sound).expect("written");
    let fields = json!({ "speaker_1": path, "words_1": words });
    let fields = fields.as_object().expect("an object").clone();
    let model = speech::open(Some("dia2-1b"), &mut Fields::new(), None, &real.layout);
    let model = model.expect("a model");
    let ready =
        model.prepare_voice(fields, ENGINE, &Unobserved, &mut Vec::new()).expect("recordings");
    let kept = ready.keep(ENGINE, &Unobserved).expect("a voice");
    real.voices.create().expect("a folder");
    kept.write(&real.voices.path("both").expect("a name"), Existing::Keep).expect("written");
    let listed = body(real.api().get("/v1/audio/voices"));
    let listed = listed["voices"].as_array().expect("voices").clone();
    let both = listed.iter().find(|voice| voice["id"] == "both").expect("the voice is listed");
    assert_eq!((&both["model"], &both["is_kept"]), (&json!("dia2-1b"), &json!(true)));
    let text = "[S1] hello there";
    let own = real.own("dia2-1b", text, json!({ "voice": "both", "seed": 4, "max_steps": 40 }));
    let request = json!({ "text": text, "voice": "both", "seed": 4, "max_steps": 40 });
    for time in ["first", "from memory"] {
        let job = real.job(request.clone());
        assert_eq!(job["resolved"]["voice"], "both", "{job:#}");
        assert!(real.output(&job, "1.wav")[44..] == own, "{time}");
    }
    // The address names it for clients that cannot.
    let mut socket = Socket::ready(&real.running, "/v1/realtime?voice=both").await;
    let text = json!({ "type": "tts", "text": text, "seed": 4, "max_steps": 40 });
    assert!(socket.spoken(text).await.1.concat() == own, "the voice of the address");
}
