//! Tests of the configuration.

use serde_json::{Value, json};

use super::*;

fn smallest() -> Value {
    json!({
        "data": {
            "channels": 5, "text_vocab_size": 512, "audio_vocab_size": 66,
            "action_vocab_size": 2, "text_pad_token_id": 3, "text_new_word_token_id": 2,
            "action_pad_token_id": 0, "action_new_word_token_id": 1, "delay_pattern": [2, 3, 3],
        },
        "model": {
            "decoder": {
                "n_layer": 3, "n_embd": 48, "n_hidden": 80, "gqa_query_heads": 4, "kv_heads": 2,
                "gqa_head_dim": 16,
            },
            "depformer": {
                "n_layer": 2, "n_embd": 32, "n_hidden": 56, "gqa_query_heads": 4, "kv_heads": 4,
                "gqa_head_dim": 12,
            },
        },
        "runtime": {},
    })
}

fn read(value: &Value) -> Result<Config, ConfigError> {
    Config::from_json(&value.to_string())
}

/// The values are those of the reference, in `config_defaults.json` of its goldens.
#[test]
fn missing_keys_have_the_defaults_of_the_reference() {
    let config = read(&smallest()).expect("valid");
    assert_eq!(config.data.text_zero_token_id, 7);
    assert_eq!([config.data.audio_bos(), config.data.audio_pad()], [64, 65]);
    assert_eq!(config.data.codes(), 64);
    assert_eq!(config.data.second_stream_ahead, 0);
    assert!(config.model.depformer.apply_rope && config.model.depformer.text_embedding);
    assert_eq!(config.model.depformer.mlp_activations, [Function::Silu, Function::Linear]);
    assert_eq!(config.model.linear.mlp_activations, [Function::Silu, Function::Linear]);
    assert_eq!(config.model.decoder.low_rank_dim, None);
    assert_eq!(config.model.normalization_layer_epsilon, 1e-5);
    assert_eq!([config.model.rope_min_timescale, config.model.rope_max_timescale], [1.0, 1e4]);
    assert_eq!(config.runtime.max_context_steps, 1500);
    assert_eq!(config.schedule(), [0, 1]);
    assert_eq!(config.assets, Assets::default());
}

#[test]
fn numbers_of_a_schedule_are_names_and_not_indices() {
    let mut value = smallest();
    value["runtime"]["weights_schedule"] = json!([5, 0]);
    let config = read(&value).expect("valid");
    assert_eq!(config.schedule(), [5, 0]);
    assert_eq!(config.weight_ids(), [0, 5]);
    // As in the reference, a longer schedule has weights that no stage reads.
    value["runtime"]["weights_schedule"] = json!([5, 0, 7]);
    let config = read(&value).expect("valid");
    assert_eq!(config.schedule(), [5, 0]);
    assert_eq!(config.weight_ids(), [0, 5, 7]);
}

/// The first path is the key in the file, the second one the key of the message. Row 6 of the server's table: a
/// mark that is no code is refused.
#[test]
fn values_that_cannot_be_right_are_refused_by_their_key() {
    for (path, value, key) in [
        ("/data/channels", json!(3), "channels"),
        ("/data/delay_pattern", json!([2, 3]), "delay_pattern"),
        // The first step would read a code that does not exist yet.
        ("/data/delay_pattern", json!([0, 3, 3]), "delay_pattern"),
        ("/data/text_pad_token_id", json!(512), "text_pad_token_id"),
        ("/data/audio_vocab_size", json!(0), "audio_vocab_size"),
        ("/data/action_vocab_size", json!(1), "action_vocab_size"),
        ("/model/decoder/kv_heads", json!(3), "num_key_value_heads"),
        ("/model/decoder/gqa_head_dim", json!(15), "gqa_head_dim"),
        ("/model/depformer/kv_heads", json!(2), "kv_heads"),
        ("/model/depformer/n_layer", json!(0), "n_layer"),
    ] {
        let mut changed = smallest();
        *changed.pointer_mut(path).expect(path) = value.clone();
        let error = read(&changed).expect_err(path).to_string();
        assert!(error.starts_with(&format!("key `{key}` ")), "{value}: {error}");
    }
    for (block, key, value) in [
        ("data", "audio_pad_token_id", json!(66)),
        ("data", "audio_bos_token_id", json!(65)),
        ("runtime", "weights_schedule", json!([0])),
        ("runtime", "max_context_steps", json!(0)),
        ("model", "rope_min_timescale", json!(0)),
        ("model", "normalization_layer_epsilon", json!(0)),
    ] {
        let mut changed = smallest();
        changed[block][key] = value;
        assert!(read(&changed).is_err(), "{block}.{key}");
    }
}

#[test]
fn an_unknown_key_changes_nothing_and_an_unknown_activation_is_refused() {
    let mut value = smallest();
    value["model"]["dropout"] = json!(0.5);
    assert_eq!(read(&value).expect("valid"), read(&smallest()).expect("valid"));
    value["model"]["linear"] = json!({ "mlp_activations": ["swiglu", "geglu"] });
    let functions = read(&value).expect("the reference's other names").model.linear.mlp_activations;
    assert_eq!(functions, [Function::Silu, Function::Gelu]);
    value["model"]["linear"] = json!({ "mlp_activations": ["tanh", "linear"] });
    let error = read(&value).expect_err("no such activation").to_string();
    assert!(error.contains("tanh"), "{error}");
}
