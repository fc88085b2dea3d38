//! Tests with the tiny checkpoint: whole, damaged, and under the names of Moshi.

use std::fs;

use acestep_model::speech::mimi::DecoderState;
use burn::tensor::{Int, Tensor};
use safetensors::Dtype;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::testing::{B, Stored, assert_contains, copy_golden, edit_tensors, place, stored};

/// A writable copy of the tiny model, with its codec beside it.
struct Copy(TempDir);

impl Copy {
    fn new() -> Self {
        let copy = Self(tempfile::tempdir().expect("a folder"));
        for name in ["Dia2-tiny-alt", "mimi"] {
            copy_golden(&format!("checkpoints_dia2/{name}"), &copy.0.path().join(name));
        }
        copy
    }

    fn model(&self) -> PathBuf {
        self.0.path().join("Dia2-tiny-alt")
    }

    fn codec(&self) -> PathBuf {
        self.0.path().join("mimi")
    }

    fn weights(&self) -> PathBuf {
        self.model().join("model.safetensors")
    }

    fn open(&self) -> Result<Dia2, Error> {
        Dia2::open(&self.model(), &Dia2Choice::default())
    }

    /// Opens and compares; returns the error of either.
    #[track_caller]
    fn refused(&self) -> String {
        let result = self.open().and_then(|model| model.check::<B>(&place().device));
        result.expect_err("a damaged model").to_string()
    }

    fn edit_config(&self, pointer: &str, value: Value) {
        let path = self.model().join("config.json");
        let text = fs::read_to_string(&path).expect("a config");
        let mut config: Value = serde_json::from_str(&text).expect("JSON");
        *config.pointer_mut(pointer).expect(pointer) = value;
        fs::write(path, config.to_string()).expect("a written config");
    }
}

/// The numbers are those of the names and shapes in the file's header.
#[test]
fn a_whole_model_has_its_networks_tokenizer_and_codec() -> Result<(), Error> {
    let copy = Copy::new();
    let model = copy.open()?;
    model.check::<B>(&place().device)?;
    assert_eq!(model.name(), "Dia2-tiny-alt");
    assert_eq!(model.config().schedule(), [1, 0, 3, 3, 0, 1, 1]);
    let parameters = |network| model.size(network).map(|size| size.parameters);
    let [backbone, depformer] = [Dia2Network::Backbone, Dia2Network::Depformer].map(parameters);
    let file = Tensors::open(&Directory::Disk(copy.model()))?;
    let all: usize =
        file.names().map(|name| file.shape(name).map_or(0, |s| s.iter().product())).sum();
    assert_eq!(backbone? + depformer?, all as u64);
    // The codebooks belong to both networks of the codec.
    assert!(parameters(Dia2Network::CodecDecoder)? > 60_000);
    assert!(parameters(Dia2Network::CodecEncoder)? > 60_000);
    let tokenizer = model.tokenizer().expect("a tokenizer");
    // Golden: `logic/tokenizer.json`.
    for (text, ids) in [
        ("Hello", &[56, 355, 95][..]),
        ("[S1] hello", &[448, 386, 427]),
        ("(laughs)", &[450]),
        ("2024,", &[34, 32, 34, 36, 28]),
        ("a  b", &[81, 237, 237, 82]),
    ] {
        assert_eq!(tokenizer.encode(text), ids, "{text}");
    }
    assert_eq!([tokenizer.id_of("[S1]"), tokenizer.id_of("[S2]")], [Some(448), Some(449)]);
    assert_eq!(model.bos_token_id().expect("a tokenizer"), Some(0));
    Ok(())
}

#[test]
fn a_cut_file_is_refused() {
    let copy = Copy::new();
    let bytes = fs::read(copy.weights()).expect("weights");
    fs::write(copy.weights(), &bytes[..bytes.len() - 1]).expect("a cut file");
    let error = copy.refused();
    assert_contains(&error, "model.safetensors` is cut");
    let copy = Copy::new();
    fs::write(copy.codec().join("model.safetensors"), &bytes[..100]).expect("a cut file");
    assert_contains(&copy.refused(), "mimi");
}

#[test]
fn missing_foreign_and_mis_shaped_tensors_are_named() {
    for name in ["transformer.norm.weight", "depformer.layers.0.mlp.wi.weight"] {
        let copy = Copy::new();
        edit_tensors(&copy.weights(), |tensors| tensors.retain(|(own, _)| own != name));
        assert_contains(&copy.refused(), &format!("has no tensor `{name}`"));
    }
    for name in ["transformer.layers.7.pre_norm.weight", "depformer.depformer_in.2.weight", "other"]
    {
        let copy = Copy::new();
        let more = stored(Dtype::F32, &[1], &[1.0]);
        edit_tensors(&copy.weights(), |tensors| tensors.push((name.to_owned(), more)));
        let error = copy.refused();
        assert_contains(&error, "does not use");
        assert_contains(&error, &format!("`{name}`"));
    }
    let copy = Copy::new();
    edit_tensors(&copy.weights(), |tensors| {
        let (_, tensor) = tensors
            .iter_mut()
            .find(|(name, _)| name == "depformer.logits.2.weight")
            .expect("a tensor");
        tensor.shape.reverse();
    });
    let error = copy.refused();
    assert_contains(&error, "depformer.logits.2.weight");
    assert_contains(&error, "[28, 66]");
}

/// A schedule names weights: another number asks for others.
#[test]
fn a_schedule_of_other_weights_is_refused() {
    let copy = Copy::new();
    copy.edit_config("/runtime/weights_schedule", json!([1, 0, 3, 3, 0, 1, 2]));
    assert_contains(&copy.refused(), "depformer.depformer_in.2.weight");
    let copy = Copy::new();
    copy.edit_config("/runtime/weights_schedule", json!([1, 0, 1, 1, 0, 1, 1]));
    let error = copy.refused();
    assert_contains(&error, "depformer.depformer_in.3.weight");
    assert_contains(&error, "does not use");
    let copy = Copy::new();
    copy.edit_config("/runtime/weights_schedule", json!([1, 0]));
    let error = copy.open().expect_err("a short schedule");
    let why = std::error::Error::source(&error).expect("a cause").to_string();
    assert_contains(&why, "weights_schedule");
}

#[test]
fn another_codec_or_another_model_is_refused() {
    let copy = Copy::new();
    copy.edit_config("/data/audio_bos_token_id", json!(63));
    assert_contains(&copy.refused(), "codebook_size");
    let copy = Copy::new();
    let choice = Dia2Choice::default();
    let error = Dia2::open(&copy.codec(), &choice).expect_err("a codec").to_string();
    assert_contains(&error, "holds a model of type `mimi`, not a Dia2 model");
    let choice = Dia2Choice { mimi: Some("Dia2-tiny-alt".into()), ..Default::default() };
    let error = Dia2::open(&copy.model(), &choice).expect_err("no codec").to_string();
    assert_contains(&error, "holds a Dia2 model, not the codec Mimi");
}

#[test]
fn the_codec_is_searched_by_path_and_by_the_last_part_of_its_name() {
    let copy = Copy::new();
    fs::rename(copy.codec(), copy.0.path().join("other")).expect("another name");
    let error = copy.open().expect_err("no codec").to_string();
    assert_contains(&error, "codec `kyutai/mimi`");
    let with = |mimi: String| {
        let choice = Dia2Choice { mimi: Some(mimi), ..Default::default() };
        Dia2::open(&copy.model(), &choice).map(drop)
    };
    with(copy.0.path().join("other").display().to_string()).expect("a path");
    with("someone/other".to_owned()).expect("a directory beside the model");
    with("../other".to_owned()).expect("relative to the model");
    // The default is beside the model again, and a broken file counts as an empty one.
    fs::rename(copy.0.path().join("other"), copy.codec()).expect("its name");
    fs::write(copy.model().join(ASSETS), "{").expect("a file");
    let model = copy.open().expect("the default codec");
    let [notice] = &model.notices()[..] else { panic!("one notice") };
    assert_contains(notice, "dia2_assets.json` is not used");
    fs::write(copy.model().join(ASSETS), r#"{"mimi": "", "tokenizer": ""}"#).expect("a file");
    assert_eq!(copy.open().expect("empty names count as absent").notices(), [""; 0]);
    fs::write(copy.model().join(ASSETS), "{").expect("a file");
    // A copy under another name has the tokenizer that it names.
    let renamed = copy.0.path().join("mine");
    fs::rename(copy.model(), &renamed).expect("another name");
    let model = Dia2::open(&renamed, &Dia2Choice::default()).expect("a renamed copy");
    assert_eq!(model.tokenizer().expect("a tokenizer").vocabulary(), 455);
    let choice = Dia2Choice { tokenizer: Some("none".into()), ..Default::default() };
    let error = Dia2::open(&renamed, &choice).expect_err("no tokenizer").to_string();
    assert_contains(&error, "tokenizer `none`");
}

/// Returns the name of Moshi for a name of transformers, as the reference's converter reads it.
fn of_moshi(name: &str) -> String {
    let mut name = name.to_owned();
    for (ours, theirs) in [
        (".self_attn.o_proj", ".self_attn.out_projs.0"),
        (".mlp.fc1", ".linear1"),
        (".mlp.fc2", ".linear2"),
        (".input_layernorm", ".norm1"),
        (".post_attention_layernorm", ".norm2"),
        (".self_attn_layer_scale", ".layer_scale_1"),
        (".mlp_layer_scale", ".layer_scale_2"),
        ("coder_transformer.", "coder_transformer.transformer."),
        ("semantic_residual_vector_quantizer", "rvq_first"),
        ("acoustic_residual_vector_quantizer", "rvq_rest"),
    ] {
        name = name.replace(ours, theirs);
    }
    if let Some(rest) = name.strip_prefix("encoder.layers.") {
        return format!("encoder.model.{}", rest.replace(".conv.", ".conv.conv."));
    }
    if let Some(rest) = name.strip_prefix("decoder.layers.") {
        let number = rest.split('.').next().unwrap_or_default();
        let is_transposed = ["2", "5", "8", "11"].contains(&number);
        let conv = if is_transposed { ".convtr.convtr." } else { ".conv.conv." };
        return format!("decoder.model.{}", rest.replace(".conv.", conv));
    }
    if name.starts_with("quantizer.") {
        name = name.replace(".layers.", ".vq.layers.").replace(".codebook.", "._codebook.");
        return name
            .replace(".initialized", "._initialized")
            .replace(".embed_sum", ".embedding_sum");
    }
    name.replace("downsample.conv", "downsample.conv.conv.conv")
        .replace("upsample.conv", "upsample.convtr.convtr.convtr")
}

/// Puts queries, keys and values into one tensor, with neighbours in place of halves.
fn fuse(tensors: &mut Vec<(String, Stored)>) {
    let all = std::mem::take(tensors);
    let (heads, half, width) = (4, 4, 32);
    for (name, tensor) in &all {
        if name.contains(".k_proj.") || name.contains(".v_proj.") {
            continue;
        }
        let Some((layer, _)) = name.split_once("q_proj.") else {
            tensors.push((of_moshi(name), tensor.clone()));
            continue;
        };
        let mut bytes = Vec::new();
        for which in ["q", "k", "v"] {
            let part = format!("{layer}{which}_proj.weight");
            let (_, part) = all.iter().find(|(name, _)| *name == part).expect("a part");
            let row = |row: usize| &part.bytes[4 * width * row..][..4 * width];
            for index in 0..width {
                let (head, pair, side) = (index / (2 * half), index % (2 * half) / 2, index % 2);
                let turned = head * 2 * half + side * half + pair;
                assert!(head < heads);
                bytes.extend_from_slice(row(if which == "v" { index } else { turned }));
            }
        }
        let tensor = Stored { dtype: Dtype::F32, shape: vec![3 * width, width], bytes };
        tensors.push((format!("{}in_projs.0.weight", of_moshi(layer)), tensor));
    }
}

#[test]
fn a_codec_with_the_names_of_moshi_is_the_same_codec() {
    let copy = Copy::new();
    let decoded = |model: &Dia2| {
        let decoder =
            Checkpoint::<B>::codec_decoder(model, &place(), Precision::Highest).expect("a decoder");
        let codes = Tensor::<B, 1, Int>::arange(0..40, &place().device).reshape([8, 5]);
        decoder.forward(codes, &mut DecoderState::default()).into_data()
    };
    let expected = decoded(&copy.open().expect("a model"));
    edit_tensors(&copy.codec().join("model.safetensors"), fuse);
    let model = copy.open().expect("a model");
    model.check::<B>(&place().device).expect("all tensors");
    assert_eq!(decoded(&model), expected);
}
