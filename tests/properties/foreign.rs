//! Other programs' files give the same networks and the same songs as the released layout.

use std::path::{Path, PathBuf};

use acestep_import::{
    Directory, DitFolder, Folder, Format, Kind, LanguageFolder, Layout, Part, open,
    open_language_model, open_tiny, open_tiny_language_model,
};
use acestep_model::{Checkpoint, Tokenizer};
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

fn values<M: Module<Cpu>>(network: Result<M, acestep_import::Error>) -> Vec<Vec<f32>> {
    let mut values = Values(Vec::new());
    network.expect("a network").visit(&mut values);
    assert!(!values.0.is_empty());
    values.0
}

/// Every parameter of a model, and its latent of silence.
fn of_model(model: &Folder) -> Vec<Vec<f32>> {
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

fn of_language_model(folder: &LanguageFolder) -> Vec<Vec<f32>> {
    values(folder.model(&place()))
}

/// Weights, ids of a text, a song: all of them those of the released layout.
fn is_the_same(model: &Folder, format: Format) {
    let tiny = open_tiny().expect("built in");
    assert_eq!(model.origin().format, format);
    assert_eq!(model.origin().to_string(), format!("{format}, F32"));
    assert!(of_model(model) == of_model(&tiny), "{format}: other weights");
    let text = "Grüße, a calm piano <|endoftext|> 东京 123";
    let ids = |model: &Folder| Checkpoint::<Cpu>::token_ids(model, text, 64).expect("ids");
    assert_eq!(ids(model), ids(&tiny), "{format}");
    assert!(model.is_turbo());
    let song = |model: &Folder| songs(&plan(&request(), model), model).expect("a song");
    assert_eq!(song(model), song(&tiny), "{format}");
}

fn is_the_same_language_model(folder: &LanguageFolder) {
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

    // By path, without a models directory, companions lie beside it.
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

#[test]
fn bf16_is_the_upper_half_of_each_weight() {
    let dir = temporary();
    write_gguf_models(dir.path(), Weights::Bf16);
    let model = open("turbo", &layout(dir.path())).expect("a model");
    assert_eq!(model.origin().to_string(), "GGUF, BF16");
    let place = place();
    let cut = |values: Vec<Vec<f32>>| -> Vec<Vec<u32>> {
        values.iter().map(|v| v.iter().map(|x| x.to_bits() & 0xFFFF_0000).collect()).collect()
    };
    let bits = |values: Vec<Vec<f32>>| -> Vec<Vec<u32>> {
        values.iter().map(|v| v.iter().map(|x| x.to_bits()).collect()).collect()
    };
    let tiny = open_tiny().expect("built in");
    let expected = cut(values(Checkpoint::<Cpu>::dit(&tiny, &place)));
    assert!(bits(values(Checkpoint::<Cpu>::dit(&model, &place))) == expected);
}

/// A block's step is at most its largest value's 63rd part, and a value at most half of that off.
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
    // Seven parts in eight of a second's song agree with the exact one's.
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

/// Sizes of the tensors tell all but the window, the levels, the rotary base: of the released ones.
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

/// The encoders of an XL model have a width of their own, which brings the keys of its release.
#[test]
fn the_sizes_of_an_xl_model_tell_its_encoders_own() {
    let dir = temporary();
    let released = acestep_tests::root().join("tests/goldens/checkpoints_xl/acestep-v15-xl-turbo");
    let file = dir.path().join("xl_turbo.safetensors");
    std::fs::copy(released.join("model.safetensors"), &file).expect("a copy");
    let layout = Layout::new([]);
    let open = |path: &Path| {
        let directory = acestep_import::directory(path, Kind::Dit, &layout).expect("one");
        DitFolder::open(directory).expect("a model")
    };
    let (own, exact) = (open(&file), open(&released));
    let of = |folder: &DitFolder| {
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
    own.check::<Cpu>(&DEVICE, &[Part::Conditioner, Part::AudioCodec, Part::Dit]).expect("it fits");
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

/// The message of opening `choice` among what lies in `dir`.
fn refused(choice: &str, dir: &Path) -> String {
    let error = open(choice, &layout(dir)).expect_err("refused");
    format!("{error}\n{}", error.hint().unwrap_or_default())
}

#[test]
fn what_a_file_does_not_hold_is_named_with_what_to_do() {
    let dir = temporary();
    write_comfy_checkpoint(dir.path());
    let model = || open("tiny_turbo_aio.safetensors", &layout(dir.path())).expect("a model");
    std::fs::remove_file(dir.path().join("silence_latent.pt")).expect("removed");
    let error = Checkpoint::<Cpu>::silence_latent(&model(), &DEVICE).expect_err("no silence");
    assert!(error.to_string().contains("holds no latent of silence"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("silence_latent.pt")), "{error}");
    std::fs::remove_dir_all(dir.path().join("Qwen3-Embedding-0.6B")).expect("removed");
    let error = Checkpoint::<Cpu>::token_ids(&model(), "a", 8).expect_err("no tokenizer");
    assert!(error.to_string().contains("holds no tokenizer"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("tokenizer.json")), "{error}");

    let pipeline = dir.path().join("pipeline");
    write_diffusers(&pipeline);
    std::fs::remove_dir_all(pipeline.join("audio_tokenizer")).expect("removed");
    assert!(refused("pipeline", dir.path()).contains("holds no audio_tokenizer"));
}

#[test]
fn other_files_are_refused_by_what_they_are() {
    let dir = temporary();
    let at = |name: &str| dir.path().join(name);
    write_gguf_models(dir.path(), Weights::F32);
    // A network of another kind, under whatever name.
    let text = refused(&at("vae-F32.gguf").to_string_lossy(), dir.path());
    assert!(text.contains("holds the Oobleck audio autoencoder, not a diffusion"), "{text}");
    let llama = [("general.architecture", value_text("llama"))];
    write_gguf(&at("llama.gguf"), &llama, &Default::default(), |_, _| Weights::F32);
    let text = refused("llama.gguf", dir.path());
    assert!(text.contains("its architecture is `llama`, which is no network"), "{text}");
    let cut = std::fs::read(at("acestep-v15-turbo-F32.gguf")).expect("a file");
    std::fs::write(at("cut.gguf"), &cut[..cut.len() / 2]).expect("written");
    assert!(refused("cut.gguf", dir.path()).contains("cut.gguf` is cut: it has"));
    std::fs::write(at("notes.txt"), "a song").expect("written");
    let text = refused("notes.txt", dir.path());
    assert!(text.contains("it is neither GGUF nor safetensors"), "{text}");
    std::fs::write(at("model.pt"), b"PK\x03\x04").expect("written");
    assert!(refused("model.pt", dir.path()).contains("PyTorch's own files are not read"));

    // Weights in 8 bits of ComfyUI.
    let header = r#"{"model.diffusion_model.decoder.proj_in.1.weight":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 2]].concat();
    std::fs::write(at("fp8.safetensors"), bytes).expect("written");
    let text = refused("fp8.safetensors", dir.path());
    assert!(text.contains("its weights are in 8 bits (tensor `model.diffusion_model."), "{text}");
    let header = r#"{"lyric_embs.weight":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    std::fs::write(at("first.safetensors"), bytes).expect("written");
    assert!(refused("first.safetensors", dir.path()).contains("ACE-Step 1, not of 1.5"));

    let pipeline: PathBuf = at("pipeline");
    std::fs::create_dir(&pipeline).expect("a directory");
    let index = r#"{"_class_name": "FluxPipeline"}"#;
    std::fs::write(pipeline.join("model_index.json"), index).expect("written");
    assert!(refused("pipeline", dir.path()).contains("of class `FluxPipeline`"));
    assert!(matches!(Directory::Disk(pipeline).format(), Format::Released));
}
