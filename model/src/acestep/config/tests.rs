use serde_json::json;

use super::*;
use crate::config::tests::assert_refused;

const GOLDEN: &str =
    include_str!("../../../../tests/goldens/checkpoints_a/acestep-v15-turbo/config.json");

#[test]
fn without_layer_types_even_layers_slide() {
    let mut config = Config::from_json(GOLDEN).expect("a config");
    config.layer_types = None;
    assert_eq!(config.visibility(0), Visibility::Window(8));
    assert_eq!(config.visibility(1), Visibility::Full);
}

#[test]
fn a_value_that_is_unknown_absurd_or_contradicts_another_is_refused_by_its_key() {
    let changes = [
        ("qk_scale", json!(3)),
        ("num_key_value_heads", json!(3)),
        ("hidden_size", json!(0)),
        ("head_dim", json!(0)),
        ("intermediate_size", json!(1_000_001)),
        ("num_hidden_layers", json!(0)),
        ("num_lyric_encoder_hidden_layers", json!(u64::MAX)),
        ("encoder_hidden_size", json!(0)),
        ("encoder_num_attention_heads", json!(0)),
        ("patch_size", json!(0)),
        ("pool_window_size", json!(0)),
        ("timbre_fix_frame", json!(0)),
        ("timbre_hidden_dim", json!(32)),
        ("default_guidance_scale", json!(0.5)),
        ("fsq_dim", json!(32)),
        ("fsq_input_levels", json!([65_536, 65_536])),
        ("fsq_input_levels", json!([4096, 4097])),
        ("sliding_window", json!(u64::MAX)),
        ("rms_norm_eps", json!(-1e-6)),
        ("rope_theta", json!(0)),
    ];
    assert_refused(Config::from_json, GOLDEN, changes);
}
