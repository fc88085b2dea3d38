//! The API of upstream's REST server.

use std::thread;

use serde_json::{Value, json};

use crate::web::{Api, body, bytes, keys, served, served_with, text, until_some};

fn release(api: &Api, request: &Value) -> String {
    let answer = body(api.post("/release_task", request));
    let data = &answer["data"];
    assert_eq!(json!([answer["code"], data["status"]]), json!([200, "queued"]), "{answer}");
    assert!(data["queue_position"].as_u64().is_some_and(|position| position >= 1));
    text(&data["task_id"])
}

/// Asks until a task ended; returns its state and its list.
fn ended(api: &Api, id: &str) -> (Value, Vec<Value>) {
    let ask =
        || body(api.post("/query_result", &json!({ "task_id_list": [id] })))["data"][0].clone();
    let task = until_some(|| Some(ask()).filter(|task| task["status"] != 0));
    let list = task["result"].as_str().expect("JSON as text");
    (task["status"].clone(), serde_json::from_str(list).expect("a list"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_released_asked_for_and_fetched() {
    let api = served().await;
    let song = json!({
        "prompt": "slow felt piano", "lyrics": "[inst]", "audio_duration": 30,
        "use_random_seed": false, "seed": "7,8", "batch_size": 2,
        "audio_format": "flac", "keyScale": "C major", "trackId": 1,
    });
    for api in [api.clone(), api.below("/api")] {
        let (status, songs) = ended(&api, &release(&api, &song));
        assert_eq!((status, songs.len()), (json!(1), 2));
        assert_eq!(songs[0]["seed_value"], "7,7");
        assert_eq!(songs[0]["metas"]["bpm"], 90);
        assert_eq!(
            (&songs[0]["prompt"], &songs[0]["stage"]),
            (&song["prompt"], &json!("succeeded"))
        );
        let file = songs[1]["file"].as_str().expect("an address");
        assert!(file.starts_with("/v1/audio?path="), "{file}");
        let answer = api.get(file);
        assert_eq!(answer.headers()["content-type"], "audio/flac");
        assert_eq!(&bytes(answer)[..4], b"fLaC");
        let beyond = api.get_with(file, "range", "bytes=99999999-");
        assert_eq!(beyond.status(), 416);
        let size = beyond.headers()["content-range"].to_str().expect("text");
        assert!(size.starts_with("bytes */"), "{size}");
        assert_eq!(body(beyond)["code"], "bad_range");
    }
    // A client may name a result as the source of another task.
    let id = release(&api, &json!({ "prompt": "x", "audio_format": "wav" }));
    let file = text(&ended(&api, &id).1[0]["file"]);
    let name = file.replace("/v1/audio?path=", "").replace("%2F", "/");
    for source in [file, name] {
        let cover = json!({ "prompt": "x", "task_type": "cover", "src_audio_path": source });
        let job = api.job(&release(&api, &cover));
        assert_eq!(job["request"]["src_audio"].as_str().map(str::len), Some(36));
    }
    let foreign = "01890000-0000-7000-8000-000000000000/1.wav";
    let cover = json!({ "prompt": "x", "task_type": "cover", "src_audio_path": foreign });
    assert_eq!(api.post("/release_task", &cover).status(), 404);
    let twice = api.get("/v1/audio?path=x&path=y");
    assert_eq!((twice.status().as_u16(), &body(twice)["code"]), (400, &json!("bad_value")));
    for path in ["/etc/passwd", "..%2F..%2Fjobs.sqlite", "", "x"] {
        let answer = api.get(&format!("/v1/audio?path={path}"));
        assert_eq!((answer.status().as_u16(), path), (404, path));
        assert!(body(answer)["detail"].is_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_body_is_read() {
    let api = served().await;
    let send = |kind: Option<&str>, text: &str| {
        let request = api.sending("/release_task");
        let request = match kind {
            Some(kind) => request.content_type(kind),
            None => request,
        };
        request.send(text).expect("an answer").status().as_u16()
    };
    let object = r#"{"prompt": "x", "param_obj": "{\"duration\": 20}"}"#;
    assert_eq!(send(Some("application/json"), object), 200);
    assert_eq!(send(Some("application/vnd.x+json"), object), 200);
    assert_eq!(send(None, object), 200);
    assert_eq!(send(None, "prompt=x&audio_duration=20"), 200);
    let fields = "prompt=a+slow%20song&thinking=false&batch_size=1";
    assert_eq!(send(Some("application/x-www-form-urlencoded"), fields), 200);
    assert_eq!(send(Some("application/json"), "[1]"), 400);
    assert_eq!(send(Some("application/json"), "{"), 400);
    assert_eq!(send(Some("application/xml"), "<a/>"), 415);
    let cover = [("task_type", "cover"), ("prompt", "x"), ("cover_strength", "0.5")];
    for name in ["src_audio", "ctx_audio"] {
        let answer = api.form("/release_task", &cover, &[(name, b"sound")]);
        assert_eq!(answer.status(), 200, "{}", body(answer));
    }
    let list = api.sending("/query_result").content_type("application/x-www-form-urlencoded");
    let list = list.send("task_id_list=[\"never-existed\"]").expect("an answer");
    let task = body(list)["data"][0].clone();
    assert_eq!((&task["task_id"], &task["status"]), (&json!("never-existed"), &json!(2)));
    assert!(task["result"].as_str().is_some_and(|text| text.contains("\"stage\":\"unknown\"")));
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_a_language_model_that_is_not_here_are_left_out() {
    let api = served().await;
    let asked = json!({ "prompt": "x", "use_cot_caption": true, "use_cot_metas": false });
    let request = |body: &Value| api.job(&release(&api, body))["request"].clone();
    assert_eq!(request(&asked)["use_cot_caption"], true);
    let mut silent = asked;
    silent["model"] = "tiny-silent".into();
    let job = api.job(&release(&api, &silent));
    assert_eq!(job["request"]["use_cot_caption"], Value::Null);
    assert!(job["notices"].to_string().contains("`use_cot_caption` is not read"), "{job}");
    silent["thinking"] = true.into();
    assert_eq!(request(&silent)["use_cot_caption"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_without_sound_is_at_most_1_mib() {
    let api = served().await;
    let long = "x".repeat(2 << 20);
    for path in ["release_task", "query_result", "v1/lora/load", "lm", "v1/jobs"] {
        let answer = api.post(&format!("/{path}"), &json!({ "prompt": long }));
        assert_eq!((answer.status().as_u16(), path), (413, path));
    }
    let half = &long[..600 << 10];
    let texts = [("prompt", half), ("lyrics", half)];
    assert_eq!(api.form("/release_task", &texts, &[]).status(), 413);
    // Sound as base64 is larger.
    let sound = json!({ "input": "x", "ref_audio": format!("data:audio/wav;base64,{long}") });
    assert_ne!(api.post("/v1/audio/speech", &sound).status(), 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_cannot_be_run_is_refused_with_its_detail() {
    let api = served().await;
    for request in [
        json!({ "prompt": "x", "bpm": "fast" }),
        json!({ "prompt": "x", "model": "acestep-v9" }),
        json!({ "prompt": "x", "audio_format": "aac" }),
        json!({ "prompt": "x", "src_audio_path": "/etc/passwd" }),
        json!({ "prompt": "x", "reference_audio_path": "/tmp/x.wav" }),
        json!({ "prompt": "x", "metas": { "src_audio": "/etc/passwd" } }),
    ] {
        let answer = api.post("/release_task", &request);
        assert_eq!(answer.status(), 400, "{request}");
        assert!(body(answer)["detail"].is_string());
    }
    let id = release(&api, &json!({ "prompt": "this will fail" }));
    let (status, list) = ended(&api, &id);
    assert_eq!((status, &list[0]["stage"]), (json!(2), &json!("failed")));
    assert_eq!(list[0]["error"], "the caption says so");
    for path in ["training/start", "training/status", "dataset/scan"] {
        let answer = api.post(&format!("/v1/{path}"), &json!({}));
        assert_eq!(answer.status(), 501);
        assert!(body(answer)["detail"].to_string().contains("acestep train"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_language_model_writes_and_examples_are_given() {
    let api = served().await;
    let request = json!({
        "prompt": "rain", "lyrics": "la", "temperature": 0.7,
        "param_obj": { "duration": 60, "key": "A minor" },
    });
    let answer = body(api.post("/format_input", &request));
    let data = &answer["data"];
    assert_eq!(data["caption"], "rain, in more words", "{answer}");
    assert_eq!((&data["key_scale"], &data["bpm"]), (&json!("C major"), &json!(100)));
    let wish = json!({ "query": "a song of the sea", "instrumental": "true" });
    let answer = body(api.post("/v1/create_sample", &wish));
    assert_eq!(answer["data"]["caption"], "a song of the sea, in more words");
    assert_eq!(answer["data"]["instrumental"], true);
    for path in ["/v1/create_sample", "/format_input"] {
        let answer = body(api.post(path, &json!({})));
        assert_eq!(answer["data"]["caption"], "NO USER INPUT, in more words", "{path}");
    }
    // A failure is in the envelope, with the status of success, as in upstream's server.
    let wish = api.post("/v1/create_sample", &json!({ "query": "it must fail" }));
    assert_eq!((wish.status().as_u16(), wish.headers().contains_key("x-job-id")), (200, true));
    let answer = body(wish);
    assert_eq!(json!([answer["code"], answer["error"]]), json!([500, "the caption says so"]));
    for (kind, key) in [("simple_mode", "description"), ("custom_mode", "caption")] {
        let request = json!({ "sample_type": kind });
        let answer = body(api.post("/create_random_sample", &request));
        assert!(answer["data"][key].is_string(), "{answer}");
    }
    let request = json!({ "sample_type": "other" });
    assert_eq!(api.post("/create_random_sample", &request).status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn models_numbers_and_health_have_upstreams_shapes() {
    let api = served().await;
    let version = env!("CARGO_PKG_VERSION");
    let inventory = body(api.get("/v1/model_inventory"))["data"].clone();
    assert_eq!(inventory["models"][0]["name"], "tiny");
    assert_eq!(inventory["models"][0]["supported_task_types"][0], "text2music");
    let told = json!([inventory["default_model"], inventory["llm_initialized"]]);
    assert_eq!(told, json!(["tiny", true]));
    let init = body(api.post("/v1/init", &json!({ "model": "tiny", "slot": 2 })));
    assert_eq!(json!([init["data"]["loaded_model"], init["data"]["slot"]]), json!(["tiny", 2]));
    let unknown = api.post("/v1/init", &json!({ "model": "acestep-v9" }));
    assert_eq!(unknown.status(), 400);
    ended(&api, &release(&api, &json!({ "prompt": "x" })));
    let stats = body(api.get("/v1/stats"))["data"].clone();
    assert_eq!(json!([stats["jobs"]["succeeded"], stats["queue_maxsize"]]), json!([1, 200]));
    let health = body(api.get("/health"));
    assert_eq!((&health["status"], &health["data"]["status"]), (&json!("ok"), &json!("ok")));
    assert_eq!(health["data"]["version"], version);
    assert_eq!((&health["code"], &health["error"]), (&json!(200), &json!(null)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_adapter_is_that_of_one_client_and_of_later_jobs() {
    let served = served_with(1, keys(&[("ann", "a"), ("bob", "b")]), |_| ()).await;
    let api: &Api = &served;
    let call = |key: &str, path: &str, request: Value| {
        let sent = api.sending(path).header("authorization", key).content_type("application/json");
        let answer = sent.send(request.to_string()).expect("an answer");
        (answer.status().as_u16(), body(answer))
    };
    let path = call("a", "/v1/lora/load", json!({ "lora_path": "/srv/rock.safetensors" }));
    assert_eq!(path.0, 400);
    assert_eq!(call("a", "/v1/lora/scale", json!({ "scale": 0.5 })).0, 400, "none is loaded");
    let unknown = call("a", "/v1/lora/load", json!({ "lora_path": "reggae" }));
    assert_eq!((unknown.0, &unknown.1["code"]), (400, &json!("adapter_not_found")));
    assert_eq!(call("a", "/v1/lora/load", json!({ "lora_path": "rock" })).0, 200);
    assert_eq!(call("a", "/v1/lora/scale", json!({ "scale": 0.5 })).0, 200);
    assert_eq!(call("a", "/v1/lora/scale", json!({ "scale": 2 })).0, 400);
    let adapter = |key: &str, request: Value| {
        let id = text(&call(key, "/release_task", request).1["data"]["task_id"]);
        let request = api.with_key(key).job(&id)["request"].clone();
        (request["adapter"].clone(), request["adapter_scale"].clone())
    };
    assert_eq!(adapter("a", json!({ "prompt": "x" })), (json!("rock"), json!(0.5)));
    assert_eq!(adapter("a", json!({ "prompt": "x", "adapter": "jazz" })).0, "jazz");
    assert_eq!(adapter("b", json!({ "prompt": "x" })).0, Value::Null);
    call("a", "/v1/lora/toggle", json!({ "use_lora": false }));
    assert_eq!(adapter("a", json!({ "prompt": "x" })).0, Value::Null);
    call("a", "/v1/lora/unload", json!({}));
    assert_eq!(call("a", "/v1/lora/toggle", json!({ "use_lora": true })).0, 400);
    for _ in 0..9 {
        let load = |key| call(key, "/v1/lora/load", json!({ "lora_path": "rock" })).0;
        thread::scope(|scope| ["a", "b"].map(|key| scope.spawn(move || load(key))).map(drop));
        for key in ["a", "b"] {
            assert_eq!(adapter(key, json!({ "prompt": "x" })).0, "rock");
            call(key, "/v1/lora/unload", json!({}));
        }
    }
    // Two changes at once are both made.
    for _ in 0..9 {
        call("a", "/v1/lora/load", json!({ "lora_path": "rock" }));
        let changes =
            [("toggle", json!({ "use_lora": false })), ("scale", json!({ "scale": 0.5 }))];
        thread::scope(|scope| {
            for (of, body) in changes {
                scope.spawn(move || call("a", &format!("/v1/lora/{of}"), body));
            }
        });
        call("a", "/v1/lora/toggle", json!({ "use_lora": true }));
        assert_eq!(adapter("a", json!({ "prompt": "x" })), (json!("rock"), json!(0.5)));
    }
    // A key is needed everywhere but for the health.
    for path in ["/v1/stats", "/api/v1/stats", "/props", "/v1/models", "/logs", "/job?id=1"] {
        assert_eq!((api.get(path).status().as_u16(), path), (401, path));
    }
    for path in ["/health", "/api/health"] {
        assert_eq!(api.get(path).status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_sent_again_is_the_first_one_whatever_the_default_adapter_is_now() {
    let api = served().await;
    let load = |name: &str| {
        let name = json!({ "lora_path": name });
        assert_eq!(api.post("/v1/lora/load", &name).status(), 200);
    };
    let send = |task: &str| {
        let answer = api.post_once("/release_task", "k", task);
        (answer.status().as_u16(), body(answer)["data"]["task_id"].clone())
    };
    load("rock");
    let first = send(r#"{"prompt": "rain"}"#);
    assert!(first.0 == 200 && first.1.is_string(), "{first:?}");
    load("jazz");
    assert_eq!(send(r#"{"prompt": "rain"}"#), first);
    // It is the adapter of the first one, but this time the client says so.
    assert_eq!(send(r#"{"prompt": "rain", "adapter": "rock"}"#).0, 422);
}
