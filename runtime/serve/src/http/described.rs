//! The description of the API (OpenAPI): the native API from its functions, the faces of other programs
//! from a table, and what all calls share.

use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use super::info::Native;

/// A field of a request and its type.
type Field = (&'static str, &'static str);

/// The content of an answer.
#[derive(Clone, Copy)]
enum Gives {
    /// JSON of the schema of that name.
    Json(&'static str),
    /// A sound file; events, if they are asked for.
    Sound,
    /// Chunks of a chat as JSON or as events.
    Chat,
    /// Events.
    Events,
    /// The result of a job: JSON, a sound, or several parts.
    Result,
    /// Nothing: the call is refused with 501.
    Absent,
}

/// A call of another program's face.
struct Call {
    /// The name of the face.
    face: &'static str,
    method: &'static str,
    path: &'static str,
    about: &'static str,
    /// Fields of the query; those with `!` are needed.
    query: &'static [&'static str],
    /// Fields of the body; none if it has no body.
    body: Option<&'static [Field]>,
    gives: Gives,
}

const OPENAI: &str = "openai";
const UPSTREAM: &str = "upstream";
const CPP: &str = "acestep.cpp";

const fn get(face: &'static str, path: &'static str, gives: Gives, about: &'static str) -> Call {
    Call { face, method: "get", path, about, query: &[], body: None, gives }
}

const fn post(
    face: &'static str,
    path: &'static str,
    body: &'static [Field],
    gives: Gives,
    about: &'static str,
) -> Call {
    Call { face, method: "post", path, about, query: &[], body: Some(body), gives }
}

const SONG: &[Field] = &[
    ("prompt", "string"),
    ("lyrics", "string"),
    ("duration", "number"),
    ("steps", "integer"),
    ("cfg", "number"),
    ("seed", "integer"),
    ("response_format", "string"),
    ("model", "string"),
    ("stream", "boolean"),
];
const SPEECH: &[Field] = &[
    ("input!", "string"),
    ("model", "string"),
    ("voice", "any"),
    ("instructions", "string"),
    ("response_format", "string"),
    ("speed", "number"),
    ("stream_format", "string"),
    ("language", "string"),
    ("ref_audio", "string"),
    ("ref_text", "string"),
];
const CHAT: &[Field] = &[
    ("messages!", "array"),
    ("model", "string"),
    ("stream", "boolean"),
    ("audio_config", "object"),
    ("batch_size", "integer"),
    ("seed", "any"),
];
const TASK: &[Field] = &[
    ("prompt", "string"),
    ("lyrics", "string"),
    ("thinking", "any"),
    ("audio_duration", "any"),
    ("bpm", "any"),
    ("key_scale", "string"),
    ("time_signature", "any"),
    ("vocal_language", "string"),
    ("inference_steps", "any"),
    ("seed", "any"),
    ("use_random_seed", "any"),
    ("batch_size", "any"),
    ("audio_format", "string"),
    ("task_type", "string"),
    ("src_audio_path", "string"),
    ("model", "string"),
];
const CPP_SONG: &[Field] = &[
    ("caption!", "string"),
    ("lyrics", "string"),
    ("bpm", "integer"),
    ("duration", "number"),
    ("keyscale", "string"),
    ("seed", "integer"),
    ("synth_batch_size", "integer"),
    ("output_format", "string"),
];
const CPP_WORDS: &[Field] =
    &[("caption!", "string"), ("lm_mode", "string"), ("lm_batch_size", "integer")];
const CPP_SOUND: &[Field] = &[("request", "string"), ("audio", "file"), ("src_latents", "file")];

const CALLS: &[Call] = &[
    get(OPENAI, "/v1/models", Gives::Json("Models"), "Lists the models."),
    get(OPENAI, "/v1/models/{id}", Gives::Json("Any"), "Returns one model."),
    get(OPENAI, "/v1/audio/models", Gives::Json("Any"), "Lists the models of speech."),
    get(OPENAI, "/v1/audio/voices", Gives::Json("Any"), "Lists the voices."),
    post(OPENAI, "/v1/audio/voices", &[], Gives::Absent, "Voices are not made over HTTP."),
    post(OPENAI, "/v1/audio/speech", SPEECH, Gives::Sound, "Speaks a text."),
    post(OPENAI, "/v1/audio/generations", SONG, Gives::Sound, "Makes a song by one call."),
    post(OPENAI, "/v1/audio/music", SONG, Gives::Sound, "Makes a song by one call."),
    post(OPENAI, "/v1/audio/music/generations", SONG, Gives::Sound, "Makes a song by one call."),
    post(OPENAI, "/v1/chat/completions", CHAT, Gives::Chat, "Makes songs of a chat."),
    post(UPSTREAM, "/release_task", TASK, Gives::Json("Envelope"), "Puts a task into the queue."),
    post(
        UPSTREAM,
        "/query_result",
        &[("task_id_list!", "any")],
        Gives::Json("Envelope"),
        "Tells the state of tasks.",
    ),
    Call {
        query: &["path!"],
        ..get(UPSTREAM, "/v1/audio", Gives::Sound, "Returns a sound by its name.")
    },
    post(
        UPSTREAM,
        "/format_input",
        &[("prompt", "string"), ("lyrics", "string"), ("temperature", "any"), ("param_obj", "any")],
        Gives::Json("Envelope"),
        "Completes words for a song.",
    ),
    post(
        UPSTREAM,
        "/v1/create_sample",
        &[("query", "string"), ("instrumental", "any")],
        Gives::Json("Envelope"),
        "Writes words for a wish.",
    ),
    post(
        UPSTREAM,
        "/create_random_sample",
        &[("sample_type", "string")],
        Gives::Json("Envelope"),
        "Returns an example.",
    ),
    get(UPSTREAM, "/v1/model_inventory", Gives::Json("Envelope"), "Lists the models."),
    post(
        UPSTREAM,
        "/v1/init",
        &[("model", "string"), ("lm_model_path", "string"), ("slot", "any")],
        Gives::Json("Envelope"),
        "Answers as if a model were loaded.",
    ),
    post(UPSTREAM, "/v1/reinitialize", &[], Gives::Json("Envelope"), "Does nothing."),
    get(UPSTREAM, "/v1/stats", Gives::Json("Envelope"), "Returns the numbers of jobs."),
    get(UPSTREAM, "/health", Gives::Json("Any"), "Says that the server is alive."),
    post(
        UPSTREAM,
        "/v1/lora/load",
        &[("lora_path!", "string"), ("adapter_name", "string")],
        Gives::Json("Envelope"),
        "Chooses the adapter of later jobs.",
    ),
    post(UPSTREAM, "/v1/lora/unload", &[], Gives::Json("Envelope"), "Chooses no adapter."),
    post(
        UPSTREAM,
        "/v1/lora/toggle",
        &[("use_lora", "any")],
        Gives::Json("Envelope"),
        "Switches the adapter on or off.",
    ),
    post(
        UPSTREAM,
        "/v1/lora/scale",
        &[("scale", "any"), ("adapter_name", "string")],
        Gives::Json("Envelope"),
        "Sets the scale of the adapter.",
    ),
    get(UPSTREAM, "/v1/lora/status", Gives::Json("Envelope"), "Tells the adapter of later jobs."),
    post(UPSTREAM, "/v1/training/{rest}", &[], Gives::Absent, "Training is not served."),
    post(UPSTREAM, "/v1/dataset/{rest}", &[], Gives::Absent, "Data sets are not served."),
    post(CPP, "/lm", CPP_WORDS, Gives::Json("CppId"), "Completes a request by the language model."),
    post(CPP, "/synth", CPP_SONG, Gives::Json("CppId"), "Makes songs of a request or of several."),
    post(CPP, "/understand", CPP_SOUND, Gives::Json("CppId"), "Describes a song."),
    post(CPP, "/vae", CPP_SOUND, Gives::Json("CppId"), "Converts sound to latents, or back."),
    Call {
        query: &["id!", "result"],
        ..get(CPP, "/job", Gives::Result, "Returns the state or the result of an id.")
    },
    Call {
        method: "post",
        query: &["id!", "cancel!"],
        ..get(CPP, "/job", Gives::Json("CppState"), "Cancels the jobs of an id.")
    },
    get(CPP, "/props", Gives::Json("Any"), "Returns models and defaults."),
    get(CPP, "/logs", Gives::Events, "Follows the log of the caller's jobs."),
];

/// Returns the whole description.
pub(super) fn document() -> Value {
    let mut document = serde_json::to_value(Native::openapi()).unwrap_or_default();
    let events = &mut document["paths"]["/v1/jobs/{id}/events"]["get"]["responses"]["200"];
    events["content"] = json!({ "text/event-stream": {} });
    let removed = &mut document["paths"]["/v1/jobs/{id}"]["delete"]["responses"]["200"];
    removed["content"]["application/json"]["schema"] =
        json!({ "anyOf": [of("Job"), of("Forgotten")] });
    for call in CALLS {
        document["paths"][call.path][call.method] = call.described();
    }
    if let Some(schemas) = schemas().as_object() {
        for (name, schema) in schemas {
            document["components"]["schemas"][name] = schema.clone();
        }
    }
    // What an answer adds to what is stored.
    let added = &mut document["components"]["schemas"];
    added["Job"]["properties"]["position"] = json!({
        "type": ["integer", "null"], "description": "The place in the queue, from 1.",
    });
    added["Output"]["properties"]["url"] =
        json!({ "type": "string", "description": "Its address on this server." });
    document["components"]["securitySchemes"] = json!({
        "key": { "type": "http", "scheme": "bearer" },
    });
    // Without keys the server needs none.
    document["security"] = json!([{}, { "key": [] }]);
    for path in document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        for (_, operation) in path.as_object_mut().into_iter().flatten() {
            add_errors(operation);
        }
    }
    document
}

/// Adds the errors of all calls: each of them may need a key, or name what is not there.
fn add_errors(operation: &mut Value) {
    let schema = match operation["tags"][0].as_str() {
        Some(UPSTREAM) => json!({ "anyOf": [of("UpstreamError"), of("Error")] }),
        Some(CPP) => json!({ "anyOf": [of("CppError"), of("Error")] }),
        _ => of("Error"),
    };
    let content = json!({ "application/json": { "schema": schema } });
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    // A 500 would be a mistake of the program, so no call names it.
    let more = [
        ("4XX", "the reason, and mostly a hint"),
        ("503", "the queue cannot be used, or no worker is ready"),
        ("504", "the job goes on"),
        ("507", "the disk is full"),
    ];
    for (status, about) in more {
        responses.entry(status).or_insert_with(|| json!({ "description": about }));
    }
    for (status, response) in responses {
        if status.starts_with(['4', '5']) {
            response["content"] = content.clone();
        }
    }
}

fn of(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Schemas of the faces, and of errors.
fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let maybe = json!({ "type": ["string", "null"] });
    json!({
        "Any": { "type": "object" },
        "Forgotten": {
            "type": "object",
            "required": ["id", "state"],
            "properties": { "id": text, "state": { "const": "forgotten" } },
        },
        "Error": {
            "type": "object",
            "required": ["error"],
            "properties": { "error": {
                "type": "object",
                "required": ["code", "message", "type"],
                "properties": {
                    "code": text, "message": text, "param": maybe, "hint": maybe, "type": text,
                },
            } },
        },
        "UpstreamError": {
            "type": "object",
            "required": ["detail", "code"],
            "properties": { "detail": text, "code": text, "param": maybe },
        },
        "CppError": {
            "type": "object", "required": ["error"], "properties": { "error": text },
        },
        "Envelope": {
            "type": "object",
            "required": ["data", "code", "error", "timestamp"],
            "properties": {
                "data": {}, "code": { "type": "integer" }, "error": maybe,
                "timestamp": { "type": "integer" }, "extra": {},
            },
        },
        "Models": {
            "type": "object",
            "required": ["object", "data"],
            "properties": {
                "object": { "const": "list" },
                "data": { "type": "array", "items": {
                    "type": "object",
                    "required": ["id", "object", "created", "owned_by"],
                    "properties": {
                        "id": text, "object": { "const": "model" },
                        "created": { "type": "integer" }, "owned_by": text,
                    },
                } },
            },
        },
        "CppId": { "type": "object", "required": ["id"], "properties": { "id": text } },
        "CppState": {
            "type": "object",
            "required": ["status"],
            "properties": {
                "status": { "enum": ["running", "done", "failed", "cancelled"] },
                "error": text,
            },
        },
    })
}

impl Call {
    fn described(&self) -> Value {
        let mut parameters: Vec<Value> = Vec::new();
        for part in self.path.split('/') {
            if let Some(name) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                parameters.push(parameter(name, "path", true));
            }
        }
        for name in self.query {
            let (name, is_needed) = needed(name);
            parameters.push(parameter(name, "query", is_needed));
        }
        let mut operation = json!({
            "tags": [self.face],
            "summary": self.about,
            "parameters": parameters,
            "responses": self.gives.responses(),
        });
        if let Some(fields) = self.body {
            operation["requestBody"] = body(self.path, fields);
        }
        operation
    }
}

/// Splits the mark of a field that is needed from its name.
fn needed(name: &str) -> (&str, bool) {
    name.strip_suffix('!').map_or((name, false), |name| (name, true))
}

fn parameter(name: &str, place: &str, is_needed: bool) -> Value {
    json!({ "name": name, "in": place, "required": is_needed, "schema": { "type": "string" } })
}

fn body(path: &str, fields: &[Field]) -> Value {
    let is_file = |(_, kind): &Field| *kind == "file";
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, kind) in fields {
        let (name, is_needed) = needed(name);
        let schema = match *kind {
            "any" => json!({}),
            "file" => json!({ "type": "string", "format": "binary" }),
            kind => json!({ "type": kind }),
        };
        properties.insert(name.to_owned(), schema);
        if is_needed {
            required.push(name);
        }
    }
    let object = json!({ "type": "object", "properties": properties, "required": required });
    let schema = match path {
        // Several songs at once.
        "/synth" => json!({ "anyOf": [object, { "type": "array", "items": object }] }),
        _ => object,
    };
    let kind = match fields.iter().any(is_file) {
        true => "multipart/form-data",
        false => "application/json",
    };
    json!({ "content": { kind: { "schema": schema } } })
}

impl Gives {
    fn responses(self) -> Value {
        let binary = json!({ "schema": { "type": "string", "format": "binary" } });
        // The schema of events is that of each one, and they differ.
        let text = json!({});
        let of_name = |name| json!({ "application/json": { "schema": of(name) } });
        let content = match self {
            Self::Json(name) => of_name(name),
            Self::Sound => json!({ "audio/*": binary, "text/event-stream": text }),
            Self::Chat => {
                json!({ "application/json": { "schema": of("Any") }, "text/event-stream": text })
            }
            Self::Events => json!({ "text/event-stream": text }),
            Self::Result => json!({
                "application/json": {}, "audio/*": binary, "application/octet-stream": binary,
                "multipart/mixed": binary,
            }),
            Self::Absent => return json!({ "501": { "description": "the call is not served" } }),
        };
        json!({ "200": { "description": "the answer", "content": content } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_of_each_face_has_an_answer_and_errors_of_its_form() {
        let document = document();
        let error = |path: &str, method: &str| {
            let responses = &document["paths"][path][method]["responses"];
            responses["4XX"]["content"]["application/json"]["schema"].to_string()
        };
        for (path, method, form) in [
            ("/v1/jobs", "post", "Error"),
            ("/v1/audio/speech", "post", "Error"),
            ("/release_task", "post", "UpstreamError"),
            ("/job", "get", "CppError"),
            ("/job", "post", "CppError"),
        ] {
            assert!(error(path, method).contains(&format!("/{form}\"")), "{path}");
        }
        assert_eq!(document["paths"]["/v1/models/{id}"]["get"]["parameters"][0]["in"], "path");
        let speech = &document["paths"]["/v1/audio/speech"]["post"]["requestBody"]["content"];
        assert_eq!(speech["application/json"]["schema"]["required"], json!(["input"]));
        assert!(document["components"]["schemas"]["Job"].is_object());
    }
}
