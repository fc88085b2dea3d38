use std::fs;

use burn::module::Module;
use safetensors::Dtype;

use super::*;
use crate::{
    open_tiny,
    testing::{B, Copy, edit_config, goldens, narrow, place, rewrite},
};

/// Loads every part of `folder`.
fn load_all(folder: &AceStep) -> Result<(), Error> {
    let place = place();
    folder.text_encoder.model::<B>(&place)?;
    folder.dit.conditioner::<B>(&place)?;
    folder.dit.audio_codec::<B>(&place)?;
    folder.dit.dit::<B>(&place)?;
    folder.vae.decoder::<B>(&place)?;
    folder.vae.encoder::<B>(&place)?;
    Ok(())
}

#[test]
fn the_built_in_checkpoint_loads_whole() -> Result<(), CheckpointError> {
    let tiny = open_tiny()?;
    load_all(&tiny)?;
    assert_eq!(tiny.name(), "tiny");
    let checkpoint: &dyn Checkpoint<B> = &tiny;
    assert_eq!(checkpoint.pad_token_id()?, 420);
    assert_eq!(checkpoint.token_ids("", 256)?, [420]);
    assert_eq!(checkpoint.silence_latent(&Default::default())?.dims(), [1, 1000, 16]);
    Ok(())
}

#[test]
fn base_and_xl_checkpoints_load_whole() -> Result<(), Error> {
    for dit in ["checkpoints_a/acestep-v15-base", "checkpoints_xl/acestep-v15-xl-turbo"] {
        let folder = AceStep::open(&ModelPaths {
            name: dit.into(),
            dit: goldens().join(dit),
            vae: goldens().join("checkpoints_a/vae"),
            text_encoder: goldens().join("checkpoints_a/Qwen3-Embedding-0.6B"),
            pieces: Vec::new(),
        })?;
        load_all(&folder)?;
    }
    let xl = goldens().join("checkpoints_xl/acestep-v15-xl-turbo");
    let silence = DitDir::open(Directory::Disk(xl))?.silence_latent::<B>(&place().device)?;
    assert_eq!(silence.dims(), [1, 1500, 16]);
    Ok(())
}

#[test]
fn parameters_are_the_numbers_of_the_file() -> Result<(), CheckpointError> {
    let folder = open_tiny()?;
    let place = place();
    let encoder: qwen3::Model<B> = folder.text_encoder(&place)?;
    assert_eq!(encoder.num_params() as u64, folder.size(Network::TextEncoder)?.parameters);
    let decoder: oobleck::Decoder<B> = folder.vae_decoder(&place)?;
    assert_eq!(decoder.num_params() as u64, folder.size(Network::VaeDecoder)?.parameters);
    // Weight norm stores additional lengths.
    let size = folder.size(Network::VaeDecoder)?;
    assert!(size.file_bytes > 4 * size.parameters, "{size:?}");
    let total: u64 =
        Network::ALL.iter().map(|&part| folder.size(part).map_or(0, |size| size.file_bytes)).sum();
    let files = [2_326_680, 1_523_880, 367_224].iter().sum::<u64>();
    assert!(total < files && total > files * 95 / 100, "{total} of {files}");
    Ok(())
}

#[test]
fn names_with_the_prefix_model_are_the_same() -> Result<(), Error> {
    let copy = Copy::new();
    let path = copy.paths.text_encoder.join("model.safetensors");
    rewrite(&path, |name, tensor| (format!("model.{name}"), tensor));
    load_all(&AceStep::open(&copy.paths)?)
}

#[test]
fn half_files_load_whole() -> Result<(), Error> {
    for dtype in [Dtype::F16, Dtype::BF16] {
        let copy = Copy::new();
        narrow(&copy.paths.dit.join("model.safetensors"), dtype);
        narrow(&copy.paths.vae.join("diffusion_pytorch_model.safetensors"), dtype);
        narrow(&copy.paths.text_encoder.join("model.safetensors"), dtype);
        load_all(&AceStep::open(&copy.paths)?)?;
    }
    Ok(())
}

#[test]
fn a_tensor_of_no_known_group_is_refused_when_opened() {
    let copy = Copy::new();
    rewrite(&copy.paths.dit.join("model.safetensors"), |name, tensor| {
        (name.replace("null_condition_emb", "null_condition"), tensor)
    });
    let error = AceStep::open(&copy.paths).expect_err("unknown").to_string();
    assert!(
        error.ends_with("has 1 tensor that the diffusion model does not use: `null_condition`"),
        "{error}"
    );
}

#[test]
fn directories_in_each_others_place_are_told_for_what_they_are() {
    let copy = Copy::new();
    let ModelPaths { dit, vae, text_encoder, .. } = &copy.paths;
    for (paths, says) in [
        (
            ModelPaths { dit: vae.clone(), ..copy.paths.clone() },
            "holds the Oobleck audio autoencoder, not a diffusion transformer of ACE-Step 1.5",
        ),
        (
            ModelPaths { dit: text_encoder.clone(), ..copy.paths.clone() },
            "holds a Qwen3 text encoder, not a diffusion transformer of ACE-Step 1.5",
        ),
        (
            ModelPaths { vae: dit.clone(), ..copy.paths.clone() },
            "holds a diffusion transformer of ACE-Step 1.5, not the Oobleck audio autoencoder",
        ),
        (
            ModelPaths { dit: dit.parent().expect("a parent").to_owned(), ..copy.paths.clone() },
            "holds several model directories, not a diffusion transformer of ACE-Step 1.5",
        ),
        (
            ModelPaths { vae: dit.join("model.safetensors"), ..copy.paths.clone() },
            "holds a diffusion transformer of ACE-Step 1.5, not the Oobleck audio autoencoder",
        ),
    ] {
        let error = AceStep::open(&paths).expect_err("a wrong directory");
        assert!(error.to_string().ends_with(says), "{error}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn configurations_that_do_not_fit_each_other_are_refused() {
    let copy = Copy::new();
    edit_config(&copy.paths.text_encoder, "hidden_size", 64.into());
    let error = AceStep::open(&copy.paths).expect_err("two widths").to_string();
    assert!(error.contains("has text_hidden_dim 48, but `"), "{error}");
    assert!(error.ends_with("has hidden_size 64"), "{error}");
}

#[test]
fn a_check_finds_what_does_not_fit_in_any_part_before_a_weight_is_read() {
    let device = Default::default();
    let copy = Copy::new();
    rewrite(&copy.paths.dit.join("model.safetensors"), |name, tensor| {
        (name.replace("decoder.layers.3.mlp", "decoder.layers.4.mlp"), tensor)
    });
    edit_config(&copy.paths.vae, "decoder_channels", 12.into());
    let folder = AceStep::open(&copy.paths).expect("headers of known groups");
    for (part, says) in [
        (Network::TextEncoder, ""),
        (Network::Conditioner, ""),
        (Network::AudioCodec, ""),
        (Network::Dit, "has no tensor `decoder.layers.3.mlp.down_proj.weight`, "),
        (Network::VaeDecoder, "by config.json it is "),
        (Network::VaeEncoder, ""),
    ] {
        let result = folder.check::<B>(&device, &[part]);
        let message = result.map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(message.is_empty(), says.is_empty(), "{part}: {message}");
        assert!(message.contains(says), "{part}: {message}");
    }
    assert!(folder.check::<B>(&device, &Network::ALL).is_err());
    assert!(open_tiny().and_then(|tiny| tiny.check::<B>(&device, &Network::ALL)).is_ok());
}

/// config.json implies four terabytes per matrix: an allocation would end this test.
#[test]
fn a_check_makes_no_weights() {
    let copy = Copy::new();
    for key in ["hidden_size", "intermediate_size", "fsq_dim"] {
        edit_config(&copy.paths.dit, key, 1_000_000.into());
    }
    let folder = AceStep::open(&copy.paths).expect("sound headers");
    for part in [Network::Conditioner, Network::AudioCodec, Network::Dit] {
        let error = folder.check::<B>(&Default::default(), &[part]).expect_err("another shape");
        assert!(matches!(error, Error::WrongShape { .. }), "{error}");
    }
}

#[test]
fn a_model_is_turbo_by_its_flag_else_its_version_else_its_name() {
    use serde_json::{Value::Null, json};
    let copy = Copy::new();
    let elsewhere = copy.paths.dit.with_file_name("acestep-v15-sft");
    for (flag, version, by_its_name) in [
        (json!(true), json!("base"), [true, true]),
        (json!(false), json!("turbo"), [false, false]),
        (Null, json!("xl_turbo"), [true, true]),
        (Null, json!("base"), [false, false]),
        (Null, Null, [true, false]),
    ] {
        edit_config(&copy.paths.dit, "is_turbo", flag);
        edit_config(&copy.paths.dit, "model_version", version);
        let is_turbo = |path: &Path| {
            DitDir::open(Directory::Disk(path.to_owned())).map(|folder| folder.is_turbo())
        };
        let first = is_turbo(&copy.paths.dit).expect("a folder");
        fs::rename(&copy.paths.dit, &elsewhere).expect("another name");
        let second = is_turbo(&elsewhere).expect("a folder");
        fs::rename(&elsewhere, &copy.paths.dit).expect("the old name");
        assert_eq!([first, second], by_its_name);
    }
}
