//! Songs made from other songs, on the command line.

use std::f32::consts::TAU;

use crate::{Dir, Run};

/// Writes five and a half seconds of two tones with 16 bits.
fn source(dir: &Dir, name: &str) {
    dir.write_wav(name, 2, 264_000, |i, channel| {
        let hertz = [220.0, 331.0][usize::from(channel)];
        let x = 0.4 * (TAU * hertz * (i as f32 / 48_000.0)).sin();
        (x * 32_767.0) as i16
    });
}

fn generate(dir: &Dir, args: &[&str]) -> Run {
    dir.run(&[&["generate", "--model", "tiny", "--seed", "7"], args].concat())
}

/// Also with 16 bits: reading and writing must be exact.
#[test]
fn a_repaint_leaves_every_sample_outside_as_it_was() {
    let dir = Dir::new();
    source(&dir, "a.wav");
    let args = ["--task", "repaint", "--src-audio", "a.wav", "--repainting-start", "1.5"];
    let args = [&args[..], &["--repainting-end", "3", "-o", "b.wav", "--json"]].concat();
    let run = generate(&dir, &args).succeeded();
    let plan = &run.json()["plan"];
    assert_eq!(plan["task_type"], "repaint");
    assert_eq!(plan["region"]["frames"], serde_json::json!([37, 75]));
    assert_eq!(plan["source"]["path"], "a.wav");
    assert!(plan["normalization_db"].is_null());
    let (before, after) = (dir.sound("a.wav"), dir.sound("b.wav"));
    assert_eq!(before.len(), after.len());
    let region = 2 * 72_000..2 * 144_000;
    assert_eq!(before[..region.start], after[..region.start]);
    assert_eq!(before[region.end..], after[region.end..]);
    assert_ne!(before[region.clone()], after[region]);
}

#[test]
fn a_saved_cover_can_be_made_again_from_another_folder() {
    let dir = Dir::new();
    source(&dir, "a.wav");
    let args = ["bossa nova", "--task", "cover", "--src-audio", "a.wav", "--reference-audio"];
    let args = [&args[..], &["a.wav", "-o", "b.wav", "--save-request"]].concat();
    generate(&dir, &args).succeeded();
    let request = dir.json("b.json");
    assert_eq!(request["task_type"], "cover");
    let path = std::path::Path::new(request["src_audio"].as_str().expect("a path"));
    assert!(path.is_absolute() && path.ends_with("a.wav"));
    std::fs::create_dir(dir.path("deep")).expect("a folder");
    std::fs::rename(dir.path("b.json"), dir.path("deep/b.json")).expect("moved");
    dir.run(&["generate", "--request", "deep/b.json", "-o", "c.wav"]).succeeded();
    assert_eq!(dir.read("b.wav"), dir.read("c.wav"));
}

/// As in requests of upstream's server: relative to the request file, not to the working directory.
#[test]
fn names_in_a_request_are_those_of_files_beside_it() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("deep")).expect("a folder");
    source(&dir, "deep/a.wav");
    let request = r#"{"task_type": "cover-nofsq", "src_audio_path": "a.wav", "prompt": "jazz",
        "chunk_mask_mode": "auto", "repaint_mode": "balanced", "repaint_strength": 0.5,
        "repainting_start": 0.0, "repainting_end": -1, "repaint_latent_crossfade_frames": 10,
        "repaint_wav_crossfade_sec": 0.0, "thinking": true}"#;
    dir.write("deep/r.json", request);
    let run = generate(&dir, &["--request", "deep/r.json", "-o", "b.wav", "--json"]).succeeded();
    let object = run.json();
    assert_eq!(object["plan"]["task_type"], "cover-nofsq");
    assert_eq!(object["plan"]["frames"], 137);
    assert_eq!(object["plan"]["region"], serde_json::Value::Null);
}

#[test]
fn what_cannot_be_done_is_refused_before_any_work() {
    let dir = Dir::new();
    source(&dir, "a.wav");
    let task = |args: &[&str]| generate(&dir, &[&["rain", "-o", "b.wav"], args].concat());
    task(&["--task", "cover"])
        .failed(2)
        .says("error: `--task-type cover` needs a song to start from")
        .says("hint: pass `--src-audio FILE`");
    task(&["--task", "extract", "--track", "vocals", "--src-audio", "a.wav"])
        .failed(2)
        .says("tiny cannot do `extract`: only base and sft models were trained for it")
        .says("hint: pass `--model base` or `--model sft`");
    task(&["--task", "remix"]).failed(2).says("use text2music, cover, cover-nofsq");
    task(&["--task", "cover", "--src-audio", "no.wav"]).failed(1).says("cannot read `no.wav`");
    let region = ["--task", "repaint", "--src-audio", "a.wav"];
    task(&[&region[..], &["--repainting-start", "4", "--repainting-end", "2"]].concat())
        .failed(2)
        .says("the region ends at 2 s, but begins at 4 s");
    task(&[&region[..], &["--repainting-start", "nan"]].concat()).failed(2);
    task(&[&region[..], &["--repainting-end", "1e300"]].concat())
        .failed(2)
        .says("`--repainting-end")
        .says("is out of range");
    task(&[&region[..], &["--audio-codes", "1,2"]].concat())
        .failed(2)
        .says("`--task-type repaint` follows a song, and not audio codes");
    assert_eq!(dir.files(), ["a.wav"]);
}

#[test]
fn a_dry_run_says_what_is_done_with_which_part() {
    let dir = Dir::new();
    source(&dir, "a.wav");
    let args = ["rain", "--task", "repaint", "--src-audio", "a.wav", "--repainting-start", "-2"];
    let run = generate(&dir, &[&args[..], &["--repainting-end", "0", "--dry-run"]].concat());
    let run = run.succeeded();
    for line in [
        "task      repaint: Repaint the mask area based on the given conditions:",
        "source    a.wav",
        "region    -2 s to 0.00 s: latent frames 0 to 50",
        "network   VAE encoder",
    ] {
        assert!(run.stderr.contains(line), "wanted {line:?} in:\n{}", run.stderr);
    }
}

#[test]
fn thinking_has_no_part_in_a_song_that_follows_another() {
    let dir = Dir::new();
    source(&dir, "a.wav");
    let args = ["rain", "--task", "cover", "--src-audio", "a.wav", "--thinking", "--dry-run"];
    generate(&dir, &args)
        .succeeded()
        .says("note: --thinking has no effect: the song follows its source");
}

/// The settings stored in a saved song do not prevent another task.
#[test]
fn a_saved_song_is_the_start_of_another_task() {
    let dir = Dir::new();
    source(&dir, "a.wav");
    let coded = ["rain", "--audio-codes", "1,2,3,4,5", "-o", "b.wav", "--save-request"];
    generate(&dir, &coded).succeeded();
    let more = ["--request", "b.json", "--task", "repaint", "--src-audio", "a.wav"];
    let args = [&more[..], &["--repainting-start", "2", "--dry-run", "--json"]].concat();
    let run = generate(&dir, &args)
        .succeeded()
        .says("note: the request's audio codes are not used: the song follows its source");
    let plan = &run.json()["plan"];
    assert_eq!((&plan["audio_codes"], &plan["task_type"]), (&0.into(), &"repaint".into()));
    let prompt = plan["caption_prompt"].as_str().expect("a prompt");
    assert!(prompt.starts_with("# Instruction\nRepaint the mask area"), "{prompt}");
}

#[test]
fn no_output_replaces_the_source_of_its_song() {
    let dir = Dir::new();
    source(&dir, "a.wav");
    let before = dir.read("a.wav");
    let args = ["rain", "--task", "repaint", "--src-audio", "a.wav", "--repainting-start", "2"];
    let refused = |outputs: &[&str], name: &str| {
        let args = [&args[..], outputs, &["--force"]].concat();
        let text = format!("`{name}` would be written over itself");
        generate(&dir, &args).failed(2).says(&text);
    };
    refused(&["-o", "a.wav"], "a.wav");
    refused(&["-o", "./a.wav", "--save-request"], "./a.wav");
    assert_eq!(dir.read("a.wav"), before);
    std::fs::rename(dir.path("a.wav"), dir.path("a.vtt")).expect("a file");
    let args = ["rain", "--task", "repaint", "--src-audio", "a.vtt", "--repainting-start", "2"];
    let outputs = ["-o", "b.wav", "--output-vtt", "a.vtt", "--force"];
    let run = generate(&dir, &[&args[..], &outputs].concat()).failed(2);
    run.says("`a.vtt` would be written over itself");
    assert_eq!(dir.read("a.vtt"), before);
}

#[test]
fn no_outline_is_planned_for_a_song_that_follows_another() {
    let dir = Dir::new();
    source(&dir, "a.wav");
    dir.write("r.json", r#"{"caption": "jazz", "task_type": "cover", "src_audio": "a.wav"}"#);
    dir.run(&["plan", "--request", "r.json", "--model", "tiny"])
        .failed(2)
        .says("`cover` follows a song, and has no use for a plan's codes")
        .says("hint: pass --no-codes");
}
