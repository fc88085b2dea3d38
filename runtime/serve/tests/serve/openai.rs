//! The API of OpenAI's clients.

use std::io::{BufRead as _, BufReader, Read as _};

use acestep_engine::Format;
use serde_json::{Value, json};

use crate::web::{body, bytes, code, job_of, param, served, with};

fn default_type() -> &'static str {
    if Format::Mp3.require().is_ok() { "audio/mpeg" } else { "audio/wav" }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_and_voices_are_listed_in_every_shape() {
    let api = served().await;
    for list in ["/v1/models", "/api/v1/models"] {
        let list = body(api.get(list));
        assert_eq!((&list["object"], &list["data"][0]["id"]), (&json!("list"), &json!("tiny")));
        assert_eq!(list["data"][0]["object"], "model");
    }
    assert_eq!(body(api.get("/v1/models/tiny"))["id"], "tiny");
    assert_eq!(body(api.get("/v1/models/acestep/tiny"))["id"], "tiny");
    assert_eq!(code(api.get("/v1/models/gpt-4o")), (404, json!("model_not_found")));
    let voices = body(api.get("/v1/audio/voices"));
    assert_eq!(voices["voices"][0]["name"], "vivian");
    let models = body(api.get("/v1/audio/models"));
    let both = ["tiny-speech", "tiny-talk"].map(|id| json!({ "id": id, "name": id }));
    assert_eq!(models["models"], json!(both));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_song_by_one_call_is_a_file_with_the_id_of_its_job() {
    let api = served().await;
    for path in ["/v1/audio/generations", "/v1/audio/music", "/v1/audio/music/generations"] {
        let request = json!({
            "model": "acestep/tiny", "prompt": "rain", "steps": 4, "cfg": 1.0, "duration": 10,
            "response_format": "wav",
        });
        let answer = api.post(path, &request);
        assert_eq!((answer.status().as_u16(), path), (200, path));
        assert_eq!(answer.headers()["content-type"], "audio/wav");
        let id = job_of(&answer);
        assert_eq!(&bytes(answer)[..4], b"RIFF");
        let job = api.job(&id);
        assert_eq!(json!([job["state"], job["request"]["inference_steps"]]), json!(["done", 4]));
    }
    let answer = api.form("/v1/audio/generations", &[("prompt", "rain")], &[]);
    assert_eq!(answer.headers()["content-type"], default_type());
    let flac = json!({ "prompt": "rain", "response_format": "flac", "stream": true });
    let answer = api.post("/v1/audio/generations", &flac);
    assert_eq!(&bytes(answer)[..4], b"fLaC");
    // A preview is a stream of unknown length; who asks for no stream gets the file's samples.
    for is_streamed in [true, false] {
        let request = json!({ "prompt": "heard", "response_format": "pcm", "duration": 2,
            "stream": is_streamed });
        let answer = api.post("/v1/audio/generations", &request);
        let header = |name: &str| answer.headers()[name].to_str().expect("ASCII").to_owned();
        let of = ["content-type", "x-sample-rate", "x-channels"].map(header);
        assert_eq!(of, ["audio/pcm", "44100", "2"], "{is_streamed}");
        assert_eq!(bytes(answer).len(), 2 * 192_000, "{is_streamed}");
    }
    let request = json!({ "prompt": "heard", "response_format": "wav", "stream": true });
    let sound = bytes(api.post("/v1/audio/generations", &request));
    assert_eq!((&sound[40..44], sound.len()), (&b"\xff\xff\xff\xff"[..], 44 + 192_000));
    let request = json!({ "prompt": "heard", "response_format": "wav24", "stream": true });
    let sound = bytes(api.post("/v1/audio/generations", &request));
    assert!((288_000..288_200).contains(&sound.len()), "three bytes a sample: {}", sound.len());
    // Without a preview the finished sound is the stream.
    for (format, begin) in [("wav", &b"RIFF"[..]), ("pcm", &[0, 0][..])] {
        let request = json!({ "prompt": "rain", "response_format": format, "stream": true });
        let sound = bytes(api.post("/v1/audio/generations", &request));
        assert_eq!(&sound[..begin.len()], begin, "{format}");
        assert!(sound.len() >= 192_000, "{format}: {}", sound.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_song_that_cannot_be_made_has_a_status_and_a_reason() {
    let api = served().await;
    let send = |request: Value| api.post("/v1/audio/generations", &request);
    let address = "http://127.0.0.1/x.wav";
    for (request, status, word) in [
        (json!({ "prompt": "rain", "response_format": "aac" }), 400, "bad_format"),
        (
            json!({ "prompt": "rain", "response_format": "wav", "audio_format": "flac" }),
            400,
            "repeated_key",
        ),
        (json!({ "prompt": "rain", "model": "suno" }), 404, "model_not_found"),
        (json!({ "prompt": "fail" }), 500, "failed"),
        (json!({ "prompt": "rain", "n": 2 }), 400, "out_of_range"),
        (json!([1]), 400, "bad_json"),
        (json!({ "prompt": "x", "ref_audio": address }), 400, "bad_value"),
    ] {
        assert_eq!(code(send(request.clone())), (status, json!(word)), "{request}");
    }
    let failed = send(json!({ "prompt": "fail" }));
    assert!(failed.headers().contains_key("x-job-id"), "the job can be looked up");
    if Format::Mp3.require().is_err() {
        let mp3 = send(json!({ "prompt": "rain", "response_format": "mp3" }));
        assert_eq!(mp3.status(), 400);
        assert!(body(mp3)["error"]["hint"].to_string().contains("wav16"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn speech_comes_while_it_is_made_and_as_a_file() {
    let api = served().await;
    let send = |more: Value| {
        let request = json!({ "model": "tiny-speech", "input": "hello", "voice": "vivian" });
        api.post("/v1/audio/speech", &with(request, &more))
    };
    let answer = send(json!({ "response_format": "pcm" }));
    assert_eq!(answer.headers()["content-type"], "audio/pcm");
    assert_eq!(answer.headers()["x-sample-rate"], "24000");
    assert!(answer.headers().contains_key("x-job-id"));
    assert_eq!(bytes(answer).len(), 48_000);
    let answer = send(json!({ "response_format": "wav", "voice": { "id": "me" } }));
    let sound = bytes(answer);
    assert_eq!((&sound[..4], sound.len()), (&b"RIFF"[..], 48_044));
    // Samples on their way have 16 bits, so the whole file is sent.
    for (format, bits) in [("wav24", 24), ("wav32", 32)] {
        let sound = bytes(send(json!({ "response_format": format })));
        let size: usize = 24_000 * bits / 8;
        assert_eq!(&sound[..4], b"RIFF");
        assert!((size..size + 200).contains(&sound.len()), "{format}: {}", sound.len());
    }
    let answer = send(json!({ "response_format": "flac", "speed": 1.0, "seed": 5 }));
    assert_eq!(&bytes(answer)[..4], b"fLaC");
    assert_eq!(send(json!({})).headers()["content-type"], default_type());
    // The first samples come while the job waits in its middle.
    let mut answer = send(json!({ "input": "gate", "response_format": "pcm" }));
    let mut first = [0; 4800];
    answer.body_mut().as_reader().read_exact(&mut first).expect("sound");
    assert_eq!(api.job(&job_of(&answer))["state"], "running");
    api.open_gate();
    assert_eq!(bytes(answer).len(), 48_000 - first.len());
    let events = send(json!({ "response_format": "pcm", "stream_format": "sse" }));
    let Value::String(events) = body(events) else { panic!("no events") };
    let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
    let data: Vec<Value> = data.map(|text| serde_json::from_str(text).expect("JSON")).collect();
    assert_eq!(data[0]["type"], "speech.audio.delta");
    assert_eq!(data.last().expect("events")["type"], "speech.audio.done");
}

#[tokio::test(flavor = "multi_thread")]
async fn speech_that_cannot_be_made_has_a_reason_for_each_field() {
    let api = served().await;
    let refused = |more: Value| {
        param(api.post("/v1/audio/speech", &with(json!({ "input": "hello" }), &more)))
    };
    for (more, param) in [
        (json!({ "input": "" }), "input"),
        (json!({ "input": "x".repeat(4097) }), "input"),
        (json!({ "speed": 1.5 }), "speed"),
        (json!({ "voice": "alloy" }), "voice"),
        (json!({ "response_format": "aac" }), "response_format"),
        (json!({ "stream_format": "ws" }), "stream_format"),
        (json!({ "task_type": "Sing" }), "task_type"),
        (json!({ "ref_audio": "https://example.org/x.wav" }), "ref_audio"),
        (json!({ "ref_audio": "/etc/passwd" }), "ref_audio"),
        (json!({ "ref_audio": "data:audio/wav;base64,#" }), "ref_audio"),
        (json!({ "max_new_tokens": 1.5 }), "max_new_tokens"),
        (json!({ "instructions": "calm", "instruct": "loud" }), "instruct"),
        (json!({ "response_format": "wav", "audio_format": "flac" }), "audio_format"),
    ] {
        assert_eq!(refused(more.clone()), (400, json!(param)), "{more}");
    }
    let given = json!({
        "input": "hello", "ref_audio": "data:audio/wav;base64,UklGRg==", "ref_text": "hi",
        "language": "English", "task_type": "Base", "instructions": "calm", "new": 1,
        "response_format": "wav", "voice": "alloy",
    });
    let answer = api.post("/v1/audio/speech", &given);
    let job = api.job(&job_of(&answer));
    let request = &job["request"];
    let words = json!([request["transcript"], request["language"], request["instruct"]]);
    assert_eq!(words, json!(["hi", "English", "calm"]));
    assert_eq!(request["reference"].as_str().map(str::len), Some(36));
    assert_eq!(job["notices"][1], "`new` is not read");
    let given = json!({
        "model": "tiny-talk", "input": "hello", "phonemes": "12", "cfg_scale": "2",
        "response_format": "wav",
    });
    let job = api.job(&job_of(&api.post("/v1/audio/speech", &given)));
    let request = &job["request"];
    assert_eq!(json!([request["phonemes"], request["cfg_scale"]]), json!(["12", 2]));
    // A kept voice speaks with its model.
    let given = json!({ "input": "hello", "voice": "duo", "response_format": "wav" });
    let job = api.job(&job_of(&api.post("/v1/audio/speech", &given)));
    assert_eq!(job["request"]["model"], "tiny-talk");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_answers_with_all_songs() {
    let api = served().await;
    let url = "/v1/chat/completions";
    let chat = json!({
        "model": "acestep/tiny", "batch_size": 2, "temperature": 0.8,
        "messages": [{ "role": "user", "content": "<prompt>rain</prompt><lyrics>la</lyrics>" }],
        "audio_config": { "duration": 10, "format": "wav", "bpm": 90, "bmp": 80 },
        "guidance": 9, "user": "ann",
    });
    let answer = body(api.post(url, &chat));
    assert_eq!(answer["object"], "chat.completion");
    let message = &answer["choices"][0]["message"];
    let songs = message["audio"].as_array().expect("songs");
    assert_eq!(songs.len(), 2);
    let song = songs[1]["audio_url"]["url"].as_str().expect("an address");
    let song = song.strip_prefix("data:audio/wav;base64,").expect("base64");
    let song = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, song);
    let song = song.expect("base64");
    let size = u32::from_le_bytes(song[4..8].try_into().expect("four bytes"));
    assert_eq!((&song[..4], song.len()), (&b"RIFF"[..], 8 + size as usize));
    let words = message["content"].to_string();
    for told in ["**Caption:** rain", "`guidance` is not read", "`audio_config.bmp` is"] {
        assert!(words.contains(told), "{told}: {words}");
    }
    assert!(!words.contains("`user`"), "{words}");
    for (more, is_said) in
        [(json!({ "lyrics": "oh", "sample_mode": true }), true), (json!({ "lyrics": "la" }), false)]
    {
        let answer = body(api.post(url, &with(chat.clone(), &more)));
        let words = answer["choices"][0]["message"]["content"].to_string();
        for told in ["the lyrics in `messages` are not read", "`sample_mode` is not read"] {
            assert_eq!(words.contains(told), is_said, "{told}: {words}");
        }
    }
    let empty = api.post(url, &json!({ "messages": [{ "role": "user", "content": "" }] }));
    assert_eq!(empty.status(), 400);
    let wish = json!([{ "role": "user", "content": "rain" }]);
    for (model, is_wish) in [("tiny", true), ("tiny-silent", false)] {
        let answer = api.post(url, &json!({ "model": model, "messages": wish }));
        let id = answer.headers()["x-job-id"].to_str().expect("text").to_owned();
        let request = api.job(&id)["request"].clone();
        let wanted = if is_wish { json!(["inspire", null]) } else { json!([null, false]) };
        assert_eq!(json!([request["lm_mode"], request["thinking"]]), wanted, "{model}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_chat_ends_with_the_songs_or_with_the_reason() {
    let api = served().await;
    let chunks = |words: &str| {
        let words = json!([{ "role": "user", "content": words }]);
        let chat = json!({ "stream": true, "messages": words });
        let mut answer = api.post("/v1/chat/completions", &chat);
        assert!(answer.headers().contains_key("x-job-id"));
        let mut data = Vec::new();
        for line in BufReader::new(answer.body_mut().as_reader()).lines() {
            let line = line.expect("a line");
            let Some(text) = line.strip_prefix("data: ") else { continue };
            // After the first sign of life the job may end.
            if data.len() == 1 {
                api.open_gate();
            }
            data.push(text.to_owned());
        }
        assert_eq!(data.last().map(String::as_str), Some("[DONE]"));
        let chunks = data[..data.len() - 1].iter();
        chunks.map(|text| serde_json::from_str(text).expect("JSON")).collect::<Vec<Value>>()
    };
    let good = chunks("a song with a gate");
    assert_eq!(good[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(good[1]["choices"][0]["delta"]["content"], ".");
    let [.., sound, end] = &good[..] else { panic!("{good:?}") };
    assert_eq!(sound["choices"][0]["delta"]["audio"][0]["type"], "audio_url");
    assert_eq!(end["choices"][0]["finish_reason"], "stop");
    let bad = chunks("a song that will fail");
    let [.., why, end] = &bad[..] else { panic!("{bad:?}") };
    assert!(why["choices"][0]["delta"]["content"].to_string().contains("the caption says so"));
    assert_eq!(end["choices"][0]["finish_reason"], "error");
}
