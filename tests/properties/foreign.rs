//! Files of other programs give the same networks and songs as the released layout.

mod diffusers;
mod gguf;
mod refused;

use std::{path::Path, sync::LazyLock};

use acestep_import::{
    AceStep, DitDir, Kind, LanguageModelDir, Layout, ModelFormat, Network, open,
    open_language_model, open_tiny, open_tiny_language_model,
};
use acestep_model::{Checkpoint, CheckpointError, LanguageCheckpoint, ModelFiles, Tokenizer};
use acestep_music::Song;
use acestep_tests::{
    Cpu, DEVICE,
    foreign::{write_comfy_checkpoint, write_comfy_split},
    place, plan, request, songs,
};
use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::Tensor,
};
use tempfile::TempDir;

pub(super) fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn layout(dir: &Path) -> Layout {
    Layout::new([dir.to_owned()])
}

/// The values of every parameter, in the order of the module.
struct Values(Vec<Vec<f32>>);

impl ModuleVisitor<Cpu> for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<Cpu, D>>) {
        self.0.push(param.val().into_data().to_vec().expect("f32"));
    }
}

pub(super) fn values<M: Module<Cpu>>(network: Result<M, CheckpointError>) -> Vec<Vec<f32>> {
    let mut values = Values(Vec::new());
    network.expect("a network").visit(&mut values);
    assert!(!values.0.is_empty());
    values.0
}

/// Returns every parameter of a model, and its latent of silence.
fn of_model(model: &AceStep) -> Vec<Vec<f32>> {
    let place = place();
    let silence = Checkpoint::<Cpu>::silence_latent(model, &DEVICE).expect("silence");
    [
        values(Checkpoint::<Cpu>::text_encoder(model, &place)),
        values(Checkpoint::<Cpu>::conditioner(model, &place)),
        values(Checkpoint::<Cpu>::audio_codec(model, &place)),
        values(Checkpoint::<Cpu>::dit(model, &place)),
        values(Checkpoint::<Cpu>::vae_decoder(model, &place)),
        values(Checkpoint::<Cpu>::vae_encoder(model, &place)),
        vec![silence.into_data().to_vec().expect("f32")],
    ]
    .concat()
}

fn of_language_model(folder: &LanguageModelDir) -> Vec<Vec<f32>> {
    values(folder.language_model(&place()))
}

/// Asserts that weights, token ids and a song are equal to those of the released layout.
fn is_the_same(model: &AceStep, format: ModelFormat) {
    let tiny = open_tiny().expect("built in");
    assert_eq!(model.origin().format, format);
    assert_eq!(model.origin().to_string(), format!("{format}, F32"));
    assert!(of_model(model) == of_model(&tiny), "{format}: other weights");
    let text = "Grüße, a calm piano <|endoftext|> 东京 123";
    let ids = |model: &AceStep| model.token_ids(text, 64).expect("ids");
    assert_eq!(ids(model), ids(&tiny), "{format}");
    assert!(model.is_turbo());
    assert_eq!(song(model), *SONG, "{format}");
}

/// The song of the built-in model.
static SONG: LazyLock<Vec<Song>> = LazyLock::new(|| song(&open_tiny().expect("built in")));

fn song(model: &AceStep) -> Vec<Song> {
    songs(&plan(&request(), model), model).expect("a song")
}

fn is_the_same_language_model(folder: &LanguageModelDir) {
    let tiny = open_tiny_language_model().expect("built in");
    assert!(of_language_model(folder) == of_language_model(&tiny), "other weights");
    let (own, other) = (folder.tokenizer().expect("one"), tiny.tokenizer().expect("one"));
    let text = "<think>\nbpm: 120\n</think><|audio_code_511|> Grüße";
    assert_eq!(own.encode(text), other.encode(text));
    assert_eq!(own.vocabulary(), other.vocabulary());
}

#[test]
fn one_file_of_comfyui_is_the_whole_model() {
    let dir = temporary();
    write_comfy_checkpoint(dir.path());
    let path = dir.path().join("tiny_turbo_aio.safetensors");
    let layout = layout(dir.path());
    let model = open("tiny_turbo_aio.safetensors", &layout).expect("a model");
    assert_eq!((model.name(), model.path()), ("tiny_turbo_aio", path.as_path()));
    is_the_same(&model, ModelFormat::Single);
    let folder = open_language_model(Some(&path.to_string_lossy()), &layout).expect("one");
    is_the_same_language_model(&folder);
}

#[test]
fn comfyui_directories_by_kind_are_one_model() {
    let dir = temporary();
    write_comfy_split(dir.path());
    let layout = layout(dir.path());
    is_the_same(&open("tiny_turbo.safetensors", &layout).expect("a model"), ModelFormat::Single);
    let language = dir.path().join("lm/qwen_tiny_lm.safetensors");
    let folder = open_language_model(Some(&language.to_string_lossy()), &layout).expect("one");
    is_the_same_language_model(&folder);
}

/// Tensor sizes determine all but window, FSQ levels and rotary base, which are the released ones.
#[test]
fn a_file_without_config_is_known_by_its_sizes() {
    let dir = temporary();
    write_comfy_checkpoint(dir.path());
    std::fs::remove_file(dir.path().join("config.json")).expect("removed");
    let model = open("tiny_turbo_aio.safetensors", &layout(dir.path())).expect("a model");
    let tiny = open_tiny().expect("built in");
    assert!(of_model(&model) == of_model(&tiny));
    let (own, exact) = (&model.configs().dit, &tiny.configs().dit);
    assert_eq!(own.num_hidden_layers, exact.num_hidden_layers);
    assert_eq!(own.fsq_input_levels, exact.fsq_input_levels);
    assert_eq!(own.sliding_window, Some(128));
    assert_eq!(model.configs().vae.downsampling_ratios, tiny.configs().vae.downsampling_ratios);
    assert_eq!(model.configs().vae.channel_multiples, tiny.configs().vae.channel_multiples);
    assert!(model.is_turbo(), "by its name");
    assert!(model.notices()[0].contains("by its name it is a turbo model"));
}

/// The encoders of an XL model have another width, which needs extra keys in the config.
#[test]
fn the_sizes_of_an_xl_model_tell_its_encoders_own() {
    let dir = temporary();
    let released = acestep_tests::root().join("tests/goldens/checkpoints_xl/acestep-v15-xl-turbo");
    let file = dir.path().join("xl_turbo.safetensors");
    std::fs::copy(released.join("model.safetensors"), &file).expect("a copy");
    let silence = "silence_latent.pt";
    std::fs::copy(released.join(silence), dir.path().join(silence)).expect("a copy");
    let layout = Layout::new([]);
    let open = |path: &Path| {
        let directory = acestep_import::directory(path, Kind::Dit, &layout).expect("one");
        DitDir::open(directory).expect("a model")
    };
    let (own, exact) = (open(&file), open(&released));
    let of = |folder: &DitDir| {
        let config = folder.config();
        (
            [config.encoder_hidden_size, config.encoder_intermediate_size],
            [config.encoder_num_attention_heads, config.encoder_num_key_value_heads],
            [config.hidden_size, config.intermediate_size, config.num_hidden_layers],
            [config.num_attention_heads, config.num_key_value_heads, config.head_dim],
            [config.fsq_dim, config.text_hidden_dim, config.timbre_hidden_dim],
            [config.num_lyric_encoder_hidden_layers, config.num_timbre_encoder_hidden_layers],
            [config.pool_window_size, config.patch_size, config.in_channels],
        )
    };
    assert_eq!(of(&own), of(&exact));
    assert!(own.config().encoder_hidden_size.is_some());
    own.check::<Cpu>(&DEVICE, &[Network::Conditioner, Network::AudioCodec, Network::Dit])
        .expect("it fits");
}

/// Message and remedy of a model that cannot be opened or checked.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    text: String,
    hint: String,
}

impl Refusal {
    pub(super) fn of(error: &acestep_import::Error) -> Self {
        Self { text: error.to_string(), hint: error.hint().unwrap_or_default() }
    }

    #[track_caller]
    pub(super) fn says(&self, words: &str) -> &Self {
        assert!(self.text.contains(words), "{}", self.text);
        self
    }

    #[track_caller]
    pub(super) fn hints(&self, words: &str) -> &Self {
        assert!(self.hint.contains(words), "{}", self.hint);
        self
    }
}

/// Opens `choice`, which is refused, with `dir` as the models directory.
fn refused(choice: &str, dir: &Path) -> Refusal {
    Refusal::of(&open(choice, &layout(dir)).expect_err("refused"))
}

/// The networks that a text-to-music song needs.
const PARTS: [Network; 5] = [
    Network::TextEncoder,
    Network::Conditioner,
    Network::AudioCodec,
    Network::Dit,
    Network::VaeDecoder,
];

/// The vocabulary of another network has other ids, so the song would be of another text.
#[test]
fn a_tokenizer_that_does_not_fit_is_left_for_the_next() {
    let dir = temporary();
    write_comfy_checkpoint(dir.path());
    let vocabulary = |count: usize| {
        let ids: serde_json::Map<String, serde_json::Value> =
            (0..count).map(|id| (format!("t{id}"), id.into())).collect();
        serde_json::Value::Object(ids).to_string()
    };
    std::fs::write(dir.path().join("vocab.json"), vocabulary(2000)).expect("written");
    std::fs::write(dir.path().join("merges.txt"), "").expect("written");
    let path = dir.path().join("tiny_turbo_aio.safetensors");
    is_the_same(
        &open(&path.to_string_lossy(), &Layout::new([])).expect("one"),
        ModelFormat::Single,
    );
    let language = || open_language_model(Some(&path.to_string_lossy()), &Layout::new([]));
    is_the_same_language_model(&language().expect("one"));

    let own = dir.path().join("Qwen3-Embedding-0.6B");
    std::fs::write(own.join("vocab.json"), "version https://git-lfs.github.com/spec/v1\n")
        .expect("written");
    let error = language().expect("a model").tokenizer().expect_err("none fits").to_string();
    assert!(
        error.contains("its 2000 tokens and 26 added ones are more than the 958 rows"),
        "{error}"
    );
    assert!(error.contains("vocab.json is a Git LFS pointer"), "{error}");
}

/// In a directory of several checkpoints, one config.json belongs to at most one of them.
#[test]
fn a_config_beside_several_checkpoints_is_taken_for_its_own_alone() {
    let dir = temporary();
    write_comfy_checkpoint(dir.path());
    let config = dir.path().join("config.json");
    let set = |key: &str, value: serde_json::Value| {
        let text = std::fs::read_to_string(&config).expect("a config");
        let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        json[key] = value;
        std::fs::write(&config, json.to_string()).expect("written");
    };
    let open = |name: &str| open(name, &layout(dir.path())).expect("a model");
    let tiny = open_tiny().expect("built in");
    set("is_turbo", true.into());
    // If the sizes are equal, the file name decides.
    let base = "tiny_base_aio.safetensors";
    std::fs::copy(dir.path().join("tiny_turbo_aio.safetensors"), dir.path().join(base))
        .expect("a copy");
    let model = open("tiny_turbo_aio.safetensors");
    assert!(model.is_turbo() && model.notices().is_empty(), "{:?}", model.notices());
    let model = open(base);
    assert!(!model.is_turbo());
    let notice = &model.notices()[0];
    assert!(
        notice.contains("config.json` is not used for `tiny_base_aio.safetensors`"),
        "{notice}"
    );
    assert!(notice.contains("a turbo model's, which this is not by its name"), "{notice}");
    // With a single checkpoint, the user's config.json is used.
    std::fs::remove_file(dir.path().join("tiny_turbo_aio.safetensors")).expect("removed");
    assert!(open(base).is_turbo());

    for (key, value) in [("num_hidden_layers", 7), ("hidden_size", 2048)] {
        let own = serde_json::json!(value);
        let text = std::fs::read_to_string(&config).expect("a config");
        set(key, own);
        let model = open(base);
        let notice = &model.notices()[0];
        assert!(
            notice.contains(&format!("its `{key}` is {value}, and by its tensors")),
            "{notice}"
        );
        assert!(of_model(&model) == of_model(&tiny));
        std::fs::write(&config, text).expect("written");
    }
    std::fs::write(&config, "{").expect("written");
    assert!(open(base).notices()[0].contains("it is not JSON"));
}
