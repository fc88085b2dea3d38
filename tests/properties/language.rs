//! The language model: the reference's runs, and what must be true of any.

use acestep_model::{LanguageCheckpoint, Tokenizer};
use acestep_runtime::{
    Unobserved,
    lm::{
        compose::{Composed, compose},
        replay::{self, Replay},
    },
};
use acestep_tests::{Cpu, DEVICE, root};
use serde_json::{Value, json};

fn tokenizer(language: &acestep_import::LanguageFolder) -> &dyn Tokenizer {
    LanguageCheckpoint::<Cpu>::tokenizer(language).expect("it is part of the program")
}

/// Golden: `lm_e2e.json`, every token of every phase.
#[test]
fn the_reference_s_runs_come_out_token_by_token() {
    let language = acestep_import::open_tiny_language_model().expect("it is part of the program");
    let text = std::fs::read_to_string(root().join("tests/goldens/a/lm_e2e.json")).expect("golden");
    let golden: Value = serde_json::from_str(&text).expect("JSON");
    let cases = golden["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 6);
    for case in cases {
        let name = &case["name"];
        let replay = Replay::new(&case["args"]);
        let composed: Composed =
            compose::<Cpu, _>(&replay.job(), &language, &DEVICE, &Unobserved).expect("composed");
        let calls = case["calls"].as_array().expect("calls");
        assert_eq!(composed.calls.len(), calls.len(), "{name}");
        for (ours, theirs) in composed.calls.iter().zip(calls) {
            // The reference pads the shorter prompt of a pair on the left.
            let longest = ours.prompts.iter().map(Vec::len).max().unwrap_or(0);
            let pad = tokenizer(&language).id_of("<|endoftext|>").expect("a special token");
            let padded = |ids: &Vec<u32>| [vec![pad; longest - ids.len()], ids.clone()].concat();
            let prompts: Vec<_> = ours.prompts.iter().map(padded).collect();
            assert_eq!(json!(prompts), theirs["prompt_ids"], "{name}");
            assert_eq!(json!(ours.written[0]), theirs["generated"], "{name}");
        }
        let result = replay::result(&composed, |ids| tokenizer(&language).decode(ids));
        assert_eq!(result, case["result"], "{name}");
    }
}
