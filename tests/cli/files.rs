//! Model files of other programs, through the command line.

use crate::{
    Dir,
    foreign::{Weights, write_comfy_split, write_diffusers, write_gguf_models},
};

#[test]
fn a_directory_of_gguf_files_is_a_models_directory() {
    let dir = Dir::new();
    write_gguf_models(&dir.path("models"), Weights::Q8_0);
    let args = ["generate", "rain", "--models-dir", "models", "--duration", "2", "--seed", "7"];
    let dry = dir.run(&[&args[..], &["--dry-run"]].concat()).succeeded();
    dry.says("model     turbo (")
        .says("acestep-v15-turbo-Q8_0.gguf: GGUF, Q8_0) on cpu, bf16\n")
        .says("plan      lm-0.6b (GGUF, Q8_0) decides what is left open, and codes")
        .says("note: the diffusion model is quantised (Q8_0): its weights are coarser")
        .says("note: the language model is quantised (Q8_0)");

    let more = ["--no-thinking", "-o", "a.wav", "--json", "--save-request"];
    let object = dir.run(&[&args[..], &more].concat()).succeeded().json();
    assert_eq!(object["plan"]["model_format"], "GGUF");
    assert_eq!(object["plan"]["model_types"][0], "Q8_0");
    let notices = object["notices"].as_array().expect("notices");
    assert!(notices.iter().any(|notice| notice.as_str().is_some_and(|n| n.contains("quantised"))));
    // On another machine, the name alone would mean the released weights.
    let request = dir.text("a.json");
    assert!(request.contains("acestep-v15-turbo-Q8_0.gguf"), "{request}");

    let doctor = dir.run(&["doctor", "--models-dir", "models", "--no-song"]);
    for file in ["acestep-v15-turbo-Q8_0.gguf", "acestep-5Hz-lm-0.6B-Q8_0.gguf"] {
        assert!(doctor.text().contains(&format!("{file} (GGUF, Q8_0)")), "{}", doctor.text());
    }
}

#[test]
fn a_request_that_names_a_gguf_file_gets_it_or_is_told_what_it_gets() {
    let dir = Dir::new();
    write_gguf_models(&dir.path("models"), Weights::F32);
    write_gguf_models(&dir.path("models"), Weights::Q8_0);
    let request = |kind: &str| {
        let request = serde_json::json!({
            "synth_model": format!("acestep-v15-turbo-{kind}.gguf"), "caption": "rain",
            "lm_model": format!("acestep-5Hz-lm-0.6B-{kind}.gguf"), "duration": 2,
        });
        dir.write("request.json", request.to_string());
        let args = ["--request", "request.json", "--models-dir", "models", "--dry-run"];
        dir.run(&[&["generate"], &args[..]].concat()).succeeded()
    };
    let run = request("Q8_0").says("acestep-v15-turbo-Q8_0.gguf: GGUF, Q8_0)");
    assert!(!run.says("plan      lm-0.6b (GGUF, Q8_0)").stderr.contains("in its place"));
    request("Q4_K_M")
        .says("acestep-v15-turbo-F32.gguf: GGUF, F32)")
        .says("note: `acestep-v15-turbo-Q4_K_M.gguf` is not here: `")
        .says("note: `acestep-5Hz-lm-0.6B-Q4_K_M.gguf` is not here: `");
}

/// The error comes before the language model runs, which can take minutes.
#[test]
fn what_a_file_lacks_is_told_before_anything_is_made() {
    let dir = Dir::new();
    write_gguf_models(&dir.path("models"), Weights::F32);
    write_diffusers(&dir.path("models/pipeline"));
    for name in ["audio_tokenizer", "audio_token_detokenizer"] {
        std::fs::remove_dir_all(dir.path("models/pipeline").join(name)).expect("removed");
    }
    let with = |model: &str, more: &[&str]| {
        let args = ["generate", "rain", "--models-dir", "models", "--duration", "1", "--seed", "7"];
        dir.run(&[&args[..], &["--model", model], more].concat())
    };
    // The language model would write codes, but this pipeline has no audio codec.
    let run = with("pipeline", &[]).failed(1).says("holds no audio codec");
    let run = run.says("pass `--no-thinking`");
    assert!(!run.stderr.contains("tokens"), "the language model ran: {}", run.stderr);
    with("pipeline", &["--audio-codes", "1,2,3,4,5"]).failed(1).says("holds no audio codec");
    with("pipeline", &["--no-thinking", "-o", "a.wav"]).succeeded();
    let args = ["understand", "a.wav", "--models-dir", "models", "--model", "pipeline"];
    dir.run(&args).failed(1).says("holds no audio codec");

    write_comfy_split(&dir.path("comfy"));
    std::fs::remove_file(dir.path("comfy/silence_latent.pt")).expect("removed");
    let file = "comfy/diffusion_models/tiny_turbo.safetensors";
    // The GGUF files in the models directory contain the latent of silence.
    with(file, &["--dry-run"]).succeeded();
    let held = dir.path("models/acestep-v15-turbo-F32.gguf");
    std::fs::remove_file(held).expect("removed");
    with(file, &["--dry-run"])
        .failed(1)
        .says("holds no latent of silence, and none that fits was found")
        .says("hint: put silence_latent.pt of the model's release into `");

    let encoder = "comfy/text_encoders/qwen_tiny.safetensors";
    let lm = |path: &str| dir.run(&["plan", "rain", "--models-dir", "models", "--lm-model", path]);
    lm(encoder).failed(1).says("no audio codes among its 446 tokens");
}

/// One file for each network, because a property says that the weights are the same in both formats.
#[test]
fn the_references_results_come_out_of_gguf_files_too() {
    let dir = Dir::new();
    write_gguf_models(&dir.path("models"), Weights::F32);
    let networks =
        ["audio_tokenizer", "cond_encoder", "dit_time", "lm", "text_encoder", "vae_encode"];
    let files = networks.map(|network| format!("{network}.safetensors"));
    crate::verify::set_of(&dir.path("set"), &files);
    crate::verify::set_of(&dir.path("set"), &["manifest.json"]);
    let args = ["verify", "--goldens", "set", "--models", "models", "--json"];
    let report = dir.run(&args).succeeded().json();
    let cases = report["cases"].as_array().expect("cases");
    for file in files {
        assert!(cases.iter().any(|case| case["file"] == *file && case["pass"] == true), "{file}");
    }
}
