//! Input audio that is silent, quiet, clipped, short or has many channels: every command prints the
//! same messages.

use std::fs;

use crate::{DRAWS, Dir, Run};

fn square(sample: u32) -> f32 {
    if (sample / 50).is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// Runs every command that passes the audio file `song` to a network.
fn doors(dir: &Dir, song: &str) -> [Run; 5] {
    let tiny = ["--model", "tiny", "--seed", "1"];
    let understand = [&["understand", song], &tiny[..], &DRAWS].concat();
    let encode = ["codec", "encode", song, "--model", "tiny", "-o", "out.vae", "--force"];
    let generate = |more: &[&str]| {
        let common = ["generate", "rain", "-o", "out.wav", "--force"];
        dir.run(&[&common[..], &tiny, more].concat())
    };
    let folder = dir.path("songs");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a folder");
    fs::copy(dir.path(song), folder.join(song)).expect("a copy");
    let learn = ["train", "lora", "songs", "--model", "tiny", "--epochs", "1", "--force"];
    [
        dir.run(&understand),
        dir.run(&encode),
        generate(&["--task", "cover", "--src-audio", song]),
        generate(&["--duration", "1", "--reference-audio", song]),
        dir.run(&[&learn[..], &["--caption", "rain"]].concat()),
    ]
}

#[test]
fn what_cannot_be_heard_is_refused_at_every_door() {
    let dir = Dir::new();
    dir.write_wav("silent.wav", 2, 24_000, |_, _| 0.0_f32);
    dir.write_wav("short.wav", 2, 480, |sample, _| 0.5 * square(sample));
    let centre = |sample, channel: u16| if channel == 2 { 0.5 * square(sample) } else { 0.0 };
    dir.write_wav("centre.wav", 6, 24_000, centre);
    for (song, text) in [
        ("silent.wav", "silent.wav`: it is silent"),
        ("short.wav", "short.wav`: it lasts 0.010 s, but 0.040 s is the least"),
        ("centre.wav", "centre.wav`: of its 6 channels the first two, which are read, are silent"),
    ] {
        for run in doors(&dir, song) {
            run.failed(1).says("error: cannot listen to `").says(text);
        }
    }
}

#[test]
fn what_is_heard_otherwise_is_said_at_every_door() {
    let dir = Dir::new();
    dir.write_wav("faint.wav", 6, 24_000, |sample, _| 1e-4 * square(sample));
    dir.write_wav("clipped.wav", 2, 24_000, |sample, _| square(sample));
    dir.write_wav("above.wav", 2, 24_000, |sample, _| 1.5 * square(sample));
    let mut faint = dir.read("faint.wav");
    // The samples and the bytes of a second.
    faint[24..28].copy_from_slice(&44_100u32.to_le_bytes());
    faint[28..32].copy_from_slice(&1_058_400u32.to_le_bytes());
    dir.write("faint.wav", faint);
    let texts_of_faint = [
        "is very quiet: its peak is at -80 dB",
        "has 6 channels: the first two are read",
        "has 44100 Hz: it is resampled to 48000 Hz",
    ];
    for (song, texts) in [
        ("faint.wav", &texts_of_faint[..]),
        ("clipped.wav", &["is clipped: 100.0 % of its samples lie at full scale"]),
        ("above.wav", &["has 48000 samples above full scale: they are clipped"]),
    ] {
        for run in doors(&dir, song) {
            let run = run.succeeded();
            for text in texts {
                let text = format!("{song}` {text}");
                assert!(run.stderr.contains(&text), "wanted {text:?} in:\n{}", run.stderr);
            }
        }
    }
}

/// A recorder that was switched off leaves such a file: neither length is known.
#[test]
fn a_recording_without_a_length_is_heard() {
    let dir = Dir::new();
    dir.write_wav("a.wav", 2, 24_000, |sample, _| 0.5 * square(sample));
    let mut bytes = dir.read("a.wav");
    let length = bytes.windows(4).position(|w| w == b"data").expect("a sound") + 4;
    for at in [4, length] {
        bytes[at..at + 4].fill(0);
    }
    dir.write("b.wav", bytes);
    let encode = |name: &str| {
        dir.run(&["codec", "encode", name, "--model", "tiny", "-o", "-", "--format", "nac8"])
    };
    assert_eq!(encode("b.wav").succeeded().stdout, encode("a.wav").succeeded().stdout);
}
