//! Tests of chunks against whole signals, with random weights.

use burn::tensor::{Int, Tensor};
use burn_flex::Flex;

use super::*;
use crate::testing::{self, place, values as samples};

/// Frames of 16 samples, and a window of two and a half frames.
pub(super) fn config() -> Config {
    Config::from_json(TEXT).expect("valid")
}

const TEXT: &str = r#"{
    "num_filters": 4, "kernel_size": 7, "residual_kernel_size": 3, "last_kernel_size": 3,
    "upsampling_ratios": [4, 2], "compress": 2, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
    "head_dim": 8, "rope_theta": 10000.0, "norm_eps": 1e-5, "codebook_size": 12,
    "codebook_dim": 6, "vector_quantization_hidden_dimension": 6, "num_quantizers": 3,
    "num_semantic_quantizers": 1, "sliding_window": 5, "num_residual_layers": 1,
    "audio_channels": 1, "pad_mode": "constant", "use_causal_conv": true,
    "hidden_act": "gelu", "attention_bias": false, "sampling_rate": 24000,
    "upsample_groups": 16, "trim_right_ratio": 1.0
}"#;

#[test]
fn plain_positions_as_transformers_5_saves_them_are_read() {
    let with = |rope: &str| Config::from_json(&TEXT.replace("\"rope_theta\": 10000.0", rope));
    let plain = r#""rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}"#;
    assert_eq!(with(plain).expect("valid").rope_theta, 500.0);
    let two = format!(r#"{plain}, "rope_theta": 500.0"#);
    for other in [plain.replace("default", "yarn"), plain.replace("rope_theta", "factor"), two] {
        assert!(with(&other).is_err(), "{other}");
    }
}

/// Codes of frames, `[3, frames]`.
fn codes(frames: i64) -> Tensor<Flex, 2, Int> {
    let all = Tensor::<Flex, 1, Int>::arange(0..3 * frames, &Default::default());
    (all * 7 % 12).reshape([3, frames as usize])
}

/// Returns the samples of a signal that is decoded in chunks of these numbers of frames.
fn in_chunks(
    decoder: &Decoder<Flex>,
    codes: &Tensor<Flex, 2, Int>,
    sizes: impl IntoIterator<Item = usize>,
) -> Vec<f32> {
    let (mut state, mut first) = (DecoderState::default(), 0);
    let chunk = |size| {
        let chunk = codes.clone().narrow(1, first, size);
        first += size;
        samples(decoder.forward(chunk, &mut state))
    };
    sizes.into_iter().flat_map(chunk).collect()
}

/// Equal to the bit, with a window and without, beyond the first cache of either.
#[test]
fn frames_in_chunks_of_any_sizes_are_one_signal() {
    for window in [Some(5), None] {
        let decoder = Decoder::<Flex>::init(&config(), 3, &Default::default()).with_window(window);
        let codes = codes(150);
        let whole = in_chunks(&decoder, &codes, [150]);
        assert_eq!(whole.len(), 150 * decoder.samples_per_frame());
        let chunks = in_chunks(&decoder, &codes, [1, 1, 2, 3, 7, 1, 20, 65, 50]);
        assert_eq!(chunks, whole, "{window:?}");
    }
}

/// Equal to the bit with the released window, beyond the 128 keys that a kernel adds up together: 200
/// frames are 400 positions.
#[test]
fn frames_in_chunks_of_any_size_are_one_signal_with_a_window_of_250() {
    let decoder = Decoder::<Flex>::init(&config(), 3, &Default::default()).with_window(Some(250));
    let codes = codes(200);
    let whole = in_chunks(&decoder, &codes, [200]);
    for size in [1, 3, 8] {
        let sizes = (0..200).step_by(size).map(|first| size.min(200 - first));
        let chunks = in_chunks(&decoder, &codes, sizes);
        assert_eq!(chunks.len(), whole.len());
        let differs = chunks.iter().zip(&whole).position(|(chunk, whole)| chunk != whole);
        let frame = differs.map(|sample| sample / decoder.samples_per_frame());
        assert_eq!(frame, None, "chunks of {size}: the first frame that differs");
    }
}

/// Without a window the second state has 280 positions, more than a first cache.
#[test]
fn a_copy_of_the_past_continues_the_same_signal_also_from_the_host() {
    for (window, frames) in [(Some(5), 4), (None, 140)] {
        let decoder = Decoder::<Flex>::init(&config(), 3, &Default::default()).with_window(window);
        let mut state = DecoderState::default();
        let _ = decoder.forward(codes(frames), &mut state);
        let kept = decoder.state_to_data(&state, &place());
        let mut copy = state.clone();
        let next = samples(decoder.forward(codes(3), &mut state));
        let _ = decoder.forward(codes(2), &mut state);
        assert_eq!(samples(decoder.forward(codes(3), &mut copy)), next);
        let mut read = decoder.state_from_data(kept.clone(), &place()).expect("its own state");
        assert_eq!(samples(decoder.forward(codes(3), &mut read)), next);
        assert!(decoder.state_from_data(kept[1..].to_vec(), &place()).is_err());
    }
}

/// Frames that a window of five positions hides have no effect through the transformer.
#[test]
fn a_window_changes_the_sound_after_it() {
    let decoder = Decoder::<Flex>::init(&config(), 3, &Default::default());
    let with = samples(decoder.forward(codes(8), &mut DecoderState::default()));
    let plain = decoder.with_window(None);
    let without = samples(plain.forward(codes(8), &mut DecoderState::default()));
    // The first two frames are four positions.
    assert_eq!(with[..32], without[..32]);
    assert_ne!(with[48..], without[48..]);
}

#[test]
fn a_signal_in_frames_has_the_codes_of_the_whole() {
    let encoder = Encoder::<Flex>::init(&config(), 3, &Default::default()).with_window(Some(5));
    let wave = testing::random([20 * 16]) * 0.5;
    let whole = encoder.forward(wave.clone()).into_data();
    let (mut state, mut first, mut parts) = (EncoderState::default(), 0, Vec::new());
    for frames in [1, 2, 1, 10, 6] {
        let chunk = wave.clone().narrow(0, first, 16 * frames);
        parts.push(encoder.forward_next(chunk, &mut state));
        first += 16 * frames;
    }
    assert_eq!(Tensor::cat(parts, 1).into_data(), whole);
}

#[test]
fn a_codec_of_another_kind_is_refused_by_its_key() {
    for (from, to, key) in [
        (r#""sampling_rate": 24000"#, r#""sampling_rate": 16000"#, "sampling_rate"),
        (r#""sliding_window": 5"#, r#""sliding_window": null"#, "sliding_window"),
        (r#""upsample_groups": 16"#, r#""upsample_groups": 1"#, "upsample_groups"),
        (r#""trim_right_ratio": 1.0"#, r#""trim_right_ratio": 0.5"#, "trim_right_ratio"),
        (r#""pad_mode": "constant""#, r#""pad_mode": "reflect""#, "pad_mode"),
    ] {
        assert!(TEXT.contains(from), "{from}");
        let error = Config::from_json(&TEXT.replace(from, to)).expect_err(key).to_string();
        assert!(error.starts_with(&format!("key `{key}` ")), "{error}");
    }
}
