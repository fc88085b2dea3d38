//! Input audio that is silent, quiet, clipped, short or has many channels: every command prints the
//! same messages.

use std::fs;

use crate::{DRAWS, Place, Run};

/// Writes a WAV of floats at 48 kHz: `value` of sample and channel.
fn write(place: &Place, name: &str, channels: u16, samples: u32, value: fn(u32, u16) -> f32) {
    let spec = hound::WavSpec {
        channels,
        sample_rate: 48_000,
        bits_per_sample: 32,
        sample_format: hound::SampleFormat::Float,
    };
    let mut file = hound::WavWriter::create(place.path(name), spec).expect("a file");
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
fn doors(place: &Place, song: &str) -> [Run; 5] {
    let tiny = ["--model", "tiny", "--seed", "1"];
    let understand = [&["understand", song], &tiny[..], &DRAWS].concat();
    let encode = ["codec", "encode", song, "--model", "tiny", "-o", "out.vae", "--force"];
    let generate = |more: &[&str]| {
        let common = ["generate", "rain", "-o", "out.wav", "--force"];
        place.run(&[&common[..], &tiny, more].concat())
    };
    let folder = place.path("songs");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a folder");
    fs::copy(place.path(song), folder.join(song)).expect("a copy");
    let learn = ["train", "lora", "songs", "--model", "tiny", "--epochs", "1", "--force"];
    [
        place.run(&understand),
        place.run(&encode),
        generate(&["--task", "cover", "--src-audio", song]),
        generate(&["--duration", "1", "--reference-audio", song]),
        place.run(&[&learn[..], &["--caption", "rain"]].concat()),
    ]
}

#[test]
fn what_cannot_be_heard_is_refused_at_every_door() {
    let place = Place::new();
    write(&place, "silent.wav", 2, 24_000, |_, _| 0.0);
    write(&place, "short.wav", 2, 480, |sample, _| 0.5 * square(sample));
    write(
        &place,
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
        for run in doors(&place, song) {
            run.failed(1).says("error: cannot listen to `").says(text);
        }
    }
}

#[test]
fn what_is_heard_otherwise_is_said_at_every_door() {
    let place = Place::new();
    write(&place, "quiet.wav", 2, 24_000, |sample, _| 1e-4 * square(sample));
    write(&place, "clipped.wav", 2, 24_000, |sample, _| square(sample));
    write(&place, "above.wav", 2, 24_000, |sample, _| 1.5 * square(sample));
    write(&place, "six.wav", 6, 24_000, |sample, _| 0.5 * square(sample));
    write(&place, "slow.wav", 2, 24_000, |sample, _| 0.5 * square(sample));
    let mut slow = place.read("slow.wav");
    // The samples and the bytes of a second.
    slow[24..28].copy_from_slice(&44_100u32.to_le_bytes());
    slow[28..32].copy_from_slice(&352_800u32.to_le_bytes());
    place.write("slow.wav", slow);
    for (song, text) in [
        ("quiet.wav", "quiet.wav` is very quiet: its peak is at -80 dB"),
        ("clipped.wav", "clipped.wav` is clipped: 100.0 % of its samples lie at full scale"),
        ("above.wav", "above.wav` has 48000 samples above full scale: they are clipped"),
        ("six.wav", "six.wav` has 6 channels: the first two are read"),
        ("slow.wav", "slow.wav` has 44100 Hz: it is resampled to 48000 Hz"),
    ] {
        for run in doors(&place, song) {
            run.succeeded().says(text);
        }
    }
}

/// A recorder that was switched off leaves such a file: neither length is known.
#[test]
fn a_recording_without_a_length_is_heard() {
    let place = Place::new();
    write(&place, "a.wav", 2, 24_000, |sample, _| 0.5 * square(sample));
    let mut bytes = place.read("a.wav");
    let length = bytes.windows(4).position(|w| w == b"data").expect("a sound") + 4;
    for place in [4, length] {
        bytes[place..place + 4].fill(0);
    }
    place.write("b.wav", bytes);
    let encode = |name: &str| {
        place.run(&["codec", "encode", name, "--model", "tiny", "-o", "-", "--format", "nac8"])
    };
    assert_eq!(encode("b.wav").succeeded().stdout, encode("a.wav").succeeded().stdout);
}
