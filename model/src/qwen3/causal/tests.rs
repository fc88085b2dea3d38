use burn::tensor::TensorData;
use burn_flex::{Flex, FlexDevice};

use super::*;
use crate::testing::{assert_close, place, values};

const DEVICE: FlexDevice = FlexDevice;

fn config(tied: bool) -> Config {
    let json = serde_json::json!({
        "vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "rope_theta": 10_000.0, "rms_norm_eps": 1e-6, "tie_word_embeddings": tied,
    });
    Config::from_json(&json.to_string()).expect("a configuration")
}

/// Returns the logits after the last of `ids`, computed without a cache.
fn uncached(model: &Causal<Flex>, ids: &[u32]) -> Vec<f32> {
    let all = model.forward(ids_in_rows(ids.iter().copied(), 1, &DEVICE));
    values(all.narrow(1, ids.len() - 1, 1))
}

fn scores(model: &Causal<Flex>, hidden: Tensor<Flex, 2>) -> Vec<f32> {
    values(model.scores(hidden, &[0..20, 20..50]))
}

#[test]
fn reading_in_pieces_is_reading_at_once() {
    for tied in [true, false] {
        let config = config(tied);
        let model = Causal::init(&config, &DEVICE);
        let ids: Vec<u32> = (0..13).map(|i| i * 7 % 50).collect();
        let mut cache = config.cache(2, 16, &place());
        model.read(&ids[..5], 1, &mut cache, &DEVICE);
        model.read(&ids[5..11], 1, &mut cache, &DEVICE);
        model.read(&ids[11..12], 1, &mut cache, &DEVICE);
        let last = model.step(&ids[12..], 1..2, &mut cache, &DEVICE);
        assert_eq!((cache.length(0), cache.length(1)), (0, 13));
        assert_close(&scores(&model, last), &uncached(&model, &ids), 1e-5);
    }
}

#[test]
fn rows_of_different_lengths_do_not_see_each_other() {
    let config = config(true);
    let model = Causal::init(&config, &DEVICE);
    let texts: [&[u32]; 3] = [&[1, 2, 3, 4, 5, 6, 7], &[9], &[40, 30, 20]];
    let mut cache = config.cache(3, 10, &place());
    for (row, ids) in texts.iter().enumerate() {
        model.read(ids, row, &mut cache, &DEVICE);
    }
    let next = [11, 12, 13];
    let together = values(model.step(&next, 0..3, &mut cache, &DEVICE));
    for (row, ids) in texts.iter().enumerate() {
        let mut alone = config.cache(1, 10, &place());
        model.read(ids, 0, &mut alone, &DEVICE);
        let hidden = values(model.step(&next[row..=row], 0..1, &mut alone, &DEVICE));
        assert_close(&together[row * 32..][..32], &hidden, 1e-5);
        let whole = [ids, &next[row..=row]].concat();
        let hidden = Tensor::from_data(TensorData::new(hidden, [1, 32]), &DEVICE);
        assert_close(&scores(&model, hidden), &uncached(&model, &whole), 1e-5);
    }
}

#[test]
fn a_row_is_cut_back_copied_and_carried_to_another_cache() {
    let config = config(true);
    let model = Causal::init(&config, &DEVICE);
    let mut cache = config.cache(2, 8, &place());
    model.read(&[1, 2, 3, 4, 5], 0, &mut cache, &DEVICE);
    cache.truncate(0, 3);
    cache.copy_row(0, 1);
    let tokens = [6, 6];
    let rows = values(model.step(&tokens, 0..2, &mut cache, &DEVICE));
    assert_eq!(rows[..32], rows[32..], "a copied row goes on as its original");
    let first = Tensor::from_data(TensorData::new(rows[..32].to_vec(), [1, 32]), &DEVICE);
    assert_close(&scores(&model, first), &uncached(&model, &[1, 2, 3, 6]), 1e-5);
    let mut other = config.cache(1, 20, &place());
    other.set_row(0, cache.row(1));
    let here = values(model.step(&[7], 1..2, &mut cache, &DEVICE));
    assert_eq!(values(model.step(&[7], 0..1, &mut other, &DEVICE)), here);
}

/// In pieces of one sequence, then as one step of two.
#[test]
fn embeddings_of_tokens_are_read_as_the_tokens() {
    let config = config(true);
    let model = Causal::init(&config, &DEVICE);
    let embedded =
        |ids: &[u32], rows| model.model.embedded(ids_in_rows(ids.iter().copied(), rows, &DEVICE));
    let (mut by_ids, mut by_rows) = (config.cache(2, 9, &place()), config.cache(2, 9, &place()));
    for (row, ids) in [(0, &[1, 2, 3, 4, 5][..]), (1, &[9, 8])] {
        let expected = model.read(ids, row, &mut by_ids, &DEVICE);
        let ours = model.read_embedded(embedded(ids, 1), row..row + 1, &mut by_rows);
        assert_eq!(values(ours), values(expected));
    }
    let expected = model.step(&[6, 7], 0..2, &mut by_ids, &DEVICE);
    let ours = model.read_embedded(embedded(&[6, 7], 2), 0..2, &mut by_rows);
    assert_eq!(values(ours), values(expected));
    // An embedding that no token has.
    let sum = embedded(&[6, 7], 2) + embedded(&[20, 21], 2);
    let ours = values(model.read_embedded(sum, 0..2, &mut by_rows));
    assert_ne!(ours, values(model.step(&[6, 7], 0..2, &mut by_ids, &DEVICE)));
    assert_eq!((by_rows.length(0), by_rows.length(1)), (7, 4));
}

#[test]
fn scores_of_some_tokens_are_those_of_all() {
    let config = config(true);
    let model = Causal::init(&config, &DEVICE);
    let mut cache = config.cache(1, 8, &place());
    let hidden = model.read(&[3, 1], 0, &mut cache, &DEVICE);
    let all = scores(&model, hidden.clone());
    let some = values(model.scores(hidden, &[49..50, 5..9]));
    assert_eq!(some, [&all[49..], &all[5..9]].concat());
}

#[test]
#[should_panic(expected = "8 tokens, room for 7")]
fn a_full_cache_says_so() {
    let config = config(true);
    let model = Causal::<Flex>::init(&config, &DEVICE);
    let mut cache = config.cache(1, 7, &place());
    model.read(&[0; 8], 0, &mut cache, &DEVICE);
}
