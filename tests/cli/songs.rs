//! Successful runs of `generate` and their output.

use crate::{Dir, Run};

#[test]
fn a_song_is_a_wav_and_standard_output_is_its_path() {
    let dir = Dir::new();
    let run = dir.tiny(&["rain", "--seed", "7", "-o", "rain.wav"]).succeeded();
    assert_eq!(run.text(), "rain.wav\n");
    assert_eq!(dir.files(), ["rain.wav"]);
    let reader = hound::WavReader::open(dir.path("rain.wav")).expect("a WAV");
    let spec = reader.spec();
    assert_eq!((spec.channels, spec.sample_rate, spec.bits_per_sample), (2, 48_000, 16));
    assert_eq!(reader.duration(), 48_000);
    let last = run.stderr.lines().last().expect("a summary");
    assert!(last.starts_with("seed 7 · 8 steps · 1.0 s of audio in "), "{last}");
    assert!(last.ends_with("B of memory · rain.wav"), "{last}");
    run.says("note: tiny is a random network: the sound is noise");
}

/// Frames of the demo model are 5 ms; those of the released models and `tiny` are 40 ms.
#[test]
fn the_demo_plans_a_song_and_says_that_it_cannot_sing() {
    let dir = Dir::new();
    let song =
        ["generate", "a slow waltz", "--model", "demo", "--seed", "7", "-o", "a.wav", "--force"];
    let made = |args: &[&str]| dir.run(&[&song[..], args].concat()).succeeded();
    let run = made(&["--duration", "2.4", "--lyrics", "Where the river bends"]);
    let run = run.says("demo has never heard a voice");
    assert!(run.stderr.contains("50 steps · 2.4 s of audio"), "{}", run.stderr);
    let reader = hound::WavReader::open(dir.path("a.wav")).expect("a WAV");
    assert_eq!(reader.duration(), 115_200);
    for more in [&["--dry-run"][..], &["--dry-run", "--instrumental"]] {
        let run = made(more);
        assert!(!run.stderr.contains("words"), "{}", run.stderr);
    }
}

/// The language model writes everything except the caption, in words that it has learned.
#[test]
fn the_demo_writes_a_song_for_a_caption_alone() {
    let dir = Dir::new();
    dir.run(&["inspire", "a slow waltz", "--lm-model", "demo", "--seed", "7"]).succeeded();
    let song: serde_json::Value =
        serde_json::from_slice(&dir.read("inspire.json")).expect("a request");
    let caption = song["caption"].as_str().expect("a caption");
    assert!(caption.contains("waltz"), "{song}");
    assert_eq!(song["timesignature"], "3", "{song}");
    let lyrics = song["lyrics"].as_str().expect("lyrics");
    assert!(lyrics.lines().all(|line| line.is_empty() || line.starts_with('[')), "{lyrics}");
}

#[test]
fn quiet_says_the_name_with_its_seed_and_verbose_one_line_for_each_stage() {
    let dir = Dir::new();
    let run = dir.tiny(&["rain", "--seed", "7", "-q"]).succeeded();
    assert_eq!((run.text(), &run.stderr[..]), ("song-7.wav\n", ""));
    let run = dir.tiny(&["rain", "--seed", "8", "-v"]).succeeded();
    for stage in ["text encoder  ", "condition     ", "diffusion     8 steps", "VAE   "] {
        assert!(run.stderr.lines().any(|line| line.starts_with(stage)), "{stage}: {}", run.stderr);
    }
}

#[test]
fn one_seed_is_one_song_with_networks_kept_too_and_another_seed_another() {
    let dir = Dir::new();
    for (seed, name) in [("7", "a.wav"), ("7", "b.wav"), ("8", "c.wav")] {
        dir.tiny(&["rain", "--seed", seed, "-o", name]).succeeded();
    }
    dir.tiny(&["rain", "--seed", "7", "-o", "d.wav", "--keep-loaded"]).succeeded();
    assert_eq!(dir.read("a.wav"), dir.read("b.wav"));
    assert_ne!(dir.read("a.wav"), dir.read("c.wav"));
    assert_eq!(dir.read("a.wav"), dir.read("d.wav"));
}

/// `floor(25 x seconds)` frames of 1920 samples.
#[test]
fn a_song_has_exactly_the_frames_that_were_asked_for() {
    let dir = Dir::new();
    for (seconds, samples) in [
        ("0.04", 1920),
        ("0.079", 1920),
        ("1.16", 29 * 1920),
        ("3.33", 83 * 1920),
        ("5.13", 128 * 1920),
    ] {
        let args = ["rain", "--seed", "7", "-o", "a.wav", "--force", "--duration", seconds];
        dir.run(&[&["generate", "--model", "tiny"], &args[..]].concat()).succeeded();
        let reader = hound::WavReader::open(dir.path("a.wav")).expect("a WAV");
        assert_eq!(reader.duration(), samples, "{seconds} s");
    }
}

#[test]
fn each_format_is_what_it_says() {
    let dir = Dir::new();
    for (format, bits, kind) in [
        ("wav", 16, hound::SampleFormat::Int),
        ("wav24", 24, hound::SampleFormat::Int),
        ("wav32", 32, hound::SampleFormat::Float),
    ] {
        let name = format!("{format}.wav");
        dir.tiny(&["rain", "-o", &name, "--audio-format", format]).succeeded();
        let spec = hound::WavReader::open(dir.path(&name)).expect("a WAV").spec();
        assert_eq!((spec.bits_per_sample, spec.sample_format), (bits, kind));
    }
    dir.tiny(&["rain", "--audio-format", "midi"]).failed(2).says("use wav16, wav24, wav32, flac");
}

/// -6 dB is `10^(-6/20)` = 0.501187.
#[test]
fn the_peak_is_where_it_was_asked_for() {
    let dir = Dir::new();
    let args = ["rain", "-o", "a.wav", "--audio-format", "wav32", "--normalization-db", "-6"];
    dir.tiny(&args).succeeded();
    let bytes = dir.read("a.wav");
    let mut reader = hound::WavReader::new(&bytes[..]).expect("a WAV");
    let peak = reader.samples::<f32>().fold(0f32, |peak, x| peak.max(x.expect("a sample").abs()));
    assert!((peak - 0.501_187).abs() < 1e-5, "{peak}");
}

#[test]
fn json_is_one_object_with_everything_in_it() {
    let dir = Dir::new();
    let args = ["rain", "--seed", "7", "--batch-size", "2", "-o", "a.wav", "--json"];
    let object = dir.tiny(&args).succeeded().json();
    let keys: Vec<_> = object.as_object().expect("an object").keys().collect();
    let expected =
        ["outputs", "latents", "request", "language_model", "notices", "plan", "elapsed"];
    assert_eq!(keys, expected);
    for (i, path) in ["a_1.wav", "a_2.wav"].into_iter().enumerate() {
        let song = &object["outputs"][i];
        assert_eq!(song["path"], path);
        assert_eq!(song["seed"], 7 + i);
        assert_eq!(song["seconds"], 1.0);
        assert_eq!(song["samples"], 48_000);
        assert_eq!(song["sample_rate"], 48_000);
        assert_eq!(song["channels"], 2);
    }
    for stage in ["text_encoder", "condition", "diffusion", "vae", "total"] {
        assert!(object["elapsed"][stage].as_f64().is_some_and(|s| s >= 0.0), "{stage}");
    }
    assert_eq!(object["plan"]["inference_steps"], 8);
    assert_eq!(object["plan"]["frames"], 25);
    assert_eq!(object["plan"]["padded_frames"], 128);
    assert_eq!(object["plan"]["device"], "cpu");
}

#[test]
fn a_dry_run_says_everything_and_does_nothing() {
    let dir = Dir::new();
    let args = ["calm piano", "--seed", "7", "--batch-size", "2", "--save-request", "--dry-run"];
    let run = dir.tiny(&args).succeeded();
    assert_eq!(run.text(), "");
    insta::assert_snapshot!("dry-run", run.stderr);
    let run = dir.tiny(&[&args[..], &["--json"]].concat()).succeeded();
    insta::assert_snapshot!("dry-run-json", run.text());
    assert!(dir.files().is_empty());
}

#[test]
fn standard_output_can_be_the_song() {
    let dir = Dir::new();
    let run = dir.tiny(&["rain", "--seed", "7", "-o", "-"]).succeeded();
    dir.tiny(&["rain", "--seed", "7", "-o", "a.wav"]).succeeded();
    assert_eq!(run.stdout, dir.read("a.wav"));
    assert_eq!(dir.files(), ["a.wav"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_an_error() {
    let dir = Dir::new();
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("a device");
    for output in ["-", "a.wav"] {
        let args = ["generate", "rain", "--model", "tiny", "--duration", "1", "-o", output];
        let run = Run::of(dir.command(&args).stdout(full())).failed(1);
        run.says("error: cannot write to standard output\n  cause: ");
    }
    // The song file is complete.
    assert_eq!(dir.files(), ["a.wav"]);
    assert_eq!(Run::of(dir.command(&["--help"]).stdout(full())).code, Some(1));
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_that_is_not_text_is_printed_as_it_is() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let dir = Dir::new();
    let name = OsStr::from_bytes(b"\xff{seed}.wav");
    let args = ["generate", "rain", "--model", "tiny", "--duration", "1", "-o"].map(OsStr::new);
    let run = dir.run(&[&args[..], &[name]].concat()).succeeded();
    assert_eq!(run.stdout, b"\xff{seed}.wav\n");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let dir = Dir::new();
    for args in [&["rain", "-o", "-"][..], &["rain", "-o", "a.wav"], &["rain", "--json"]] {
        let mut command = dir.command(
            &[&["generate", "--model", "tiny", "--duration", "1", "--force"], args].concat(),
        );
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let stderr = Run::of(command.stdout(writer)).succeeded().stderr;
        assert!(!stderr.contains("panic") && !stderr.contains("error"), "{stderr}");
    }
    assert!(dir.files().contains(&"a.wav".to_owned()));
}

#[test]
fn a_model_whose_config_does_not_say_is_turbo_by_its_directorys_name() {
    let dir = Dir::new();
    let config = dir.checkpoint().join("config.json");
    let text = std::fs::read_to_string(&config).expect("a config");
    let mut object: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let keys = object.as_object_mut().expect("an object");
    keys.remove("is_turbo").expect("it says so");
    keys.remove("model_version");
    std::fs::write(&config, object.to_string()).expect("writes");
    let steps = |model: &str| {
        let args = ["generate", "rain", "--no-thinking", "--dry-run", "--json", "--model", model];
        dir.run(&args).succeeded().json()["plan"]["inference_steps"].clone()
    };
    assert_eq!(steps("./acestep-v15-turbo"), 8);
    std::fs::rename(dir.path("acestep-v15-turbo"), dir.path("mine")).expect("moved");
    assert_eq!(steps("./mine"), 50);
}
