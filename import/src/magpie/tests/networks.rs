//! Goldens of `tests/goldens/magpie/networks.json`: NeMo's own classes in f64, with the weights of
//! [`super::written::value`]. The tolerances are those of the public goldens' README.

use acestep_model::{
    kernel::Precision,
    speech::{
        magpie::{Checkpoint, Start},
        nanocodec,
    },
};
use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::Flex;
use serde_json::Value;

use super::{
    Magpie, codec_tensors, model_tensors, opened_with,
    written::{YAML, tensors},
};
use crate::testing::{golden_json, place};

fn golden() -> Value {
    golden_json("magpie/networks.json")
}

/// The model with one or two frames in a step.
fn model(frames: usize) -> Magpie {
    let (yaml, tensors) = match frames {
        1 => (YAML.to_owned(), model_tensors()),
        _ => {
            let local = "local_transformer_n_layers: 1\nlocal_transformer_hidden_dim: 2\n";
            assert!(YAML.contains(local));
            let other = "frame_stacking_factor: 2\nlocal_transformer_n_layers: 2\n\
                         local_transformer_hidden_dim: 4\nlocal_transformer_n_heads: 2\n";
            (YAML.replace(local, other), tensors(4, 2, 4))
        }
    };
    opened_with(&yaml, &tensors, &codec_tensors()).expect("a model")
}

fn numbers(value: &Value) -> Vec<i32> {
    serde_json::from_value(value.clone()).expect("whole numbers")
}

fn ints(numbers: Vec<i32>, shape: [usize; 2]) -> Tensor<Flex, 2, Int> {
    Tensor::from_data(TensorData::new(numbers, shape), &Default::default())
}

#[track_caller]
fn assert_close<const D: usize>(ours: Tensor<Flex, D>, expected: &Value, allowed: f32) {
    let ours: Vec<f32> = ours.into_data().to_vec().expect("f32");
    let expected: Vec<f32> = serde_json::from_value(expected.clone()).expect("numbers");
    assert_eq!(ours.len(), expected.len());
    let farthest = ours.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(farthest <= allowed, "{farthest}: {ours:?} is not {expected:?}");
}

/// The last row of both sequences, without a prior from a cache and computed again, and with a prior
/// computed again.
#[test]
fn encoder_and_decoder_are_the_reference() {
    for frames in [1, 2] {
        let (golden, model) = (&golden()[format!("s{frames}")], model(frames));
        let place = place();
        let ids = numbers(&golden["ids"]);
        let length = ids.len();
        let encoder = model.encoder(&place).expect("an encoder");
        let memory = encoder.forward(ints(ids, [1, length]));
        assert_close(memory.clone(), &golden["memory"], 3e-5);
        let decoder = model.decoder(&place).expect("a decoder");
        let factors: Vec<f32> =
            serde_json::from_value(golden["prior_factors"].clone()).expect("numbers");
        let prior = Tensor::<Flex, 1>::from_data(&*factors, &place.device);
        for (exact, name) in [(false, "plain"), (true, "plain"), (true, "prior")] {
            let context = decoder.context(0, &place.device);
            let start = Start { rows: 2, capacity: 8, exact };
            let mut state = decoder.start(context, memory.clone(), start, &place);
            let prior = (name == "prior").then_some(&prior);
            let mut last = None;
            for stack in golden["stacks"].as_array().expect("stacks") {
                let stack = numbers(stack);
                let tables = stack.len();
                let embedded = decoder.embedded(ints(stack, [tables, 1])).repeat_dim(0, 2);
                last = Some(decoder.step(embedded, prior, &mut state));
            }
            let step = last.expect("a step");
            let expected = &golden[name];
            assert_close(step.attention, &expected["attention"], 1e-5);
            assert_close(step.hidden.clone(), &expected["hidden"], 3e-5);
            assert_close(decoder.logits(step.hidden), &expected["logits"], 6e-5);
        }
    }
}

/// Every code of a step: the rows of the decoder, then the embeddings of the codes before.
#[test]
fn the_local_transformer_is_the_reference() {
    for frames in [1, 2] {
        let (golden, model) = (&golden()[format!("s{frames}")], model(frames));
        let place = place();
        let decoder = model.decoder(&place).expect("a decoder");
        let local = model.local_transformer(&place).expect("a local transformer");
        let rows: Vec<f32> =
            serde_json::from_value(golden["prior"]["hidden"].clone()).expect("numbers");
        let mut input = Tensor::<Flex, 2>::from_data(TensorData::new(rows, [2, 4]), &place.device);
        let mut state = local.start(2, &place);
        let codes = numbers(&golden["codes"]);
        assert_eq!(codes.len(), local.heads());
        for (index, code) in codes.into_iter().enumerate() {
            let hidden = local.step(input, &mut state);
            let logits = local.logits(index, hidden);
            assert_close(logits, &golden["local"][index], 6e-5);
            let row = decoder.audio_embedding(index, ints(vec![code], [1, 1]));
            input = row.reshape([1, 4]).repeat_dim(0, 2);
        }
    }
}

/// The whole and frame by frame. Sums of two bf16 keep 16 bits of each number.
#[test]
fn the_codec_is_the_reference() {
    for (precision, allowed) in [(Precision::Highest, 5e-6), (Precision::High, 5e-5)] {
        of_codec(precision, allowed);
    }
}

fn of_codec(precision: Precision, allowed: f32) {
    let golden = &golden()["codec"];
    let codes: Vec<Vec<i32>> = serde_json::from_value(golden["codes"].clone()).expect("codes");
    let codec = model(1).codec_decoder(&place(), precision).expect("a codec");
    let all = ints(codes.concat(), [2, 4]);
    let whole = codec.forward(all.clone(), &mut nanocodec::DecoderState::default());
    assert_close(whole, &golden["wave"], allowed);
    let mut state = nanocodec::DecoderState::default();
    let parts = (0..4).map(|at| codec.forward(all.clone().narrow(1, at, 1), &mut state));
    assert_close(Tensor::cat(parts.collect(), 0), &golden["wave"], allowed);
}
