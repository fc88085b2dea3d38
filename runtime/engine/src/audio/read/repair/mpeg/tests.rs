use crate::audio::read::{
    Problem,
    tests::{bytes_of, noticed, problem},
};

fn mp3() -> Vec<u8> {
    bytes_of("sine.mp3")
}

/// The position of the fixture's tag.
fn tag(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|w| w == b"Xing" || w == b"Info").expect("a tag")
}

/// A frame of silence: MPEG 1, layer 3, 128 kbit/s.
fn silent(rates: u8, mode: u8, size: usize) -> Vec<u8> {
    let mut frame = vec![0xff, 0xfb, rates, mode];
    frame.resize(size, 0);
    frame
}

fn mono(count: usize) -> Vec<u8> {
    silent(0x90, 0xc0, 417).repeat(count)
}

#[test]
fn a_count_of_frames_is_believed_as_far_as_the_file_agrees() {
    let whole = noticed("a.mp3", &mp3()).0;
    for said in [0u32, 1, 5] {
        let mut bytes = mp3();
        let place = tag(&bytes) + 8;
        bytes[place..place + 4].copy_from_slice(&said.to_be_bytes());
        let (audio, notices) = noticed("a.mp3", &bytes);
        // Then the padding of the last frame is unknown.
        let more = audio.samples() - whole.samples();
        assert!(more < 2 * 1152, "{said}: {more}");
        // The start is equal, because LAME's tag states the delay and its checksum is right.
        assert_eq!(audio.channels[1][..9_000], whole.channels[1][..9_000], "{said}");
        assert_eq!(notices.len(), usize::from(said > 0), "{said}: {notices:?}");
        assert!(notices.iter().all(|of| of.contains("all of it is read")), "{notices:?}");
    }
}

/// Fraunhofer's tag instead of Xing's.
#[test]
fn another_tag_that_counts_no_frames_stops_no_sound() {
    let mut bytes = mp3();
    let start = tag(&bytes) - 36;
    bytes[start + 4..start + 62].fill(0);
    bytes[start + 36..start + 42].copy_from_slice(b"VBRI\0\x01");
    let (audio, notices) = noticed("a.mp3", &bytes);
    assert!(audio.samples() >= 13_230, "{}", audio.samples());
    assert_eq!(notices, [""; 0]);
}

#[test]
fn a_tag_before_the_sound_is_stepped_over_whatever_it_says_of_its_length() {
    let whole = noticed("a.mp3", &mp3());
    let tag = |version: u8, length: [u8; 4], body: &[u8]| {
        [&b"ID3"[..], &[version, 0, 0], &length, body, &mp3()].concat()
    };
    for (what, bytes) in [
        ("of its length", tag(4, [0, 0, 23, 56], &[0; 3_000])),
        ("past the end", tag(4, [127; 4], &[0; 20])),
        ("into the sound", tag(4, [0, 0, 8, 0], &[0; 20])),
        ("too short", tag(4, [0, 0, 0, 5], &[0; 2_000])),
        ("of another version", tag(9, [0, 0, 0, 20], &[0; 20])),
        (
            "with a frame that is too long",
            tag(3, [0, 0, 0, 20], b"TIT2\x7f\x7f\x7f\x7f\0\0abcdefghij"),
        ),
        ("two", tag(3, [0, 0, 0, 10], b"\0\0\0\0\0\0\0\0\0\0ID3\x03\0\0\0\0\0\0")),
        ("behind", [&mp3()[..], b"APETAGEX", &[255; 24], b"TAG", &[b'x'; 125]].concat()),
    ] {
        assert_eq!(noticed("a.mp3", &bytes), whole, "{what}");
    }
}

#[test]
fn what_begins_in_mono_and_goes_on_in_stereo_is_heard_and_said() {
    let (audio, notices) = noticed("a.mp3", &[mono(20), mp3()].concat());
    assert_eq!(audio.channels.len(), 2);
    let [notice] = &notices[..] else { panic!("{notices:?}") };
    let text = "is mono for 0.52 s and stereo after that: it is read as stereo";
    assert_eq!(notice, text);
    let (before, sound) = audio.channels[1].split_at(20 * 1152);
    assert!(before.iter().all(|x| x.abs() < 1e-6));
    let loudest = sound.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    assert!((loudest - 0.25).abs() < 0.02, "{loudest}");
    let (audio, notices) = noticed("a.mp3", &[mp3(), mono(20)].concat());
    assert_eq!(audio.channels.len(), 2);
    let is_said = |notice: &String| notice.contains("is stereo for 0.3");
    assert!(notices.iter().any(is_said), "{notices:?}");
}

#[test]
fn a_single_frame_of_another_form_is_damage() {
    let mut bytes = silent(0x90, 0, 417).repeat(30);
    bytes.extend(mono(1));
    bytes.extend(silent(0x90, 0, 417).repeat(30));
    let (audio, notices) = noticed("a.mp3", &bytes);
    assert_eq!((audio.samples(), audio.channels.len()), (61 * 1152, 2));
    let text = "has 1 packet of 61 that cannot be decoded: it is silent";
    assert_eq!(notices, [text]);
}

#[test]
fn a_change_of_the_rate_is_said_with_a_remedy() {
    let bytes = [silent(0x90, 0, 417).repeat(30), silent(0x94, 0, 384).repeat(30)].concat();
    let found = problem("a.mp3", &bytes);
    assert!(matches!(found, Problem::OtherRate { from: 44_100, to: 48_000, .. }), "{found}");
    let text = "its rate changes from 44100 Hz to 48000 Hz after 0.78 s";
    assert_eq!(found.to_string(), text);
    assert!(found.hint().contains("ffmpeg -i FILE sound.flac"));
}
