use std::fs;

use burn::module::Module;
use safetensors::Dtype;

use super::*;
use crate::{
    Layout, ModelPaths, TextEncoderDir, open_language_model, open_tiny_language_model,
    testing::{
        B, Copy, Stored, copy_of_language_model as copy, edit_config, edit_tensors, file, goldens,
        place, rewrite,
    },
};

fn open(path: &Path) -> Result<LanguageModelDir, Error> {
    LanguageModelDir::open(Directory::Disk(path.to_owned()))
}

/// Opens, checks and loads the model; check and load must agree.
fn load(path: &Path) -> Result<qwen3::Causal<B>, Error> {
    let folder = open(path)?;
    let checked = folder.check::<B>(&Default::default());
    let loaded = folder.model::<B>(&place());
    assert_eq!(checked.is_ok(), loaded.is_ok());
    loaded
}

/// A head separate from the embedding table: 958 rows of 64.
fn head() -> Stored {
    let values = (0..958 * 64).flat_map(|i| (i as f32).to_le_bytes());
    Stored { dtype: Dtype::F32, shape: vec![958, 64], bytes: values.collect() }
}

fn add_head(path: &Path) {
    edit_tensors(&path.join("model.safetensors"), |tensors| tensors.push((HEAD.into(), head())));
}

#[test]
fn the_built_in_language_model_loads_whole() -> Result<(), CheckpointError> {
    let tiny = open_tiny_language_model()?;
    assert_eq!(tiny.name(), "tiny");
    tiny.check::<B>(&Default::default())?;
    let checkpoint: &dyn LanguageCheckpoint<B> = &tiny;
    let model = checkpoint.language_model(&place())?;
    // By hand: 958 rows of 64; four layers of 2 * 128 * 64 (q, o), 2 * 64 * 64 (k, v),
    // 3 * 128 * 64 (mlp), 2 * 32 (head norms), 2 * 64 (norms); 64 of the last norm.
    let parameters = 958 * 64 + 4 * (16_384 + 8_192 + 24_576 + 64 + 128) + 64;
    assert_eq!(model.num_params(), parameters);
    let size = tiny.size()?;
    assert_eq!((size.parameters, size.file_bytes), (parameters as u64, 4 * parameters as u64));
    assert_eq!(checkpoint.tokenizer()?.vocabulary(), checkpoint.config().vocab_size);
    Ok(())
}

#[test]
fn a_choice_leads_to_a_folder_with_its_name() -> Result<(), Error> {
    let (temporary, path) = copy();
    let layout = Layout::new([temporary.path().to_owned()]);
    for (choice, name) in [(None, "lm-0.6b"), (Some("0.6B"), "lm-0.6b"), (Some("tiny"), "tiny")] {
        assert_eq!(open_language_model(choice, &layout)?.name(), name);
    }
    let own = path.with_file_name("my-planner");
    fs::rename(&path, &own).expect("another name");
    assert_eq!(open_language_model(Some("my-planner"), &layout)?.name(), "my-planner");
    let error = open_language_model(None, &layout).expect_err("none of the released ones");
    assert!(matches!(error, Error::Absent { .. }), "{error}");
    Ok(())
}

#[test]
fn names_without_the_prefix_model_are_the_same() -> Result<(), Error> {
    let (_temporary, path) = copy();
    rewrite(&path.join("model.safetensors"), |name, tensor| {
        (name.strip_prefix("model.").expect("a prefix").to_owned(), tensor)
    });
    load(&path)?;
    // The head has no prefix in either case.
    edit_config(&path, "tie_word_embeddings", false.into());
    add_head(&path);
    load(&path).map(drop)
}

#[test]
fn shards_are_read_by_their_index() -> Result<(), Error> {
    let (_temporary, path) = copy();
    let mut tensors = Vec::new();
    edit_tensors(&path.join("model.safetensors"), |all| tensors.clone_from(all));
    fs::remove_file(path.join("model.safetensors")).expect("a file");
    let mut map = serde_json::Map::new();
    for (i, shard) in tensors.chunks(tensors.len() / 2 + 1).enumerate() {
        let name = format!("model-0000{}-of-00002.safetensors", i + 1);
        map.extend(shard.iter().map(|(tensor, _)| (tensor.clone(), name.clone().into())));
        let shard: Vec<_> = shard.iter().map(|(name, t)| (name.as_str(), t.clone())).collect();
        fs::write(path.join(name), file(&shard)).expect("a shard");
    }
    let index = serde_json::json!({"weight_map": map}).to_string();
    fs::write(path.join("model.safetensors.index.json"), index).expect("an index");
    let folder = open(&path)?;
    assert_eq!(folder.files().count(), 2);
    assert_eq!(folder.size()?, open_tiny_language_model()?.size()?);
    load(&path)?;

    fs::remove_file(path.join("model-00002-of-00002.safetensors")).expect("a shard");
    let error = open(&path).expect_err("half a model");
    assert!(matches!(error, Error::MissingShard { .. }), "{error}");
    Ok(())
}

#[test]
fn a_stored_head_is_used_only_where_the_table_is_not_the_head() -> Result<(), Error> {
    let (_temporary, path) = copy();
    add_head(&path);
    let tied = load(&path)?.num_params();
    assert_eq!(open(&path)?.size()?, open_tiny_language_model()?.size()?);

    edit_config(&path, "tie_word_embeddings", false.into());
    let model = load(&path)?;
    assert_eq!(model.num_params(), tied + 958 * 64);
    assert_eq!(open(&path)?.size()?.parameters as usize, tied + 958 * 64);
    Ok(())
}

#[test]
fn tensors_that_are_missing_or_left_over_are_named() {
    let (_temporary, path) = copy();
    edit_config(&path, "tie_word_embeddings", false.into());
    let error = load(&path).expect_err("no head").to_string();
    let says = "has no tensor `lm_head.weight`, which the language model needs";
    assert!(error.ends_with(says), "{error}");
    edit_config(&path, "tie_word_embeddings", true.into());
    edit_config(&path, "num_hidden_layers", 3.into());
    let error = load(&path).expect_err("a fourth layer").to_string();
    let says = "11 tensors that the language model does not use: `model.layers.3.";
    assert!(error.contains(says), "{error}");
    edit_config(&path, "num_hidden_layers", 5.into());
    let error = load(&path).expect_err("no fifth layer").to_string();
    assert!(error.contains("has no tensor `model.layers.4.input_layernorm.weight`, "), "{error}");
}

#[test]
fn other_networks_are_told_for_what_they_are() {
    let copy = Copy::new();
    let ModelPaths { dit, vae, text_encoder, .. } = &copy.paths;
    let wanted = "not a language model of ACE-Step 1.5";
    for (path, found) in [
        (
            text_encoder.as_path(),
            "a Qwen3 model whose tokenizer has no audio codes, such as the text encoder",
        ),
        (dit, "a diffusion transformer of ACE-Step 1.5"),
        (vae, "the Oobleck audio autoencoder"),
        (dit.parent().expect("a parent"), "several model directories"),
    ] {
        let error = open(path).expect_err("a wrong directory");
        assert!(error.to_string().ends_with(&format!("holds {found}, {wanted}")), "{error}");
        assert!(error.hint().expect("a hint").contains("acestep-5Hz-lm-1.7B"), "{error}");
    }
    let path = goldens().join("checkpoints_a/acestep-5Hz-lm-0.6B");
    let error = TextEncoderDir::open(Directory::Disk(path)).expect_err("a language model");
    let says = "holds a language model of ACE-Step 1.5, not a Qwen3 text encoder";
    assert!(error.to_string().ends_with(says), "{error}");
}

#[test]
fn a_folder_without_tokenizer_json_uses_the_vocabulary_and_one_with_neither_says_so() {
    let (_temporary, path) = copy();
    fs::remove_file(path.join("tokenizer.json")).expect("a file");
    let folder = open(&path).expect("a language model");
    assert_eq!(acestep_model::Tokenizer::vocabulary(folder.tokenizer().expect("one")), 958);

    fs::remove_file(path.join("vocab.json")).expect("a file");
    let folder = open(&path).expect("weights alone");
    let error = folder.tokenizer().expect_err("none");
    assert!(matches!(error, Error::MissingFile { .. }), "{error}");
    let says = "tokenizer.json` is missing, and so are `vocab.json` and `merges.txt`";
    assert!(error.to_string().ends_with(says), "{error}");
}
