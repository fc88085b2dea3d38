//! Tests of the networks with random weights. Their numbers are compared with the reference by
//! `acestep verify`.

use burn::tensor::Tensor;
use burn_flex::Flex;

use super::*;
use crate::testing::{self, assert_close, place, values};

/// Layers that kernels fuse have `functions` silu and linear, and widths of whole chunks.
fn config(functions: &str) -> Config {
    let text = format!(
        r#"{{
            "data": {{
                "channels": 5, "text_vocab_size": 20, "audio_vocab_size": 14,
                "action_vocab_size": 2, "text_pad_token_id": 3, "text_new_word_token_id": 2,
                "action_pad_token_id": 0, "action_new_word_token_id": 1,
                "delay_pattern": [2, 3, 3]
            }},
            "model": {{
                "decoder": {{
                    "n_layer": 2, "n_embd": 64, "n_hidden": 128, "gqa_query_heads": 4,
                    "kv_heads": 2, "gqa_head_dim": 32
                }},
                "depformer": {{
                    "n_layer": 2, "n_embd": 64, "n_hidden": 64, "gqa_query_heads": 2,
                    "kv_heads": 2, "gqa_head_dim": 32, "mlp_activations": {functions}
                }},
                "linear": {{ "mlp_activations": {functions} }}
            }},
            "runtime": {{ "weights_schedule": [4, 0] }}
        }}"#
    );
    Config::from_json(&text).expect("valid")
}

const FUSED: &str = r#"["silu", "linear"]"#;

/// Two rows of different tokens.
fn tokens(step: u32) -> Vec<Vec<u32>> {
    vec![vec![4 + step, 9, step, step + 1, step + 2], vec![7, 3, step, step + 1, step + 2]]
}

/// Looks, so that no operation is fused.
struct Looks;

impl crate::Tap<Flex> for Looks {
    fn tap<const D: usize>(&mut self, _: std::fmt::Arguments<'_>, _: &Tensor<Flex, D>) {}
}

#[test]
fn fused_layers_are_the_layers_one_by_one() {
    let backbone = Backbone::<Flex>::init(&config(FUSED), &Default::default());
    let (mut fused, mut plain) = (backbone.state(2, 40, &place()), backbone.state(2, 40, &place()));
    for step in 0..5 {
        // Positions may differ from slots.
        let position = if step < 2 { step } else { step - 1 } as usize;
        let ours = backbone.step(&tokens(step), position, &mut fused);
        let expected = backbone.step_tapped(&tokens(step), position, &mut plain, &mut Looks);
        assert_close(&values(ours.hidden), &values(expected.hidden), 1e-4);
        assert_close(&values(ours.cb0), &values(expected.cb0), 1e-4);
    }
    assert_eq!(fused.steps(), 5);
}

/// The numbers of the schedule are 4 and 0, so stage 0 has the second map.
#[test]
fn a_row_alone_has_the_result_of_the_row_beside_another() {
    let depformer = Depformer::<Flex>::init(&config(FUSED), &Default::default());
    assert_eq!([depformer.stages(), depformer.codes()], [2, 12]);
    let hidden = testing::random([2, 1, 64]);
    let mut both = depformer.state(2, &place());
    let mut alone = depformer.state(1, &place());
    for _frame in 0..2 {
        for stage in 0..2 {
            let text = Some((5, 6));
            let two = depformer.stage(stage, hidden.clone(), 7, text, &mut both);
            assert_eq!(two.dims(), [2, 12]);
            let second = hidden.clone().narrow(0, 1, 1);
            let one = depformer.stage(stage, second, 7, text, &mut alone);
            assert_close(&values(two.narrow(0, 1, 1)), &values(one), 1e-4);
        }
    }
}

#[test]
fn a_run_continues_from_a_copy_and_from_an_earlier_step() {
    let backbone = Backbone::<Flex>::init(&config(r#"["gelu", "relu"]"#), &Default::default());
    let mut state = backbone.state(2, 40, &place());
    (0..3).for_each(|step| drop(backbone.step(&tokens(step), step as usize, &mut state)));
    let mut copy = state.clone();
    let next = values(backbone.step(&tokens(3), 3, &mut state).cb0);
    let _ = backbone.step(&tokens(4), 4, &mut state);
    assert_eq!(values(backbone.step(&tokens(3), 3, &mut copy).cb0), next);
    state.truncate(3);
    assert_eq!(values(backbone.step(&tokens(3), 3, &mut state).cb0), next);
    // A row that was kept fits into a state of another size.
    let mut other = backbone.state(1, 16, &place());
    state.truncate(3);
    other.set_row(0, state.row(0));
    let one = backbone.step(&tokens(3)[..1], 3, &mut other).cb0;
    assert_close(&values(one), &next[..14], 1e-4);
}

/// The pad token counts in the main channel only.
#[test]
fn pad_has_a_vector_in_the_main_channel_and_none_in_the_second() {
    let text = text::TextEmbed::<Flex>::init(20, [8, 8], 3, &Default::default());
    let device = Default::default();
    let of = |pairs: &[[u32; 2]]| values(text.forward(pairs, &device));
    let both = of(&[[3, 3], [3, 5]]);
    assert_eq!(both[..8], of(&[[3, 3]])[..]);
    assert_ne!(both[..8], both[8..]);
    assert!(both[..8].iter().any(|&value| value != 0.0));
}

#[test]
#[should_panic(expected = "stages follow each other")]
fn a_stage_cannot_be_left_out() {
    let depformer = Depformer::<Flex>::init(&config(FUSED), &Default::default());
    let hidden = Tensor::<Flex, 3>::zeros([1, 1, 64], &Default::default());
    let _ = depformer.stage(1, hidden, 0, None, &mut depformer.state(1, &place()));
}
