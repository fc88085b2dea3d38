//! The calls of the APIs of other programs, as a table.

/// The content of an answer.
#[derive(Clone, Copy)]
pub(super) enum Gives {
    /// JSON of the schema of that name.
    Json(&'static str),
    /// A sound file; events, if they are asked for.
    Sound,
    /// Chunks of a chat as JSON or as events.
    Chat,
    Events,
    /// The result of a job: JSON, a sound, or several parts.
    Result,
    /// Nothing: the call is refused with 501.
    Absent,
}

/// A call of another program's API.
pub(super) struct Call {
    pub(super) api: &'static str,
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) about: &'static str,
    /// Fields of the query, as in `body`.
    pub(super) query: &'static str,
    /// Fields of the body, with blanks between; none if it has no body. `!` marks one that is needed. A field
    /// that is no text has a colon and its type after its name.
    pub(super) body: Option<&'static str>,
    pub(super) response: Gives,
}

const OPENAI: &str = "openai";
pub(super) const UPSTREAM: &str = "upstream";
/// The API of acestep.cpp's server.
pub(super) const CPP: &str = "acestep.cpp";

const fn get(api: &'static str, path: &'static str, response: Gives, about: &'static str) -> Call {
    Call { api, method: "get", path, about, query: "", body: None, response }
}

const fn post(
    api: &'static str,
    path: &'static str,
    body: &'static str,
    response: Gives,
    about: &'static str,
) -> Call {
    Call { api, method: "post", path, about, query: "", body: Some(body), response }
}

const SONG: &str = "prompt lyrics duration:number steps:integer cfg:number seed:integer response_format \
    model stream:boolean";
const SPEECH: &str = "input! model voice:any instructions response_format speed:number stream_format language \
    ref_audio ref_text speaker_1 words_1:any speaker_2 words_2:any cfg_scale:number timestamps \
    chunk_frames:integer";
const VOICE: &str =
    "name! audio_sample ref_text language model speaker_1 words_1:any speaker_2 words_2:any";
const CHAT: &str =
    "messages!:array model stream:boolean audio_config:object batch_size:integer seed:any";
const TASK: &str = "prompt lyrics thinking:any audio_duration:any bpm:any key_scale time_signature:any \
    vocal_language inference_steps:any seed:any use_random_seed:any batch_size:any audio_format task_type \
    src_audio_path model";
const CPP_SONG: &str = "caption! lyrics bpm:integer duration:number keyscale seed:integer \
    synth_batch_size:integer output_format";
const CPP_WORDS: &str = "caption! lm_mode lm_batch_size:integer";
const CPP_SOUND: &str = "request audio:file src_latents:file";
const WRITING: &str = "prompt lyrics temperature:any param_obj:any";
const WISH: &str = "query instrumental:any";
const INIT: &str = "model lm_model_path slot:any";
const LORA: &str = "lora_path! adapter_name";
const SCALE: &str = "scale:any adapter_name";

/// Answers of many calls.
const ANY: Gives = Gives::Json("Any");
const ENVELOPE: Gives = Gives::Json("Envelope");
const ID: Gives = Gives::Json("CppId");

pub(super) const CALLS: &[Call] = &[
    get(OPENAI, "/v1/models", Gives::Json("Models"), "Lists the models."),
    get(OPENAI, "/v1/models/{id}", ANY, "Returns one model."),
    get(OPENAI, "/v1/audio/models", ANY, "Lists the models of speech."),
    get(OPENAI, "/v1/audio/voices", ANY, "Lists the voices."),
    post(OPENAI, "/v1/audio/voices", VOICE, ANY, "Keeps the voice of a recording."),
    Call { method: "delete", ..get(OPENAI, "/v1/audio/voices/{id}", ANY, "Removes a kept voice.") },
    post(OPENAI, "/v1/audio/speech", SPEECH, Gives::Sound, "Speaks a text."),
    post(OPENAI, "/v1/audio/generations", SONG, Gives::Sound, "Makes a song by one call."),
    post(OPENAI, "/v1/audio/music", SONG, Gives::Sound, "Makes a song by one call."),
    post(OPENAI, "/v1/audio/music/generations", SONG, Gives::Sound, "Makes a song by one call."),
    post(OPENAI, "/v1/chat/completions", CHAT, Gives::Chat, "Makes songs of a chat."),
    post(UPSTREAM, "/release_task", TASK, ENVELOPE, "Puts a task into the queue."),
    post(UPSTREAM, "/query_result", "task_id_list!:any", ENVELOPE, "Tells the state of tasks."),
    Call {
        query: "path!",
        ..get(UPSTREAM, "/v1/audio", Gives::Sound, "Returns a sound by its name.")
    },
    post(UPSTREAM, "/format_input", WRITING, ENVELOPE, "Completes words for a song."),
    post(UPSTREAM, "/v1/create_sample", WISH, ENVELOPE, "Writes words for a wish."),
    post(UPSTREAM, "/create_random_sample", "sample_type", ENVELOPE, "Returns an example."),
    get(UPSTREAM, "/v1/model_inventory", ENVELOPE, "Lists the models."),
    post(UPSTREAM, "/v1/init", INIT, ENVELOPE, "Answers as if a model were loaded."),
    post(UPSTREAM, "/v1/reinitialize", "", ENVELOPE, "Does nothing."),
    get(UPSTREAM, "/v1/stats", ENVELOPE, "Returns the numbers of jobs."),
    get(UPSTREAM, "/health", ANY, "Says that the server is alive."),
    post(UPSTREAM, "/v1/lora/load", LORA, ENVELOPE, "Chooses the adapter of later jobs."),
    post(UPSTREAM, "/v1/lora/unload", "", ENVELOPE, "Chooses no adapter."),
    post(UPSTREAM, "/v1/lora/toggle", "use_lora:any", ENVELOPE, "Switches the adapter on or off."),
    post(UPSTREAM, "/v1/lora/scale", SCALE, ENVELOPE, "Sets the scale of the adapter."),
    get(UPSTREAM, "/v1/lora/status", ENVELOPE, "Tells the adapter of later jobs."),
    post(UPSTREAM, "/v1/training/{rest}", "", Gives::Absent, "Training is not served."),
    post(UPSTREAM, "/v1/dataset/{rest}", "", Gives::Absent, "Data sets are not served."),
    post(CPP, "/lm", CPP_WORDS, ID, "Completes a request by the language model."),
    post(CPP, "/synth", CPP_SONG, ID, "Makes songs of a request or of several."),
    post(CPP, "/understand", CPP_SOUND, ID, "Describes a song."),
    post(CPP, "/vae", CPP_SOUND, ID, "Converts sound to latents, or back."),
    Call {
        query: "id! result",
        ..get(CPP, "/job", Gives::Result, "Returns the state or the result of an id.")
    },
    Call {
        method: "post",
        query: "id! cancel!",
        ..get(CPP, "/job", Gives::Json("CppState"), "Cancels the jobs of an id.")
    },
    get(CPP, "/props", ANY, "Returns models and defaults."),
    get(CPP, "/logs", Gives::Events, "Follows the log of the caller's jobs."),
];
