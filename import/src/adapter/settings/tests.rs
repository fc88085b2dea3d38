//! Settings as tools write them, and refused settings.

use super::*;

const Q: &str = "base_model.model.layers.0.self_attn.q_proj";

fn peft(text: &str) -> Result<Settings, String> {
    Settings::peft(Path::new("adapter_config.json"), text).map_err(|error| error.to_string())
}

fn factor(settings: &Settings, module: &str, rank: usize) -> f64 {
    settings.scale(module, Some(rank), None).expect("a scale").factor
}

/// PEFT: `scaling = lora_alpha / r`, or `lora_alpha / sqrt(r)`.
#[test]
fn the_scale_is_alpha_over_the_rank_or_over_its_root() {
    let plain = peft(r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 6}"#).expect("settings");
    assert_eq!(factor(&plain, Q, 4), 1.5);
    let root = peft(r#"{"r": 4, "lora_alpha": 6, "use_rslora": true}"#).expect("settings");
    assert_eq!(factor(&root, Q, 4), 3.0);
    // The module's own alpha has priority.
    assert_eq!(root.scale(Q, Some(4), Some(2.0)).expect("a scale").factor, 0.5);
    // Nothing is known: alpha is the rank.
    let nothing = Settings::default().scale(Q, Some(4), None).expect("a scale");
    assert_eq!(nothing, Scale { factor: 1.0, alpha: None });
}

#[test]
fn a_pattern_is_the_end_of_a_modules_name_from_a_dot_on() {
    let settings = peft(
        r#"{"r": 4, "lora_alpha": 4, "rank_pattern": {"q_proj": 8, "layers\\.1\\..*": 2},
            "alpha_pattern": {"proj": 1, "self_attn.q_proj": 16}}"#,
    )
    .expect("settings");
    assert_eq!(factor(&settings, Q, 8), 2.0);
    assert_eq!(factor(&settings, "base_model.model.layers.1.mlp.up_proj", 2), 2.0);
    assert_eq!(factor(&settings, "base_model.model.layers.0.mlp.up_proj", 4), 1.0);
    let error = settings.scale(Q, Some(4), None).expect_err("another rank");
    assert_eq!(error, "its rank is 4, but the settings say 8");
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    for (more, says) in [
        (r#""bias": "all""#, "has trained biases (`bias`: all), which"),
        (r#""peft_type": "IA3""#, "has the kind IA3 (`peft_type`)"),
        (r#""modules_to_save": ["proj_out"]"#, "has `modules_to_save`: [\"proj_out\"]"),
        (r#""fan_in_fan_out": true"#, "has `fan_in_fan_out`: true"),
        (r#""init_lora_weights": "pissa_niter_16""#, "(`init_lora_weights`: pissa_niter_16)"),
    ] {
        let error = peft(&format!(r#"{{"r": 4, "lora_alpha": 4, {more}}}"#)).expect_err(more);
        assert!(error.contains(says), "{error}");
    }
    for neutral in [
        r#""bias": "none""#,
        r#""modules_to_save": null"#,
        r#""fan_in_fan_out": false"#,
        r#""init_lora_weights": true"#,
        r#""init_lora_weights": "gaussian""#,
    ] {
        peft(&format!(r#"{{"r": 4, "lora_alpha": 4, {neutral}}}"#)).expect(neutral);
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_and_unknown_ones_kept_for_a_note() {
    for (text, says) in [
        ("{", "not JSON"),
        ("{}", "there is no `lora_alpha`"),
        (r#"{"lora_alpha": "x"}"#, "alpha is \"x\""),
        (r#"{"lora_alpha": 1, "r": 0}"#, "`r` is 0, not a rank"),
        (r#"{"lora_alpha": 1, "alpha_pattern": {"(": 1}}"#, "the pattern `(`"),
    ] {
        let error = peft(text).expect_err(text);
        assert!(error.contains(says), "{text}: {error}");
    }
    let settings = peft(r#"{"lora_alpha": 1, "shiny": 3, "new": null}"#).expect("settings");
    assert_eq!(settings.unknown, ["shiny"]);
}

#[test]
fn metadata_of_other_tools_is_read() {
    let of = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Settings::metadata(Path::new("a.safetensors"), &pairs).expect("settings")
    };
    let diffusers = r#"{"transformer.r": 4, "transformer.lora_alpha": 8, "unet.r": 3}"#;
    assert_eq!(factor(&of(&[("lora_adapter_metadata", diffusers)]), Q, 4), 2.0);
    assert_eq!(factor(&of(&[("lora_alpha", "128"), ("lora_rank", "64")]), Q, 64), 2.0);
    assert_eq!(factor(&of(&[("ss_network_alpha", "2.0")]), Q, 4), 0.5);
    // A single network of diffusers saves its settings without the prefix of a pipeline.
    let own = r#"{"r": 4, "lora_alpha": 8, "alpha_pattern": {"k_proj": 2}}"#;
    let own = of(&[("lora_adapter_metadata", own)]);
    assert_eq!(factor(&own, Q, 4), 2.0);
    assert_eq!(factor(&own, "transformer.layers.0.self_attn.k_proj", 4), 0.5);
    let lokr = of(&[("lokr_config", r#"{"linear_dim": 64, "factor": -1}"#)]);
    let scale = |settings: &Settings| settings.scale(Q, None, Some(16.0)).expect("a scale");
    assert_eq!(scale(&lokr).factor, 0.25);
    assert_eq!(scale(&Settings::default()).factor, 1.0);
}

#[test]
fn the_rank_of_a_lokr_is_read_as_it_comes_and_is_no_reason_to_refuse_it() {
    let of = |text: &str| {
        let metadata = [("lokr_config".to_owned(), text.to_owned())].into();
        Settings::metadata(Path::new("a.safetensors"), &metadata).expect("settings")
    };
    for (text, factor, invalid) in [
        (r#"{"linear_dim": 64.0}"#, 0.25, None),
        (r#"{"linear_dim": "64"}"#, 0.25, None),
        (r#"{"linear_dim": null}"#, 1.0, None),
        (r#"{"linear_dim": 0}"#, 1.0, Some("`linear_dim` of `lokr_config` is 0, no rank")),
        (r#"{"linear_dim": "x"}"#, 1.0, Some("`linear_dim` of `lokr_config` is \"x\", no rank")),
        ("{'linear_dim': 64}", 1.0, Some("`lokr_config` is no object of JSON")),
    ] {
        let settings = of(text);
        let scale = |rank| settings.scale(Q, rank, Some(16.0)).expect("a scale").factor;
        assert_eq!(scale(None), factor, "{text}");
        // A product has its own rank.
        assert_eq!(scale(Some(8)), 2.0, "{text}");
        assert_eq!(settings.invalid.iter().map(String::as_str).next(), invalid, "{text}");
    }
}

#[test]
fn the_kind_that_is_named_must_be_that_of_the_tensors() {
    for (kind, found, says) in [
        ("LORA", vec!["LoRA", "LoRA"], None),
        ("LoKr", vec!["LoKr"], None),
        (
            "LORA",
            vec!["LoRA", "LoHa"],
            Some("`peft_type` is LORA, but its tensors are those of LoHa"),
        ),
    ] {
        let settings = peft(&format!(r#"{{"peft_type": "{kind}", "r": 4.0, "lora_alpha": "4"}}"#));
        let error = settings.expect("settings").check_kind(found.into_iter()).err();
        assert_eq!(error.as_deref(), says);
    }
    // Files of other tools name no kind.
    Settings::default().check_kind(["LoKr"].into_iter()).expect("nothing is said");
}
