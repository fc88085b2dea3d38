//! LoRA and similar adapters: their effect on a song, their messages, and refused ones.

use serde_json::{Map, json};

use crate::{
    Dir,
    foreign::{Weights, write_comfy_checkpoint, write_gguf_models},
};

/// Returns a safetensors file of f32.
fn file(tensors: &[(&str, &[usize], f32)]) -> Vec<u8> {
    let mut header = Map::new();
    let mut values = Vec::<u8>::new();
    for &(name, shape, size) in tensors {
        let begin = values.len();
        // A scalar has the given value; a matrix looks like noise.
        let noise = |i: usize| size * (((i as f32 + 1.0) * 0.618_034).fract() * 2.0 - 1.0);
        let number = |i| if shape.is_empty() { size } else { noise(i) };
        values.extend((0..shape.iter().product()).flat_map(|i| number(i).to_le_bytes()));
        let offsets = [begin, values.len()];
        header
            .insert(name.into(), json!({"dtype": "F32", "shape": shape, "data_offsets": offsets}));
    }
    let header = serde_json::Value::from(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values].concat()
}

const A: &str = "base_model.model.layers.0.self_attn.q_proj.lora_A.weight";
const B: &str = "base_model.model.layers.0.self_attn.q_proj.lora_B.weight";
const ALPHA: &str = "base_model.model.layers.0.self_attn.q_proj.alpha";

const QKV: &str = "base_model.model.layers.0.self_attn.qkv_proj";

/// Returns a LoRA of a fused layer of queries, keys and values with 64, 32 and 32 rows.
fn lora_of_several() -> Vec<u8> {
    let [a, b, alpha] = ["lora_A.weight", "lora_B.weight", "alpha"].map(|r| format!("{QKV}.{r}"));
    file(&[(&a, &[4, 64], 0.3), (&b, &[128, 4], 0.3), (&alpha, &[], 16.0)])
}

/// Returns a LoRA of rank 4 with a `B` of magnitude `size`.
fn lora(size: f32) -> Vec<u8> {
    file(&[(A, &[4, 64], 0.3), (B, &[64, 4], size), (ALPHA, &[], 16.0)])
}

#[test]
fn an_adapter_changes_the_song_and_one_of_zeros_does_not() {
    let dir = Dir::new();
    dir.write("voice.safetensors", lora(0.3));
    dir.write("zeros.safetensors", lora(0.0));
    let song = |name: &str, more: &[&str]| {
        let common = ["rain", "--seed", "7", "-o", name];
        dir.tiny(&[&common, more].concat()).succeeded()
    };
    song("plain.wav", &[]);
    let run = song("voice.wav", &["--adapter", "voice.safetensors"]);
    run.says("tiny + voice on cpu").says("adapter voice: 1 weight changed by ");
    assert_ne!(dir.sound("voice.wav"), dir.sound("plain.wav"));
    song("half.wav", &["--adapter", "voice.safetensors:0.5"]).says("tiny + voice (0.5) on cpu");
    assert_ne!(dir.sound("half.wav"), dir.sound("voice.wav"));
    assert_ne!(dir.sound("half.wav"), dir.sound("plain.wav"));
    song("none.wav", &["--adapter", "voice.safetensors", "--adapter-scale", "0"])
        .says("note: the adapter `voice.safetensors` has the scale 0: it changes nothing");
    assert_eq!(dir.sound("none.wav"), dir.sound("plain.wav"));
    song("zeros.wav", &["--adapter", "zeros.safetensors"])
        .says("adapter zeros: 1 weight not changed at all")
        .says("note: the adapter zeros changes nothing: all its changes are zero");
    assert_eq!(dir.sound("zeros.wav"), dir.sound("plain.wav"));
    // Two halves add up to the whole, up to the last bit of a sum.
    let halves = ["--adapter", "voice.safetensors:0.5"];
    song("halves.wav", &[halves, halves].concat());
    let (halves, whole) = (dir.sound("halves.wav"), dir.sound("voice.wav"));
    let most = halves.iter().zip(&whole).map(|(a, b)| a.abs_diff(*b)).max();
    assert!(most.expect("samples") <= 8, "{most:?}");
}

#[test]
fn a_layer_that_is_several_of_the_models_is_used_and_said() {
    let dir = Dir::new();
    dir.write("fused.safetensors", lora_of_several());
    let song = |name: &str, more: &[&str]| {
        dir.tiny(&[&["rain", "--seed", "7", "-o", name], more].concat()).succeeded()
    };
    song("plain.wav", &[]);
    song("fused.wav", &["--adapter", "fused.safetensors"])
        .says("note: 1 module of the adapter `fused.safetensors` is several of the model's in one")
        .says("its rows are taken for those of q_proj, k_proj, v_proj, in this order")
        .says("adapter fused: 3 weights changed by ");
    assert_ne!(dir.sound("fused.wav"), dir.sound("plain.wav"));
}

#[test]
fn an_alpha_of_zero_is_said_once_and_as_what_it_is() {
    let dir = Dir::new();
    dir.write(
        "zero.safetensors",
        file(&[(A, &[4, 64], 0.3), (B, &[64, 4], 0.3), (ALPHA, &[], 0.0)]),
    );
    let says = "the adapter `zero.safetensors` changes nothing by its own settings: its alpha is 0";
    let args = ["rain", "-o", "a.wav", "--adapter", "zero.safetensors"];
    let run = dir.tiny(&args).succeeded().says(says);
    assert!(!run.stderr.contains("as before training"), "{}", run.stderr);
    dir.run(&["adapter", "show", "zero.safetensors"]).succeeded().says(says);
}

#[test]
fn a_saved_request_keeps_its_adapters_and_makes_the_song_again() {
    let dir = Dir::new();
    dir.write("voice.safetensors", lora(0.3));
    let adapter = ["--adapter", "voice.safetensors:0.5"];
    let common = ["rain", "--seed", "7", "-o", "a.wav", "--save-request"];
    dir.tiny(&[&common[..], &adapter].concat()).succeeded();
    let request = dir.json("a.json");
    let path = request["adapter"].as_str().expect("one");
    assert!(std::path::Path::new(path).is_absolute() && path.ends_with("voice.safetensors"));
    assert_eq!(request["adapter_scale"], 0.5);
    let again = |more: &[&str], name: &str| {
        let common = ["generate", "--request", "a.json", "-o", name];
        dir.run(&[&common, more].concat()).succeeded();
        dir.sound(name)
    };
    assert_eq!(again(&[], "b.wav"), dir.sound("a.wav"));
    assert_ne!(again(&["--no-adapter"], "c.wav"), dir.sound("a.wav"));
    assert_ne!(again(&["--adapter-scale", "1"], "d.wav"), dir.sound("a.wav"));
    // acestep.cpp's keys.
    dir.write(
        "cpp.json",
        r#"{"caption": "rain", "adapter": "voice.safetensors", "adapter_scale": 0.5}"#,
    );
    let common = ["generate", "--request", "cpp.json", "--model", "tiny", "--duration", "1"];
    dir.run(&[&common[..], &["--seed", "7", "-o", "e.wav"]].concat()).succeeded();
    assert_eq!(dir.sound("e.wav"), dir.sound("a.wav"));
}

#[test]
fn the_tags_of_a_song_name_the_directory_of_its_adapter() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("voice")).expect("a folder");
    dir.write("voice/adapter_model.safetensors", lora(0.3));
    dir.write("voice/adapter_config.json", r#"{"r": 4, "lora_alpha": 16}"#);
    dir.tiny(&["rain", "--seed", "7", "-o", "a.wav", "--adapter", "voice"]).succeeded();
    // Another file of PEFT beside the song is not taken for it.
    dir.write("adapter_model.safetensors", lora(0.0));
    dir.run(&["generate", "--request", "a.wav", "-o", "b.wav"]).succeeded();
    assert_eq!(dir.read("a.wav"), dir.read("b.wav"));
    let tags = String::from_utf8_lossy(&dir.read("a.wav")).into_owned();
    assert!(tags.contains(r#""adapter": "voice""#));
}

#[test]
fn an_adapter_does_the_same_to_other_peoples_files_of_a_model() {
    let dir = Dir::new();
    dir.write("voice.safetensors", lora(0.3));
    write_gguf_models(&dir.path("models"), Weights::F32);
    write_gguf_models(&dir.path("quantised"), Weights::Q8_0);
    write_comfy_checkpoint(&dir.path("comfy"));
    let song = |model: &str, models: &str, output: &str| {
        let args = ["generate", "rain", "--no-thinking", "--duration", "1", "--seed", "7"];
        let more = ["--model", model, "--models-dir", models, "-o", output];
        dir.run(&[&args[..], &more, &["--adapter", "voice.safetensors"]].concat())
            .succeeded()
            .says("adapter voice: 1 weight changed by ");
        dir.sound(output)
    };
    let own = song("tiny", "models", "own.wav");
    assert_eq!(song("turbo", "models", "gguf.wav"), own);
    assert_eq!(song("comfy/tiny_turbo_aio.safetensors", "models", "comfy.wav"), own);
    // Coarser weights with the same change.
    assert_ne!(song("turbo", "quantised", "quantised.wav"), own);
}

#[test]
fn a_dry_run_says_what_an_adapter_would_change() {
    let dir = Dir::new();
    let other = "lora_te_layers_0_self_attn_q_proj.lora_down.weight";
    let up = "lora_te_layers_0_self_attn_q_proj.lora_up.weight";
    std::fs::create_dir_all(dir.path("models/adapters")).expect("a folder");
    dir.write(
        "models/adapters/voice.safetensors",
        file(&[
            (A, &[4, 64], 0.3),
            (B, &[64, 4], 0.3),
            (other, &[4, 64], 0.1),
            (up, &[64, 4], 0.1),
        ]),
    );
    // By its name in the models directory.
    let args = ["rain", "--adapter", "voice", "--models-dir", "models", "--dry-run"];
    dir.tiny(&args)
        .succeeded()
        .says("adapter   voice (models/adapters/voice.safetensors): LoRA, rank 4, scale 1, 1 of ")
        .says("note: 1 module of the adapter `models/adapters/voice.safetensors` is not used")
        .says("seems to be of the text encoder: `lora_te_layers_0_self_attn_q_proj`")
        .says("does not say its alpha: it works as if that were its rank");
    let run = dir.tiny(&[&args[..], &["--json"]].concat()).succeeded();
    let object = run.json();
    let adapter = &object["plan"]["adapters"][0];
    assert_eq!((&adapter["kind"], &adapter["weights"]), (&json!("LoRA"), &json!(1)));
    assert_eq!((&adapter["unmatched"], &adapter["ranks"]), (&json!(1), &json!([4, 4])));
    let change = adapter["change"].as_f64().expect("measured");
    assert!(change > 0.01 && change < 100.0, "{change}");
}

#[test]
fn a_directory_does_not_hide_an_adapter_of_its_name_unseen() {
    let dir = Dir::new();
    let with = |alpha: f32| file(&[(A, &[4, 64], 0.3), (B, &[64, 4], 0.3), (ALPHA, &[], alpha)]);
    for folder in ["singer", "models/adapters"] {
        std::fs::create_dir_all(dir.path(folder)).expect("a folder");
    }
    dir.write("models/adapters/singer.safetensors", with(16.0));
    dir.write("singer/recording.wav", "");
    let args = ["rain", "--adapter", "singer", "--models-dir", "models", "--dry-run"];
    dir.tiny(&args)
        .succeeded()
        .says("adapter   singer (models/adapters/singer.safetensors): LoRA, rank 4, alpha 16,")
        .says("note: `singer` holds no adapter, `models/adapters/singer.safetensors` is used");
    dir.write("singer/style.safetensors", with(8.0));
    dir
        .tiny(&args)
        .succeeded()
        .says("adapter   style (singer/style.safetensors): LoRA, rank 4, alpha 8,")
        .says("note: of the adapters called `singer`, `singer` is used, not `models/adapters/singer.safetensors`");
}

#[test]
fn a_file_of_comfyuis_training_shows_what_it_changes() {
    const NORM: &str = "diffusion_model.decoder.layers.0.self_attn_norm.diff";
    const BIAS: &str = "diffusion_model.decoder.proj_out.1.diff_b";
    let dir = Dir::new();
    let tensors: [(&str, &[usize], f32); 5] = [
        (A, &[4, 64], 0.3),
        (B, &[64, 4], 0.3),
        (ALPHA, &[], 1.0),
        (NORM, &[64], 0.1),
        (BIAS, &[16], 0.1),
    ];
    dir.write("comfy.safetensors", file(&tensors));
    let args = ["adapter", "show", "comfy.safetensors", "--model", "tiny"];
    let run = dir.run(&args).succeeded();
    for line in [
        "kind      LoRA and differences, rank 4, alpha 1\n",
        "size      593 numbers for 3 weights\n",
        "changes   1 x diffusion_model.decoder.layers.*.self_attn_norm [64]\n",
        "changes   1 x diffusion_model.decoder.proj_out.1.bias [16]\n",
        "model     tiny: 3 of ",
    ] {
        assert!(run.text().contains(line), "{line}: {}", run.text());
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_a_remedy_before_any_work() {
    let dir = Dir::new();
    let refused = |args: &[&str], code: i32, says: &str| {
        dir.tiny(&[&["rain", "-o", "a.wav"], args].concat()).failed(code).says(says);
        assert!(!dir.path("a.wav").exists());
    };
    refused(
        &["--adapter", "no.safetensors"],
        1,
        "error: the adapter `no.safetensors` is not on this machine\n  looked for no.safetensors",
    );
    let wide = file(&[(A, &[4, 2048], 0.3), (B, &[2048, 4], 0.3)]);
    dir.write("wide.safetensors", wide);
    refused(
        &["--adapter", "wide.safetensors"],
        1,
        "as [2048, 2048], but the model has it as [64, 64]",
    );
    dir.write("voice.safetensors", lora(0.3));
    refused(
        &["--adapter", "voice.safetensors:11"],
        2,
        "`--adapter-scale 11` is out of range: -10 to 10",
    );
    refused(&["--adapter-scale", "1"], 2, "`--adapter-scale` is given, but there is no adapter");
    refused(
        &["--adapter", "voice.safetensors:1", "--adapter-scale", "1"],
        2,
        "`--adapter PATH:SCALE` and `--adapter-scale` both give a scale",
    );
}

#[test]
fn show_says_what_is_in_an_adapter_and_whether_it_fits() {
    let dir = Dir::new();
    dir.write("voice.safetensors", lora(0.3));
    let run = dir.run(&["adapter", "show", "voice.safetensors"]).succeeded();
    assert_eq!(
        run.text(),
        "file      voice.safetensors\n\
         kind      LoRA, rank 4, alpha 16\n\
         size      513 numbers for 1 weight\n\
         for       no released model, by its sizes\n\
         changes   1 x base_model.model.layers.*.self_attn.q_proj [64, 64]\n"
    );
    let args = ["adapter", "show", "voice.safetensors", "--model", "tiny"];
    let run = dir.run(&args).succeeded();
    assert!(run.text().contains("\nmodel     tiny: 1 of "), "{}", run.text());
    let run = dir.run(&[&args[..], &["--json"]].concat()).succeeded();
    let object = run.json();
    assert_eq!((&object["kind"], &object["model"]["weights"]), (&json!("LoRA"), &json!(1)));
}
