//! Pipelines of diffusers.

use acestep_import::{ModelFormat, Network, open};
use acestep_tests::{
    Cpu, DEVICE,
    foreign::{self, write_diffusers},
    place,
};

use super::{PARTS, Refusal, SONG, is_the_same, layout, refused, song, temporary};

#[test]
fn a_pipeline_of_diffusers_is_the_whole_model() {
    let dir = temporary();
    let pipeline = dir.path().join("pipeline");
    write_diffusers(&pipeline);
    let model = open("pipeline", &layout(dir.path())).expect("a model");
    assert_eq!(model.name(), "pipeline");
    assert_eq!(model.notices(), [""; 0]);
    is_the_same(&model, ModelFormat::Diffusers);
}

/// diffusers registers the two halves of the audio codec as optional.
#[test]
fn a_pipeline_without_its_audio_codec_makes_songs_of_texts_alone() {
    let dir = temporary();
    let pipeline = dir.path().join("pipeline");
    for missing in [&["audio_tokenizer"][..], &["audio_tokenizer", "audio_token_detokenizer"]] {
        write_diffusers(&pipeline);
        for name in missing {
            std::fs::remove_dir_all(pipeline.join(name)).expect("removed");
        }
        let model = open("pipeline", &layout(dir.path())).expect("a model");
        model.check::<Cpu>(&DEVICE, &PARTS).expect("all that a text needs");
        assert_eq!(song(&model), *SONG);
        model.require(Network::Dit).expect("there");
        for error in [
            model.require(Network::AudioCodec).expect_err("none"),
            model.dit_dir().audio_codec::<Cpu>(&place()).expect_err("none"),
        ] {
            Refusal::of(&error)
                .says("holds no audio codec")
                .hints("`thinking: false`")
                .hints("audio_tokenizer");
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
    refused("pipeline", dir.path()).says("holds no condition_encoder");
}

#[test]
fn a_pipelines_zeros_are_no_silence() {
    let dir = temporary();
    let pipeline = dir.path().join("pipeline");
    write_diffusers(&pipeline);
    let file = pipeline.join("condition_encoder/diffusion_pytorch_model.safetensors");
    let mut tensors = foreign::read(&file);
    tensors.get_mut("silence_latent").expect("a tensor").values.fill(0.0);
    foreign::write(&file, &tensors);
    let open = || open("pipeline", &layout(dir.path())).expect("a model");
    let error = open().check::<Cpu>(&DEVICE, &PARTS).expect_err("zeros").to_string();
    assert!(error.contains("it is nothing but zeros"), "{error}");
    let silence = foreign::released().join("acestep-v15-turbo/silence_latent.pt");
    std::fs::copy(silence, dir.path().join("silence_latent.pt")).expect("a copy");
    is_the_same(&open(), ModelFormat::Diffusers);
}
