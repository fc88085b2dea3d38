use serde_json::json;

use super::*;

fn changed(change: impl FnOnce(&mut serde_json::Map<String, Value>)) -> String {
    let text =
        include_str!("../../../../tests/goldens/checkpoints_a/acestep-v15-turbo/config.json");
    let mut map = serde_json::from_str(text).expect("a JSON object");
    change(&mut map);
    serde_json::to_string(&map).expect("JSON")
}

#[test]
fn without_layer_types_even_layers_slide() {
    let config = Config::from_json(&changed(|map| {
        map.insert("layer_types".into(), Value::Null);
    }));
    let config = config.expect("a config");
    assert_eq!(config.visibility(0), Visibility::Window(8));
    assert_eq!(config.visibility(1), Visibility::Full);
}

#[test]
fn an_unknown_key_is_refused() {
    let text = changed(|map| {
        map.insert("qk_scale".into(), 3.into());
    });
    let error = Config::from_json(&text).unwrap_err();
    assert!(error.to_string().contains("`qk_scale` (= 3)"), "{error}");
}

#[test]
fn heads_that_do_not_divide_are_refused() {
    let text = changed(|map| {
        map.insert("num_key_value_heads".into(), 3.into());
    });
    let error = Config::from_json(&text).unwrap_err();
    assert!(error.to_string().contains("`num_key_value_heads` is 3"), "{error}");
}
#[test]
fn a_size_that_is_absurd_or_contradicts_another_is_refused_by_its_key() {
    for (key, value) in [
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
    ] {
        let text = changed(|map| {
            map.insert(key.into(), value.clone());
        });
        let error = Config::from_json(&text).expect_err("refused").to_string();
        assert!(error.starts_with(&format!("key `{key}` is ")), "{value}: {error}");
    }
}
