//! Properties of the networks with random weights. The goldens are in `tests/proof`.

use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::Flex;
use serde_json::json;

use super::*;
use crate::testing::{assert_close, place, values};

fn config(change: impl FnOnce(&mut serde_json::Value)) -> Result<Config, crate::ConfigError> {
    let stack = |kernel: usize| {
        json!({
            "n_layers": 3, "d_model": 16, "d_ffn": 24, "sa_n_heads": 2, "kernel_size": kernel,
            "is_causal": true, "apply_norm_out": true, "max_length_causal_mask": 40,
            "use_learnable_pos_emb": true,
        })
    };
    let mut decoder = stack(1);
    for (key, value) in [
        ("has_xattn", json!(true)),
        ("xa_d_head", json!(6)),
        ("xa_d_memory", json!(16)),
        ("xa_n_heads", json!(1)),
        ("apply_norm_to_cond", json!(true)),
    ] {
        decoder[key] = value;
    }
    let mut config = json!({
        "model_type": "decoder_ce", "embedding_dim": 16, "frame_stacking_factor": 2,
        "encoder": stack(3), "decoder": decoder, "local_transformer_type": "autoregressive",
        "local_transformer_hidden_dim": 8, "text_tokenizers": {},
        "inference_parameters": {
            "prior_epsilon": 0.2, "lookahead_window_size": 7, "unknown": 1,
            "apply_prior_to_layers": [1, 2], "estimate_alignment_from_layers": [2],
        },
    });
    change(&mut config);
    Config::from_json(&config.to_string())
}

fn sizes() -> Sizes {
    Sizes { text_rows: 20, codebooks: 2, codes: 5, context_rows: 4, context_lengths: vec![4, 3] }
}

fn ids(values: &[i32], shape: [usize; 2]) -> Tensor<Flex, 2, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &Default::default())
}

/// A decoder, the memory of a text, a voice and four stacks.
fn sequence() -> (Decoder<Flex>, Tensor<Flex, 3>, Tensor<Flex, 3>, Tensor<Flex, 3>) {
    let (config, device) = (config(|_| ()).expect("a configuration"), Default::default());
    let encoder = Encoder::<Flex>::init(&config, &sizes(), &device);
    let decoder = Decoder::<Flex>::init(&config, &sizes(), &device);
    let memory = encoder.forward(ids(&[1, 7, 3, 3, 0, 19], [1, 6]));
    let context = decoder.context(1, &device);
    assert_eq!(context.dims(), [1, 3, 16], "the length of a voice counts");
    let codes: Vec<i32> = (0..16).map(|code| code % 13).collect();
    let embedded = decoder.embedded(ids(&codes, [4, 4]));
    let both = Tensor::cat(vec![embedded.clone(), embedded], 0);
    (decoder, memory, context, both)
}

fn prior() -> Tensor<Flex, 1> {
    Tensor::from_floats([0.1, 1.0, 1.0, 0.1, 0.1, 0.1], &Default::default())
}

/// Without a prior the cache changes nothing; with one prior in all steps nothing either.
#[test]
fn rows_one_by_one_are_the_rows_of_the_whole_sequence() {
    let (decoder, memory, context, both) = sequence();
    let voice = Tensor::cat(vec![context.clone(), context.zeros_like()], 0);
    let input = Tensor::cat(vec![voice, both.clone()], 1);
    for prior in [None, Some(prior())] {
        let whole =
            decoder.forward_tapped(input.clone(), &memory, prior.as_ref(), &mut crate::NoTap);
        for exact in [false, true] {
            let start = Start { rows: 2, capacity: 7, exact };
            let mut state = decoder.start(context.clone(), memory.clone(), start, &place());
            for step in 0..4 {
                let next = both.clone().narrow(1, step, 1);
                let found = decoder.step(next, prior.as_ref(), &mut state);
                let expected = whole.clone().narrow(1, 3 + step, 1);
                assert_close(&values(found.hidden), &values(expected), 2e-5);
                let sum: f32 = values(found.attention).iter().sum();
                assert!((sum - 1.0).abs() < 1e-5, "{sum}");
            }
            assert_eq!(state.length(), 7);
        }
    }
}

/// The exact path gives the last step of a whole sequence under the newest prior; a cache does not.
#[test]
fn a_cache_keeps_old_priors_and_the_exact_path_does_not() {
    let (decoder, memory, context, both) = sequence();
    let voice = Tensor::cat(vec![context.clone(), context.zeros_like()], 0);
    let input = Tensor::cat(vec![voice, both.clone()], 1);
    let prior = prior();
    let whole = decoder.forward_tapped(input, &memory, Some(&prior), &mut crate::NoTap);
    let expected = values(whole.narrow(1, 6, 1));
    let last = |exact| {
        let start = Start { rows: 2, capacity: 7, exact };
        let mut state = decoder.start(context.clone(), memory.clone(), start, &place());
        let steps = (0..4).map(|step| {
            let prior = (step == 3).then_some(&prior);
            values(decoder.step(both.clone().narrow(1, step, 1), prior, &mut state).hidden)
        });
        steps.last().expect("a step")
    };
    assert_close(&last(true), &expected, 2e-5);
    let cached = last(false);
    let differs = |row: std::ops::Range<usize>| cached[row.clone()] != expected[row];
    assert!(differs(0..16), "the conditional row was computed again");
    // The unconditional row sees no text.
    assert_close(&cached[16..], &expected[16..], 2e-5);
}

#[test]
fn the_encoder_is_causal() {
    let (config, device) = (config(|_| ()).expect("a configuration"), Default::default());
    let encoder = Encoder::<Flex>::init(&config, &sizes(), &device);
    let long = values(encoder.forward(ids(&[1, 7, 3, 3, 0, 19], [1, 6])));
    let short = values(encoder.forward(ids(&[1, 7, 3, 3], [1, 4])));
    assert_close(&long[..4 * 16], &short, 2e-5);
}

#[test]
fn a_local_state_that_was_cleared_is_a_new_one() {
    let (config, device) = (config(|_| ()).expect("a configuration"), Default::default());
    let local = LocalTransformer::<Flex>::init(&config, &sizes(), &device);
    assert_eq!(local.heads(), 4);
    let row = Tensor::<Flex, 2>::ones([2, 16], &device);
    let mut state = local.start(2, &place());
    let first = local.step(row.clone(), &mut state);
    let second = local.step(row.clone(), &mut state);
    assert_ne!(values(first.clone()), values(second), "positions differ");
    state.clear();
    assert_eq!(state.length(), 0);
    assert_close(&values(local.step(row, &mut state)), &values(first.clone()), 2e-5);
    assert_eq!(local.logits(3, first).dims(), [2, 13]);
}

/// The names of the settings in old files are those of the new ones.
#[test]
fn settings_of_a_run_have_two_spellings_and_defaults() {
    let run = config(|_| ()).expect("a configuration").inference_parameters;
    assert_eq!((run.attention_prior_epsilon, run.attention_prior_lookahead_window), (0.2, 7));
    assert_eq!((run.topk, run.max_decoder_steps, run.min_generated_frames), (80, 500, 4));
    // `from_dict` of the reference reads the old names last.
    let both = config(|config| {
        let run = &mut config["inference_parameters"];
        run["attention_prior_epsilon"] = json!(0.3);
        run["attention_prior_lookahead_window"] = json!(9);
    });
    let run = both.expect("both names").inference_parameters;
    assert_eq!((run.attention_prior_epsilon, run.attention_prior_lookahead_window), (0.2, 7));
    let new = config(|config| {
        config["inference_parameters"] =
            json!({ "attention_prior_epsilon": 0.3, "attention_prior_lookahead_window": 9 });
    });
    let run = new.expect("new names").inference_parameters;
    assert_eq!((run.attention_prior_epsilon, run.attention_prior_lookahead_window), (0.3, 9));
    for (key, value) in [("prior_epsilon", json!(null)), ("lookahead_window_size", json!(1001))] {
        let error = config(|config| config["inference_parameters"][key] = value.clone());
        let error = error.expect_err(key).to_string();
        assert!(error.contains(if value.is_null() { "null" } else { key }), "{error}");
    }
}

/// The defaults of `Transformer` of NeMo 3.0.0. Two heads of 8 are the width of a row, 16.
#[test]
fn keys_of_the_layers_that_are_absent_have_the_values_of_the_reference() {
    let config = config(|config| {
        let absent = ["is_causal", "max_length_causal_mask", "apply_norm_to_cond", "xa_d_head"];
        for stack in ["encoder", "decoder"] {
            let stack = config[stack].as_object_mut().expect("keys");
            absent.iter().for_each(|key| drop(stack.remove(*key)));
        }
        config["decoder"]["xa_n_heads"] = json!(2);
    });
    let config = config.expect("defaults");
    assert_eq!(config.encoder.max_length_causal_mask, 4096);
    assert_eq!(config.decoder.stack.max_length_causal_mask, 4096);
    assert_eq!((config.decoder.xa_n_heads, config.decoder.head_width()), (2, 8));
}

#[test]
fn what_is_not_implemented_is_refused_by_its_key() {
    type Change = fn(&mut serde_json::Value);
    let pieces: [(&str, Change); 13] = [
        ("model_type", |config| config["model_type"] = json!("multi_encoder")),
        ("target", |config| config["target"] = json!("nemo.EasyMagpieTTSModel")),
        ("local_transformer_type", |config| {
            config["local_transformer_type"] = json!("maskgit");
        }),
        ("is_causal", |config| config["encoder"]["is_causal"] = json!(false)),
        ("use_moe", |config| config["decoder"]["use_moe"] = json!(true)),
        ("vector_quantizer", |config| config["vector_quantizer"] = json!({ "num_groups": 4 })),
        ("kernel_size", |config| config["decoder"]["kernel_size"] = json!(3)),
        ("sa_n_heads", |config| config["encoder"]["sa_n_heads"] = json!(3)),
        ("xa_d_memory", |config| config["decoder"]["xa_d_memory"] = json!(8)),
        ("xa_n_heads", |config| config["decoder"]["xa_n_heads"] = json!(3)),
        ("xa_d_head", |config| config["decoder"]["xa_d_head"] = json!(0)),
        ("apply_norm_to_cond", |config| {
            config["decoder"]["apply_norm_to_cond"] = json!(false);
        }),
        ("apply_prior_to_layers", |config| {
            config["inference_parameters"]["apply_prior_to_layers"] = json!([3]);
        }),
    ];
    for (key, change) in pieces {
        let error = config(change).expect_err(key).to_string();
        assert!(error.starts_with(&format!("key `{key}` ")), "{error}");
    }
}
