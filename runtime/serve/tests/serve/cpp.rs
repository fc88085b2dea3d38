//! The API of acestep.cpp's server.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use crate::web::{Answer, Api, body, bytes, served, until_some};

/// Frames of latents of a second.
const LATENTS: &[u8] = &[0; 256 * 25];

fn id(answer: Answer) -> String {
    let status = answer.status();
    let answer = body(answer);
    answer["id"].as_str().unwrap_or_else(|| panic!("{status} {answer}")).to_owned()
}

/// Asks until a job ended.
fn ended(api: &Api, id: &str) -> Value {
    let state = || body(api.get(&format!("/job?id={id}")));
    until_some(|| Some(state()).filter(|state| state["status"] != "running"))
}

/// Returns kinds and contents of the parts of a result.
fn parts(api: &Api, id: &str) -> Vec<(String, Vec<u8>)> {
    assert_eq!(ended(api, id)["status"], "done");
    let answer = api.get(&format!("/job?id={id}&result=1"));
    assert_eq!(answer.headers()["content-type"], "multipart/mixed; boundary=ace-batch-boundary");
    let all = bytes(answer);
    let mark = b"--ace-batch-boundary";
    let places: Vec<usize> =
        (0..all.len() - mark.len()).filter(|&at| all[at..].starts_with(mark)).collect();
    assert!(all.ends_with(b"--ace-batch-boundary--\r\n"));
    places
        .windows(2)
        .map(|pair| {
            let part = &all[pair[0] + mark.len() + 2..pair[1] - 2];
            let split = part.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
            let head = String::from_utf8_lossy(&part[..split]).into_owned();
            let kind = head.lines().next().expect("a kind").replace("Content-Type: ", "");
            (kind, part[split + 4..].to_vec())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_written_as_often_as_asked() {
    let api = served().await;
    let request = json!({
        "caption": "rain", "lm_batch_size": 2, "synth_batch_size": 3, "lm_seed": 5,
        "synth_model": "tiny", "bpm": 0, "track": "",
    });
    let id = id(api.post("/lm", &request));
    assert_eq!(ended(&api, &id)["status"], "done");
    let answer = api.get(&format!("/job?id={id}&result=1"));
    assert_eq!(answer.headers()["content-type"], "application/json");
    let list = body(answer);
    assert_eq!(list.as_array().map(Vec::len), Some(2));
    assert_eq!(list[0]["caption"], "rain, in more words");
    assert_eq!((&list[0]["audio_codes"], &list[0]["bpm"]), (&json!("17,4,42"), &json!(100)));
    assert_eq!((&list[0]["lm_seed"], &list[1]["lm_seed"]), (&json!(5), &json!(6)));
    assert_eq!((&list[0]["synth_model"], &list[0]["mode"]), (&json!("tiny"), &Value::Null));
    // Without a seed of its own the language model draws one: `seed` belongs to the songs.
    let inspire = json!({
        "caption": "rain", "lm_mode": "inspire", "seed": 7, "lm_seed": -1, "lm_batch_size": 2,
    });
    let id = self::id(api.post("/lm", &inspire));
    ended(&api, &id);
    let list = body(api.get(&format!("/job?id={id}&result=1")));
    assert_eq!(list[0]["audio_codes"], Value::Null);
    let seeds = [0, 1].map(|text: usize| list[text]["lm_seed"].as_u64().expect("a seed"));
    assert_eq!((seeds[1] - seeds[0], &list[1]["seed"]), (1, &json!(7)));
    for request in [
        json!({ "caption": "" }),
        json!({ "caption": "x", "lm_mode": "dance" }),
        json!({ "caption": "x", "lm_batch_size": 100 }),
        json!([{ "caption": "x" }, { "caption": "y" }]),
    ] {
        let answer = api.post("/lm", &request);
        assert_eq!(answer.status(), 400, "{request}");
        assert!(body(answer)["error"].is_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn songs_come_with_their_latents_for_one_request_and_for_an_array() {
    let api = served().await;
    let song = |caption: &str, batch: u32| {
        json!({
            "caption": caption, "synth_batch_size": batch, "output_format": "wav16",
            "lm_batch_size": 4, "lm_mode": "generate", "peak_clip": 10, "adapter_scale": 1.0,
        })
    };
    let one = id(api.post("/synth", &song("rain", 2)));
    let list = parts(&api, &one);
    let kinds: Vec<&str> = list.iter().map(|(kind, _)| kind.as_str()).collect();
    let pair = ["audio/wav", "application/octet-stream"];
    assert_eq!(kinds, [pair, pair].concat());
    assert_eq!((&list[0].1[..4], list[1].1.len()), (&b"RIFF"[..], LATENTS.len()));
    let several = json!([song("rain", 1), song("snow", 2)]);
    let array = id(api.post("/synth", &several));
    assert_eq!(parts(&api, &array).len(), 6);
    // A job makes eight songs at most; the ninth has its own.
    let mut nine = song("rain", 9);
    (nine["seed"], nine["repainting_start"]) = (json!(5), json!(-2));
    let nine = id(api.post("/synth", &nine));
    assert_eq!(parts(&api, &nine).len(), 18);
    let last = nine.split('.').next_back().expect("a job");
    let last = body(api.get(&format!("/v1/jobs/{last}")))["request"].clone();
    assert_eq!(json!([last["batch_size"], last["seed"]]), json!([1, 13]));
    assert_eq!(last["repainting_end"], 0);
    // As the page of acestep.cpp sends a batch with a source.
    let text = several.to_string();
    let files = [("request", text.as_bytes()), ("src_latents", LATENTS), ("audio", b"sound")];
    let sent = id(api.form("/synth", &[], &files));
    assert_eq!(parts(&api, &sent).len(), 6);
    let job = sent.split('.').next().expect("a job");
    let request = body(api.get(&format!("/v1/jobs/{job}")))["request"].clone();
    assert!(request["src_latents"].is_string() && request["src_audio"].is_null(), "{request}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_cannot_be_run_is_refused_and_leaves_no_job() {
    let api = served().await;
    for request in [
        json!({ "caption": "" }),
        json!([]),
        json!([{ "caption": "x", "synth_batch_size": 5 }, { "caption": "y", "synth_batch_size": 5 }]),
        json!({ "caption": "x", "output_format": "aac" }),
        json!({ "caption": "x", "output_format": "wav", "audio_format": "mp3" }),
        json!({ "caption": "x", "synth_batch_size": 1, "batch_size": 2 }),
        json!({ "caption": "x", "synth_model": "acestep-v9" }),
        json!({ "caption": "x", "src_audio": "/etc/passwd" }),
    ] {
        let answer = api.post("/synth", &request);
        assert_eq!(answer.status(), 400, "{request}");
        assert!(body(answer)["error"].is_string());
    }
    let second = json!([{ "caption": "slow" }, { "caption": "x", "solver": 7, "captoin": "y" }]);
    assert_eq!(api.post("/synth", &second).status(), 400);
    let jobs = body(api.get("/v1/jobs"))["jobs"].clone();
    let goes_on = |job: &Value| job["state"] == "queued" || job["state"] == "running";
    assert!(!jobs.as_array().expect("jobs").iter().any(goes_on), "{jobs}");
    let request = [("request", r#"{"caption":"x"}"#)];
    let odd = api.form("/synth", &request, &[("src_latents", b"odd")]);
    assert_eq!(odd.status(), 400);
    let long = vec![0; 256 * 15_001];
    let long = api.form("/synth", &request, &[("src_latents", &long)]);
    assert_eq!(long.status(), 413);
    assert_eq!(api.form("/synth", &[], &[("audio", b"x")]).status(), 400);
    let foreign = api.form("/synth", &request, &[("sound", b"x")]);
    assert_eq!(foreign.status(), 400);
    let two: [(&str, &[u8]); 2] = [("audio", b"one"), ("audio", b"two")];
    assert_eq!(api.form("/synth", &request, &two).status(), 400);
    for wrong in
        [r#"{"output_format":5}"#, r#"{"synth_model":7}"#, r#"{"peak_clip":0,"peak_clip":1}"#]
    {
        let files = [("src_latents", LATENTS)];
        let answer = api.form("/vae", &[("request", wrong)], &files);
        assert_eq!(answer.status(), 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_song_is_described_and_sound_is_converted_both_ways() {
    let api = served().await;
    let request = [("request", r#"{"lm_model":"tiny-lm","lm_temperature":0.3}"#)];
    let told = id(api.form("/understand", &request, &[("audio", b"sound")]));
    let list = parts(&api, &told);
    let words: Value = serde_json::from_slice(&list[0].1).expect("JSON");
    assert_eq!((&list[0].0[..], &words[0]["caption"]), ("application/json", &json!("a sine")));
    let encoded = id(api.form("/vae", &[], &[("audio", b"sound")]));
    ended(&api, &encoded);
    let answer = api.get(&format!("/job?id={encoded}&result=1"));
    assert_eq!(answer.headers()["content-type"], "application/octet-stream");
    let latents = bytes(answer);
    assert_eq!(latents.len(), LATENTS.len());
    let request = [("request", r#"{"output_format":"wav32","peak_clip":0}"#)];
    let decoded = id(api.form("/vae", &request, &[("src_latents", &latents)]));
    ended(&api, &decoded);
    let answer = api.get(&format!("/job?id={decoded}&result=1"));
    assert_eq!(answer.headers()["content-type"], "audio/wav");
    let both: [(&str, &[u8]); 2] = [("audio", b"x"), ("src_latents", LATENTS)];
    assert_eq!(api.form("/vae", &[], &both).status(), 400);
    assert_eq!(api.form("/vae", &request, &[]).status(), 400);
    assert_eq!(api.post("/vae", &json!({})).status(), 400);
    assert_eq!(api.form("/understand", &request, &[]).status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_failed_has_its_reason_and_one_that_was_cancelled_says_so() {
    let api = served().await;
    let failing = json!({ "caption": "fail", "output_format": "wav16" });
    let failed = id(api.post("/synth", &failing));
    let state = ended(&api, &failed);
    assert_eq!(json!([state["status"], state["error"]]), json!(["failed", "the caption says so"]));
    let slow = json!({ "caption": "long", "output_format": "wav16" });
    let slow = id(api.post("/synth", &slow));
    let early = api.get(&format!("/job?id={slow}&result=1"));
    assert_eq!(early.status(), 404);
    assert!(body(early)["error"].to_string().contains("Result not ready"));
    let cancelled = body(api.post(&format!("/job?id={slow}&cancel=1"), &json!({})));
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(api.get("/job?id=0123456789abcdef").status(), 404);
    assert_eq!(api.get("/job").status(), 400);
    // No call makes an id of jobs of two tasks.
    let words = id(api.post("/lm", &json!({ "caption": "rain" })));
    assert_eq!(api.get(&format!("/job?id={words}.{failed}")).status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_finds_its_models_and_a_log_without_captions() {
    let api = served().await;
    let props = body(api.get("/props"));
    assert_eq!(props["models"]["dit"], json!(["tiny"]));
    assert_eq!(props["models"]["lm"], json!(["tiny-lm"]));
    assert_eq!(json!([props["cli"]["max_batch"], props["default"]["seed"]]), json!([9, -1]));
    let mut log = api.get("/logs");
    assert_eq!(log.headers()["content-type"], "text/event-stream");
    let song = json!({ "caption": "secret", "output_format": "wav16" });
    let id = id(api.post("/synth", &song));
    let mut all = String::new();
    for line in BufReader::new(log.body_mut().as_reader()).lines() {
        let line = line.expect("a line");
        all += &line;
        if line.contains("done") {
            break;
        }
    }
    assert!(all.contains(&format!("data: [Server] Job {id} (generate)")), "{all}");
    assert!(!all.contains("secret"), "{all}");
}
