//! Paths of outputs; existing files must not be lost.

#[cfg(target_os = "linux")]
use std::path::Path;

use crate::Dir;

#[test]
fn an_existing_file_is_kept_without_force() {
    let dir = Dir::new();
    dir.write("a.wav", "mine");
    let run = dir.tiny(&["rain", "-o", "a.wav"]).failed(1);
    run.says("error: `a.wav` exists already\n\nhint: choose another name, or pass `--force`\n");
    assert_eq!(dir.read("a.wav"), b"mine");
    dir.tiny(&["rain", "-o", "a.wav", "--force"]).succeeded();
    assert_eq!(dir.read("a.wav")[..4], *b"RIFF");
    assert_eq!(dir.files(), ["a.wav"]);
}

#[test]
fn every_output_is_checked_before_any_work() {
    let dir = Dir::new();
    dir.write("a_2.wav", "mine");
    dir.tiny(&["rain", "-o", "a.wav", "--batch-size", "2"]).failed(1).says("`a_2.wav` exists");
    dir.write("b.json", "mine");
    dir.tiny(&["rain", "-o", "b.wav", "--save-request"]).failed(1).says("`b.json` exists");
    assert_eq!(dir.files(), ["a_2.wav", "b.json"]);
}

#[cfg(unix)]
#[test]
fn a_name_that_the_file_system_does_not_take_is_refused_before_any_work() {
    let dir = Dir::new();
    let name = format!("{}.wav", "a".repeat(300));
    let run = dir.tiny(&["rain", "-o", &name]).failed(1);
    run.says("cannot create `aaa");
}

#[test]
fn several_songs_have_several_names() {
    let dir = Dir::new();
    let batch = |output: &str| {
        let args = ["rain", "--seed", "3,9", "--save-request", "-o", output];
        dir.tiny(&args).succeeded().text().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(batch("a.wav"), ["a_1.wav", "a_2.wav", "a.json"]);
    assert_eq!(batch("{seed}.wav"), ["3.wav", "9.wav", "3.json"]);
    assert_eq!(batch("b{index}.wav"), ["b1.wav", "b2.wav", "b1.json"]);
}

#[test]
fn names_that_cannot_be_are_refused_before_any_work() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("folder")).expect("a folder");
    dir.write("file", "");
    for (output, says) in [
        ("folder", "cannot write `folder`: it is a directory\n\nhint: name a file in it"),
        ("missing/a.wav", "cannot create `missing/a.wav`"),
        ("file/a.wav", "cannot create `file/a.wav`"),
        ("..", "cannot write `..`: it is a directory"),
    ] {
        dir.tiny(&["rain", "-o", output]).failed(1).says(says);
    }
    for (output, says) in [
        ("a.m4a", "this program does not write `a.m4a`\n\nhint: name it `a.flac`"),
        #[cfg(feature = "opus")]
        ("a.ogg", "this program does not write `a.ogg`\n\nhint: name it `a.opus`"),
        #[cfg(not(feature = "opus"))]
        ("a.ogg", "this program does not write `a.ogg`\n\nhint: name it `a.flac`"),
        ("a.wave", "this program does not write `a.wave`\n\nhint: name it `a.wav`"),
        ("a.xyz", "this program does not write `a.xyz`\n\nhint: let it end in .wav, .flac"),
        ("{bpm}.wav", "`--output {bpm}.wav` has an unknown `{bpm}`"),
    ] {
        dir.tiny(&["rain", "-o", output]).failed(2).says(says);
    }
    let run = dir.tiny(&["rain", "-o", "a.xyz"]).failed(2);
    for (ending, is_built_in) in
        [(".mp3", cfg!(feature = "mp3")), (".opus", cfg!(feature = "opus"))]
    {
        assert_eq!(run.stderr.contains(ending), is_built_in, "{}", run.stderr);
    }
    // The inserted name may contain dots.
    dir.write("my.song.json", r#"{"caption": "rain", "duration": 1}"#);
    let named = ["generate", "--model", "tiny", "--request", "my.song.json", "--dry-run", "-o"];
    dir.run(&[&named[..], &["{name}"]].concat()).succeeded();
    let run = dir.run(&[&named[..], &["{name}.xyz"]].concat()).failed(2);
    run.says("this program does not write `{name}.xyz`");
    let args = ["rain", "-o", "{seed}.wav", "--seed", "3,3"];
    dir.tiny(&args).failed(2).says("`3.wav` would be written twice");
    assert_eq!(dir.files(), ["file", "folder", "my.song.json"]);
}

#[test]
fn standard_output_is_for_one_thing() {
    let dir = Dir::new();
    for (args, says) in [
        (&["-o", "-", "--json"][..], "`--output -` and `--json` both want standard output"),
        (&["-o", "-", "--save-request"], "`--save-request` writes beside the song"),
        (&["-o", "-", "--batch-size", "2"], "2 songs cannot share standard output"),
    ] {
        dir.tiny(&[&["rain"], args].concat()).failed(2).says(says);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_no_file_to_replace() {
    let dir = Dir::new();
    for force in [&[][..], &["--force"]] {
        let run = dir.tiny(&[&["rain", "-o", "/dev/null"], force].concat()).failed(1);
        run.says("cannot write `/dev/null`: it is not a regular file").says("with `--output -`");
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_a_file_is_written_through() {
    let dir = Dir::new();
    dir.write("target.wav", "mine");
    std::os::unix::fs::symlink("target.wav", dir.path("link.wav")).expect("a link");
    dir.tiny(&["rain", "-o", "link.wav"]).failed(1).says("`link.wav` exists already");
    dir.tiny(&["rain", "-o", "link.wav", "--force"]).succeeded();
    assert!(dir.path("link.wav").is_symlink());
    assert_eq!(dir.read("target.wav")[..4], *b"RIFF");
}

/// Root can write everywhere except on a read-only file system.
#[cfg(target_os = "linux")]
#[test]
fn a_read_only_folder_is_refused_before_any_work() {
    let dir = Dir::new();
    let Some(mount) = Tmpfs::new(&dir.path("read-only"), "size=64k,ro") else { return };
    let output = mount.path("a.wav");
    let run = dir.tiny(&["rain", "-o", &output]).failed(1);
    run.says("error: cannot create").says("hint: choose a folder you may write to\n");
}

#[cfg(unix)]
#[test]
fn a_folder_without_permission_is_refused_before_any_work() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new();
    let folder = dir.path("locked");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).expect("a mode");
    if std::fs::write(folder.join("probe"), "").is_ok() {
        skipped("root may write everywhere");
        return;
    }
    let run = dir.tiny(&["rain", "-o", "locked/a.wav"]).failed(1);
    run.says("hint: choose a folder you may write to\n");
}

/// One second of sound is 192 kB, three times the size of the disk.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_no_half_file() {
    let dir = Dir::new();
    let Some(mount) = Tmpfs::new(&dir.path("disk"), "size=64k") else { return };
    let output = mount.path("a.wav");
    let run = dir.tiny(&["rain", "-o", &output]).failed(1);
    run.says("error: cannot write").says("cause: ").says("hint: free some space");
    assert!(crate::names(&mount.folder).is_empty());
}

/// Latents of a second are 1600 bytes, and all 4096 of the disk are taken.
#[cfg(target_os = "linux")]
#[test]
fn latents_that_cannot_be_written_cost_no_song() {
    let dir = Dir::new();
    let Some(mount) = Tmpfs::new(&dir.path("disk"), "size=4k") else { return };
    std::fs::write(mount.folder.join("full"), [0; 4096]).expect("written");
    let latents = mount.path("a.vae");
    let run = dir.tiny(&["rain", "-o", "a.wav", "--save-request", "--output-latents", &latents]);
    assert_eq!((run.code, run.text()), (Some(1), "a.wav\na.json\n"), "{}", run.stderr);
    run.says("a.vae`\n  cause: ").says("hint: free some space");
    assert_eq!(dir.read("a.wav")[..4], *b"RIFF");
}

#[test]
fn a_file_that_is_read_is_not_replaced() {
    let dir = Dir::new();
    let texts = [
        ("words", "[Verse]\nla"),
        ("codes", "5,17,9"),
        ("genres", "rock"),
        ("request", r#"{"caption": "rain"}"#),
        ("settings", "threads = 1"),
        ("settings.png", "threads = 1"),
        ("manner.json", "calm"),
    ];
    for (name, text) in texts {
        dir.write(name, text);
    }
    dir.tiny(&["rain", "-o", "b.wav", "--output-latents", "b.vae"]).succeeded();
    let song = ["generate", "rain", "-o", "a.wav"];
    for (name, verb, args) in [
        ("words", &song[..], &["--lyrics", "@words", "--output-lrc", "./words"][..]),
        ("words", &["plan", "rain"], &["--lyrics", "@words", "--output-text", "words"]),
        ("codes", &song, &["--audio-codes", "@codes", "--output-vtt", "codes"]),
        ("codes", &["understand"], &["--audio-codes", "@codes", "-o", "codes"]),
        ("genres", &["plan", "rain"], &["--genres", "genres", "-o", "genres"]),
        ("request", &["plan"], &["--request", "request", "-o", "./request"]),
        ("settings", &song, &["--config", "settings", "--output-lrc", "settings"]),
        (
            "manner.json",
            &["speak", "la"],
            &["--instruct", "@manner.json", "--timestamps", "manner.json"],
        ),
        ("settings", &["plan", "rain"], &["--config", "settings", "--output-text", "settings"]),
        ("settings", &["codec", "encode", "b.wav"], &["--config", "settings", "-o", "settings"]),
        ("settings", &["codec", "decode", "b.vae"], &["--config", "settings", "-o", "settings"]),
    ] {
        let run = dir.run(&[verb, args, &["--model", "tiny", "--force"]].concat()).failed(2);
        run.says(&format!("{name}` would be written over itself"));
    }
    let plot = ["plot", "b.wav", "--config", "settings.png", "-o", "./settings.png", "--force"];
    dir.run(&plot).failed(2).says("settings.png` would be written over itself");
    for (name, text) in texts {
        assert_eq!(dir.read(name), text.as_bytes());
    }
}

/// A file system in memory that is unmounted at the end of the test.
#[cfg(target_os = "linux")]
struct Tmpfs {
    folder: std::path::PathBuf,
}

#[cfg(target_os = "linux")]
impl Tmpfs {
    /// Mounts it; `None` if mounting is not permitted.
    fn new(folder: &Path, options: &str) -> Option<Self> {
        std::fs::create_dir(folder).expect("a folder");
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder);
        match mount.output() {
            Ok(output) if output.status.success() => Some(Self { folder: folder.to_owned() }),
            _ => {
                skipped("mounting is not permitted here");
                None
            }
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }
}

#[cfg(target_os = "linux")]
impl Drop for Tmpfs {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount").arg(&self.folder).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{}", self.folder.display());
    }
}

#[expect(clippy::print_stderr, reason = "a test has no other way to say that it was skipped")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// A file size limit of the shell leads to an error and leaves no partial file.
#[cfg(unix)]
#[test]
fn a_file_that_may_not_grow_is_said() {
    let dir = Dir::new();
    let args = ["generate", "rain", "--model", "tiny", "--duration", "1", "-o", "a.wav"];
    let program = dir.command(&args);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -f 100; exec \"$@\"", "sh"]).arg(program.get_program());
    shell.args(program.get_args()).current_dir(dir.path("."));
    crate::take_environment(&mut shell, &program);
    let run = crate::Run::of(&mut shell);
    run.failed(1).says("cannot write `a.wav`").says("ulimit -f unlimited");
    assert!(dir.files().is_empty(), "{:?}", dir.files());
}
