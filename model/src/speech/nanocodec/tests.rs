//! Properties of the decoder with random weights. The goldens are in `tests/proof`.

use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::Flex;
use serde_json::{Value, json};

use super::*;
use crate::kernel::Precision;

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

fn samples(decoder: &Decoder<Flex>, codes: &[i32], parts: &[usize]) -> Vec<f32> {
    let frames = codes.len() / 3;
    let codes = TensorData::new(codes.to_vec(), [3, frames]);
    let codes = Tensor::<Flex, 2, Int>::from_data(codes, &Default::default());
    let (mut state, mut first) = (DecoderState::default(), 0);
    let part = |&size: &usize| {
        let part = codes.clone().narrow(1, first, size);
        first += size;
        decoder.forward(part, &mut state).into_data().to_vec::<f32>().expect("f32")
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
        let streamed = samples(&decoder, &codes, parts);
        let worst = whole.iter().zip(&streamed).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 2e-6, "{parts:?}: {worst}");
    }
    let packed = samples(&decoder.prepacked(Precision::Highest), &codes, &[11]);
    let worst = whole.iter().zip(&packed).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 2e-6, "packed: {worst}");
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

#[test]
fn what_is_not_implemented_is_refused_by_its_key() {
    type Change = fn(&mut Value);
    let pieces: [(&str, Change); 6] = [
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
