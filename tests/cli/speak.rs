//! `speak`: a text to a voice.

use std::path::Path;

use crate::{Dir, Run, copy, goldens};

fn speak(dir: &Dir, args: &[&str]) -> Run {
    let short = ["speak", "--model", "tiny-speech", "--max-new-tokens", "8", "--seed", "4"];
    dir.run(&[&short[..], args].concat())
}

pub(crate) fn base() -> String {
    goldens("checkpoints_qwen3_tts/Qwen3-TTS-12Hz-0.6B-Base").display().to_string()
}

/// The samples of a WAV of 16-bit integers.
fn samples(path: &Path) -> Vec<i16> {
    let mut reader = hound::WavReader::open(path).expect("a WAV");
    assert_eq!((reader.spec().channels, reader.spec().sample_rate), (1, 24_000));
    reader.samples::<i16>().map(|sample| sample.expect("a sample")).collect()
}

#[test]
fn a_text_becomes_a_file_and_a_line_of_figures() {
    let dir = Dir::new();
    let run = speak(&dir, &["Hello there.", "--voice", "Ryan"]).succeeded();
    assert_eq!(run.text(), "speech.wav\n");
    let made = samples(&dir.path("speech.wav"));
    assert!(made.len() >= 1920 && made.len().is_multiple_of(1920), "{}", made.len());
    run.says("note: tiny-speech is a random network")
        .says("s of speech in ")
        .says(" · real-time factor ")
        .says(" · first sound after ")
        .says(" · seed 4\n");
    let again = speak(&dir, &["Hello there.", "--voice", "Ryan"]).failed(1);
    again.says("`speech.wav` exists already").says("--force");
}

/// The same samples in a file, as a stream with a header and flags as other programs name them, and alone.
#[test]
fn the_sound_on_standard_output_is_that_of_the_file() {
    let dir = Dir::new();
    let text = ["Hello there.", "--voice", "ryan"];
    speak(&dir, &[&text[..], &["-o", "a.wav"]].concat()).succeeded();
    let expected = samples(&dir.path("a.wav"));
    let bytes: Vec<u8> = expected.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let chunk = ["--stream-chunk", "2"];
    let upstreams = ["Hello there.", "--speaker", "ryan", "--lang", "auto", "--topk", "50"];
    let wav = speak(&dir, &[&upstreams[..], &["-o", "-"], &chunk].concat()).succeeded();
    assert_eq!(wav.stdout[..4], *b"RIFF");
    assert_eq!(wav.stdout[44..], bytes);
    let pcm = ["-o", "-", "--audio-format", "pcm"];
    let pcm = speak(&dir, &[&text[..], &pcm].concat()).succeeded();
    assert_eq!(pcm.stdout, bytes);
}

#[test]
fn one_json_object_has_codes_times_and_notices() {
    let dir = Dir::new();
    let run = speak(&dir, &["fine", "--json", "-o", "a.flac"]).succeeded();
    let object = run.json();
    let frames = object["codes"].as_array().expect("frames").len();
    assert_eq!(object["frames"], frames);
    assert_eq!(object["seconds"].as_f64().expect("a length"), frames as f64 * 0.08);
    assert_eq!((&object["seed"], &object["output"]), (&4.into(), &"a.flac".into()));
    assert!(object["real_time_factor"].as_f64().expect("a factor") > 0.0);
    for part in ["total", "first_sound", "prompt", "frames", "codec"] {
        assert!(object["elapsed"][part].as_f64().expect(part) >= 0.0);
    }
    let notices = object["notices"].as_array().expect("a list");
    assert!(notices.iter().any(|notice| notice == "no `--voice` was given: aiden speaks"));
    assert_eq!(object["segments"][0]["reason"], "limit", "{object}");
    assert!(notices.iter().any(|notice| {
        notice == "the model did not end within `--max-new-tokens`: the speech may be cut"
    }));
}

/// A line break that ends a file is no part of its text; an earlier one, and one that is typed, are.
#[test]
fn a_text_of_a_program_is_the_text_that_is_typed() {
    let dir = Dir::new();
    let named = ["--model", "tiny-speech", "--max-new-tokens", "8", "--seed", "4", "--json"];
    let spoken = |text: &str, stdin: &str, output: &str| {
        let args = [&["speak", text, "--voice", "ryan", "-o", output], &named[..]].concat();
        let run = dir.run_with_stdin(&args, stdin.as_bytes()).succeeded();
        (run.json()["codes"].clone(), samples(&dir.path(output)))
    };
    let typed = spoken("Hello there.", "", "a.wav");
    assert_eq!(spoken("-", "Hello there.\n", "b.wav"), typed);
    assert_eq!(spoken("-", "Hello there.\r\n", "c.wav"), typed);
    assert_eq!(spoken("-", "Hello there.", "d.wav"), typed);
    dir.write("text.txt", "Hello there.\n");
    assert_eq!(spoken("@text.txt", "", "e.wav"), typed);
    // Two of them are an empty line, which is another prompt.
    assert_ne!(spoken("-", "Hello there.\n\n", "f.wav"), typed);
    assert_eq!(spoken("-", "Hello there.\n\n", "g.wav"), spoken("Hello there.\n", "", "h.wav"));
}

/// The recording comes from a pipe, 0.7 s after the program opened it. The line of figures counts this time as the JSON
/// does.
#[test]
#[cfg(unix)]
fn the_line_of_figures_counts_from_the_same_time_as_the_json() {
    let dir = Dir::new();
    dir.tiny(&["rain", "-o", "me.wav"]).succeeded();
    let (sound, pipe) = (dir.read("me.wav"), dir.path("pipe.wav"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("a Unix");
    assert!(made.success());
    std::thread::spawn(move || {
        // It opens when the program does.
        let mut pipe = std::fs::File::options().write(true).open(pipe).expect("a pipe");
        std::thread::sleep(std::time::Duration::from_millis(700));
        let _ = std::io::Write::write_all(&mut pipe, &sound);
    });
    let model = base();
    let args = ["speak", "fine", "--model", &model, "--reference", "pipe.wav", "--json"];
    let run = dir.run(&[&args[..], &["--max-new-tokens", "4", "-o", "a.wav"]].concat());
    let run = run.succeeded();
    let elapsed = run.json()["elapsed"].clone();
    let said = |after: &str| -> f64 {
        let rest = run.stderr.split(after).nth(1).expect(after);
        rest.split(" s").next().and_then(|number| number.parse().ok()).expect("a number")
    };
    for (said, own) in [
        (said("s of speech in "), &elapsed["total"]),
        (said("first sound after "), &elapsed["first_sound"]),
    ] {
        let own = own.as_f64().expect("a time");
        assert!(own >= 0.5, "{own}");
        // The line has two decimals, and is written after the file.
        assert!(said >= own - 0.006 && said < own + 0.7, "{said} {own}");
    }
}

#[test]
fn wrong_values_are_named_by_their_flags() {
    let dir = Dir::new();
    for (args, says) in [
        (&["--voice", "bob"][..], "`--voice bob` cannot be used: use aiden, "),
        (&["--language", "klingon"], "`--language klingon` cannot be used"),
        (&["--temperature", "0"], "`--temperature 0` is out of range"),
        (&["--top-p", "-1"], "`--top-p -1` is out of range"),
        (&["--subtalker-top-p=-1"], "`--subtalker-top-p -1` is out of range"),
        (&["--max-new-tokens", "1"], "`--max-new-tokens 1` is out of range"),
        (&["--stream-chunk", "0"], "--stream-chunk"),
        (&["-o", "a.txt"], "has no ending of a sound format"),
        (&["-o", "a.wav", "--audio-format", "flac"], "contradicts the name `a.wav`"),
        (&["-o", "-", "--json"], "both to go to standard output"),
        (&["-o", "-", "--audio-format", "flac"], "cannot go to standard output"),
        (&["--transcript", "words"], "--reference"),
        (
            &["--audio-format", "wav", "-o", "a.json", "--timestamps", "./a.json"],
            "`./a.json` would be written twice",
        ),
    ] {
        let short = ["speak", "fine", "--model", "tiny-speech"];
        dir.run(&[&short[..], args].concat()).failed(2).says(says);
    }
    let folder = ["speak", "fine", "--model", "tiny-speech", "-o", "."];
    let run = dir.run(&folder).failed(1);
    run.says("cannot write `.`: it is a directory\n\nhint: name a file in it\n");
    for text in ["", " \n", "-"] {
        let run = dir.run_with_stdin(&["speak", text, "--model", "tiny-speech"], b"");
        run.failed(2).says("there is nothing to say in the text");
    }
    let voice = ["speak", "fine", "--model", &base()];
    dir.run(&voice).failed(2).says("and there is none").says("hint: ");
}

#[test]
fn a_recording_is_a_voice() {
    let dir = Dir::new();
    dir.tiny(&["rain", "-o", "me.wav"]).succeeded();
    let model = base();
    let short = ["speak", "fine", "--model", &model, "--max-new-tokens", "4", "--seed", "4"];
    let of = |more: &[&str]| dir.run(&[&short[..], more].concat());
    of(&["--reference", "me.wav", "-o", "a.wav"]).succeeded();
    of(&["--reference", "me.wav", "--transcript", "the rain", "-o", "b.wav"]).succeeded();
    assert_ne!(samples(&dir.path("a.wav")), samples(&dir.path("b.wav")));
    of(&["--reference", "no.wav", "-o", "c.wav"]).failed(1).says("cannot read `no.wav`");
    of(&["--reference", "me.wav", "--transcript", " ", "-o", "c.wav"])
        .failed(2)
        .says("`--transcript ` cannot be used: it has no words");
    let refused = dir.run(&["speak", "fine", "--model", "tiny-speech", "--reference", "me.wav"]);
    refused.failed(2).says("takes no `--reference`");
}

/// Each line is as if it were spoken alone, with its own seed.
#[test]
fn each_line_becomes_a_file() {
    let dir = Dir::new();
    dir.write("lines.txt", "Hello there.\r\n\r\n  One two.  \nfine");
    let ryan = ["--voice", "ryan"];
    let lines = ["@lines.txt", "--lines", "-o", "line.wav", "--batch-size", "2"];
    let run = speak(&dir, &[&lines[..], &ryan].concat()).succeeded();
    assert_eq!(run.text(), "line_1.wav\nline_2.wav\nline_3.wav\n");
    run.says(" s of speech in ");
    for (index, text) in ["Hello there.", "One two.", "fine"].into_iter().enumerate() {
        let seed = (4 + index).to_string();
        let alone = ["speak", text, "--model", "tiny-speech", "--max-new-tokens", "8"];
        let alone = [&alone[..], &ryan, &["--seed", &seed, "-o", "a.wav", "--force"]].concat();
        dir.run(&alone).succeeded();
        let line = samples(&dir.path(format!("line_{}.wav", index + 1)));
        assert_eq!(samples(&dir.path("a.wav")), line, "{text}");
    }
    let json = speak(&dir, &["@lines.txt", "--lines", "--json", "-o", "j.flac"]).succeeded().json();
    let lines = json["lines"].as_array().expect("a list");
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[2]["seed"], &lines[2]["output"]), (&6.into(), &"j_3.flac".into()));
    assert_eq!(lines[1]["segments"][0]["text"], "One two.");

    // One line has a number too, so that a script need not count.
    dir.write("one.txt", "fine\n");
    let one = speak(&dir, &["@one.txt", "--lines", "--json", "-o", "one.wav"]).succeeded().json();
    assert_eq!(one["lines"][0]["output"], "one_1.wav");
    assert!(dir.path("one_1.wav").exists());

    dir.write("empty.txt", "\n \n");
    speak(&dir, &["@empty.txt", "--lines"]).failed(2).says("no line that is not empty");
    let stdout = speak(&dir, &["@lines.txt", "--lines", "-o", "-"]).failed(2);
    stdout.says("several lines cannot all go to standard output");
    speak(&dir, &["fine", "--batch-size", "2"]).failed(2).says("--lines");
    // Nothing is written if one of the files is there.
    dir.write("late_3.wav", "");
    speak(&dir, &["@lines.txt", "--lines", "-o", "late.wav"]).failed(1).says("late_3.wav");
    assert!(!dir.path("late_1.wav").exists());
}

#[test]
fn a_long_text_is_spoken_in_segments_of_one_file() {
    let dir = Dir::new();
    let text = "The sea is calm tonight. The tide is full, the moon lies fair.";
    let most = ["--max-text-tokens-per-segment", "12", "--json", "--voice", "ryan"];
    let run = speak(&dir, &[&[text], &most[..]].concat()).succeeded();
    let json = run.json();
    let segments = json["segments"].as_array().expect("a list");
    assert!(segments.len() > 1, "{segments:?}");
    let frames: u64 = segments.iter().filter_map(|segment| segment["frames"].as_u64()).sum();
    assert_eq!(json["frames"], frames);
    let made = samples(&dir.path("speech.wav")).len();
    assert_eq!(made as u64, frames * 1920);
    run.says("note: the text is spoken in ");
    speak(&dir, &["a", "--max-text-tokens-per-segment", "9", "-o", "b.wav"])
        .failed(2)
        .says("`--max-text-tokens-per-segment 9` is out of range");
}

#[test]
#[cfg(not(feature = "play"))]
fn a_build_that_plays_nothing_says_so_before_it_speaks() {
    let dir = Dir::new();
    speak(&dir, &["fine", "--play"]).failed(1).says("plays nothing").says("-o - | aplay");
    assert!(!dir.path("speech.wav").exists());
}

#[test]
fn a_model_that_is_not_there_says_how_to_get_it() {
    let dir = Dir::new();
    dir.run(&["speak", "fine"]).failed(1).says("acestep model pull qwen3-tts-0.6b-custom");
    dir.run(&["speak", "fine", "--model", "qwen3-tts-1.7b-design"])
        .failed(1)
        .says("acestep model pull qwen3-tts-1.7b-design");
    dir.run(&["speak", "fine", "--model", "qwen9"]).failed(1).says("speech model `qwen9`");
}

/// Each is one clear message, and none is a panic.
#[test]
fn a_damaged_model_names_the_file() {
    let dir = Dir::new();
    dir.tiny(&["rain", "-o", "me.wav"]).succeeded();
    let from = Path::new(&base()).to_owned();
    let codec = from.with_file_name("Qwen3-TTS-Tokenizer-12Hz");
    for (file, keep, says) in [
        ("config.json", 100, "config.json"),
        ("generation_config.json", 20, "generation_config.json"),
        ("model.safetensors", 5_000, "model.safetensors"),
        ("model.safetensors", 700_000, "model.safetensors"),
        ("vocab.json", 50, "vocab.json"),
        ("merges.txt", 0, "is not the tokenizer"),
        ("tokenizer_config.json", 80, "tokenizer_config.json"),
        ("speech_tokenizer/config.json", 60, "config.json"),
        ("speech_tokenizer/model.safetensors", 400_000, "model.safetensors"),
    ] {
        let model = dir.path("model");
        copy(&from, &model);
        copy(&codec, &model.join("speech_tokenizer"));
        let cut = model.join(file);
        let bytes = std::fs::read(&cut).expect("a file");
        std::fs::write(&cut, &bytes[..keep]).expect("a cut file");
        let args = ["speak", "fine", "--model", "model", "--reference", "me.wav"];
        let run = dir.run(&args);
        assert_eq!(run.code, Some(1), "{file} {keep}: {}", run.stderr);
        run.says(says);
    }
}
