//! Outputs other than a plain WAV: formats, loudness, fades, tags, latents.

use crate::{Dir, Run};

/// Returns the interleaved samples of a WAV file of floats.
fn floats(dir: &Dir, name: &str) -> Vec<f32> {
    let bytes = dir.read(name);
    let reader = hound::WavReader::new(&bytes[..]).expect("a WAV");
    reader.into_samples::<f32>().map(|x| x.expect("a sample")).collect()
}

fn peak(samples: &[f32]) -> f32 {
    samples.iter().fold(0.0, |peak, x| peak.max(x.abs()))
}

/// Writes a WAV file with 16 bits: a sine of 480 Hz in both channels.
fn write_wav(dir: &Dir, name: &str, samples: u32) {
    let sine = |i: u32| (8_000.0 * (f64::from(i) * std::f64::consts::TAU / 100.0).sin()) as i16;
    dir.write_wav(name, 2, samples, |i, _| sine(i));
}

fn codec(dir: &Dir, args: &[&str]) -> Run {
    dir.run(&[&["codec"], args, &["--model", "tiny"]].concat())
}

#[test]
fn the_name_says_the_format_and_the_flag_may_not_contradict_it() {
    let dir = Dir::new();
    dir.tiny(&["rain", "--seed", "7", "-o", "a.flac"]).succeeded();
    assert_eq!(dir.read("a.flac")[..4], *b"fLaC");
    let run = dir.tiny(&["rain", "--seed", "7", "--format", "flac16"]).succeeded();
    assert_eq!(run.text(), "song-7.flac\n");
    assert!(dir.read("song-7.flac").len() < dir.read("a.flac").len());
    dir.tiny(&["rain", "-o", "b.wav", "--audio-format", "flac"])
        .failed(2)
        .says("`--audio-format flac` contradicts the name `b.wav`\n\nhint: name it .flac");
    dir.tiny(&["rain", "--audio-format", "aac"]).failed(2).says("AAC is not written");
    let args = ["rain", "-o", "-", "--audio-format", "flac", "--seed", "7"];
    assert_eq!(dir.tiny(&args).succeeded().stdout, dir.read("a.flac"));
    // The file name has priority over the request's format.
    dir.write("a.json", r#"{"caption": "rain", "output_format": "mp3", "duration": 1}"#);
    let args = ["generate", "--model", "tiny", "--request", "a.json", "-o", "c.wav"];
    let run = dir.run(&args).succeeded();
    run.says("note: `c.wav` is written as wav16, not as the request's audio_format mp3");
}

#[test]
fn a_format_that_is_not_built_in_names_its_feature() {
    let dir = Dir::new();
    for (name, feature) in [("a.mp3", "mp3"), ("a.opus", "opus")] {
        let run = dir.tiny(&["rain", "-o", name]);
        if run.code == Some(0) {
            // It is built in.
            assert!(dir.read(name).len() > 1000, "{name}");
            continue;
        }
        run.failed(2)
            .says(&format!("writing {feature} is not built into this program"))
            .says(&format!("hint: build it with `--features {feature}`, or choose another"));
    }
}

#[test]
fn a_song_is_made_again_from_its_own_tags() {
    let dir = Dir::new();
    for name in ["a.wav", "a.flac"] {
        let args = ["rain on \"tin\"", "--seed", "7", "--bpm", "90", "-o", name];
        dir.tiny(&[&args[..], &["--batch-size", "2", "--force"]].concat()).succeeded();
        let (stem, extension) = name.split_once('.').expect("an extension");
        let second = format!("{stem}_2.{extension}");
        let again = format!("again.{extension}");
        let args = ["generate", "--request", &second, "-o", &again, "--json"];
        let object = dir.run(&args).succeeded().json();
        // Only the second song.
        assert_eq!(object["outputs"][0]["seed"], 8);
        assert_eq!(dir.read(&again), dir.read(&second), "{name}");
    }
    let bytes = dir.read("a_1.wav");
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("INAM") && has("rain on \"tin\" · seed 7 · tiny · 8 steps"));
    assert!(has(&format!("acestep {}", env!("CARGO_PKG_VERSION"))));

    dir.tiny(&["rain", "--seed", "7", "-o", "plain.wav", "--no-tags"]).succeeded();
    assert_eq!(dir.read("plain.wav").len(), 44 + 4 * 48_000);
    dir.run(&["generate", "--request", "plain.wav"])
        .failed(1)
        .says("the song `plain.wav` has no request in its tags");
}

/// -6 dB, then a fade-in of a quarter of a second and a fade-out of half a second.
#[test]
fn loudness_and_fades_are_what_was_asked_for() {
    let dir = Dir::new();
    let song = |name: &str, args: &[&str]| {
        let common = ["rain", "--seed", "7", "-o", name, "--audio-format", "wav32"];
        dir.tiny(&[&common, args].concat()).succeeded()
    };
    song("a.wav", &[]);
    song("b.wav", &["--fade-in", "0.25", "--fade-out-duration", "0.5"]);
    let (plain, faded) = (floats(&dir, "a.wav"), floats(&dir, "b.wav"));
    assert_eq!((faded[0], faded[1], faded[2 * 47_999]), (0.0, 0.0, 0.0));
    assert_eq!(plain[2 * 12_000..2 * 24_000], faded[2 * 12_000..2 * 24_000]);
    let middle = 2 * 36_000;
    let slope = (48_000 - 36_000 - 1) as f32 / 23_999.0;
    assert!((faded[middle] - plain[middle] * slope).abs() < 1e-6);

    song("c.wav", &["--peak-clip", "0"]);
    assert!((peak(&floats(&dir, "c.wav")) - 1.0).abs() < 1e-6);
    let run = song("d.wav", &["--lufs", "-30", "--json"]);
    assert_eq!(run.json()["plan"]["lufs"], -30.0);
    assert!(peak(&floats(&dir, "d.wav")) < peak(&plain));
    // Noise cannot reach this loudness without clipping.
    let run = song("e.wav", &["--lufs", "-5", "--json"]);
    let notices = run.json()["notices"].to_string();
    assert!(
        notices.contains("LUFS, not -5: more would bring the true peak above -1 dB"),
        "{notices}"
    );
    let args = ["rain", "--lufs", "-14", "--peak-clip", "10"];
    dir.tiny(&args).failed(2).says("cannot be used with");
    dir.tiny(&["rain", "--lufs", "3"]).failed(2).says("`--lufs 3` is out of range");
}

#[test]
fn a_saved_request_keeps_format_loudness_and_fades() {
    let dir = Dir::new();
    let args = ["rain", "--seed", "7", "-o", "a.flac", "--save-request", "--fade-in", "0.1"];
    dir.tiny(&[&args[..], &["--lufs", "-30"]].concat()).succeeded();
    let saved = dir.json("a.json");
    assert_eq!(saved["audio_format"], "flac");
    assert_eq!((&saved["lufs"], &saved["fade_in_duration"]), (&(-30.0).into(), &0.1.into()));
    let args = ["generate", "--request", "a.json", "-o", "b.flac"];
    dir.run(&args).succeeded();
    assert_eq!(dir.read("a.flac"), dir.read("b.flac"));
}

#[test]
fn a_sound_goes_through_the_codec_and_back() {
    let dir = Dir::new();
    dir.tiny(&["rain", "--seed", "7", "-o", "a.wav"]).succeeded();
    let run = codec(&dir, &["encode", "a.wav"]).succeeded();
    assert_eq!(run.text(), "a.safetensors\n");
    run.says("25 frames of 16 numbers in");
    let run = codec(&dir, &["decode", "a.safetensors", "-o", "b.flac", "--json"]).succeeded();
    let object = run.json();
    assert_eq!((&object["frames"], &object["samples"]), (&25.into(), &48_000.into()));
    assert_eq!(dir.read("b.flac")[..4], *b"fLaC");
    // The same latents in acestep.cpp's formats: 16 channels here, 64 in the released models.
    for (name, bytes) in [("a.vae", 25 * 64), ("a.nac8", 8 + 25 * 18), ("a.nac4", 8 + 25 * 10)] {
        codec(&dir, &["encode", "a.wav", "-o", name]).succeeded();
        assert_eq!(dir.read(name).len(), bytes, "{name}");
        let wave = format!("{name}.wav");
        codec(&dir, &["decode", name, "-o", &wave, "--format", "wav32"]).succeeded();
    }
    codec(&dir, &["decode", "a.safetensors", "--format", "wav32", "-o", "c.wav"]).succeeded();
    assert_eq!(floats(&dir, "c.wav"), floats(&dir, "a.vae.wav"));
    assert_ne!(floats(&dir, "c.wav"), floats(&dir, "a.nac8.wav"));
    let to_stdout = codec(&dir, &["encode", "a.wav", "--format", "nac8", "-o", "-"]);
    assert_eq!(to_stdout.succeeded().stdout, dir.read("a.nac8"));
    // Tiled processing gives the same result up to rounding.
    let tiles = ["encode", "a.wav", "-o", "d.vae", "--vae-chunk", "22", "--vae-overlap", "9"];
    codec(&dir, &tiles).succeeded();
    let values = |name: &str| -> Vec<f32> {
        dir.read(name).chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let pairs = || values("a.vae").into_iter().zip(values("d.vae"));
    assert!(pairs().all(|(a, b)| (a - b).abs() < 1e-4));
}

#[test]
fn latents_are_drawn_by_a_seed() {
    let dir = Dir::new();
    dir.tiny(&["rain", "--seed", "7", "-o", "a.wav"]).succeeded();
    for (name, args) in [
        ("a.vae", &["--sample", "--seed", "1"][..]),
        ("b.vae", &["--sample", "--seed", "1"]),
        ("c.vae", &["--sample", "--seed", "2"]),
        ("d.vae", &[]),
    ] {
        codec(&dir, &[&["encode", "a.wav", "-o", name], args].concat()).succeeded();
    }
    assert_eq!(dir.read("a.vae"), dir.read("b.vae"));
    assert_ne!(dir.read("a.vae"), dir.read("c.vae"));
    assert_ne!(dir.read("a.vae"), dir.read("d.vae"));
    codec(&dir, &["encode", "a.wav", "--seed", "1", "-o", "e.vae"]).failed(2);
}

/// The latents that `generate` saves decode to the same song.
#[test]
fn the_latents_of_a_song_are_decoded_to_it() {
    let dir = Dir::new();
    let args = ["rain", "--seed", "7", "-o", "a.wav", "--output-latents", "a.safetensors"];
    let args = [&args[..], &["--audio-format", "wav32", "--no-normalization"]].concat();
    let run = dir.tiny(&args).succeeded();
    assert_eq!(run.text(), "a.wav\na.safetensors\n");
    let args = ["decode", "a.safetensors", "-o", "b.wav", "--format", "wav32"];
    codec(&dir, &args).succeeded();
    // Without the samples after the song: it is generated with 128 frames.
    let (song, decoded) = (floats(&dir, "a.wav"), floats(&dir, "b.wav"));
    assert_eq!(song.len(), decoded.len());
    let (song, decoded) = (&song[..2 * 15 * 1920], &decoded[..2 * 15 * 1920]);
    // A song above full scale is divided by its peak.
    let scale = peak(decoded) / peak(song);
    assert_eq!(run.stderr.contains("which was above full scale"), scale > 1.0, "{}", run.stderr);
    let most = song.iter().zip(decoded).map(|(a, b)| (a * scale - b).abs()).fold(0.0, f32::max);
    assert!(scale >= 1.0 && most < 1e-4 * peak(decoded), "{scale} {most}");
    dir.tiny(&["rain", "--output-latents", "a.bin"])
        .failed(2)
        .says("`--output-latents a.bin` does not say its format");
}

#[test]
fn what_is_no_sound_and_no_latents_is_refused() {
    let dir = Dir::new();
    dir.write("notes.txt", "la la la");
    codec(&dir, &["encode", "notes.txt"]).failed(1).says("it is no sound file");
    codec(&dir, &["decode", "notes.txt"])
        .failed(1)
        .says("`notes.txt` cannot be used as latents: it is no .safetensors, .nac8 or .nac4")
        .says("hint: `acestep codec encode SONG` writes latents");
    dir.write("empty.vae", "");
    codec(&dir, &["decode", "empty.vae"]).failed(1).says("there is no frame in it");
    dir.tiny(&["rain", "-o", "a.wav"]).succeeded();
    codec(&dir, &["encode", "a.wav", "-o", "a.wav", "--force"])
        .failed(2)
        .says("`a.wav` would be written over itself");
    codec(&dir, &["encode", "a.wav", "--format", "mp3"]).failed(2).says("safetensors, vae, nac8");
    codec(&dir, &["encode", "a.wav", "--vae-chunk", "0"]).failed(2).says("--vae-chunk 0");
    codec(&dir, &["encode", "absent.wav"]).failed(1).says("cannot read `absent.wav`");
}

#[test]
fn the_codec_writes_beside_its_input_and_keeps_all_of_its_name() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("sub")).expect("a folder");
    write_wav(&dir, "sub/song.v2.wav", 4_000);
    let run = codec(&dir, &["encode", "sub/song.v2.wav"]).succeeded();
    assert_eq!(run.text(), "sub/song.v2.safetensors\n");
    let run = codec(&dir, &["decode", "sub/song.v2.safetensors", "--format", "flac"]).succeeded();
    assert_eq!(run.text(), "sub/song.v2.flac\n");
    assert_eq!(crate::names(&dir.path("sub")).len(), 3);
    codec(&dir, &["encode", ".."]).failed(1).says("cannot read `..`");
    codec(&dir, &["decode", ".."]).failed(1).says("`..` cannot be used as latents");
}

#[test]
fn a_name_that_lies_about_its_file_is_refused() {
    let dir = Dir::new();
    write_wav(&dir, "a.wav", 4_000);
    let refused = |args: &[&str], text: &str| {
        codec(&dir, &[&["encode", "a.wav"], args].concat()).failed(2).says(text);
    };
    refused(&["-o", "b.bin"], "`--output b.bin` does not say its format\n\nhint: let it end in");
    refused(&["-o", "b.flac"], "`--output b.flac` does not say its format");
    let text = "`--format vae` contradicts the name `b.nac8`\n\nhint: name it .vae, or leave";
    refused(&["-o", "b.nac8", "--format", "vae"], text);
    refused(&["-o", "b.m4a", "--format", "vae"], "`--format vae` contradicts the name `b.m4a`");
    let wrong = "'mp3' for '--format <FORMAT>': use safetensors, vae, nac8 or nac4\n";
    refused(&["--format", "mp3"], wrong);
    codec(&dir, &["encode", "a.wav", "-o", "b.bin", "--format", "NAC8"]).succeeded();
    assert_eq!(dir.read("b.bin")[..4], *b"NAC8");
    for name in ["a.nac8", "a.json", "a.PNG"] {
        dir.tiny(&["rain", "-o", name])
            .failed(2)
            .says(&format!("`{name}` is no name of a song\n\nhint: name it `a.wav`"));
    }
    let args = ["decode", "b.bin", "-o", "c.vae", "--format", "flac"];
    codec(&dir, &args).failed(2).says("hint: name it `c.flac`");
    for name in ["a.jpg", "a"] {
        let run = dir.run(&["plot", "a.wav", "-o", name]).failed(2);
        run.says(&format!("`--output {name}` is no name of a PNG file")).says("name it `a.png`");
    }
    let run = dir.run(&["plot", "a.wav", "-o", "."]).failed(1);
    run.says("cannot write `.`: it is a directory\n\nhint: name a file in it");
    assert_eq!(dir.files(), ["a.wav", "b.bin"]);
}

#[test]
fn a_picture_replaces_neither_its_song_nor_its_words() {
    let dir = Dir::new();
    write_wav(&dir, "song.png", 4_000);
    dir.write("words.png", "[00:00.01]la");
    let text = "would be written over itself";
    dir.run(&["plot", "song.png", "--force"]).failed(2).says(text);
    let args = ["plot", "song.png", "--lrc", "words.png", "-o", "./words.png", "--force"];
    dir.run(&args).failed(2).says(text);
    assert_eq!(dir.read("song.png").len(), 44 + 4 * 4_000);
    dir.run(&["plot", "song.png", "--lrc", "words.png", "-o", "c.png"]).succeeded();
}

#[cfg(unix)]
#[test]
fn a_sound_may_come_through_a_pipe() {
    let dir = Dir::new();
    write_wav(&dir, "a.wav", 4_000);
    codec(&dir, &["encode", "a.wav", "-o", "a.vae"]).succeeded();
    let args = ["codec", "encode", "/dev/stdin", "-o", "b.vae", "--model", "tiny"];
    dir.run_with_stdin(&args, &dir.read("a.wav")).succeeded();
    assert_eq!(dir.read("a.vae"), dir.read("b.vae"));
    dir.run_with_stdin(&args, b"").failed(1).says("there is no sound in it");
    for verb in [&["codec", "encode"][..], &["plot"]] {
        let args = [verb, &["/dev/stdin"]].concat();
        // A shell can also put the file itself there.
        let mut redirected = dir.command(&args);
        redirected.stdin(std::fs::File::open(dir.path("a.wav")).expect("a file"));
        let redirected = Run::of(&mut redirected);
        for run in [dir.run_with_stdin(&args, &dir.read("a.wav")), redirected] {
            run.failed(2)
                .says("`/dev/stdin` is standard input or a pipe, and no file can lie beside it")
                .says("with `--output`");
        }
    }
    write_wav(&dir, "long.wav", 24_000);
    let args = ["generate", "rain", "--model", "tiny", "--task", "cover", "-o", "c.wav"];
    let args = [&args[..], &["--src-audio", "/dev/stdin", "--save-request"]].concat();
    dir.run_with_stdin(&args, &dir.read("long.wav"))
        .failed(2)
        .says("`/dev/stdin` is standard input or a pipe, which a request cannot name")
        .says("or leave `--save-request` out");
}

/// 4000 samples are two frames of 1920 samples, with a rest of 160.
#[test]
fn what_the_codec_drops_is_counted_and_too_little_is_said_at_once() {
    let dir = Dir::new();
    write_wav(&dir, "a.wav", 4_000);
    let object = codec(&dir, &["encode", "a.wav", "--json"]).succeeded().json();
    assert_eq!((&object["samples"], &object["dropped"]), (&4_000.into(), &160.into()));
    write_wav(&dir, "b.wav", 480);
    // The error comes before the missing device is opened.
    codec(&dir, &["encode", "b.wav", "--device", "cuda:99"])
        .failed(1)
        .says("it lasts 0.010 s, but 0.040 s is the least")
        .says("hint: check that it is the right file");
    codec(&dir, &["decode", "a.wav", "--device", "cuda:99"])
        .failed(1)
        .says("`a.wav` cannot be used as latents: it is a WAV file");
}

#[test]
fn tiles_of_the_codec_that_can_be_heard_are_said() {
    let dir = Dir::new();
    write_wav(&dir, "a.wav", 48_000);
    let tiles = ["encode", "a.wav", "-o", "a.vae", "--vae-chunk", "12", "--vae-overlap", "4"];
    codec(&dir, &tiles).succeeded().says("a VAE overlap of 4 frames can be heard where chunks");
}

/// Latents far beyond the usual range decode to audio far above full scale.
#[test]
fn sound_above_full_scale_is_divided_by_its_peak_and_that_is_said() {
    let dir = Dir::new();
    let loud: Vec<u8> =
        (0..25 * 16).flat_map(|i| (300.0 * (i as f32 * 0.7).sin()).to_le_bytes()).collect();
    dir.write("a.vae", loud);
    let args = ["decode", "a.vae", "-o", "a.wav", "--format", "wav32"];
    let run = codec(&dir, &args).succeeded();
    assert!(!run.stderr.contains("full scale"), "{}", run.stderr);
    let height = peak(&floats(&dir, "a.wav"));
    assert!(height > 1.0, "{height}");
    let text = format!(
        "note: the sound is {:.2} dB quieter than the VAE gave it, which was above full scale; \
         --format wav32 keeps it",
        20.0 * height.log10()
    );
    codec(&dir, &["decode", "a.vae", "-o", "b.wav"]).succeeded().says(&text);
    let largest = dir.sound("b.wav").into_iter().map(|x| i32::from(x).abs()).max();
    // The negative full scale is one step larger than the positive one.
    assert!(matches!(largest, Some(32_767 | 32_768)), "{largest:?}");
    // Input above full scale is clipped.
    let run = codec(&dir, &["encode", "a.wav", "-o", "c.vae"]).succeeded();
    let above = floats(&dir, "a.wav").iter().filter(|x| x.abs() > 1.0).count();
    run.says(&format!("`a.wav` has {above} samples above full scale: they are clipped"));
}

#[test]
fn a_bitrate_of_another_format_is_said() {
    let dir = Dir::new();
    let run = dir.tiny(&["rain", "-o", "a.wav", "--mp3-bitrate", "320"]).succeeded();
    run.says("note: `--mp3-bitrate 320` is not used: wav16 is written");
}
