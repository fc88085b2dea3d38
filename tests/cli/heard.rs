//! Input audio that is silent, quiet, clipped, short or has many channels: every command prints the
//! same messages.

use std::fs;

use crate::{DRAWS, Dir, Run};

/// Writes a WAV of floats at 48 kHz: `value` of sample and channel.
fn write(dir: &Dir, name: &str, channels: u16, samples: u32, value: fn(u32, u16) -> f32) {
    let spec = hound::WavSpec {
        channels,
        sample_rate: 48_000,
        bits_per_sample: 32,
        sample_format: hound::SampleFormat::Float,
    };
    let mut file = hound::WavWriter::create(dir.path(name), spec).expect("a file");
    for sample in 0..samples {
        for channel in 0..channels {
            file.write_sample(value(sample, channel)).expect("a sample");
        }
    }
    file.finalize().expect("a file");
}

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
    write(&dir, "silent.wav", 2, 24_000, |_, _| 0.0);
    write(&dir, "short.wav", 2, 480, |sample, _| 0.5 * square(sample));
    write(
        &dir,
        "centre.wav",
        6,
        24_000,
        |sample, channel| {
            if channel == 2 { 0.5 * square(sample) } else { 0.0 }
        },
    );
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
    write(&dir, "quiet.wav", 2, 24_000, |sample, _| 1e-4 * square(sample));
    write(&dir, "clipped.wav", 2, 24_000, |sample, _| square(sample));
    write(&dir, "above.wav", 2, 24_000, |sample, _| 1.5 * square(sample));
    write(&dir, "six.wav", 6, 24_000, |sample, _| 0.5 * square(sample));
    write(&dir, "slow.wav", 2, 24_000, |sample, _| 0.5 * square(sample));
    let mut slow = dir.read("slow.wav");
    // The samples and the bytes of a second.
    slow[24..28].copy_from_slice(&44_100u32.to_le_bytes());
    slow[28..32].copy_from_slice(&352_800u32.to_le_bytes());
    dir.write("slow.wav", slow);
    for (song, text) in [
        ("quiet.wav", "quiet.wav` is very quiet: its peak is at -80 dB"),
        ("clipped.wav", "clipped.wav` is clipped: 100.0 % of its samples lie at full scale"),
        ("above.wav", "above.wav` has 48000 samples above full scale: they are clipped"),
        ("six.wav", "six.wav` has 6 channels: the first two are read"),
        ("slow.wav", "slow.wav` has 44100 Hz: it is resampled to 48000 Hz"),
    ] {
        for run in doors(&dir, song) {
            run.succeeded().says(text);
        }
    }
}

/// A recorder that was switched off leaves such a file: neither length is known.
#[test]
fn a_recording_without_a_length_is_heard() {
    let dir = Dir::new();
    write(&dir, "a.wav", 2, 24_000, |sample, _| 0.5 * square(sample));
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
