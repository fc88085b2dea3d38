//! Files of other programs give the same networks and songs as the released layout.

mod refused;

use std::path::Path;

use acestep_import::{
    AceStep, DitDir, Format, Kind, LanguageModelDir, Layout, Network, open, open_language_model,
    open_tiny, open_tiny_language_model,
};
use acestep_model::{Checkpoint, CheckpointError, LanguageCheckpoint, ModelFiles, Tokenizer};
use acestep_tests::{
    Cpu, DEVICE,
    foreign::{
        Weights, value_text, write_comfy_checkpoint, write_comfy_split, write_diffusers,
        write_gguf, write_gguf_models,
    },
    place, plan, request, songs,
};
use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::Tensor,
};
use tempfile::TempDir;

fn temporary() -> TempDir {
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

fn values<M: Module<Cpu>>(network: Result<M, CheckpointError>) -> Vec<Vec<f32>> {
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
fn is_the_same(model: &AceStep, format: Format) {
    let tiny = open_tiny().expect("built in");
    assert_eq!(model.origin().format, format);
    assert_eq!(model.origin().to_string(), format!("{format}, F32"));
    assert!(of_model(model) == of_model(&tiny), "{format}: other weights");
    let text = "Grüße, a calm piano <|endoftext|> 东京 123";
    let ids = |model: &AceStep| model.token_ids(text, 64).expect("ids");
    assert_eq!(ids(model), ids(&tiny), "{format}");
    assert!(model.is_turbo());
    let song = |model: &AceStep| songs(&plan(&request(), model), model).expect("a song");
    assert_eq!(song(model), song(&tiny), "{format}");
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
fn gguf_files_are_found_by_their_names_and_hold_everything() {
    let dir = temporary();
    write_gguf_models(dir.path(), Weights::F32);
    let layout = layout(dir.path());
    let model = open("turbo", &layout).expect("a model");
    assert_eq!(model.name(), "turbo");
    assert!(model.path().ends_with("acestep-v15-turbo-F32.gguf"));
    assert_eq!(model.notices(), [""; 0]);
    is_the_same(&model, Format::Gguf);
    let folder = open_language_model(None, &layout).expect("a language model");
    assert_eq!(folder.name(), "lm-0.6b");
    is_the_same_language_model(&folder);

    // Opened by path, without a models directory, the companion files are beside it.
    let path = dir.path().join("acestep-v15-turbo-F32.gguf");
    let alone = open(&path.to_string_lossy(), &Layout::new([])).expect("a model");
    assert_eq!((alone.name(), alone.path()), ("turbo", path.as_path()));
}

#[test]
fn the_finest_of_several_gguf_files_is_taken() {
    let dir = temporary();
    write_gguf_models(dir.path(), Weights::Q8_0);
    let found = |dir: &Path| open("turbo", &layout(dir)).expect("a model").path().to_owned();
    assert!(found(dir.path()).ends_with("acestep-v15-turbo-Q8_0.gguf"));
    write_gguf_models(dir.path(), Weights::Bf16);
    assert!(found(dir.path()).ends_with("acestep-v15-turbo-BF16.gguf"));
}

/// The step of a block is at most 1/63 of its largest value; the error is at most half a step.
#[test]
fn q8_0_is_within_half_a_step_and_is_said() {
    let dir = temporary();
    write_gguf_models(dir.path(), Weights::Q8_0);
    let layout = layout(dir.path());
    let model = open("turbo", &layout).expect("a model");
    assert_eq!(model.origin().to_string(), "GGUF, Q8_0");
    assert!(model.notices()[0].starts_with("the diffusion model is quantised (Q8_0)"));
    let tiny = open_tiny().expect("built in");
    let mut coarser = 0;
    for (own, exact) in of_model(&model).iter().zip(&of_model(&tiny)) {
        let most = exact.iter().fold(0_f32, |most, value| most.max(value.abs()));
        for (own, exact) in own.iter().zip(exact) {
            assert!((own - exact).abs() <= most / 63.0 / 2.0 + 1e-6, "{own} for {exact}");
            coarser += usize::from(own != exact);
        }
    }
    assert!(coarser > 100_000, "only {coarser} values differ");
    // The difference of the songs stays below half of the peak.
    let song = songs(&plan(&request(), &model), &model).expect("a song");
    let other = songs(&plan(&request(), &tiny), &tiny).expect("a song");
    assert!(acestep_tests::difference(&other[0], &song[0]) < 0.5);
    let folder = open_language_model(Some("0.6B"), &layout).expect("a language model");
    assert!(folder.notices()[0].starts_with("the language model is quantised (Q8_0)"));
}

#[test]
fn one_file_of_comfyui_is_the_whole_model() {
    let dir = temporary();
    write_comfy_checkpoint(dir.path());
    let path = dir.path().join("tiny_turbo_aio.safetensors");
    let layout = layout(dir.path());
    let model = open("tiny_turbo_aio.safetensors", &layout).expect("a model");
    assert_eq!((model.name(), model.path()), ("tiny_turbo_aio", path.as_path()));
    is_the_same(&model, Format::Single);
    let folder = open_language_model(Some(&path.to_string_lossy()), &layout).expect("one");
    is_the_same_language_model(&folder);
}

#[test]
fn comfyui_directories_by_kind_are_one_model() {
    let dir = temporary();
    write_comfy_split(dir.path());
    let layout = layout(dir.path());
    is_the_same(&open("tiny_turbo.safetensors", &layout).expect("a model"), Format::Single);
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

#[test]
fn a_pipeline_of_diffusers_is_the_whole_model() {
    let dir = temporary();
    let pipeline = dir.path().join("pipeline");
    write_diffusers(&pipeline);
    let model = open("pipeline", &layout(dir.path())).expect("a model");
    assert_eq!(model.name(), "pipeline");
    assert_eq!(model.notices(), [""; 0]);
    is_the_same(&model, Format::Diffusers);
}

/// Returns the error message of opening `choice` with `dir` as the models directory.
fn refused(choice: &str, dir: &Path) -> String {
    let error = open(choice, &layout(dir)).expect_err("refused");
    format!("{error}\n{}", error.hint().unwrap_or_default())
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
    is_the_same(&open(&path.to_string_lossy(), &Layout::new([])).expect("one"), Format::Single);
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

#[test]
fn a_gguf_file_without_pieces_finds_those_beside_it() {
    let dir = temporary();
    write_gguf_models(dir.path(), Weights::F32);
    let released = acestep_tests::foreign::released();
    let without = |directory: &str, architecture: &str| {
        let from = released.join(directory);
        let config = std::fs::read_to_string(from.join("config.json")).expect("a config");
        let values = [
            ("general.architecture", value_text(architecture)),
            ("acestep.config_json", value_text(&config)),
        ];
        let tensors = acestep_tests::foreign::read(&from.join("model.safetensors"));
        let path = dir.path().join(format!("{directory}-F32.gguf"));
        write_gguf(&path, &values, &tensors, |_, _| Weights::F32);
    };
    without("acestep-v15-turbo", "acestep-dit");
    without("Qwen3-Embedding-0.6B", "acestep-text-enc");
    std::fs::remove_file(dir.path().join("acestep-5Hz-lm-0.6B-F32.gguf")).expect("removed");
    let open = || open("turbo", &layout(dir.path())).expect("a model");
    let error = open().check_tokenizer().expect_err("no tokenizer");
    assert!(error.to_string().contains("holds no tokenizer"), "{error}");
    let hint = error.hint().expect("a hint");
    assert!(hint.contains(&format!("into `{}`", dir.path().display())), "{hint}");

    // Follow the hints.
    for (from, file) in [
        ("Qwen3-Embedding-0.6B", "vocab.json"),
        ("Qwen3-Embedding-0.6B", "merges.txt"),
        ("acestep-v15-turbo", "silence_latent.pt"),
    ] {
        let content = std::fs::read(released.join(from).join(file)).expect("a golden");
        std::fs::write(dir.path().join(file), content).expect("written");
    }
    is_the_same(&open(), Format::Gguf);
}

/// The released language models have no head of their own: their table of tokens is it, in every type. A
/// head that is stored all the same is used only where the configuration says so.
#[test]
fn a_gguf_file_of_a_language_model_may_have_its_table_for_a_head() {
    let from = acestep_tests::foreign::released().join("acestep-5Hz-lm-0.6B");
    let config = std::fs::read_to_string(from.join("config.json")).expect("a config");
    let tied = acestep_tests::foreign::read(&from.join("model.safetensors"));
    assert!(tied.keys().all(|name| !name.contains("lm_head")), "the point of this test");
    let table = &tied["model.embed_tokens.weight"];
    let head = acestep_tests::foreign::Stored {
        shape: table.shape.clone(),
        values: table.values.iter().map(|value| -value).collect(),
    };
    let dir = temporary();
    std::fs::copy(from.join("tokenizer.json"), dir.path().join("tokenizer.json")).expect("a copy");
    let opened = |is_tied: bool, head_is_there: bool, weights: Weights| {
        let config = match is_tied {
            true => config.clone(),
            false => {
                config.replace("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false")
            }
        };
        let values = [
            ("general.architecture", value_text("acestep-lm")),
            ("acestep.config_json", value_text(&config)),
        ];
        let mut tensors = tied.clone();
        if head_is_there {
            tensors.insert("model.lm_head.weight".into(), head.clone());
        }
        let path = dir.path().join("lm.gguf");
        std::fs::remove_file(&path).unwrap_or_default();
        write_gguf(&path, &values, &tensors, |name, _| match name {
            "model.embed_tokens.weight" | "model.lm_head.weight" => weights,
            _ => Weights::F32,
        });
        open_language_model(Some(&path.to_string_lossy()), &Layout::new([])).expect("a model")
    };
    let exact = of_language_model(&open_tiny_language_model().expect("built in"));
    for head_is_there in [false, true] {
        let folder = opened(true, head_is_there, Weights::F32);
        folder.check::<Cpu>(&DEVICE).expect("whole");
        assert!(of_language_model(&folder) == exact, "other weights");
        let coarse = of_language_model(&opened(true, head_is_there, Weights::Q8_0));
        assert_eq!((coarse.len(), coarse == exact), (exact.len(), false));
    }
    assert_eq!(of_language_model(&opened(false, true, Weights::F32)).len(), exact.len() + 1);
    let error = opened(false, false, Weights::F32).check::<Cpu>(&DEVICE).expect_err("no head");
    assert!(error.to_string().contains("has no tensor `lm_head.weight`"), "{error}");
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

/// diffusers registers the two halves of the audio codec as optional.
#[test]
fn a_pipeline_without_its_audio_codec_makes_songs_of_texts_alone() {
    let dir = temporary();
    let pipeline = dir.path().join("pipeline");
    let tiny = open_tiny().expect("built in");
    for missing in [&["audio_tokenizer"][..], &["audio_tokenizer", "audio_token_detokenizer"]] {
        write_diffusers(&pipeline);
        for name in missing {
            std::fs::remove_dir_all(pipeline.join(name)).expect("removed");
        }
        let model = open("pipeline", &layout(dir.path())).expect("a model");
        model.check::<Cpu>(&DEVICE, &PARTS).expect("all that a text needs");
        let song = |model: &AceStep| songs(&plan(&request(), model), model).expect("a song");
        assert_eq!(song(&model), song(&tiny));
        model.require(Network::Dit).expect("there");
        for error in [
            model.require(Network::AudioCodec).expect_err("none"),
            model.dit_dir().audio_codec::<Cpu>(&place()).expect_err("none"),
        ] {
            assert!(error.to_string().contains("holds no audio codec"), "{error}");
            let hint = error.hint().expect("a hint");
            assert!(
                hint.contains("`thinking: false`") && hint.contains("audio_tokenizer"),
                "{hint}"
            );
        }
    }
    // A directory that the index does not list is ignored.
    write_diffusers(&pipeline);
    let index = r#"{"_class_name": "AceStepPipeline", "audio_tokenizer": [null, null]}"#;
    std::fs::write(pipeline.join("model_index.json"), index).expect("written");
    let model = open("pipeline", &layout(dir.path())).expect("a model");
    assert!(model.require(Network::AudioCodec).is_err());
    // The other directories are required.
    std::fs::remove_dir_all(pipeline.join("condition_encoder")).expect("removed");
    assert!(refused("pipeline", dir.path()).contains("holds no condition_encoder"));
}

#[test]
fn a_pipelines_zeros_are_no_silence() {
    let dir = temporary();
    let pipeline = dir.path().join("pipeline");
    write_diffusers(&pipeline);
    let file = pipeline.join("condition_encoder/diffusion_pytorch_model.safetensors");
    let mut tensors = acestep_tests::foreign::read(&file);
    tensors.get_mut("silence_latent").expect("a tensor").values.fill(0.0);
    acestep_tests::foreign::write(&file, &tensors);
    let open = || open("pipeline", &layout(dir.path())).expect("a model");
    let error = open().check::<Cpu>(&DEVICE, &PARTS).expect_err("zeros").to_string();
    assert!(error.contains("it is nothing but zeros"), "{error}");
    let silence = acestep_tests::foreign::released().join("acestep-v15-turbo/silence_latent.pt");
    std::fs::copy(silence, dir.path().join("silence_latent.pt")).expect("a copy");
    is_the_same(&open(), Format::Diffusers);
}
