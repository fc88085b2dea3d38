//! FLACs of three seconds with changed bytes: 33 packets of 4096 samples, the last one shorter.

use std::f64::consts::TAU;

use super::{
    decoded::Decoded,
    tests::{noticed, problem},
    *,
};
use crate::{Unobserved, audio::flac};

const RATE: u32 = 44_100;
pub(super) const SAMPLES: usize = 132_300;
pub(super) const BLOCK: usize = 4096;
/// The number of samples in the header. The first four bits belong to the field before it.
const TOTAL: std::ops::Range<usize> = 21..26;
/// The checksum of all samples in the header.
const CHECKSUM: std::ops::Range<usize> = 26..42;

fn song() -> Audio {
    let channel = |hertz: f64| {
        let sample = |i: usize| (0.5 * (TAU * hertz * i as f64 / f64::from(RATE)).sin()) as f32;
        (0..SAMPLES).map(sample).collect()
    };
    Audio { channels: vec![channel(441.0), channel(833.0)], sample_rate: RATE }
}

pub(super) fn whole() -> Vec<u8> {
    flac::to_bytes(&song(), 16, &Unobserved).expect("a FLAC")
}

/// Without a number of samples and a checksum, as ffmpeg writes to a pipe.
fn of_a_pipe() -> Vec<u8> {
    let mut bytes = whole();
    bytes[TOTAL.start] &= 0xf0;
    bytes[TOTAL.start + 1..CHECKSUM.end].fill(0);
    bytes
}

fn decoded(bytes: &[u8]) -> (Audio, Vec<String>) {
    noticed("a.flac", bytes)
}

/// `whole` with silence in the packets of `damaged`.
fn silent_in(mut whole: Audio, damaged: std::ops::Range<usize>) -> Audio {
    for channel in &mut whole.channels {
        channel[damaged.start * BLOCK..damaged.end * BLOCK].fill(0.0);
    }
    whole
}

#[test]
fn a_damaged_packet_is_silent_and_what_follows_stays_where_it_was() {
    let (ideal, notices) = decoded(&whole());
    assert_eq!((ideal.samples(), notices.len()), (SAMPLES, 0));
    for (place, packet) in [(0.5, None), (0.0, Some(0))] {
        let mut bytes = whole();
        // After the stream's header and the first packet's header.
        let at = 42 + 600 + ((bytes.len() - 42) as f64 * place) as usize;
        bytes[at] ^= 0x55;
        let (audio, notices) = decoded(&bytes);
        assert_eq!(notices, ["has 1 packet of 33 that cannot be decoded: it is silent"]);
        let is_silent = |i: &usize| audio.channels[0][i * BLOCK + 1..][..BLOCK / 2] == [0.0; 2048];
        let first = (0..32).find(is_silent).expect("a silent packet");
        assert!(packet.is_none_or(|packet| packet == first), "{first}");
        assert_eq!(audio, silent_in(ideal.clone(), first..first + 1));
    }
}

/// Two of 33 packets are more than one in twenty.
#[test]
fn more_damaged_packets_are_an_error() {
    let mut bytes = whole();
    let length = bytes.len();
    for at in [length / 3, length * 2 / 3] {
        bytes[at] ^= 0x55;
    }
    let text = "it is damaged: 2 of its 33 packets cannot be decoded";
    assert_eq!(problem("a.flac", &bytes).to_string(), text);
}

#[test]
fn a_last_packet_that_is_missing_is_an_error() {
    let mut bytes = whole();
    let length = bytes.len();
    bytes[length - 20] ^= 0x55;
    let found = problem("a.flac", &bytes);
    let Problem::CutShort { seconds } = found else { panic!("{found}") };
    assert!((seconds - (32 * BLOCK) as f64 / f64::from(RATE)).abs() < 1e-9, "{seconds}");
}

/// Every packet has its own checksum, so the checksum in the header must be wrong.
#[test]
fn other_samples_than_those_of_the_checksum_are_said() {
    let mut bytes = whole();
    bytes[CHECKSUM.start] ^= 1;
    let (audio, notices) = decoded(&bytes);
    assert_eq!(audio, decoded(&whole()).0);
    let text = "has other samples than its checksum is of, but each of its packets is whole";
    assert_eq!(notices, [text]);
}

#[test]
fn a_flac_without_a_length_ends_with_a_whole_packet() {
    let bytes = of_a_pipe();
    let (audio, notices) = decoded(&bytes);
    assert_eq!((&audio, notices.len()), (&decoded(&whole()).0, 0));
    let found = problem("a.flac", &bytes[..bytes.len() / 2]);
    let Problem::CutShort { seconds } = found else { panic!("{found}") };
    assert!((1.0..2.0).contains(&seconds), "{seconds}");
}

/// Packets are numbered from the beginning of the longer stream.
#[test]
fn what_was_cut_out_of_a_longer_stream_begins_without_silence() {
    let bytes = of_a_pipe();
    let start = bytes.windows(2).position(|w| w == [0xff, 0xf8]).expect("a packet");
    let is_second =
        |at: &usize| bytes[*at..at + 3] == bytes[start..start + 3] && bytes[at + 4] == 1;
    let second = (start + 5..bytes.len() - 4).find(is_second).expect("a second packet");
    let (audio, notices) = decoded(&[&bytes[..start], &bytes[second..]].concat());
    assert_eq!(audio.samples(), SAMPLES - BLOCK);
    let said = [notices.len(), usize::from(notices[0].contains("after the start of its stream"))];
    assert_eq!(said, [1, 1], "{notices:?}");
}

#[test]
fn a_tag_behind_a_flac_is_no_sound_of_it() {
    let mut bytes = whole();
    bytes.extend(b"TAG");
    bytes.extend([b'x'; 125]);
    let (audio, notices) = decoded(&bytes);
    assert_eq!((audio.samples(), notices.len()), (SAMPLES, 0));
}

#[test]
fn what_is_said_counts_the_damaged() {
    let decoded = |packets, damaged| {
        let mut decoded = Decoded::new(2, super::MOST_SAMPLES);
        (decoded.packets, decoded.damaged) = (packets, damaged);
        decoded.check()
    };
    assert_eq!(decoded(100, 0), Ok(vec![]));
    let text = "has 5 packets of 100 that cannot be decoded: they are silent";
    assert_eq!(decoded(100, 5), Ok(vec![text.to_owned()]));
    assert_eq!(
        decoded(100, 6),
        Err(Problem::Damaged("6 of its 100 packets cannot be decoded".into()))
    );
}
