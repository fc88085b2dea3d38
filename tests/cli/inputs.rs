//! Lyrics, codes, noise and conditioning from files.

use serde_json::{Value, json};

use crate::{
    Dir,
    server::{Server, id},
};

#[test]
fn lyrics_come_from_a_file_or_from_standard_input() {
    let dir = Dir::new();
    dir.write("song.txt", "\u{feff}[Verse]\nla la\n");
    let plan = ["--dry-run", "--json", "--lyrics"];
    let run = dir.tiny(&[&plan[..], &["@song.txt"]].concat()).succeeded();
    assert_eq!(run.json()["plan"]["lyrics"], "[Verse]\nla la\n");
    let args = [&["generate", "--model", "tiny"], &plan[..], &["@-"]].concat();
    let run = dir.run_with_stdin(&args, "löß".as_bytes()).succeeded();
    assert_eq!(run.json()["plan"]["lyrics"], "löß");
    let run = dir.tiny(&[&plan[..], &["@@home"]].concat()).succeeded();
    assert_eq!(run.json()["plan"]["lyrics"], "@home");
}

/// Line ends of Windows and old Macs, a byte order mark and UTF-16 do not change the text.
#[test]
fn a_text_is_the_same_through_every_door() {
    let dir = Dir::new();
    let lyrics = "[Verse]\r\nla la\rlo";
    let utf16 = lyrics.encode_utf16().flat_map(u16::to_le_bytes);
    dir.write("windows.txt", lyrics);
    dir.write("utf16.txt", [0xff, 0xfe].into_iter().chain(utf16).collect::<Vec<u8>>());
    let request = serde_json::json!({ "caption": "rain\r\nsnow", "lyrics": lyrics }).to_string();
    dir.write("windows.json", format!("\u{feff}{request}"));
    let utf16 = request.encode_utf16().flat_map(u16::to_be_bytes);
    dir.write("utf16.json", [0xfe, 0xff].into_iter().chain(utf16).collect::<Vec<u8>>());
    for words in [
        ["rain\r\nsnow", "--lyrics", "@windows.txt"],
        ["rain\nsnow", "--lyrics", "@utf16.txt"],
        ["rain\rsnow", "--lyrics", lyrics],
        ["--request", "windows.json", "-q"],
        ["--request", "utf16.json", "-q"],
    ] {
        let run = dir.tiny(&[&words[..], &["--dry-run", "--json"]].concat()).succeeded();
        let plan = &run.json()["plan"];
        assert_eq!(plan["lyrics"], "[Verse]\nla la\nlo", "{words:?}");
        assert_eq!(plan["caption"], "rain\nsnow", "{words:?}");
    }
}

#[test]
fn lyrics_that_cannot_be_read_are_refused() {
    let dir = Dir::new();
    dir.write("latin1.txt", b"la\nl\xe4 l\xe4\n");
    dir.tiny(&["--lyrics", "@latin1.txt"]).failed(1).says(
        "error: `latin1.txt` is not UTF-8 text: line 2 has a byte that is none\n\nhint: save it as UTF-8",
    );
    let run = dir.run_with_stdin(&["generate", "--model", "tiny", "--lyrics", "@-"], b"l\xe4");
    run.failed(1).says("error: standard input is not UTF-8 text: line 1 has a byte that is none\n");
    dir.tiny(&["--lyrics", "@missing.txt"]).failed(1).says("cannot read `missing.txt`");
    dir.tiny(&["--lyrics", "@."]).failed(1).says("cannot read `.`");
    dir.tiny(&["--lyrics", "@"]).failed(2).says("`--lyrics @` names no file");
    let caption = dir.tiny(&["@latin1.txt"]).failed(2);
    caption.says("the caption `@latin1.txt` is not read from a file").says("$(cat 'latin1.txt')");
    dir.tiny(&["latin1.txt"]).failed(2).says("the caption `latin1.txt` is not read from a file");
    let named = dir.tiny(&["--lyrics", "latin1.txt"]).failed(2);
    named.says("`--lyrics` is only the name `latin1.txt`").says("hint: write \"@latin1.txt\"");
    let caption = dir.tiny(&["@missing.txt"]).failed(2);
    caption.says("the caption `@missing.txt` is not read from a file");
    dir.tiny(&["@ home by v. 2", "--instrumental", "--dry-run"]).succeeded();
    dir.tiny(&["--lyrics", " "]).failed(2).says("there is nothing to sing or play");
    dir.tiny(&["--lyrics", "la", "--instrumental"]).failed(2).says("exclude each other");
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    let dir = Dir::new();
    dir.tiny(&["--lyrics", "@/dev/zero"]).failed(1).says("`/dev/zero` is larger than 16 MiB");
    let args = ["generate", "--request", "/dev/zero"];
    dir.run(&args).failed(1).says("`/dev/zero` is larger than 16 MiB");
}

#[test]
fn audio_codes_decide_the_length() {
    let dir = Dir::new();
    dir.write("codes.txt", "<|audio_code_5|><|audio_code_17|>".repeat(5));
    let args = ["rain", "--audio-codes", "@codes.txt", "--json", "--seed", "7"];
    let run = dir.run(&[&["generate", "--model", "tiny"], &args[..]].concat()).succeeded();
    assert_eq!(run.json()["outputs"][0]["seconds"], 2.0);
    let run = dir.tiny(&["rain", "--audio-codes", "5,64000", "--dry-run"]).succeeded();
    run.says("note: 1 of 2 audio codes were above 63999 and count as 63999");
    dir.tiny(&["rain", "--audio-codes", "5,x"]).failed(2).says("audio code 2 is `x`");
    dir.write("bad.txt", "5,x");
    let run = dir.tiny(&["rain", "--audio-codes", "@bad.txt"]).failed(1);
    run.says("error: the codes of `bad.txt` cannot be used\n  cause: audio code 2 is `x`");
}

#[test]
fn dumped_conditioning_makes_the_same_song() {
    let dir = Dir::new();
    let args = ["rain", "--seed", "7", "-o", "a.wav", "--dump-conditioning", "deep/folder"];
    dir.tiny(&args).succeeded();
    assert_eq!(
        crate::names(&dir.path("deep/folder")),
        [
            "conditioning.safetensors",
            "context_latents.bin",
            "encoder_hidden_states.bin",
            "initial_noise.bin"
        ]
    );
    dir.tiny(&["--conditioning", "deep/folder", "-o", "b.wav"]).succeeded();
    assert_eq!(dir.sound("a.wav"), dir.sound("b.wav"));
    // Without a duration, the padding frames of a short song are decoded too.
    let args = ["generate", "--model", "tiny", "--conditioning", "deep/folder", "--json"];
    assert_eq!(dir.run(&args).succeeded().json()["outputs"][0]["samples"], 128 * 1920);

    let again = ["rain", "-o", "c.wav", "--dump-conditioning", "deep/folder"];
    dir.tiny(&again).failed(1).says("exists already");
    let long = ["generate", "--model", "tiny", "--conditioning", "deep/folder", "--duration", "9"];
    dir.run(&long).failed(1).says("`deep/folder` holds 128 latent frames, but 9 s need 225");
    let second = ["rain", "--audio-codes", "1,2", "--audio-cover-strength", "0.5"];
    let run = dir.tiny(&[&second[..], &["--dump-conditioning", "other"]].concat()).failed(2);
    run.says("conditioning files hold one condition");
    dir.tiny(&["--conditioning", "nowhere"]).failed(1).says("cannot read");
}

#[test]
fn a_server_gives_conditions_and_noise_and_takes_them() {
    let dir = Dir::new();
    let server = Server::start(&dir, &[]);
    let make = |more: Value| {
        let mut request = json!({ "model": "tiny", "thinking": false, "audio_format": "wav" });
        request.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        server.submit("?wait=500", &json!({ "request": request }))
    };
    let sound = |job: &Value| {
        assert_eq!(job["state"], "done", "{job:#}");
        dir.write("x.wav", server.get(&format!("/v1/jobs/{}/outputs/1.wav", id(job))));
        dir.sound("x.wav")
    };
    let song = json!({ "caption": "rain", "seed": 7, "duration": 1, "dump_conditioning": true });
    let first = make(song);
    let whole = sound(&first);
    let dump = format!("/v1/jobs/{}/outputs/conditioning.safetensors", id(&first));
    let dump = server.get(&dump);
    let sent = server.form("/v1/files", &[], ("dump", &dump));
    let file = id(&sent);

    let again = make(json!({ "conditioning": file, "duration": 1 }));
    assert_eq!(sound(&again), whole);
    let noise = make(json!({ "noise": file, "caption": "rain", "seed": 9, "duration": 1 }));
    assert_eq!(sound(&noise), whole);
    let said = noise["notices"].to_string();
    assert!(said.contains("a seed has no effect"), "{said}");
    // Its own length, and a place of the server is not told.
    let noise = make(json!({ "noise": file, "caption": "rain" }));
    sound(&noise);
    let said = noise["notices"].to_string();
    assert!(said.contains(&format!("as long as the noise of `{file}`")), "{said}");

    let cut = id(&server.form("/v1/files", &[], ("cut", &dump[..1000])));
    for field in ["conditioning", "noise"] {
        let job = make(json!({ field: cut, "caption": "rain" }));
        assert_eq!(job["state"], "failed", "{job:#}");
        let message = job["error"]["message"].as_str().expect("a message");
        let said = format!("`{cut}` cannot be used as conditioning: ");
        assert!(message.starts_with(&said), "{message}");
        assert!(!message.contains(dir.path("").to_str().expect("UTF-8")), "{message}");
    }
}

/// Twice the second song's latents are infinite.
#[test]
fn a_song_of_a_batch_that_cannot_be_used_does_not_lose_the_other() {
    let dir = Dir::new();
    let shape = [2i32, 128, 16].map(i32::to_le_bytes);
    let first = (0..128 * 16).map(|i| (i as f32).sin());
    let noise = first.chain([3e38; 128 * 16]).flat_map(f32::to_le_bytes);
    let noise: Vec<u8> = shape.into_iter().flatten().chain(noise).collect();
    dir.write("noise.bin", &noise);
    let cause = "the diffusion transformer gave 2048 values that are not finite, the first at 0";
    let args = ["rain", "--noise", "noise.bin", "--batch-size", "2", "--latent-rescale", "2"];
    let outputs = ["-o", "a.wav", "--json", "--output-latents", "a.vae"];
    let run = dir.tiny(&[&args[..], &outputs].concat());
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let run = run.says(&format!("error: song 2 of 2 is not written\n  cause: {cause}"));
    let json = run.json();
    let paths = json["outputs"].as_array().expect("songs").iter().map(|song| &song["path"]);
    assert_eq!(paths.collect::<Vec<_>>(), ["a_1.wav"]);
    assert_eq!(json["error"], json!(["song 2 of 2 is not written", cause]));
    assert_eq!(dir.files(), ["a_1.vae", "a_1.wav", "noise.bin"]);

    let server = Server::start(&dir, &[]);
    let file = id(&server.form("/v1/files", &[], ("noise", &noise)));
    let request = json!({
        "model": "tiny", "thinking": false, "caption": "rain", "duration": 1, "noise": file,
        "batch_size": 2, "latent_rescale": 2,
    });
    let job = server.submit("?wait=500", &json!({ "request": request }));
    assert_eq!(job["state"], "done", "{job:#}");
    let said = job["notices"].to_string();
    assert!(said.contains(&format!("song 2 of 2 is not written: {cause}")), "{said}");
    let outputs = job["outputs"].as_array().expect("results");
    assert!(!outputs.is_empty() && outputs.iter().all(|it| it["track"] == 1), "{job:#}");
}

#[test]
fn dumped_noise_stands_for_the_seed() {
    let dir = Dir::new();
    let args = ["rain", "--seed", "7", "-o", "a.wav", "--dump-conditioning", "dump"];
    dir.tiny(&args).succeeded();
    for (noise, output) in
        [("dump/initial_noise.bin", "b.wav"), ("dump/conditioning.safetensors", "c.wav")]
    {
        let run = dir.tiny(&["rain", "--noise", noise, "-o", output]).succeeded();
        assert_eq!(dir.sound("a.wav"), dir.sound(output));
        assert!(run.stderr.contains(&format!("noise of {noise} · 8 steps")), "{}", run.stderr);
    }
    let args = ["generate", "--model", "tiny", "rain", "--noise", "dump/initial_noise.bin"];
    for input in [&args[3..], &["--conditioning", "dump"]] {
        let run = dir.tiny(&[input, &["--dump-conditioning", "dump", "--force"]].concat());
        run.failed(2).says("` would be written over itself");
    }
    // Without a duration, the padding frames of a short song are decoded too.
    let run = dir.run(&[&args[..], &["--json", "-o", "d.wav"]].concat()).succeeded();
    assert_eq!(run.json()["outputs"][0]["samples"], 128 * 1920);
    let run = dir.run(&[&args[..], &["--duration", "30"]].concat()).failed(1);
    run.says("is [1, 128, 16], but this song needs [1, 750, 16]");
    let whole = dir.read("dump/initial_noise.bin");
    dir.write("cut.bin", &whole[..whole.len() - 1]);
    dir.tiny(&["rain", "--noise", "cut.bin"])
        .failed(1)
        .says("`cut.bin` cannot be used as conditioning");
    dir.write("short.bin", &whole[..11]);
    dir.tiny(&["rain", "--noise", "short.bin"]).failed(1).says("11 bytes");
    dir.write("minus.bin", [&(-1i32).to_le_bytes(), &whole[4..]].concat());
    dir.tiny(&["rain", "--noise", "minus.bin"]).failed(1).says("a length of -1");
    dir.write("nan.bin", [&whole[..12], &f32::NAN.to_le_bytes(), &whole[16..]].concat());
    dir.tiny(&["rain", "--noise", "nan.bin"]).failed(1).says("value 0 is NaN");
    #[cfg(target_os = "linux")]
    dir.tiny(&["rain", "--noise", "/dev/zero"]).failed(1).says("it is not a regular file");
}

#[test]
fn a_seed_beside_noise_from_a_file_is_only_for_stochastic_steps() {
    let dir = Dir::new();
    dir.tiny(&["rain", "-o", "a.wav", "--dump-conditioning", "dump"]).succeeded();
    let conditioning = ["--conditioning", "dump"];
    let noise = ["rain", "--noise", "dump/initial_noise.bin"];
    for input in [&conditioning[..], &noise] {
        let with = |more: &[&str]| dir.tiny(&[input, more].concat());
        let run = with(&["--seed", "7"]).failed(2);
        run.says("a seed has no effect").says("with --infer-method sde");
        with(&["--save-request"]).failed(2).says(&format!("`{}` reads", input[input.len() - 2]));
        with(&["-o", "{seed}.wav"]).failed(2).says("the noise is from a file");

        // Without a seed, neither the file name nor the plan contains one.
        let object = with(&["--dry-run", "--json"]).succeeded().json();
        assert_eq!(object["outputs"][0]["path"], "song.wav");
        assert!(object["outputs"][0]["seed"].is_null() && object["plan"]["seeds"].is_null());

        let sde = |seed: &str, output: &str| {
            let args = ["--infer-method", "sde", "--seed", seed, "-o", output, "--force"];
            let run = with(&args).succeeded();
            assert!(run.stderr.contains(&format!(", seed {seed} · 8 steps")), "{}", run.stderr);
            dir.sound(output)
        };
        assert_eq!(sde("7", "b.wav"), sde("7", "c.wav"));
        assert_ne!(sde("7", "b.wav"), sde("8", "c.wav"));
    }
    dir.write("r.json", r#"{"caption": "rain", "seed": 7}"#);
    let run = dir.tiny(&["--request", "r.json", "--noise", noise[2], "--dry-run"]).succeeded();
    run.says("note: the noise is from a file: a seed has no effect");
}

#[test]
fn what_conditioning_leaves_unused_is_named_once() {
    let dir = Dir::new();
    dir.tiny(&["rain", "-o", "a.wav", "--dump-conditioning", "dump"]).succeeded();
    let unused = |flags: &[&str]| {
        let run = dir.tiny(&[&["--conditioning", "dump", "--dry-run"], flags].concat());
        let stderr = run.succeeded().stderr;
        let mut lines = stderr.lines().filter_map(|line| {
            line.strip_prefix("note: not used, the conditioning is there already: ")
        });
        let found = lines.next().map(str::to_owned);
        assert_eq!(lines.next(), None);
        found
    };
    assert_eq!(unused(&[]), None);
    assert_eq!(unused(&["--steps", "8", "--shift", "3"]), None);
    for (flags, expected) in [
        (&["--bpm", "90"][..], "bpm"),
        (&["--keyscale", "C major", "--timesignature", "3"], "keyscale, timesignature"),
        (&["snow", "--lyrics", "la", "--vocal-language", "en"], "caption, lyrics, vocal_language"),
        (&["--instrumental", "--audio-codes", "5,6"], "instrumental, audio_codes"),
    ] {
        assert_eq!(unused(flags).as_deref(), Some(expected), "{flags:?}");
    }
}

/// Follows the tips for words that begin with a dash.
#[test]
fn a_dash_at_the_beginning_is_no_flag_where_the_tip_is_followed() {
    let dir = Dir::new();
    let dry = ["--dry-run", "--json"];
    let run = dir.tiny(&["rain", "-o", "-x.wav"]).failed(2);
    run.says("tip: a value that begins with a dash follows an equals sign: -o=-x.wav");
    let run = dir.tiny(&[&["rain", "-o=-x.wav"], &dry[..]].concat()).succeeded();
    assert_eq!(run.json()["outputs"][0]["path"], "-x.wav");
    let run = dir.tiny(&["-dark techno"]).failed(2);
    run.says(
        "tip: words that begin with a dash stand last, behind two dashes: -- \"-dark techno\"",
    );
    let run = dir.tiny(&[&dry[..], &["--", "-dark techno"]].concat()).succeeded();
    assert_eq!(run.json()["plan"]["caption"], "-dark techno");
}
