//! Spellings of tools, and names of other networks.

use super::super::{module::Parameter, target::Targets};

fn one(targets: &Targets, name: &str, parameter: Parameter) -> Option<(String, Vec<usize>)> {
    match &targets.find(name, parameter)?[..] {
        [(path, shape)] => Some(((*path).to_owned(), shape.to_vec())),
        several => panic!("{name}: {several:?}"),
    }
}

fn targets() -> Targets {
    let shape = |name: &str, shape: &[usize]| (name.to_owned(), shape.to_vec());
    Targets::new([
        shape("layers.0.self_attn.q_proj.weight", &[64, 64]),
        shape("layers.0.self_attn.o_proj.weight", &[64, 64]),
        shape("layers.0.mlp.up_proj.weight", &[96, 64]),
        shape("layers.0.mlp_norm.weight", &[64]),
        shape("layers.0.scale_shift_table", &[1, 6, 64]),
        shape("time_embed.linear_1.weight", &[64, 256]),
        shape("time_embed.linear_1.bias", &[64]),
        shape("proj_in.weight", &[64, 48, 2]),
        shape("proj_out.weight", &[64, 16, 2]),
        shape("proj_out.bias", &[16]),
    ])
}

#[test]
fn every_tools_spelling_finds_the_module() {
    let targets = targets();
    assert_eq!((targets.matrices(), targets.all()), (6, 10));
    for (name, path) in [
        ("base_model.model.layers.0.self_attn.q_proj", "layers.0.self_attn.q_proj"),
        ("base_model.model.decoder.layers.0.self_attn.q_proj", "layers.0.self_attn.q_proj"),
        ("diffusion_model.layers.0.self_attn.q_proj", "layers.0.self_attn.q_proj"),
        ("diffusion_model.decoder.layers.0.mlp.up_proj", "layers.0.mlp.up_proj"),
        ("transformer.layers.0.self_attn.to_q", "layers.0.self_attn.q_proj"),
        ("layers.0.self_attn.to_out.0", "layers.0.self_attn.o_proj"),
        ("layers.0.self_attn.to_out", "layers.0.self_attn.o_proj"),
        ("layers.0.self_attn.o_proj", "layers.0.self_attn.o_proj"),
        ("lycoris_layers_0_self_attn_q_proj", "layers.0.self_attn.q_proj"),
        ("lycoris_time_embed_linear_1", "time_embed.linear_1"),
        ("lora_unet_layers_0_self_attn_to_out_0", "layers.0.self_attn.o_proj"),
        ("lora_unet_decoder_layers_0_mlp_up_proj", "layers.0.mlp.up_proj"),
        ("lora_transformer_layers_0_self_attn_to_q", "layers.0.self_attn.q_proj"),
        ("decoder.proj_in.1", "proj_in"),
        ("transformer.proj_in_conv", "proj_in"),
        ("diffusion_model.decoder.proj_out.1", "proj_out"),
    ] {
        let found = one(&targets, name, Parameter::Matrix).map(|(path, _)| path);
        assert_eq!(found, Some(format!("{path}.weight")), "{name}");
    }
    assert_eq!(one(&targets, "proj_in", Parameter::Matrix).expect("there").1, [64, 48, 2]);
}

#[test]
fn a_difference_finds_a_parameter_of_any_shape() {
    use Parameter::{Any, Bias, Matrix};
    let targets = targets();
    for (name, parameter, found) in [
        ("diffusion_model.decoder.layers.0.mlp_norm", Any, Some("layers.0.mlp_norm.weight")),
        ("layers.0.mlp_norm", Matrix, None),
        ("layers.0.mlp_norm", Bias, None),
        ("lycoris_layers_0_mlp_norm", Any, Some("layers.0.mlp_norm.weight")),
        ("diffusion_model.decoder.proj_out.1", Any, Some("proj_out.weight")),
        ("diffusion_model.decoder.proj_out.1", Bias, Some("proj_out.bias")),
        ("decoder.time_embed.linear_1", Bias, Some("time_embed.linear_1.bias")),
        ("layers.0.scale_shift_table", Any, Some("layers.0.scale_shift_table")),
        ("layers.0.scale_shift_table", Bias, None),
        ("encoder.norm", Any, None),
    ] {
        let place = one(&targets, name, parameter).map(|(path, _)| path);
        assert_eq!(place.as_deref(), found, "{name} {parameter:?}");
    }
}

#[test]
fn a_tensor_is_the_models_by_its_name() {
    let targets = targets();
    for (tensor, is) in [
        ("base_model.model.layers.0.mlp_norm.weight", true),
        ("base_model.model.proj_out.1.bias", true),
        ("layers.0.scale_shift_table", true),
        ("layers.0.self_attn.q_proj.strange.default", true),
        ("lycoris_layers_0_mlp_up_proj.strange", true),
        ("note", false),
        ("encoder.norm.weight", false),
        ("base_model.model.layers.0", false),
    ] {
        assert_eq!(targets.has(tensor), is, "{tensor}");
    }
}

/// PEFT adds one `model.` more around a causal language model than around the decoder. The layers
/// have the same names.
#[test]
fn modules_of_other_networks_are_not_taken_for_ours() {
    let targets = targets();
    for (name, other) in [
        ("base_model.model.model.layers.0.self_attn.q_proj", "a language model"),
        ("text_encoder.layers.0.self_attn.q_proj", "the text encoder"),
        ("lora_te_layers_0_self_attn_q_proj", "the text encoder"),
        ("base_model.model.encoder.lyric_encoder.layers.0.self_attn.q_proj", "the conditioner"),
        ("transformer_blocks.0.attn.to_q", "ACE-Step 1 or another model"),
        ("layers.7.self_attn.q_proj", "layers that a larger model has"),
        ("lycoris_layers_30_mlp_up_proj", "layers that a larger model has"),
        ("layers.0.mlp_norm", "a network like this one with more parameters"),
        ("layers.0.mlp_gate", "no network that is known"),
    ] {
        assert_eq!(targets.find(name, Parameter::Matrix), None, "{name}");
        assert_eq!(targets.other(name), other, "{name}");
    }
}
