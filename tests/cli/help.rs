//! Help pages, usage errors, missing models.

use crate::Dir;

#[test]
fn the_first_page_of_help_is_this() {
    let dir = Dir::new();
    let run = dir.run(&["-h"]).succeeded();
    assert_eq!(run.stderr, "");
    insta::assert_snapshot!("acestep-short", run.text());
    // Descriptions of possible values, which the pages of the book leave out.
    let bench = dir.run(&["bench", "--help"]).succeeded();
    let words: Vec<&str> = bench.text().split_whitespace().collect();
    assert!(words.join(" ").contains("- vae: The autoencoder alone -"), "{}", bench.text());
}

/// Another test compares the pages of the book with the program. All of a page is in the long help of its
/// command, whose lines fit into 100 columns.
#[test]
fn the_long_help_of_every_command_has_all_of_its_page_of_the_book() {
    let dir = Dir::new();
    let book = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/commands");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut compared = 0;
    for name in crate::names(&book) {
        let command = name.trim_end_matches(".md").split('-').skip(1);
        let run = dir.run(&command.chain(["--help"]).collect::<Vec<_>>()).succeeded();
        assert_eq!(run.stderr, "", "{name}");
        assert!(run.text().lines().all(|line| line.chars().count() <= 100), "{name}");
        let help = words(run.text());
        let page = std::fs::read_to_string(book.join(&name)).expect("a page").replace('\\', "");
        // Flags and what they do, more paragraphs and examples, the usage.
        let is_text = |line: &&str| ["- `", "  ", "acestep "].iter().any(|of| line.starts_with(of));
        let texts = page.lines().filter(is_text);
        for text in texts.flat_map(|line| line.strip_prefix("- `").unwrap_or(line).split("`: ")) {
            // The help has these at another place.
            let ends = ["[default:", "[possible values:", "[env:"];
            let text = ends.iter().fold(text, |text, end| text.split(end).next().unwrap_or(text));
            let text = words(text.trim_matches(['<', '>']));
            assert!(help.contains(&text), "{name}: {text}");
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared}");
}

/// Without a flag it keeps the loudness; a song has -1.
#[test]
fn codec_decode_names_its_own_default_of_the_loudness() {
    let run = Dir::new().run(&["codec", "decode", "--help"]).succeeded();
    let page = run.text();
    assert!(page.contains("[default: as decoded]") && !page.contains("[default: -1]"), "{page}");
}

#[test]
fn the_short_help_fits_one_screen() {
    let dir = Dir::new();
    let commands = ",generate,plan,inspire,format,understand,play,plot,codec encode,codec decode,\
                    model list,model pull,model show,model verify,model remove,adapter show,\
                    train lora,config show,config init,config path,doctor,warmup,bench,verify,\
                    check,completions,man";
    let groups = "model,codec,adapter,train,config";
    for command in commands.split(',').chain(groups.split(',')) {
        let words: Vec<_> = command.split_whitespace().chain(["-h"]).collect();
        let run = dir.run_with(&words, &[("COLUMNS", "80")]).succeeded();
        let page = run.text();
        // A group may have only one command.
        let least = if groups.split(',').any(|group| group == command) { 1 } else { 10 };
        assert!((least..=50).contains(&page.lines().count()), "{command}: {page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{command}: {page}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let dir = Dir::new();
    for args in [
        &[][..],
        &["compose"],
        &["generate", "rain", "--loud"],
        &["generate", "rain", "more"],
        &["generate", "rain", "--caption", "rain"],
        &["generate", "rain", "-q", "-v"],
        &["generate", "rain", "--normalization-db", "-3", "--no-normalization"],
    ] {
        let run = dir.run(args);
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert_eq!(run.text(), "");
    }
}

/// An error about a misspelled name suggests the most similar valid name.
#[test]
fn a_slip_is_told_with_what_was_meant() {
    let dir = Dir::new();
    let card = match cfg!(feature = "wgpu") {
        true => "did you mean `wgpu`?",
        false => "did you mean `auto`?",
    };
    for (args, code, says) in [
        (&["generate", "a", "--model", "trubo"][..], 1, "hint: did you mean `turbo`?"),
        (&["generate", "a", "--model", "dmo"], 1, "hint: did you mean `demo`?"),
        (&["inspire", "a", "--lm-model", "lm-17b"], 1, "hint: did you mean `lm-1.7b`?"),
        (&["generate", "a", "--model", "tiny", "--task", "covr"], 2, "did you mean `cover`?"),
        (&["generate", "a", "--model", "tiny", "--device", "gpu"], 2, card),
        (&["generate", "a", "--model", "tiny", "--dtype", "fp16"], 2, "did you mean `f16`?"),
        (&["bench", "--stage", "dti"], 2, "a similar value exists: 'dit'"),
        (&["man", "generat"], 2, "hint: did you mean `generate`?"),
        (&["model", "pull", "trubo"], 2, "hint: did you mean `turbo`?"),
        // Upstream's spelling is accepted, but suggestions use ours.
        (&["generate", "a", "--cfg", "3"], 2, "a similar argument exists: '--cfg-scale'"),
        // Names of other programs, whose spelling leads elsewhere.
        (&["generate", "a", "--tempo", "90"], 2, "a similar argument exists: '--bpm'"),
        (&["generate", "a", "--audio-duration", "9"], 2, "exists: '--duration'"),
        (&["generate", "a", "--key=C"], 2, "a similar argument exists: '--keyscale'"),
        (&["plan", "a", "--length", "9"], 2, "a similar argument exists: '--duration'"),
        (&["speak", "a", "--temp", "1"], 2, "a similar argument exists: '--temperature'"),
        (&["generate", "a", "--temp", "1"], 2, "a similar argument exists: '--lm-temperature'"),
    ] {
        dir.run(args).failed(code).says(says);
    }
    let run = dir.run(&["generate", "a", "--model", "polka"]).failed(1);
    assert!(!run.stderr.contains("did you mean"), "{}", run.stderr);
    let run = dir.run(&["generate", "a", "--tempo", "90"]).failed(2);
    assert!(!run.stderr.contains("steps"), "{}", run.stderr);
    // The flag of the tip is one of the command.
    let run = dir.run(&["model", "quantize", "turbo"]).failed(1).says("model pull turbo");
    assert!(!run.stderr.contains("--model"), "{}", run.stderr);
    dir.write("a.wav", "");
    dir.run(&["codec", "encode", "a.wav"]).failed(1).says("pass `--model demo`");
    // No tip is about a value that begins with a dash.
    dir.run(&["generate", "--modle"]).failed(2).says("a similar argument exists: '--model'");
}

#[test]
fn what_cannot_be_parsed_is_told_with_what_would_be() {
    let dir = Dir::new();
    let quotes = "tip: put several words in quotes";
    for (args, says) in [
        (&["generate", "rain", "piano"][..], quotes),
        (&["inspire", "a", "song"], quotes),
        (&["speak", "good", "morning"], quotes),
        (&["plot", "my", "song.wav"], quotes),
        (&["generate", "a", "--bpm", "fast"], "tip: it takes a whole number, such as 8"),
        (&["generate", "a", "--bpm", "99999999999999999999"], "tip: it takes a smaller number"),
        (&["generate", "a", "--bpm=-99999999999999999999"], "tip: it takes a larger one"),
        (&["generate", "a", "--duration", "ten"], "tip: it takes a number, such as 8 or 0.5"),
        (&["train", "lora", "a", "--rank", "1.5"], "tip: it takes a whole number, such as 8"),
    ] {
        let run = dir.run(args).failed(2).says(says);
        let run = run.says("For more information, try '--help'");
        for word in ["invalid digit", "invalid float"] {
            assert!(!run.stderr.contains(word), "{}", run.stderr);
        }
    }
    let run = dir.run(&["generate", "a", "--loud"]).failed(2);
    assert!(!run.stderr.contains(quotes), "{}", run.stderr);
}

#[test]
fn help_is_a_command_too() {
    let dir = Dir::new();
    for (words, same) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "generate"], &["generate", "--help"]),
        (&["help", "model", "pull"], &["model", "pull", "--help"]),
    ] {
        let run = dir.run(words).succeeded();
        assert_eq!(run.text(), dir.run(same).succeeded().text());
    }
    for (words, says) in [
        (&["help", "genrate"][..], "a similar subcommand exists: 'generate'"),
        (&["help", "model", "vrify"], "a similar subcommand exists: 'verify'"),
        (&["help", "train", "lroa"], "a similar subcommand exists: 'lora'"),
    ] {
        dir.run(words).failed(2).says(says);
    }
}

#[test]
fn flags_in_upstreams_spelling_are_understood() {
    let args = ["rain", "--inference_steps", "8", "--guidance_scale", "1", "--batch_size", "1"];
    Dir::new().tiny(&[&args[..], &["--seed", "1", "--dry_run"]].concat()).succeeded();
}

/// Compares the message with a snapshot. The name of the folder is replaced.
#[test]
fn a_model_that_is_not_there_says_how_to_get_it() {
    let dir = Dir::new();
    for (name, model) in [("absent-turbo", "turbo"), ("absent-base", "base")] {
        let run = dir.run(&["generate", "rain", "--model", model, "--models-dir", "models"]);
        insta::assert_snapshot!(name, run.failed(1).stderr);
    }
    dir.checkpoint();
    dir.write("a.wav", "");
    for (name, args) in [
        ("absent-language-model", &["inspire", "a song"][..]),
        ("absent-lm-4b", &["understand", "a.wav", "--lm-model", "lm-4b"]),
        ("absent-beside-turbo", &["generate", "rain", "--model", "./acestep-v15-turbo"]),
    ] {
        let run = dir.run(&[args, &["--models-dir", "models"]].concat());
        insta::assert_snapshot!(name, run.failed(1).stderr);
    }
    let run = dir.run(&["inspire", "a song", "--lm-model", "no/such"]).failed(1);
    run.says("language model `no/such` is not on this machine")
        .says("hint: `--lm-model` takes a path");
    let run = dir.run(&["generate", "rain", "--model", "no/such"]).failed(1);
    run.says("model `no/such` is not on this machine").says("hint: `--model` takes a path");
}

#[test]
fn the_models_directory_comes_from_the_environment_unless_it_is_typed() {
    let dir = Dir::new();
    for (typed, variable, found) in [
        (&[][..], "from-env", "looked for from-env/acestep-v15-turbo"),
        (&["--models-dir", "typed"], "from-env", "looked for typed/acestep-v15-turbo"),
        (&[], "", "/nonexistent/acestep/models/acestep-v15-turbo"),
    ] {
        let args = [&["generate", "rain"], typed].concat();
        dir.run_with(&args, &[("ACESTEP_MODELS_DIR", variable)]).failed(1).says(found);
    }
}

#[test]
fn a_models_directory_that_is_none_is_told() {
    let dir = Dir::new();
    dir.write("file", "");
    for args in [&["model", "list"][..], &["doctor", "--no-song", "--device", "cpu"]] {
        let run = |models| dir.run(&[args, &["--models-dir", models]].concat());
        run("typo").succeeded().says("note: the models directory `typo` (--models-dir) does not");
        run("file").failed(2).says("error: the models directory `file` (--models-dir) is a file\n");
    }
}

#[test]
fn colour_is_for_terminals_and_for_those_who_insist() {
    let dir = Dir::new();
    let args = ["generate", "rain", "--models-dir", "models"];
    assert!(!dir.run(&args).stderr.contains('\x1b'));
    let run = dir.run(&[&args[..], &["--color", "always"]].concat());
    assert!(run.stderr.starts_with("\x1b[1;31merror:\x1b[0m model `turbo`"), "{:?}", run.stderr);
    assert!(dir.run(&["generate", "-h", "--color=always"]).text().contains('\x1b'));
}

#[test]
fn help_into_a_closed_pipe_is_no_failure() {
    let dir = Dir::new();
    let mut command = dir.command(&["generate", "--help"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let run = crate::Run::of(command.stdout(writer)).succeeded();
    assert_eq!(run.stderr, "");
}
