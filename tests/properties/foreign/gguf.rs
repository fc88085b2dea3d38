//! GGUF files.

use std::path::Path;

use acestep_import::{
    Layout, ModelFormat, open, open_language_model, open_tiny, open_tiny_language_model,
};
use acestep_tests::{
    Cpu, DEVICE,
    foreign::{self, Weights, value_text, write_gguf, write_gguf_models},
};

use super::{
    Refusal, SONG, is_the_same, is_the_same_language_model, layout, of_language_model, of_model,
    song, temporary,
};

#[test]
fn gguf_files_are_found_by_their_names_and_hold_everything() {
    let dir = temporary();
    write_gguf_models(dir.path(), Weights::F32);
    let layout = layout(dir.path());
    let model = open("turbo", &layout).expect("a model");
    assert_eq!(model.name(), "turbo");
    assert!(model.path().ends_with("acestep-v15-turbo-F32.gguf"));
    assert_eq!(model.notices(), [""; 0]);
    is_the_same(&model, ModelFormat::Gguf);
    let folder = open_language_model(None, &layout).expect("a language model");
    assert_eq!(folder.name(), "lm-0.6b");
    is_the_same_language_model(&folder);

    // Opened by path, without a models directory, the companion files are beside it.
    let path = dir.path().join("acestep-v15-turbo-F32.gguf");
    let alone = open(&path.to_string_lossy(), &Layout::new([])).expect("a model");
    assert_eq!((alone.name(), alone.path()), ("turbo", path.as_path()));
}

#[test]
fn the_finest_of_several_gguf_files_is_taken() {
    let dir = temporary();
    write_gguf_models(dir.path(), Weights::Q8_0);
    let found = |dir: &Path| open("turbo", &layout(dir)).expect("a model").path().to_owned();
    assert!(found(dir.path()).ends_with("acestep-v15-turbo-Q8_0.gguf"));
    write_gguf_models(dir.path(), Weights::Bf16);
    assert!(found(dir.path()).ends_with("acestep-v15-turbo-BF16.gguf"));
}

/// The step of a block is at most 1/63 of its largest value; the error is at most half a step.
#[test]
fn q8_0_is_within_half_a_step_and_is_said() {
    let dir = temporary();
    write_gguf_models(dir.path(), Weights::Q8_0);
    let layout = layout(dir.path());
    let model = open("turbo", &layout).expect("a model");
    assert_eq!(model.origin().to_string(), "GGUF, Q8_0");
    assert!(model.notices()[0].starts_with("the diffusion model is quantised (Q8_0)"));
    let tiny = open_tiny().expect("built in");
    let mut coarser = 0;
    for (own, exact) in of_model(&model).iter().zip(&of_model(&tiny)) {
        let most = exact.iter().fold(0_f32, |most, value| most.max(value.abs()));
        for (own, exact) in own.iter().zip(exact) {
            assert!((own - exact).abs() <= most / 63.0 / 2.0 + 1e-6, "{own} for {exact}");
            coarser += usize::from(own != exact);
        }
    }
    assert!(coarser > 100_000, "only {coarser} values differ");
    // The difference of the songs stays below half of the peak.
    assert!(acestep_tests::difference(&SONG[0], &song(&model)[0]) < 0.5);
    let folder = open_language_model(Some("0.6B"), &layout).expect("a language model");
    assert!(folder.notices()[0].starts_with("the language model is quantised (Q8_0)"));
}

#[test]
fn a_gguf_file_without_pieces_finds_those_beside_it() {
    let dir = temporary();
    write_gguf_models(dir.path(), Weights::F32);
    let released = foreign::released();
    let without = |directory: &str, architecture: &str| {
        let from = released.join(directory);
        let config = std::fs::read_to_string(from.join("config.json")).expect("a config");
        let values = [
            ("general.architecture", value_text(architecture)),
            ("acestep.config_json", value_text(&config)),
        ];
        let tensors = foreign::read(&from.join("model.safetensors"));
        let path = dir.path().join(format!("{directory}-F32.gguf"));
        write_gguf(&path, &values, &tensors, |_, _| Weights::F32);
    };
    without("acestep-v15-turbo", "acestep-dit");
    without("Qwen3-Embedding-0.6B", "acestep-text-enc");
    std::fs::remove_file(dir.path().join("acestep-5Hz-lm-0.6B-F32.gguf")).expect("removed");
    let open = || open("turbo", &layout(dir.path())).expect("a model");
    Refusal::of(&open().check_tokenizer().expect_err("no tokenizer"))
        .says("holds no tokenizer")
        .hints(&format!("into `{}`", dir.path().display()));

    // Follow the hints.
    for (from, file) in [
        ("Qwen3-Embedding-0.6B", "vocab.json"),
        ("Qwen3-Embedding-0.6B", "merges.txt"),
        ("acestep-v15-turbo", "silence_latent.pt"),
    ] {
        let content = std::fs::read(released.join(from).join(file)).expect("a golden");
        std::fs::write(dir.path().join(file), content).expect("written");
    }
    is_the_same(&open(), ModelFormat::Gguf);
}

/// The released language models have no head of their own: their table of tokens is it, in every type. A
/// head that is stored all the same is used only where the configuration says so.
#[test]
fn a_gguf_file_of_a_language_model_may_have_its_table_for_a_head() {
    let from = foreign::released().join("acestep-5Hz-lm-0.6B");
    let config = std::fs::read_to_string(from.join("config.json")).expect("a config");
    let tied = foreign::read(&from.join("model.safetensors"));
    assert!(tied.keys().all(|name| !name.contains("lm_head")), "the point of this test");
    let table = &tied["model.embed_tokens.weight"];
    let head = foreign::Stored {
        shape: table.shape.clone(),
        values: table.values.iter().map(|value| -value).collect(),
    };
    let dir = temporary();
    std::fs::copy(from.join("tokenizer.json"), dir.path().join("tokenizer.json")).expect("a copy");
    let opened = |is_tied: bool, head_is_there: bool, weights: Weights| {
        let config = match is_tied {
            true => config.clone(),
            false => {
                config.replace("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false")
            }
        };
        let values = [
            ("general.architecture", value_text("acestep-lm")),
            ("acestep.config_json", value_text(&config)),
        ];
        let mut tensors = tied.clone();
        if head_is_there {
            tensors.insert("model.lm_head.weight".into(), head.clone());
        }
        let path = dir.path().join("lm.gguf");
        std::fs::remove_file(&path).unwrap_or_default();
        write_gguf(&path, &values, &tensors, |name, _| match name {
            "model.embed_tokens.weight" | "model.lm_head.weight" => weights,
            _ => Weights::F32,
        });
        open_language_model(Some(&path.to_string_lossy()), &Layout::new([])).expect("a model")
    };
    let exact = of_language_model(&open_tiny_language_model().expect("built in"));
    for head_is_there in [false, true] {
        let folder = opened(true, head_is_there, Weights::F32);
        folder.check::<Cpu>(&DEVICE).expect("whole");
        assert!(of_language_model(&folder) == exact, "other weights");
        let coarse = of_language_model(&opened(true, head_is_there, Weights::Q8_0));
        assert_eq!((coarse.len(), coarse == exact), (exact.len(), false));
    }
    assert_eq!(of_language_model(&opened(false, true, Weights::F32)).len(), exact.len() + 1);
    let error = opened(false, false, Weights::F32).check::<Cpu>(&DEVICE).expect_err("no head");
    assert!(error.to_string().contains("has no tensor `lm_head.weight`"), "{error}");
}
