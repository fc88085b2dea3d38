//! Real requests of all APIs, as clients send them.

use std::fmt;

use axum::{body::Body, extract::Request};
use serde_json::{Value, json};

/// A key that one of the servers knows.
pub(crate) const KEY: &str = "a-long-random-text";

/// A part of a form.
#[derive(Debug, Clone)]
pub(crate) struct FormPart {
    pub(crate) name: String,
    pub(crate) file: Option<String>,
    pub(crate) bytes: Vec<u8>,
}

/// A body.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    None,
    Json(Value),
    Form(Vec<FormPart>),
    Raw(Vec<u8>),
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) content: Content,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        for (name, value) in &self.headers {
            write!(f, " [{name}: {}]", String::from_utf8_lossy(value))?;
        }
        let bytes = self.bytes();
        write!(f, " {}", String::from_utf8_lossy(&bytes[..bytes.len().min(1200)]))
    }
}

impl Sample {
    pub(crate) fn new(method: &str, path: &str, content: Content) -> Self {
        let kind = match &content {
            Content::None => None,
            Content::Json(_) => Some("application/json"),
            Content::Form(_) => Some("multipart/form-data; boundary=b"),
            Content::Raw(_) => Some("application/x-www-form-urlencoded"),
        };
        let kind = kind.map(|kind| ("content-type".to_owned(), kind.into()));
        let mut headers = vec![("host".to_owned(), b"localhost".to_vec())];
        headers.extend(kind);
        headers.push(("authorization".to_owned(), format!("Bearer {KEY}").into()));
        Self { method: method.to_owned(), path: path.to_owned(), headers, content }
    }

    fn with(mut self, header: &str, value: &str) -> Self {
        self.headers.push((header.to_owned(), value.into()));
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        match &self.content {
            Content::None => Vec::new(),
            Content::Json(value) => value.to_string().into_bytes(),
            Content::Raw(bytes) => bytes.clone(),
            Content::Form(parts) => {
                let mut form = Vec::new();
                for FormPart { name, file, bytes } in parts {
                    let file = file.iter().map(|file| format!("; filename=\"{file}\""));
                    let file: String = file.collect();
                    let head = format!("form-data; name=\"{name}\"{file}\r\n\r\n");
                    form.extend(format!("--b\r\nContent-Disposition: {head}").as_bytes());
                    form.extend(bytes);
                    form.extend(b"\r\n");
                }
                form.extend(b"--b--\r\n");
                form
            }
        }
    }

    /// The request; none if it is not HTTP at all.
    pub(crate) fn request(&self) -> Option<Request> {
        let mut request = Request::builder().method(self.method.as_str()).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value.as_slice());
        }
        request.body(Body::from(self.bytes())).ok()
    }
}

pub(crate) fn get(path: &str) -> Sample {
    Sample::new("GET", path, Content::None)
}

fn delete(path: &str) -> Sample {
    Sample::new("DELETE", path, Content::None)
}

fn post(path: &str, value: Value) -> Sample {
    Sample::new("POST", path, Content::Json(value))
}

fn form(path: &str, texts: &[(&str, &str)], files: &[(&str, &[u8])]) -> Sample {
    let texts = texts.iter().map(|(name, text)| FormPart {
        name: (*name).to_owned(),
        file: None,
        bytes: text.as_bytes().to_vec(),
    });
    let files = files.iter().map(|(name, bytes)| FormPart {
        name: (*name).to_owned(),
        file: Some(format!("{name}.wav")),
        bytes: bytes.to_vec(),
    });
    Sample::new("POST", path, Content::Form(texts.chain(files).collect()))
}

/// An id of a job or a file that does not exist; mutations put known ones in its place.
pub(crate) const ID: &str = "01890000-0000-7000-8000-000000000000";
/// A sound of a few samples: mono, 8 kHz, 8 bits.
const WAV: &[u8] = b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\x08\0\0\0\x80\x90\xa0\x90\x80\x70\x60\x70";
const LATENTS: &[u8] = &[0; 256 * 25];

/// Returns all requests.
pub(crate) fn all() -> Vec<Sample> {
    let mut all = native();
    all.extend(openai());
    all.extend(upstream());
    all.extend(cpp());
    all
}

/// Returns requests with a body of JSON, each after its address in a text. `$ID` stands for the id.
fn posts(text: &str) -> Vec<Sample> {
    let text = text.replace("$ID", ID);
    let one = |text: &str| {
        let (path, body) = text.split_once(' ').expect("an address and a body");
        post(&format!("/{path}"), serde_json::from_str(body).expect("JSON"))
    };
    text.split("\n/").skip(1).map(one).collect()
}

const NATIVE: &str = r#"
/v1/jobs {"kind": "generate", "title": "a song", "priority": -3, "request": {
    "caption": "felt piano", "lyrics": "[Verse]\nla", "bpm": 90, "keyscale": "C major",
    "timesignature": "4", "duration": 2.0, "vocal_language": "en", "seed": 7,
    "inference_steps": 8, "guidance_scale": 1.0, "batch_size": 2, "audio_format": "wav16",
    "instrumental": false, "lrc": true, "score": false, "latents": true, "shift": 3.0,
    "infer_method": "ode", "task_type": "text2music"}}
/v1/jobs?wait=0.1 {"request": {"caption": "rain"}}
/v1/jobs {"kind": "generate", "request": {"caption": "rain", "task_type": "cover",
    "src_audio": "$ID", "audio_cover_strength": 0.5, "reference_audio": ["$ID"]}}
/v1/jobs {"kind": "generate", "request": {"caption": "rain", "task_type": "repaint",
    "src_latents": "$ID", "repainting_start": 0.5, "repainting_end": 1.0}}
/v1/jobs {"kind": "speak", "request": {"text": "la la", "voice": "me", "language": "en",
    "instruct": "soft", "reference": "$ID", "seed": 1}}
/v1/jobs {"kind": "understand", "request": {"audio": "$ID"}}
/v1/jobs {"kind": "compose", "request": {"caption": "rain", "mode": "plan",
    "lm_temperature": 0.8, "lm_top_k": 3, "lm_top_p": 0.9}}
/v1/jobs {"kind": "encode", "request": {"audio": "$ID"}}
/v1/jobs {"kind": "decode", "request": {"src_latents": "$ID"}}
/v1/jobs/$ID/cancel {}
/v1/jobs/$ID/retry {}
"#;

fn native() -> Vec<Sample> {
    let mut all = posts(NATIVE);
    let text = String::from_utf8_lossy(&all[0].bytes()).into_owned();
    let cover = r#"{"caption":"rain","task_type":"cover"}"#;
    let marks = json!({ "title": "x", "liked": true, "tags": ["a", "b"], "deleted": false });
    all.extend([
        form("/v1/jobs", &[("job", &text)], &[("src_audio", WAV)]),
        form("/v1/jobs", &[("request", cover)], &[("src_audio", WAV), ("reference_audio", WAV)]),
        form("/v1/files", &[], &[("file", WAV)]),
        get("/v1/jobs?state=done,failed&kind=generate&limit=3&deleted=false"),
        get(&format!("/v1/jobs?before={ID}")),
        get(&format!("/v1/jobs/{ID}?wait=0.05")),
        Sample::new("PATCH", &format!("/v1/jobs/{ID}"), Content::Json(marks)),
        delete(&format!("/v1/jobs/{ID}?forget=true")),
        delete(&format!("/v1/jobs/{ID}")),
        delete(&format!("/v1/files/{ID}")),
        post("/v1/session", json!({ "key": KEY })),
        get(&format!("/v1/jobs/{ID}")),
        post("/v1/jobs", json!({ "request": { "caption": "rain" } }))
            .with("idempotency-key", "one"),
        get(&format!("/v1/jobs/{ID}/tracks/1")).with("range", "bytes=8-11"),
        get(&format!("/v1/jobs/{ID}/events")).with("last-event-id", "3"),
        Sample::new("OPTIONS", "/v1/jobs", Content::None).with("origin", "https://example.org"),
    ]);
    let results = "/events /audio /audio?format=pcm /outputs/1.wav /outputs/1.lrc /tracks/1 \
        /tracks/1.wav /tracks/1/lrc /tracks/1/latents";
    all.extend(results.split(' ').map(|path| get(&format!("/v1/jobs/{ID}{path}"))));
    let others = "/ /page/app.js /healthz /readyz /metrics /openapi.json /v1/server /v1/realtime \
        /v1/files /nothing";
    all.extend(others.split(' ').map(get));
    all
}

const OPENAI: &str = r#"
/v1/audio/speech {"input": "la la", "model": "tiny-speech", "voice": "vivian",
    "response_format": "pcm", "speed": 1.0, "instructions": "soft", "stream_format": "sse",
    "language": "english", "task_type": "CustomVoice"}
/v1/audio/speech {"input": "la", "voice": {"id": "me"}, "response_format": "wav",
    "ref_audio": "data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAAAAABAAEA", "ref_text": "la",
    "x_vector_only_mode": false, "max_new_tokens": 50}
/v1/audio/generations {"prompt": "rain", "lyrics": "la", "duration": 2, "steps": 8, "cfg": 1.0,
    "seed": 3, "response_format": "wav", "stream": true}
/v1/audio/music {"prompt": "rain", "n": 1, "response_format": "flac",
    "src_audio": "data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAAAAABAAEA"}
/v1/chat/completions {"model": "acestep/tiny", "stream": false,
    "messages": [{"role": "user", "content": "<prompt>rain</prompt><lyrics>la</lyrics>"}],
    "audio_config": {"duration": 2, "bpm": 90, "format": "wav", "instrumental": true}}
/v1/chat/completions {"stream": true, "batch_size": 2, "seed": 7, "task_type": "cover",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "rain"},
        {"type": "input_audio", "input_audio": {"data": "UklGRiQA", "format": "wav"}}]}],
    "temperature": 0.9, "top_p": 0.8, "use_format": true}
"#;

fn openai() -> Vec<Sample> {
    let mut all = posts(OPENAI);
    let song = [("prompt", "rain"), ("response_format", "wav")];
    all.extend([
        form("/v1/audio/generations", &song, &[("ref_audio", WAV)]),
        form("/v1/audio/voices", &[("name", "x")], &[("audio_sample", WAV)]),
        delete("/v1/audio/voices/me"),
    ]);
    for path in ["/v1/models", "/v1/models/acestep/tiny", "/v1/audio/models", "/v1/audio/voices"] {
        all.push(get(path));
        all.push(get(&format!("/api{path}")));
    }
    all
}

const UPSTREAM: &str = r#"
/release_task {"prompt": "rain", "lyrics": "[inst]", "thinking": false, "audio_duration": 2,
    "bpm": "90", "key_scale": "C major", "time_signature": "4", "vocal_language": "en",
    "inference_steps": 8, "guidance_scale": 7, "use_random_seed": false, "seed": "7,8",
    "batch_size": 2, "shift": 3, "audio_format": "flac", "infer_method": "ode",
    "timesteps": "0.9,0.5,0.1", "use_adg": false, "param_obj": {"duration": 3, "language": "en"},
    "metas": "{\"bpm\": 80}", "track_classes": "drums,bass", "dcw_enabled": true,
    "sampler_mode": "euler", "chunk_mask_mode": "auto", "repaint_mode": "balanced",
    "lm_temperature": 0.85}
/api/release_task {"description": "a song", "keyScale": "C major", "sample_mode": true,
    "sample_query": "a song", "use_format": "yes"}
/release_task {"prompt": "x", "task_type": "cover",
    "src_audio_path": "/v1/audio?path=$ID%2F1.wav"}
/release_task {"full_analysis_only": true, "src_audio_path": "$ID/1.wav"}
/query_result {"task_id_list": ["$ID", "never"]}
/query_result {"task_id_list": "[\"$ID\"]"}
/format_input {"prompt": "rain", "lyrics": "la", "temperature": 0.8, "param_obj": {"duration": 3,
    "bpm": 90, "key": "C major", "time_signature": "4", "language": "en"}}
/create_random_sample {"sample_type": "simple_mode"}
/v1/create_sample {"query": "a song", "instrumental": true}
/v1/init {"model": "tiny", "slot": 1, "init_llm": true}
/v1/reinitialize {}
/v1/lora/load {"lora_path": "rock", "adapter_name": "r"}
/v1/lora/toggle {"use_lora": true}
/v1/lora/scale {"scale": 0.5}
/v1/lora/unload {}
/v1/training/start {}
/v1/dataset/scan {"audio_dir": "/etc"}
"#;

fn upstream() -> Vec<Sample> {
    let mut all = posts(UPSTREAM);
    let cover = [("prompt", "rain"), ("task_type", "cover"), ("bpm", "90")];
    let fields = b"prompt=rain&audio_duration=2&seed=7%2C8&thinking=false".to_vec();
    all.extend([
        form("/release_task", &cover, &[("src_audio", WAV), ("reference_audio", WAV)]),
        form("/release_task", &[("prompt", "rain")], &[("ctx_audio", WAV)]),
        Sample::new("POST", "/release_task", Content::Raw(fields)),
        get(&format!("/v1/audio?path={ID}%2F1.wav")),
    ]);
    for path in
        ["/v1/model_inventory", "/v1/stats", "/health", "/v1/lora/status", "/v1/audio?path=x"]
    {
        all.push(get(path));
        all.push(get(&format!("/api{path}")));
    }
    all
}

fn cpp() -> Vec<Sample> {
    let song = json!({
        "caption": "rain", "lyrics": "la", "bpm": 0, "keyscale": "", "timesignature": "", "duration": 2,
        "vocal_language": "en", "seed": -1, "inference_steps": 8, "guidance_scale": 0.0, "shift": 3.0,
        "synth_batch_size": 2, "lm_batch_size": 1, "lm_seed": 5, "synth_model": "tiny",
        "lm_model": "tiny-lm", "output_format": "wav16", "task_type": "", "track": "", "solver": "ode",
        "peak_clip": 0, "mp3_bitrate": 128, "audio_codes": "", "repainting_start": -1,
    });
    let pair = json!([song, { "caption": "snow" }]).to_string();
    let vae = r#"{"output_format":"wav32","peak_clip":0}"#;
    vec![
        post("/lm", song.clone()),
        post("/lm", json!({ "caption": "rain", "lm_mode": "inspire", "lm_batch_size": 2 })),
        post("/synth", song.clone()),
        post("/synth", json!([song, { "caption": "snow", "output_format": "wav16" }])),
        form("/synth", &[("request", &pair)], &[("src_latents", LATENTS), ("audio", WAV)]),
        form("/synth", &[("request", r#"{"caption":"x"}"#)], &[("ref_audio", WAV)]),
        form("/synth", &[], &[("request", pair.as_bytes()), ("ref_latents", LATENTS)]),
        form("/understand", &[("request", r#"{"lm_temperature":0.3}"#)], &[("audio", WAV)]),
        form("/understand", &[], &[("src_latents", LATENTS)]),
        form("/vae", &[], &[("audio", WAV)]),
        form("/vae", &[("request", vae)], &[("src_latents", LATENTS)]),
        get(&format!("/job?id={ID}")),
        get(&format!("/job?id={ID}.{ID}&result=1")),
        Sample::new("POST", &format!("/job?id={ID}&cancel=1"), Content::None),
        get("/props"),
        get("/logs"),
    ]
}
