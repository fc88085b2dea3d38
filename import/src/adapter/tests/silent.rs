//! Adapters that change nothing because of their own settings.

use super::*;

/// Creates a file of PEFT with these settings.
fn peft(settings: &str) -> (File, Adapter) {
    let file = File::lora(Q, 64, 0.3).and_lora(K, 32, 0.1);
    let adapter = Adapter::open(&file.write_peft(settings)).expect(settings);
    (file, adapter)
}

#[test]
fn an_alpha_of_zero_is_called_that_wherever_it_stands() {
    let alpha = |dtype, value| {
        File::lora(Q, 64, 0.3).with(&format!("{Q}.alpha"), stored(dtype, &[], &[value]))
    };
    let metadata = |key: &str, value: &str| File::lora(Q, 64, 0.3).metadata(key, value);
    let own = weights(vec![]);
    let mut adapters = Vec::new();
    for settings in [
        r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 0}"#,
        r#"{"peft_type": "LORA", "r": 4, "lora_alpha": "0", "use_rslora": true}"#,
        r#"{"r": 4, "lora_alpha": -0.0}"#,
        r#"{"r": 4, "lora_alpha": 8, "alpha_pattern": {"q_proj": 0, "k_proj": 0}}"#,
    ] {
        adapters.push(peft(settings).1);
    }
    for file in [
        alpha(Dtype::F32, 0.0),
        alpha(Dtype::I64, 0.0),
        alpha(Dtype::BF16, 0.0),
        metadata("lora_alpha", "0"),
        metadata("ss_network_alpha", "0.0"),
        metadata("lora_adapter_metadata", r#"{"transformer.r": 4, "transformer.lora_alpha": 0}"#),
    ] {
        adapters.push(file.adapter());
    }
    for adapter in adapters {
        assert!(adapter.is_silent());
        let notice = only(adapter.unused());
        assert_contains(&notice, "changes nothing by its own settings: its alpha is 0");
        let folder = adapted(vec![(adapter, 3.0)]);
        assert_eq!(weights_in(&folder, &place()), own);
        assert_eq!(fitted(&folder).change(), Some(0.0));
    }
}

#[test]
fn modules_with_an_alpha_of_zero_beside_others_are_counted() {
    let (_, adapter) = peft(r#"{"r": 4, "lora_alpha": 8, "alpha_pattern": {"k_proj": 0}}"#);
    assert!(!adapter.is_silent());
    let notice = only(adapter.unused());
    assert_starts(&notice, "the alpha of 1 of the 2 modules of the adapter");
}

/// DoRA's magnitudes apply even if the product is 0.
#[test]
fn an_alpha_of_zero_beside_lengths_still_changes_the_weight() {
    let file = File::lora(Q, 64, 0.3)
        .with(&format!("{Q}.alpha"), alpha(0.0))
        .with(&format!("{Q}.lora_magnitude_vector"), stored(Dtype::F32, &[64], &[3.0; 64]));
    assert!(!file.adapter().is_silent());
    assert_eq!(file.adapter().unused(), [""; 0]);
    assert_ne!(weights(vec![(file.adapter(), 1.0)]), weights(vec![]));
}
