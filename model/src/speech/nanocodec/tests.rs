//! Properties of the decoder with random weights. The goldens are in `tests/proof`.

use std::fmt::Arguments;

use burn::{
    module::{Module as _, ModuleMapper, Param},
    tensor::{Int, Tensor, TensorData},
};
use burn_flex::Flex;
use serde_json::{Value, json};

use super::*;
use crate::{
    Tap,
    kernel::Precision,
    testing::{assert_close, values},
};

fn config(change: impl FnOnce(&mut Value)) -> Result<Config, crate::ConfigError> {
    let mut config = json!({
        "sample_rate": 22050, "samples_per_frame": 6,
        "audio_decoder": {
            "up_sample_rates": [3, 2], "input_dim": 6, "base_channels": 12,
            "activation": "half_snake", "output_activation": "clamp", "pad_mode": "zeros",
            "n_groups_equal_to_out_channels": true,
        },
        "vector_quantizer": { "num_groups": 3, "num_levels_per_group": [4, 3] },
    });
    change(&mut config);
    Config::from_json(&config.to_string())
}

/// Returns codes as frames, `[3, frames]`.
fn in_frames(codes: &[i32]) -> Tensor<Flex, 2, Int> {
    Tensor::from_data(TensorData::new(codes.to_vec(), [3, codes.len() / 3]), &Default::default())
}

fn samples(decoder: &Decoder<Flex>, codes: &[i32], parts: &[usize]) -> Vec<f32> {
    let codes = in_frames(codes);
    let (mut state, mut first) = (DecoderState::default(), 0);
    let part = |&size: &usize| {
        let part = codes.clone().narrow(1, first, size);
        first += size;
        values(decoder.forward(part, &mut state))
    };
    parts.iter().flat_map(part).collect()
}

#[test]
fn frames_in_parts_give_the_samples_of_the_whole() {
    let config = config(|_| ()).expect("a configuration");
    let decoder = Decoder::<Flex>::init(&config, &Default::default());
    let codes: Vec<i32> = (0..33).map(|code| code * 5 % 12).collect();
    let whole = samples(&decoder, &codes, &[11]);
    assert_eq!(whole.len(), 66);
    for parts in [&[1; 11][..], &[4, 1, 6], &[10, 1]] {
        assert_close(&samples(&decoder, &codes, parts), &whole, 2e-6);
    }
    assert_close(&samples(&decoder.prepacked(Precision::Highest), &codes, &[11]), &whole, 2e-6);
}

#[test]
fn a_later_frame_does_not_change_earlier_samples() {
    let config = config(|_| ()).expect("a configuration");
    let decoder = Decoder::<Flex>::init(&config, &Default::default());
    let mut codes: Vec<i32> = (0..15).map(|code| code % 12).collect();
    let before = samples(&decoder, &codes, &[5]);
    for group in 0..3 {
        codes[group * 5 + 4] = (codes[group * 5 + 4] + 5) % 12;
    }
    let after = samples(&decoder, &codes, &[5]);
    assert_eq!(before[..24], after[..24]);
    assert_ne!(before[24..], after[24..]);
}

/// The defaults of `CausalHiFiGANDecoder` of NeMo 3.0.0.
#[test]
fn keys_of_the_decoder_that_are_absent_have_the_values_of_the_reference() {
    let config = config(|config| {
        let decoder = config["audio_decoder"].as_object_mut().expect("keys");
        for key in ["output_activation", "pad_mode", "n_groups_equal_to_out_channels"] {
            decoder.remove(key);
        }
    });
    let decoder = config.expect("defaults").audio_decoder;
    assert_eq!(decoder.output_activation, OutputActivation::Tanh);
    assert_eq!((decoder.in_kernel_size, decoder.out_kernel_size), (7, 3));
    assert_eq!(decoder.resblock_kernel_sizes, [3, 7, 11]);
    assert_eq!(decoder.resblock_dilation_sizes, [1, 3, 5]);
}

/// Multiplies the last convolution.
struct Louder {
    factor: f32,
    path: Vec<String>,
}

impl ModuleMapper<Flex> for Louder {
    fn map_float<const D: usize>(
        &mut self,
        param: Param<Tensor<Flex, D>>,
    ) -> Param<Tensor<Flex, D>> {
        match self.path.iter().any(|name| name == "post_conv") {
            true => param.map(|values| values * self.factor),
            false => param,
        }
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
}

/// The values of the last convolution.
struct Last(Vec<f32>);

impl Tap<Flex> for Last {
    fn tap<const D: usize>(&mut self, name: Arguments<'_>, activation: &Tensor<Flex, D>) {
        if name.to_string() == "post_conv" {
            self.0 = values(activation.clone());
        }
    }
}

/// The largest value of the last convolution is 2. Clamped it is 1; its hyperbolic tangent is 0.964.
#[test]
fn the_last_operation_is_the_configured_one() {
    type Operation = fn(f32) -> f32;
    let cases: [(&str, Operation); 2] = [("clamp", |x| x.clamp(-1.0, 1.0)), ("tanh", f32::tanh)];
    for (name, operation) in cases {
        let config = config(|config| config["audio_decoder"]["output_activation"] = json!(name));
        let config = config.expect(name);
        let sound = |decoder: &Decoder<Flex>| {
            let codes: Vec<i32> = (0..33).map(|code| code * 5 % 12).collect();
            let (codes, mut last) = (in_frames(&codes), Last(Vec::new()));
            let sound = decoder.forward_tapped(codes, &mut DecoderState::default(), &mut last);
            (last.0, values(sound))
        };
        let peak = |values: &[f32]| values.iter().fold(0.0_f32, |peak, x| peak.max(x.abs()));
        let decoder = Decoder::<Flex>::init(&config, &Default::default());
        let (last, _) = sound(&decoder);
        let mut louder = Louder { factor: 2.0 / peak(&last), path: Vec::new() };
        let (last, samples) = sound(&decoder.map(&mut louder));
        assert!((peak(&last) - 2.0).abs() < 1e-3, "{}", peak(&last));
        let expected: Vec<f32> = last.iter().map(|&x| operation(x)).collect();
        assert_close(&samples, &expected, 1e-5);
    }
}

#[test]
fn lists_that_would_give_names_without_end_are_refused_by_their_length() {
    let with =
        |key: &str, list: Vec<usize>| config(|config| config["audio_decoder"][key] = json!(list));
    for key in ["resblock_kernel_sizes", "resblock_dilation_sizes"] {
        with(key, vec![3; 16]).expect("16 entries");
    }
    for key in ["resblock_kernel_sizes", "resblock_dilation_sizes", "up_sample_rates"] {
        for length in [0, 17, 3000] {
            let error = with(key, vec![3; length]).expect_err(key).to_string();
            assert_eq!(error, format!("key `{key}` is {length}: 1 to 16 entries"));
        }
    }
}

#[test]
fn what_is_not_implemented_is_refused_by_its_key() {
    type Change = fn(&mut Value);
    let pieces: [(&str, Change); 7] = [
        // The decoder of older codecs is not causal.
        ("_target_", |config| {
            config["audio_decoder"]["_target_"] = json!("nemo.HiFiGANDecoder");
        }),
        ("activation", |config| config["audio_decoder"]["activation"] = json!("elu")),
        ("pad_mode", |config| config["audio_decoder"]["pad_mode"] = json!("replicate")),
        ("samples_per_frame", |config| config["samples_per_frame"] = json!(7)),
        ("base_channels", |config| config["audio_decoder"]["base_channels"] = json!(10)),
        ("input_dim", |config| config["audio_decoder"]["input_dim"] = json!(7)),
        ("num_levels_per_group", |config| {
            config["vector_quantizer"]["num_levels_per_group"] = json!([1, 3]);
        }),
    ];
    for (key, change) in pieces {
        let error = config(change).expect_err(key).to_string();
        assert!(error.starts_with(&format!("key `{key}` ")), "{error}");
    }
}
