use super::*;
use crate::audio::read::{
    damage::{BLOCK, SAMPLES, whole},
    tests::{noticed, problem},
};

/// The STREAMINFO block and the frames.
fn parts() -> (Vec<u8>, Vec<u8>) {
    let bytes = whole();
    let (_, frames) = blocks(&mut Bytes::of(&bytes), &(0..bytes.len() as u64)).expect("in memory");
    (bytes[8..8 + STREAM].to_vec(), bytes[frames.expect("frames") as usize..].to_vec())
}

fn block(kind: u8, length: u32, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &length.to_be_bytes()[1..], body].concat()
}

fn stream_of(samples: u64) -> Vec<u8> {
    let (mut stream, _) = parts();
    stream[13] = stream[13] & 0xf0 | (samples >> 32) as u8;
    stream[14..18].copy_from_slice(&(samples as u32).to_be_bytes());
    stream
}

fn flac(blocks: &[Vec<u8>], frames: &[u8]) -> Vec<u8> {
    [b"fLaC", &blocks.concat()[..], frames].concat()
}

fn starts(frames: &[u8]) -> Vec<usize> {
    let is_start = |&at: &usize| Frame::of(&frames[at..]).is_some();
    (0..frames.len()).filter(is_start).collect()
}

#[test]
fn blocks_beside_the_description_may_say_anything() {
    let (stream, frames) = parts();
    let whole = noticed("a.flac", &flac(&[block(0x80, 34, &stream)], &frames));
    assert_eq!((whole.0.samples(), whole.1.len()), (SAMPLES, 0));
    for (what, other) in [
        ("comments of a vendor that is too long", block(0x84, 7, b"\xff\xff\xff\x7fabc")),
        ("too few comments", block(0x84, 12, b"\x03\0\0\0abc\xff\xff\xff\xff ")),
        ("cut comments", block(0x84, 2, b"\x01\0")),
        ("a picture that is too long", block(0x86, 11, b"\0\0\0\x03\x7f\xff\xff\xffabc")),
        ("a block that is too long", block(0x86, 0xff_ffff, b"abc")),
        ("a block that is too short", block(0x86, 0, &[7; 150])),
        ("a table that is cut", block(0x83, 7, &[0; 7])),
        ("two tables", [block(3, 18, &[0; 18]), block(0x83, 18, &[0; 18])].concat()),
        ("cue points that are cut", block(0x85, 7, &[0; 7])),
        ("an application without a name", block(0x82, 0, b"")),
        ("a block of no kind", block(0xff, 4, b"abcd")),
        ("none that says it is the last", block(1, 4, &[0; 4])),
    ] {
        let bytes = flac(&[block(0, 34, &stream), other], &frames);
        assert_eq!(noticed("a.flac", &bytes), whole, "{what}");
    }
    let mut bytes = flac(&[block(0x80, 34, &stream)], &frames);
    bytes.extend([b"APETAGEX\xd0\x07\0\0\x20\0\0\0\x01\0\0\0".as_slice(), &[0; 12]].concat());
    assert_eq!(noticed("a.flac", &bytes), whole, "a tag behind");
}

/// Every frame also states its block size, rate, channels and bits.
#[test]
fn a_description_that_its_frames_contradict_is_mended() {
    let (stream, frames) = parts();
    let whole = noticed("a.flac", &flac(&[block(0x80, 34, &stream)], &frames)).0;
    for range in [0..4, 4..10, 10..12, 0..13] {
        for byte in [0, 0xff] {
            let mut stream = stream.clone();
            stream[range.clone()].fill(byte);
            let bytes = flac(&[block(0x80, 34, &stream)], &frames);
            assert_eq!(noticed("a.flac", &bytes).0, whole, "{range:?} {byte}");
        }
    }
    assert_eq!(noticed("a.flac", &flac(&[], &frames)).0, whole);
}

#[test]
fn a_length_is_believed_as_far_as_the_file_agrees() {
    let (stream, frames) = parts();
    let whole = noticed("a.flac", &flac(&[block(0x80, 34, &stream)], &frames)).0;
    for (samples, text) in [
        (0, None),
        (44_100, Some("says that it is 1.00 s long, but goes on to 3.00 s: all of it is read")),
        (441_000, Some("says that it is 10.00 s long, but ends after 3.00 s")),
        ((1 << 36) - 1, Some("says that it is 1558264.78 s long, but ends after 3.00 s")),
    ] {
        let bytes = flac(&[block(0x80, 34, &stream_of(samples))], &frames);
        let (audio, notices) = noticed("a.flac", &bytes);
        assert_eq!(audio, whole, "{samples}");
        assert_eq!(notices.first().map(String::as_str), text);
    }
}

/// As `ffmpeg -ss 1 -t 1 -c copy` cuts: STREAMINFO still describes the whole stream.
#[test]
fn a_piece_of_a_longer_stream_is_heard_and_said() {
    let (stream, frames) = parts();
    let whole = noticed("a.flac", &flac(&[block(0x80, 34, &stream)], &frames)).0;
    let starts = starts(&frames);
    assert_eq!(starts.len(), 33);
    let piece = |from: usize, to: usize| {
        noticed("a.flac", &flac(&[block(0x80, 34, &stream)], &frames[starts[from]..starts[to]]))
    };
    let (audio, notices) = piece(11, 22);
    for (audio, whole) in audio.channels.iter().zip(&whole.channels) {
        assert_eq!(audio[..], whole[11 * BLOCK..22 * BLOCK]);
    }
    let texts = [
        "begins 1.02 s after the start of its stream: what was before is not there",
        "says that it is 3.00 s long, but ends after 2.04 s",
    ];
    assert_eq!(notices, texts);
    assert_eq!(piece(0, 22).1, texts[1..]);
    // An incomplete copy ends within a frame.
    let cut = &frames[..starts[22] + 100];
    let found = problem("a.flac", &flac(&[block(0x80, 34, &stream)], cut));
    assert!(matches!(found, Problem::CutShort { .. }), "{found}");
}
