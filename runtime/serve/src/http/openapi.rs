//! The description of the API (OpenAPI): the native API from its functions, the APIs of other programs
//! from a table, and what all calls share.

mod calls;

use std::sync::{Arc, LazyLock};

use axum::{
    Json, Router,
    extract::{FromRequestParts as _, MatchedPath, Request},
    http::Method,
    middleware::Next,
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use self::calls::{CALLS, CPP, Call, Gives, UPSTREAM};
use super::{Server, events, extract::Query, files, info, jobs, outputs, stream};

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new().route("/openapi.json", get(openapi))
}

/// The native API.
#[derive(OpenApi)]
#[openapi(
    info(title = "acestep", description = "Music and speech on your own machine"),
    paths(
        jobs::submit,
        jobs::list,
        jobs::show,
        jobs::mark,
        jobs::cancel,
        jobs::retry,
        jobs::remove,
        outputs::output,
        outputs::track,
        outputs::content,
        stream::audio,
        events::events,
        files::upload,
        files::list,
        files::remove,
        info::alive,
        info::ready,
        info::metrics,
        info::server,
        info::session,
    )
)]
struct Native;

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

async fn openapi() -> Json<Value> {
    Json(DOCUMENT.clone())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoKeys {}

/// Refuses keys of a query at addresses that take none by their description.
pub(super) async fn query_layer(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let method = match request.method() == Method::HEAD {
        true => "get".to_owned(),
        false => request.method().as_str().to_ascii_lowercase(),
    };
    let taken = DOCUMENT["paths"][path][method.as_str()]["parameters"].as_array();
    if taken.is_some_and(|taken| taken.iter().any(|one| one["in"] == "query")) {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    match Query::<NoKeys>::from_request_parts(&mut parts, &()).await {
        Ok(_) => next.run(Request::from_parts(parts, body)).await,
        Err(error) => error.into_response(),
    }
}

fn document() -> Value {
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

/// Returns the schema of an object.
fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

/// Schemas of the APIs, and of errors.
fn schemas() -> Value {
    let (text, integer) = (json!({ "type": "string" }), json!({ "type": "integer" }));
    let maybe = json!({ "type": ["string", "null"] });
    let error =
        json!({ "code": text, "message": text, "param": maybe, "hint": maybe, "type": text });
    let error = object(&["code", "message", "type"], error);
    let envelope = json!({
        "data": {}, "code": integer, "error": maybe, "timestamp": integer, "extra": {},
    });
    let model = json!({
        "id": text, "object": { "const": "model" }, "created": integer, "owned_by": text,
    });
    let model = object(&["id", "object", "created", "owned_by"], model);
    let models = json!({
        "object": { "const": "list" }, "data": { "type": "array", "items": model },
    });
    let state = json!({
        "status": { "enum": ["running", "done", "failed", "cancelled"] }, "error": text,
    });
    let forgotten = json!({ "id": text, "state": { "const": "forgotten" } });
    let detail = json!({ "detail": text, "code": text, "param": maybe });
    json!({
        "Any": { "type": "object" },
        "Forgotten": object(&["id", "state"], forgotten),
        "Error": object(&["error"], json!({ "error": error })),
        "UpstreamError": object(&["detail", "code"], detail),
        "CppError": object(&["error"], json!({ "error": text })),
        "Envelope": object(&["data", "code", "error", "timestamp"], envelope),
        "Models": object(&["object", "data"], models),
        "CppId": object(&["id"], json!({ "id": text })),
        "CppState": object(&["status"], state),
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
        for (name, is_needed, _) in fields(self.query) {
            parameters.push(parameter(name, "query", is_needed));
        }
        let mut operation = json!({
            "tags": [self.api],
            "summary": self.about,
            "parameters": parameters,
            "responses": self.response.responses(),
        });
        if let Some(text) = self.body {
            operation["requestBody"] = body(self.path, text);
        }
        operation
    }
}

/// Fields of a call: their names, true for those that are needed, their types.
fn fields(text: &str) -> impl Iterator<Item = (&str, bool, &str)> {
    text.split_whitespace().map(|field| {
        let (name, kind) = field.split_once(':').unwrap_or((field, "string"));
        name.strip_suffix('!').map_or((name, false, kind), |name| (name, true, kind))
    })
}

fn parameter(name: &str, place: &str, is_needed: bool) -> Value {
    json!({ "name": name, "in": place, "required": is_needed, "schema": { "type": "string" } })
}

fn body(path: &str, text: &str) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, is_needed, kind) in fields(text) {
        let schema = match kind {
            "any" => json!({}),
            "file" => json!({ "type": "string", "format": "binary" }),
            kind => json!({ "type": kind }),
        };
        properties.insert(name.to_owned(), schema);
        if is_needed {
            required.push(name);
        }
    }
    let object = object(&required, properties.into());
    let schema = match path {
        // Several songs at once.
        "/synth" => json!({ "anyOf": [object, { "type": "array", "items": object }] }),
        _ => object,
    };
    let kind = match fields(text).any(|(_, _, kind)| kind == "file") {
        true => "multipart/form-data",
        false => "application/json",
    };
    json!({ "content": { kind: { "schema": schema } } })
}

impl Gives {
    fn responses(self) -> Value {
        let binary = json!({ "schema": { "type": "string", "format": "binary" } });
        // The schema of events describes each one, and they differ.
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
        let mut answer = json!({ "description": "the answer", "content": content });
        if matches!(self, Self::Sound) {
            let header =
                |about: &str| json!({ "description": about, "schema": { "type": "integer" } });
            answer["headers"] = json!({
                "X-Sample-Rate": header("samples a second, of `pcm`"),
                "X-Channels": header("channels, of `pcm`"),
            });
        }
        json!({ "200": answer })
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
            ("/v1/jobs/{id}", "get", "Error"),
            ("/v1/jobs/{id}/events", "get", "Error"),
            ("/v1/files", "post", "Error"),
            ("/metrics", "get", "Error"),
            ("/v1/audio/speech", "post", "Error"),
            ("/release_task", "post", "UpstreamError"),
            ("/job", "get", "CppError"),
            ("/job", "post", "CppError"),
        ] {
            assert!(error(path, method).contains(&format!("/{form}\"")), "{path}");
        }
        assert_eq!(document["paths"]["/v1/models/{id}"]["get"]["parameters"][0]["in"], "path");
        let speech = &document["paths"]["/v1/audio/speech"]["post"]["requestBody"]["content"];
        let speech = &speech["application/json"]["schema"];
        assert_eq!(speech["required"], json!(["input"]));
        assert_eq!(speech["properties"]["model"]["type"], "string");
        assert_eq!(speech["properties"]["chunk_frames"]["type"], "integer");
        assert!(document["components"]["schemas"]["Job"].is_object());
        let song = &document["paths"]["/v1/audio/generations"]["post"]["responses"]["200"];
        assert_eq!(song["headers"]["X-Channels"]["schema"]["type"], "integer");
    }
}
