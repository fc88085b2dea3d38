//! First steps of a new user in a terminal.
//!
//! From nothing to a song, from song to cover, from damage to mend, and all without a download.

use rexpect::session::{PtySession, spawn_command};

use super::{Dir, Run, hub::Fault, models::User, take_environment};

/// Time limit of the slowest step on a busy machine, in milliseconds.
const PATIENCE: u64 = 120_000;

/// Runs the program in a terminal.
fn terminal(user: &User, args: &[&str]) -> PtySession {
    in_terminal(&user.command(args), args)
}

/// Runs the command `typed` with `args` in a terminal.
fn in_terminal(typed: &std::process::Command, args: &[&str]) -> PtySession {
    // A new command, because standard input must be the terminal.
    let mut command = std::process::Command::new(typed.get_program());
    command.args(args).current_dir(typed.get_current_dir().expect("a folder"));
    take_environment(&mut command, typed);
    let is_dumb = typed.get_envs().any(|(name, _)| name == "TERM");
    if !is_dumb {
        command.env("TERM", "xterm-256color");
    }
    command.env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8");
    spawn_command(command, Some(PATIENCE)).expect("a terminal")
}

/// Waits for `text`, and returns the output before it.
#[track_caller]
fn sees(session: &mut PtySession, text: &str) -> String {
    session.exp_string(text).unwrap_or_else(|error| panic!("waited for {text:?}: {error}"))
}

#[track_caller]
fn ends(session: &mut PtySession, code: i32) {
    use rexpect::process::WaitStatus;
    let rest = session.exp_eof().expect("the end");
    let status = session.process_mut().wait().expect("a status");
    assert!(matches!(status, WaitStatus::Exited(_, own) if own == code), "{status:?}: {rest}");
}

#[test]
fn from_nothing_to_a_song() {
    let user = User::with_turbo();
    let song = ["generate", "calm piano, rain", "--no-thinking", "--duration", "1", "-o", "a.wav"];
    // After a no, the program prints the command for later.
    let mut session = terminal(&user, &song);
    sees(&mut session, "turbo is not on this machine. Pull it, some 6.70 GB? [y/N]");
    session.send_line("no").expect("types");
    sees(&mut session, "hint: run `acestep model pull turbo`");
    ends(&mut session, 1);
    // Ctrl-C also means no, without another question.
    let mut session = terminal(&user, &song);
    sees(&mut session, "[y/N]");
    session.send_control('c').expect("types");
    sees(&mut session, "stopped");
    ends(&mut session, 130);
    assert_eq!(user.hub.asked(), []);

    let mut session = terminal(&user, &song);
    sees(&mut session, "[y/N]");
    session.send_line("y").expect("types");
    sees(&mut session, "to fetch");
    sees(&mut session, "every file is as it was published");
    // The command continues after the download.
    sees(&mut session, "diffusion");
    sees(&mut session, "1.0 s of audio in");
    sees(&mut session, "a.wav");
    ends(&mut session, 0);
    assert!(user.dir.sound("a.wav").iter().any(|&sample| sample != 0));
}

#[test]
fn from_a_song_to_a_cover_of_it() {
    let user = User::with_turbo();
    user.run(&["model", "pull", "turbo"]).succeeded();
    let song = ["generate", "calm piano", "--no-thinking", "--duration", "2", "--seed", "1"];
    let run = user.run(&song).succeeded();
    assert_eq!(run.text(), "song-1.wav\n");
    // A cover needs the task and the source. The error names the missing flag.
    let cover = ["generate", "bossa nova, nylon guitar", "--task", "cover", "-o", "cover.wav"];
    user.run(&cover).failed(2).says("--src-audio");
    let mut session = terminal(&user, &[&cover[..], &["--src-audio", "song-1.wav"]].concat());
    sees(&mut session, "VAE encoder");
    sees(&mut session, "2.0 s of audio in");
    ends(&mut session, 0);
    assert_ne!(user.dir.sound("cover.wav"), user.dir.sound("song-1.wav"));
    // A second run does not replace the file.
    let again = user.run(&[&cover[..], &["--src-audio", "song-1.wav"]].concat());
    again.failed(1).says("--force");
    // The song file contains its request.
    let made = user.run(&["generate", "--request", "song-1.wav", "-o", "same.wav"]).succeeded();
    assert_eq!(user.dir.sound("same.wav"), user.dir.sound("song-1.wav"), "{}", made.stderr);
}

#[test]
fn from_a_damaged_file_to_its_mend() {
    let user = User::with_turbo();
    user.run(&["model", "pull", "turbo"]).succeeded();
    let song = ["generate", "a", "--no-thinking", "--duration", "1", "-o", "a.wav"];
    // A truncated file: `generate` reports it, `verify` names it, and `pull` repairs it.
    let snapshot = "hf/hub/models--ACE-Step--Ace-Step1.5/snapshots";
    let path = user.dir.path(snapshot).join("a".repeat(40));
    let weights = path.join("vae/diffusion_pytorch_model.safetensors");
    let blob = weights.canonicalize().expect("a file");
    let length = blob.metadata().expect("a file").len();
    let file = std::fs::File::options().write(true).open(&blob).expect("a file");
    file.set_len(length / 2).expect("it is cut");
    let run = user.run(&song).failed(1);
    run.says("hint: run `acestep model pull vae`");
    let verify = user.run(&["model", "verify"]);
    assert!(verify.code == Some(1) && verify.text().contains("DAMAGED  vae"), "{}", verify.text());
    // The repair works even if the first attempt fails.
    user.hub.fails("vae/diffusion_pytorch_model.safetensors", Fault::Cut(10_000), 1);
    user.run(&["model", "pull", "vae"]).succeeded().says("is damaged: it is downloaded again");
    user.run(&song).succeeded();
    user.run(&["model", "verify"]).succeeded();
}

/// With an empty home directory and no server, the built-in model is enough.
///
/// The steps are a song, a cover of it, a picture of it, and a settings file.
#[test]
fn what_the_program_carries_is_enough_to_begin() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("home")).expect("a home");
    let command = |args: &[&str]| {
        let mut command = dir.command(args);
        command.env("HOME", dir.path("home"));
        for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env_remove(name);
        }
        // No server listens there, so every download would fail.
        command.env("HF_ENDPOINT", "http://127.0.0.1:9");
        command
    };
    let run = |args: &[&str]| Run::of(&mut command(args));
    let session = |args: &[&str]| in_terminal(&command(args), args);

    // Without arguments, it prints its abilities. The first example needs no download.
    let bare = run(&[]);
    assert_eq!(bare.code, Some(2));
    bare.says("Make songs:").says("generate");
    let help = run(&["help"]).succeeded();
    let (caption, first) = ("dark techno, driving, fast", "--instrumental --model demo\n");
    assert!(help.text().contains(&format!("acestep generate \"{caption}\" {first}")));

    // The README's first command, shortened to one second.
    let song = ["generate", caption, "--instrumental", "--model", "demo", "--seed", "4"];
    let short = ["--duration", "1", "-o", "song.wav"];
    let mut terminal = session(&[&song[..], &short].concat());
    let before = sees(&mut terminal, "language model demo");
    assert!(!before.contains("demo on cpu"), "{before}");
    sees(&mut terminal, "demo on cpu");
    sees(&mut terminal, "1.0 s of audio in");
    sees(&mut terminal, "song.wav");
    ends(&mut terminal, 0);
    assert!(dir.sound("song.wav").iter().any(|&sample| sample != 0));

    let cover = ["generate", "slow waltz, piano", "--instrumental", "--model", "demo", "--task"];
    let of = ["cover", "--src-audio", "song.wav", "-o", "cover.wav"];
    let mut terminal = session(&[&cover[..], &of].concat());
    sees(&mut terminal, "1.0 s of audio in");
    ends(&mut terminal, 0);
    assert_ne!(dir.sound("cover.wav"), dir.sound("song.wav"));

    let mut terminal = session(&["plot", "cover.wav", "--show"]);
    sees(&mut terminal, "48 kHz");
    sees(&mut terminal, "122 Hz");
    ends(&mut terminal, 0);
    // A terminal without pictures gets a file.
    let shown = ["plot", "cover.wav", "--show"];
    let mut dumb = command(&shown);
    let mut terminal = in_terminal(dumb.env("TERM", "dumb"), &shown);
    sees(&mut terminal, "note: this terminal (TERM=dumb) shows no pictures");
    sees(&mut terminal, "cover.png");
    ends(&mut terminal, 0);

    let written = run(&["config", "init"]).succeeded();
    let file = std::path::PathBuf::from(written.text().trim_end());
    assert!(file.starts_with(dir.path("home")) && file.is_file(), "{file:?}");
    std::fs::write(&file, "model = \"demo\"\n").expect("it is changed");
    let shown = run(&["config", "show"]).succeeded();
    let model = shown.text().lines().next().expect("a line").to_owned();
    assert!(model.contains("demo") && model.ends_with("config.toml"), "{model}");
    // From now on the model is the default.
    let dry = run(&["generate", caption, "--instrumental", "--dry-run"]).succeeded();
    assert_eq!(dry.stderr.matches("30 s").count(), 1, "{}", dry.stderr);
}
