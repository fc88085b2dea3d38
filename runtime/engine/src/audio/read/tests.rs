use std::{
    cell::Cell,
    f64::consts::TAU,
    fs,
    path::{Path, PathBuf},
};

use super::*;
use crate::{CancelIf, Unobserved, audio::wav::to_bytes};

/// A file with two sines of 0.3 s at 44.1 kHz: 441 Hz at 0.5 left, 882 Hz at 0.25 right.
fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/sound")).join(name)
}

/// The bytes of a [`fixture`].
pub(super) fn bytes_of(name: &str) -> Vec<u8> {
    fs::read(fixture(name)).expect("a fixture")
}

const RATE: u32 = 44_100;
const SAMPLES: usize = 13_230;

fn sine(channel: usize, index: f64) -> f32 {
    let (height, hertz) = [(0.5, 441.0), (0.25, 882.0)][channel];
    (height * (TAU * hertz * index / f64::from(RATE)).sin()) as f32
}

fn ideal() -> Audio {
    let channel = |c| (0..SAMPLES).map(|i| sine(c, i as f64)).collect();
    Audio { channels: vec![channel(0), channel(1)], sample_rate: RATE }
}

/// The root mean square of the difference from the sines delayed by `late` samples, from 0.05 to
/// 0.25 s.
fn difference(audio: &Audio, late: f64) -> f32 {
    let middle = RATE as usize / 20..RATE as usize / 4;
    let square = |c: usize, i: usize| (audio.channels[c][i] - sine(c, i as f64 - late)).powi(2);
    let sum: f32 = middle.clone().map(|i| square(0, i) + square(1, i)).sum();
    (sum / (2 * middle.len()) as f32).sqrt()
}

/// Writes `bytes` to a file, which exists as long as the folder.
fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("written");
    (folder, path)
}

fn wav(audio: &Audio, bits: u16) -> Vec<u8> {
    to_bytes(audio, bits, &Unobserved).expect("a WAV file")
}

pub(super) fn problem(name: &str, bytes: &[u8]) -> Problem {
    let (_folder, path) = file(name, bytes);
    match read(&path, &Unobserved) {
        Err(Error::Unheard { path: named, problem }) => {
            assert_eq!(named, path);
            problem
        }
        other => panic!("{name}: {other:?}"),
    }
}

/// The sound and the notices without the file's name.
pub(super) fn noticed(name: &str, bytes: &[u8]) -> (Audio, Vec<String>) {
    let (_folder, path) = file(name, bytes);
    let (audio, notices) = read(&path, &Unobserved).expect("a sound");
    let name = format!("`{}` ", path.display());
    let texts = notices.iter().map(|n| n.0.strip_prefix(&name).expect("its name").to_owned());
    (audio, texts.collect())
}

#[test]
fn every_format_is_heard() {
    // Half a quantisation step of 16 bits is 1.5e-5; the other two formats are lossy.
    for (name, noise, late) in
        [("sine.flac", 1e-5, 0.0), ("sine.ogg", 3e-3, 0.0), ("sine.mp3", 3e-3, 0.0)]
    {
        let (audio, notices) = read(&fixture(name), &Unobserved).expect("a sound");
        assert_eq!(notices, [], "{name}");
        assert_eq!((audio.sample_rate, audio.channels.len()), (RATE, 2), "{name}");
        assert_eq!(audio.samples(), SAMPLES, "{name}");
        let difference = difference(&audio, late);
        assert!(difference < noise, "{name}: {difference}");
    }
}

#[test]
fn an_m4a_begins_with_the_delay_of_its_encoder() {
    let (audio, notices) = noticed("a.m4a", &bytes_of("sine.m4a"));
    let text =
        "is AAC: it begins some 20 to 50 ms late, with what its encoder put before the sound";
    assert_eq!(notices, [text]);
    assert!((SAMPLES..SAMPLES + 3 * 1024).contains(&audio.samples()), "{}", audio.samples());
    let difference = difference(&audio, 1024.0);
    assert!(difference < 2e-2, "{difference}");
    // The sines repeat every 200 samples; this checks where they begin.
    let loudest = |range: std::ops::Range<usize>| {
        audio.channels[0][range].iter().fold(0.0f32, |most, x| most.max(x.abs()))
    };
    assert!(loudest(0..924) < 0.05, "{}", loudest(0..924));
    assert!(loudest(1024..1124) > 0.4, "{}", loudest(1024..1124));
}

#[test]
fn channels_beyond_the_second_are_not_read() {
    let channels = (0..6).map(|i| vec![i as f32 / 8.0; 10]).collect();
    let six = Audio { channels, sample_rate: 48_000 };
    let (audio, notices) = noticed("six.wav", &wav(&six, 32));
    assert_eq!(notices, ["has 6 channels: the first two are read"]);
    assert_eq!(audio.channels, [[0.0; 10], [0.125; 10]]);
    let one = Audio { channels: vec![vec![0.5; 10]], sample_rate: 8_000 };
    let (audio, _) = noticed("one.wav", &wav(&one, 16));
    assert_eq!(audio, one);
}

#[test]
fn a_sound_of_too_many_samples_is_refused_by_its_rate_and_its_channels() {
    assert_eq!(MOST_SAMPLES, 230_400_000);
    let within = |(channels, sample_rate): (usize, u32), most: usize| {
        let audio = Audio { channels: vec![vec![0.25; 6000]; channels], sample_rate };
        let bytes = wav(&audio, 16);
        let (_folder, path) = file("a.wav", &bytes);
        match read_within(&path, (Use::Song, most), &Unobserved) {
            Ok((audio, ..)) => Ok(audio.samples()),
            Err(Error::Unheard { problem, .. }) => Err(problem.to_string()),
            Err(other) => panic!("{other}"),
        }
    };
    // Channels that are not kept are decoded too.
    assert_eq!(within((8, 1000), 48_000), Ok(6000));
    let why = "it has 8 channels of 1000 samples a second: at most 6 s of that are read";
    assert_eq!(within((8, 1000), 47_999), Err(why.into()));
    let why = "it has 1 channel of 768000 samples a second: at most 0 s of that are read";
    assert_eq!(within((1, 768_000), 5_999), Err(why.into()));
    // What is behind ten minutes is not read, so it does not count.
    let long = Audio { channels: vec![vec![0.25; 600_100]], sample_rate: 1000 };
    let (_folder, path) = file("a.wav", &wav(&long, 16));
    let read = read_within(&path, (Use::Song, 600_000), &Unobserved);
    assert_eq!(read.expect("a sound").0.samples(), 600_000);
}

#[test]
fn songs_and_recordings_are_cancelled_while_they_are_decoded() {
    for read in [song, recording] {
        for name in ["sine.flac", "sine.ogg", "sine.mp3"] {
            let checks = Cell::new(0);
            let cancel = CancelIf(|| checks.replace(checks.get() + 1) == 2);
            let error = read(&fixture(name), 0.0, RATE, &cancel).expect_err(name);
            assert!(matches!(error, Error::Cancelled), "{name}: {error}");
        }
    }
}

#[test]
fn a_file_that_is_cut_is_an_error() {
    for name in ["sine.flac", "sine.ogg", "sine.m4a"] {
        let bytes = bytes_of(name);
        let found = problem(name, &bytes[..bytes.len() * 3 / 4]);
        let Problem::CutShort { seconds } = found else { panic!("{name}: {found}") };
        assert!(seconds < 0.3, "{name}: {seconds}");
        assert!(found.hint().contains("download it again"));
    }
}

#[test]
fn an_mp3_that_is_cut_is_heard_and_said() {
    let whole = bytes_of("sine.mp3");
    for (length, lacks, end) in [
        (whole.len() / 2, SAMPLES / 2 - 1999..SAMPLES - 1999, "0."),
        // The last three frames are cut off; some of their samples are the encoder's padding.
        (2_891, 2 * 1152..3 * 1152, "0.2"),
    ] {
        let (audio, notices) = noticed("cut.mp3", &whole[..length]);
        assert!(lacks.contains(&(SAMPLES - audio.samples())), "{}", audio.samples());
        let [notice] = &notices[..] else { panic!("{notices:?}") };
        let text = format!("says that it is 0.30 s long, but ends after {end}");
        assert!(notice.starts_with(&text), "{notice}");
    }
}

/// The tag of the second file is not decoded as sound, but its encoder delay is.
#[test]
fn two_joined_mp3s_are_both_heard_and_that_is_said() {
    let one = bytes_of("sine.mp3");
    let (audio, notices) = noticed("two.mp3", &[&one[..], &one].concat());
    let first = noticed("one.mp3", &one).0;
    assert_eq!(audio.channels[0][..SAMPLES - 1200], first.channels[0][..SAMPLES - 1200]);
    assert!((2 * SAMPLES..2 * SAMPLES + 4000).contains(&audio.samples()), "{}", audio.samples());
    let [notice] = &notices[..] else { panic!("{notices:?}") };
    let text = "says that it is 0.34 s long, but goes on to 0.68 s: all of it is read";
    assert_eq!(notice, text);
}

/// The header says AAC Main instead of LC.
#[test]
fn another_aac_is_named() {
    let mut bytes = bytes_of("sine.m4a");
    // The decoder's configuration: LC, 44.1 kHz, two channels, no SBR.
    let place = bytes.windows(4).position(|w| w == [0x12, 0x10, 0x56, 0xe5]);
    bytes[place.expect("a description")] = 0x0a;
    let text = "its sound is AAC other than LC with one or two channels, which this program does not \
                decode";
    assert_eq!(problem("main.m4a", &bytes).to_string(), text);
}

#[test]
fn samples_above_full_scale_are_counted() {
    let channels = vec![vec![0.5, 1.0, 1.5], vec![-1.25, -1.0, 2.0]];
    let loud = Audio { channels, sample_rate: 48_000 };
    let (audio, notices) = noticed("loud.wav", &wav(&loud, 32));
    assert_eq!(audio, loud);
    let text = "has 3 samples above full scale: they are clipped, as upstream does";
    assert_eq!(notices, [text]);
}

#[test]
fn what_is_no_sound_is_told_apart() {
    assert_eq!(problem("empty.mp3", b""), Problem::Empty);
    assert_eq!(problem("text.wav", b"this is no sound"), Problem::Unknown);
    assert_eq!(problem("long.txt", &b"lorem ipsum ".repeat(20_000)), Problem::Unknown);
    assert_eq!(problem("zeros.mp3", &[0; 100_000]), Problem::Unknown);
    let silence = Audio { channels: vec![vec![]], sample_rate: 48_000 };
    assert_eq!(problem("nothing.wav", &wav(&silence, 16)), Problem::Empty);
}

#[cfg(not(feature = "opus"))]
#[test]
fn opus_is_named_with_the_feature_that_reads_it() {
    assert_eq!(problem("a.opus", &bytes_of("sine.opus")), Problem::NotBuiltIn);
    let error = Error::Unheard { path: "a.opus".into(), problem: Problem::NotBuiltIn };
    assert_eq!(
        error.to_string(),
        "cannot listen to `a.opus`: its sound is Opus, which this program was built without"
    );
    assert!(error.hint().expect("a hint").contains("--features opus"));
}

/// Opus always decodes to 48 kHz.
#[cfg(feature = "opus")]
#[test]
fn opus_is_heard_at_its_own_rate() {
    let (audio, notices) = read(&fixture("sine.opus"), &Unobserved).expect("a sound");
    assert_eq!(notices, []);
    assert_eq!((audio.sample_rate, audio.channels.len()), (48_000, 2));
    assert_eq!(audio.samples(), 4_800);
    let ideal =
        super::super::resample::to_stereo(&ideal(), 48_000, &crate::Unobserved).expect("sound");
    let middle = 1_200..3_600;
    for (channel, ideal) in audio.channels.iter().zip(&ideal.channels) {
        // Low frequencies are coded at a lower rate and are shifted by some samples.
        let off = |place: usize| {
            let pairs = channel[middle.clone()].iter().zip(&ideal[place..]);
            let square: f32 = pairs.map(|(a, b)| (a - b).powi(2)).sum();
            (square / middle.len() as f32).sqrt()
        };
        let near = middle.start - 9..middle.start + 9;
        let nearest = near.map(off).fold(f32::INFINITY, f32::min);
        assert!(nearest < 2e-2, "{nearest}");
    }
}

/// Replaces each of the first 48 bytes with small, large and middle values.
#[test]
fn any_byte_of_a_header_may_be_another() {
    for name in ["a.wav", "sine.flac", "sine.ogg", "sine.mp3", "sine.m4a"] {
        let whole = match name {
            "a.wav" => wav(&ideal(), 16),
            _ => bytes_of(name),
        };
        let (folder, path) = file(name, &[]);
        for place in 0..48 {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[place] = byte;
                fs::write(&path, &bytes).expect("written");
                if let Ok((audio, _)) = read(&path, &Unobserved) {
                    assert!(audio.seconds() < 60.0, "{name}: {place} {byte}");
                    assert!(audio.channels.iter().flatten().all(|x| x.is_finite()));
                }
            }
        }
        drop(folder);
    }
}

#[test]
fn a_folder_and_a_file_that_is_not_there_are_errors_of_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, hint) in [
        (folder.path().to_owned(), "name a file in it"),
        (folder.path().join("x"), "check the path"),
    ] {
        let error = read(&path, &Unobserved).expect_err("no file");
        assert!(matches!(error, Error::File { action: Action::Read, .. }), "{error:?}");
        assert_eq!(error.hint().as_deref(), Some(hint));
    }
}

#[test]
fn a_rate_that_no_sound_has_is_damage() {
    let mut bytes = wav(&ideal(), 16);
    for rate in [0u32, 999, 768_001, u32::MAX] {
        bytes[24..28].copy_from_slice(&rate.to_le_bytes());
        let found = problem("a.wav", &bytes);
        assert!(matches!(found, Problem::Damaged(_) | Problem::Unknown), "{rate}: {found:?}");
    }
    bytes[24..28].copy_from_slice(&768_000u32.to_le_bytes());
    assert_eq!(noticed("a.wav", &bytes).0.sample_rate, 768_000);
}

#[test]
fn samples_that_are_nan_are_damage() {
    let mut audio = ideal();
    audio.channels[1][5] = f32::NAN;
    let text = "it gave 1 value that is not finite, the first at 5";
    assert_eq!(problem("nan.wav", &wav(&audio, 32)), Problem::Damaged(text.into()));
}

#[test]
fn of_a_long_file_ten_minutes_are_read() {
    let long = |samples| Audio { channels: vec![vec![0.25; samples]], sample_rate: 1_000 };
    let (audio, notices) = noticed("ten.wav", &wav(&long(600_000), 16));
    assert_eq!((audio.samples(), notices.len()), (600_000, 0));
    let (audio, notices) = noticed("more.wav", &wav(&long(605_000), 16));
    assert_eq!(audio.samples(), 600_000);
    assert_eq!(notices, ["is long: its first 600 s of 605 s are read"]);
}

/// Flips one bit in every n-th byte, for many n: nothing may panic or run forever.
#[test]
fn damage_anywhere_is_an_error_or_a_notice() {
    for name in ["sine.flac", "sine.ogg", "sine.mp3", "sine.m4a"] {
        let whole = bytes_of(name);
        let (folder, path) = file(name, &[]);
        for start in 0..60 {
            let mut bytes = whole.clone();
            for byte in bytes.iter_mut().skip(start).step_by(61 + 7 * start) {
                *byte ^= 1 << (start % 8);
            }
            fs::write(&path, &bytes).expect("written");
            if let Ok((audio, _)) = read(&path, &Unobserved) {
                assert!(audio.seconds() < 5.0, "{name}: {start}");
                assert!(audio.channels.iter().flatten().all(|x| x.is_finite()));
            }
        }
        drop(folder);
    }
}
