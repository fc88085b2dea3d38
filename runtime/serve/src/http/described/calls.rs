//! The calls of the faces of other programs, as a table.

/// A field of a request and its type.
pub(super) type Field = (&'static str, &'static str);

/// The content of an answer.
#[derive(Clone, Copy)]
pub(super) enum Gives {
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
pub(super) struct Call {
    /// The name of the face.
    pub(super) face: &'static str,
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) about: &'static str,
    /// Fields of the query; those with `!` are needed.
    pub(super) query: &'static [&'static str],
    /// Fields of the body; none if it has no body.
    pub(super) body: Option<&'static [Field]>,
    pub(super) gives: Gives,
}

const OPENAI: &str = "openai";
/// The face of upstream's server.
pub(super) const UPSTREAM: &str = "upstream";
/// The face of acestep.cpp's server.
pub(super) const CPP: &str = "acestep.cpp";

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
    ("speaker_1", "string"),
    ("words_1", "any"),
    ("speaker_2", "string"),
    ("words_2", "any"),
    ("cfg_scale", "number"),
    ("timestamps", "string"),
    ("chunk_frames", "integer"),
];
const VOICE: &[Field] = &[
    ("name!", "string"),
    ("audio_sample", "string"),
    ("ref_text", "string"),
    ("language", "string"),
    ("model", "string"),
    ("speaker_1", "string"),
    ("words_1", "any"),
    ("speaker_2", "string"),
    ("words_2", "any"),
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

/// The calls.
pub(super) const CALLS: &[Call] = &[
    get(OPENAI, "/v1/models", Gives::Json("Models"), "Lists the models."),
    get(OPENAI, "/v1/models/{id}", Gives::Json("Any"), "Returns one model."),
    get(OPENAI, "/v1/audio/models", Gives::Json("Any"), "Lists the models of speech."),
    get(OPENAI, "/v1/audio/voices", Gives::Json("Any"), "Lists the voices."),
    post(OPENAI, "/v1/audio/voices", VOICE, Gives::Json("Any"), "Keeps the voice of a recording."),
    Call {
        method: "delete",
        ..get(OPENAI, "/v1/audio/voices/{id}", Gives::Json("Any"), "Removes a kept voice.")
    },
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
