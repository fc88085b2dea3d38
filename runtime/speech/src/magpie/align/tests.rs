//! Traces of the reference, and positions worked out by hand.

use serde_json::Value;

use super::*;
use crate::magpie::golden::logic;

fn numbers(value: &Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).expect("numbers")
}

fn size(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

/// Follows a trace of the reference; the priors there are rounded to six places.
fn follow(align: &mut Align, trace: &Value) {
    for (index, step) in trace["steps"].as_array().expect("steps").iter().enumerate() {
        assert_eq!(align.attend(&numbers(&step["scores"])) as u64, step["attended"], "{index}");
        let prior = align.prior();
        let expected = numbers(&step["prior"]);
        assert_eq!(prior.len(), expected.len());
        for (own, expected) in prior.iter().zip(&expected) {
            assert!((own - expected).abs() < 1e-6, "step {index}: {prior:?}, not {expected:?}");
        }
        assert_eq!(Value::from(align.is_unfinished()), step["unfinished"], "step {index}");
        let near = align.near().map_or(if align.is_first { 0 } else { -1 }, i64::from);
        assert_eq!(Value::from(near), step["finished_count"], "step {index}");
        align.count(true);
    }
}

fn settings(trace: &Value, wraps: bool) -> PriorSettings {
    let epsilon = trace["epsilon"].as_f64().expect("a number") as f32;
    PriorSettings { lookahead: size(&trace["lookahead"]), epsilon, wraps }
}

#[test]
fn the_first_chunk_attends_as_the_reference() {
    let golden = logic("prior.json");
    let traces = golden["first_chunk"].as_array().expect("traces");
    assert_eq!(traces.len(), 5);
    for trace in traces {
        follow(&mut Align::new(settings(trace, false), size(&trace["text_len"])), trace);
    }
}

#[test]
fn later_chunks_attend_as_the_reference_even_before_their_window() {
    let golden = logic("prior.json");
    let traces = golden["later_chunk"].as_array().expect("traces");
    assert_eq!(traces.len(), 4);
    for trace in traces {
        let (left, last) = (size(&trace["left_offset"]), size(&trace["last_attended"]));
        let wraps = last < left;
        let mut align = Align::new(settings(trace, wraps), 1);
        align.last = last as i64;
        let n = size(&trace["text_len"]);
        align.begin_chunk(left, n, n);
        follow(&mut align, trace);
    }
    let before = traces.iter().filter(|t| size(&t["last_attended"]) < size(&t["left_offset"]));
    assert_eq!(before.count(), 1);
}

#[test]
fn a_position_before_the_window_becomes_its_first() {
    let settings = PriorSettings { lookahead: 5, epsilon: 0.1, wraps: false };
    let mut align = Align::new(settings, 40);
    align.begin_chunk(30, 50, 25);
    let mut scores = vec![0.1; 50];
    (scores[2], scores[45]) = (0.5, 0.9);
    assert_eq!(align.attend(&scores), 32);
}

#[test]
fn the_first_prior_of_a_later_chunk_starts_at_its_own_text() {
    let golden = logic("prior.json");
    let settings = PriorSettings { lookahead: 5, epsilon: 0.1, wraps: false };
    let mut checked = 0;
    for chunk in golden["window"]
        .as_array()
        .expect("texts")
        .iter()
        .flat_map(|text| text.as_array().expect("chunks"))
    {
        if chunk["initial_prior"].is_null() {
            continue;
        }
        let n = chunk["window"].as_array().expect("ids").len();
        let mut align = Align::new(settings, 1);
        let own = size(&chunk["chunk_len"]);
        let prior = align.begin_chunk(size(&chunk["left_offset"]), n, own);
        let expected = numbers(&chunk["initial_prior"]);
        assert_eq!(prior.len(), expected.len());
        assert!(prior.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6), "{chunk}");
        checked += 1;
    }
    assert!(checked >= 4, "{checked}");
}
