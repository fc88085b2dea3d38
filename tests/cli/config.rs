//! Settings from a file, the environment and flags: precedence and origin of each value.

use super::Dir;

/// Returns (value, origin) of `key` in `config show --json` with these variables and flags.
fn shown(dir: &Dir, variables: &[(&str, &str)], flags: &[&str], key: &str) -> (String, String) {
    let words = [&["config", "show", "--json"], flags].concat();
    let json = dir.run_with(&words, variables).succeeded().json();
    let settings = json["settings"].as_array().expect("settings");
    let setting = settings.iter().find(|setting| setting["key"] == key).expect(key);
    let value = setting["value"].as_str().map(str::to_owned);
    let value = value.unwrap_or_else(|| setting["value"].to_string());
    (value, setting["origin"].as_str().expect("an origin").to_owned())
}

#[test]
fn each_layer_goes_over_the_one_before_and_says_so() {
    let dir = Dir::new();
    let file = dir.path("c.toml");
    let path = file.to_str().expect("UTF-8").to_owned();
    let said =
        |variables: &[(&str, &str)], flags: &[&str], key: &str| shown(&dir, variables, flags, key);
    let default = said(&[], &[], "device");
    assert_eq!(default, ("auto".to_owned(), "default".to_owned()));

    dir.write("c.toml", "device = 'cpu'\nmodels_dir = 'm'\noffline = true\n[request]\nbpm = 90\n");
    let config = ["--config", &path];
    assert_eq!(said(&[], &config, "device"), ("cpu".to_owned(), path.clone()));
    assert_eq!(said(&[("ACESTEP_CONFIG", &path)], &[], "device").1, path);
    assert_eq!(said(&[("ACESTEP_CONFIG", &path)], &["--no-config"], "device").1, "default");
    // Relative paths start at the folder of the file.
    let models = dir.path("m").to_str().expect("UTF-8").to_owned();
    assert_eq!(said(&[], &config, "models_dir"), (models, path.clone()));
    assert_eq!(said(&[], &config, "request.bpm"), ("90".to_owned(), path.clone()));

    let variables = [("ACESTEP_DEVICE", "cuda:1"), ("ACESTEP_BPM", "80"), ("ACESTEP_OFFLINE", "0")];
    let cuda = ("cuda:1".to_owned(), "ACESTEP_DEVICE".to_owned());
    assert_eq!(said(&variables, &config, "device"), cuda);
    assert_eq!(said(&variables, &config, "request.bpm").1, "ACESTEP_BPM");
    let offline = ("false".to_owned(), "ACESTEP_OFFLINE".to_owned());
    assert_eq!(said(&variables, &config, "offline"), offline);
    let flags = [&config[..], &["--offline", "--models-dir", "/else"]].concat();
    assert_eq!(said(&variables, &flags, "offline").1, "--offline");
    let typed = ("/else".to_owned(), "--models-dir".to_owned());
    assert_eq!(said(&variables, &flags, "models_dir"), typed);
    if cfg!(unix) {
        let run = dir.run(&["--config", "/dev/null", "config", "show"]).succeeded();
        assert!(!run.stderr.contains("there is no"), "{}", run.stderr);
    }
}

/// Flags with a default count only if they are typed, even if the value is the same.
#[test]
fn a_flag_with_a_default_is_typed_or_it_is_not() {
    let dir = Dir::new();
    let said = |flags: &[&str], key: &str| shown(&dir, &[("ACESTEP_COLOR", "always")], flags, key);
    let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(said(&[], "color"), pair("always", "ACESTEP_COLOR"));
    assert_eq!(said(&["--color", "auto"], "color"), pair("auto", "--color"));
    assert_eq!(said(&["--color", "never"], "color"), pair("never", "--color"));
    assert_eq!(said(&[], "progress"), pair("auto", "default"));
    assert_eq!(said(&["--progress", "json"], "progress"), pair("json", "--progress"));
    assert_eq!(said(&["--no-progress"], "progress"), pair("none", "--no-progress"));
}

#[test]
fn a_variable_that_sets_nothing_is_not_passed_over() {
    let dir = Dir::new();
    let run = |name: &str| dir.run_with(&["model", "list"], &[(name, "3")]).succeeded();
    run("ACESTEP_BPN")
        .says("note: the variable ACESTEP_BPN sets nothing: did you mean ACESTEP_BPM?");
    run("ACESTEP_ZZZ").says("note: the variable ACESTEP_ZZZ sets nothing\n");
    for (theirs, says) in [
        ("CONFIG_PATH", "did you mean ACESTEP_MODEL?\n"),
        ("LM_MODEL_PATH", "did you mean ACESTEP_LM_MODEL?\n"),
        ("INIT_LLM", "did you mean ACESTEP_THINKING?\n"),
        ("LM_BACKEND", "there is none here\n"),
    ] {
        run(&format!("ACESTEP_{theirs}")).says(&format!("_{theirs} sets nothing: {says}"));
    }
    // Scripts and tests read these variables.
    for theirs in ["ACESTEP_MEASURE", "ACESTEP_COMMIT", "ACESTEP_TARGET"] {
        assert!(!run(theirs).stderr.contains("ACESTEP"));
    }
}

#[test]
fn what_is_set_is_what_commands_do() {
    let dir = Dir::new();
    dir.write(
        "c.toml",
        "model = 'tiny'\ndevice = 'cpu'\ndtype = 'f32'\n[request]\n\
         thinking = false\nduration = 1\naudio_format = 'flac'\nseed = 5\n",
    );
    let generate = |words: &[&str]| {
        let words = [&["generate", "--config", "c.toml", "--json", "--dry-run"], words].concat();
        dir.run(&words).succeeded().json()
    };
    let json = generate(&["a piano"]);
    assert_eq!((&json["plan"]["model"], &json["plan"]["duration"]), (&"tiny".into(), &1.0.into()));
    assert_eq!(json["plan"]["seeds"][0], 5);
    assert!(json.to_string().contains("song-5.flac"));
    assert_eq!(json["plan"]["dtype"], "f32");
    // A flag overrides the file.
    let json = generate(&["a piano", "--seed", "6", "--dtype", "bf16"]);
    assert_eq!((&json["plan"]["seeds"][0], &json["plan"]["dtype"]), (&6.into(), &"bf16".into()));
    // A request file is complete: settings of the machine do not fill its open fields.
    dir.write("r.json", r#"{"caption": "x", "thinking": false, "model": "tiny", "duration": 2}"#);
    let json = generate(&["--request", "r.json", "-o", "x.wav"]);
    assert_eq!(json["plan"]["duration"], 2.0);
    assert_ne!(json["plan"]["seeds"][0], 5);
}

#[test]
fn every_command_that_computes_takes_the_device_and_the_type_of_the_settings() {
    let dir = Dir::new();
    let home = dir.path("home").display().to_string();
    let run = |args: &[&str], name: &str, value: &str| {
        dir.run_with(args, &[("XDG_DATA_HOME", &home[..]), (name, value)])
    };
    let serve = ["serve", "--check", "--model", "tiny", "--data-dir", "data"];
    let shown = |args: &[&str]| run(args, "ACESTEP_DTYPE", "f32").succeeded().text().to_owned();
    assert!(shown(&serve).contains(" in f32\n"), "{}", shown(&serve));
    // A typed flag goes over it.
    let typed = [&serve[..], &["--dtype", "bf16"]].concat();
    assert!(shown(&typed).contains(" in bf16\n"), "{}", shown(&typed));
    dir.write("a.wav", "");
    for args in [
        &["speak", "hello", "--model", "tiny-speech", "-o", "b.wav"][..],
        &["voice", "make", "me", "--reference", "a.wav", "--model", "tiny-speech"],
        &["work", "--model", "tiny", "--data-dir", "data"],
        &["bench"],
    ] {
        // No CPU computes in it.
        run(args, "ACESTEP_DTYPE", "f16").failed(2).says("`--dtype f16` cannot be used");
    }
    for args in [&["verify"][..], &["bench"], &["speak", "hello", "-o", "b.wav"]] {
        run(args, "ACESTEP_DEVICE", "cuda:7").failed(1).says("device `cuda:7` is not available");
    }
}

#[test]
fn what_cannot_be_is_told_before_anything_is_done() {
    let dir = Dir::new();
    dir.write("c.toml", "devise = 'cpu'\n");
    let song = ["generate", "a", "--model", "tiny", "--config", "c.toml"];
    dir.run(&song).failed(1).says("did you mean `device`?").says("--no-config");
    dir.run(&["config", "show", "--config", "c.toml"]).failed(1).says("line 1: ");
    dir.run(&["generate", "a", "--config", "none.toml"]).failed(1).says("none.toml");
    let show = ["config", "show", "--config", "c.toml"];
    dir.write("c.toml", "[request]\nbpm = 'quick'\n");
    dir.run(&song).failed(1).says("cause: line 2: `bpm` is `quick`: it must be a number\n");
    dir.write("c.toml", "[request]\nseed = 1\nbpm = 1000\n");
    let range = "out of range: a whole number from 30 to 300";
    dir.run(&show).failed(1).says(&format!("cause: line 3: `bpm` is `1000`: it is {range}\n"));
    let says = format!("`bpm: 1000` is {range} (from c.toml, line 3)\n");
    dir.run(&song).failed(2).says(&says);
    dir.run(&[&song[..], &["--bpm", "90", "--dry-run"]].concat()).succeeded();
    let run = dir.run_with(&["config", "show"], &[("ACESTEP_BPM", "1000")]).failed(2);
    run.says(&format!("error: the variable ACESTEP_BPM is `1000`: it is {range}\n"));
    let song = ["generate", "a", "--model", "tiny"];
    let run = dir.run_with(&song, &[("ACESTEP_DTYPE", "int4")]).failed(2);
    run.says("the variable ACESTEP_DTYPE is `int4`");
    // These commands work in spite of a broken file.
    dir.write("c.toml", "[");
    let path = dir.run(&["config", "path", "--config", "c.toml"]).succeeded();
    assert_eq!(path.text(), "c.toml\n");
    dir.run(&["completions", "bash", "--config", "c.toml"]).succeeded();
    assert!(!dir.path("song.wav").exists());
}

/// Also if the settings themselves are wrong.
#[test]
fn who_asks_for_json_gets_json() {
    let dir = Dir::new();
    let run = |args: &[&str], progress: &str| {
        dir.run_with(args, &[("ACESTEP_DTYPE", "int4"), ("ACESTEP_PROGRESS", progress)])
    };
    for run in [
        run(&["serve", "--log-format", "json"], ""),
        run(&["generate", "a", "--progress", "json"], ""),
        run(&["generate", "a"], "json"),
    ] {
        let said: serde_json::Value = serde_json::from_str(&run.stderr).expect("one JSON object");
        assert_eq!((run.code, &said["event"]), (Some(2), &"error".into()));
        let message = said["message"].as_str().expect("a message");
        assert!(message.starts_with("the variable ACESTEP_DTYPE is `int4`: "), "{message}");
    }
    run(&["generate", "a", "--progress", "none"], "json").failed(2).says("hint: ");
}

#[test]
fn a_file_to_change_is_written_once() {
    let dir = Dir::new();
    let init = ["config", "init", "--config", "deep/down/c.toml"];
    dir.run(&init).succeeded();
    let text = dir.text("deep/down/c.toml");
    assert!(text.contains("# device = \"auto\"") && text.contains("[env: ACESTEP_MODEL]"));
    dir.run(&["config", "show", "--config", "deep/down/c.toml"]).succeeded();
    dir.write("deep/down/c.toml", "device = 'cpu'\n");
    dir.run(&init).failed(1).says("--force");
    assert_eq!(dir.read("deep/down/c.toml"), b"device = 'cpu'\n");
    dir.run(&[&init[..], &["--force"]].concat()).succeeded();
    assert_ne!(dir.read("deep/down/c.toml"), b"device = 'cpu'\n");
}

/// Settings do not affect the song that `doctor` makes as a test.
#[test]
fn what_the_program_runs_of_itself_is_not_configured() {
    let dir = Dir::new();
    let variables =
        [("ACESTEP_TASK_TYPE", "cover"), ("ACESTEP_BPM", "quick"), ("ACESTEP_PROGRESS", "json")];
    let run = dir.run_with(&["doctor", "--device", "cpu"], &variables);
    assert!(run.succeeded().text().contains("ok       song cpu"));
}

#[test]
fn variables_are_what_their_keys_take() {
    let dir = Dir::new();
    let song = ["generate", "--model", "tiny", "--no-thinking", "--dry-run", "--json"];
    let plan = |variables: &[(&str, &str)]| dir.run_with(&song, variables);
    let run = plan(&[("ACESTEP_CAPTION", "120"), ("ACESTEP_INSTRUMENTAL", "on")]).succeeded();
    assert_eq!(run.json()["plan"]["caption"], "120");
    let path = ("ACESTEP_SRC_AUDIO", "none.wav");
    let run = plan(&[("ACESTEP_CAPTION", "x"), ("ACESTEP_TASK_TYPE", "cover"), path]).failed(1);
    run.says("`none.wav`");
    let run = plan(&[("ACESTEP_CAPTION", "x"), ("ACESTEP_BPM", "null")]).failed(2);
    run.says("error: the variable ACESTEP_BPM is `null`: it must be a number\n");
    let run = plan(&[("ACESTEP_CAPTION", "x"), ("ACESTEP_BPM", "1000")]).failed(2);
    run.says("error: `bpm: 1000` is out of range: ").says("(from ACESTEP_BPM)\n");
    let run = plan(&[("ACESTEP_CAPTION", "x"), ("ACESTEP_PROGRESS", "json")]).succeeded();
    assert!(run.stderr.lines().all(|line| line.starts_with('{')), "{}", run.stderr);
}
