use crate::audio::read::tests::{bytes_of, noticed, problem};

const RATE: u32 = 8_000;

/// Half a second of a 16-bit mono sawtooth.
fn sound() -> Vec<u8> {
    (0..4_000i32).flat_map(|i| ((i * 37 % 20_000 - 10_000) as i16).to_le_bytes()).collect()
}

fn format() -> Vec<u8> {
    let mut format = [1u16, 1].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
    format.extend([RATE, 2 * RATE].iter().flat_map(|x| x.to_le_bytes()));
    format.extend([2u16, 16].iter().flat_map(|x| x.to_le_bytes()));
    format
}

fn chunk(name: &[u8], length: u32, body: &[u8]) -> Vec<u8> {
    [name, &length.to_le_bytes(), body].concat()
}

fn filled(name: &[u8], body: &[u8]) -> Vec<u8> {
    chunk(name, body.len() as u32, body)
}

fn riff(length: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    [&b"RIFF"[..], &length.to_le_bytes(), b"WAVE", &chunks.concat()].concat()
}

/// Asserts that the file decodes to [`sound`] without a notice.
fn is_whole(what: &str, bytes: &[u8]) {
    let (audio, notices) = noticed("a.wav", bytes);
    assert_eq!((audio.samples(), audio.sample_rate), (4_000, RATE), "{what}");
    assert_eq!(notices, [""; 0], "{what}");
    let sound = sound();
    let wanted = sound.chunks(2).map(|x| f32::from(i16::from_le_bytes([x[0], x[1]])) / 32_768.0);
    assert!(audio.channels[0].iter().copied().eq(wanted), "{what}");
}

#[test]
fn a_length_is_believed_as_far_as_the_file_agrees() {
    let of = |all: u32, length: u32| {
        riff(all, &[filled(b"fmt ", &format()), chunk(b"data", length, &sound())])
    };
    for all in [0, 50, 8_036, 9_000, u32::MAX] {
        for length in [0, 8_000, 0x7fff_0000, 0x7fff_fff0, u32::MAX] {
            is_whole(&format!("{all} {length}"), &of(all, length));
        }
    }
    let said = |length, text: &str| {
        let (audio, notices) = noticed("a.wav", &of(8_036, length));
        assert_eq!(audio.samples(), 4_000);
        assert_eq!(notices, [text]);
    };
    said(16_000, "says that it is 1.00 s long, but ends after 0.50 s");
    said(1_600, "says that it is 0.10 s long, but goes on to 0.50 s: all of it is read");
}

#[test]
fn chunks_behind_a_sound_of_unknown_length_are_no_sound() {
    for length in [0, 8_000, u32::MAX] {
        let behind = filled(b"LIST", b"INFOISFT\x04\0\0\0Lavf");
        let sound = chunk(b"data", length, &sound());
        let bytes = riff(0, &[filled(b"fmt ", &format()), sound, behind]);
        is_whole(&format!("{length}"), &bytes);
    }
    // Two sound chunks are joined.
    let (first, second) = (sound()[..3_000].to_vec(), sound()[3_000..].to_vec());
    let sounds = [filled(b"data", &first), filled(b"data", &second)];
    is_whole("two", &riff(0, &[&[filled(b"fmt ", &format())][..], &sounds].concat()));
    // A sound of length 0 before other chunks is empty.
    let nothing = [filled(b"fmt ", &format()), filled(b"data", b""), filled(b"LIST", b"INFO")];
    assert_eq!(problem("a.wav", &riff(0, &nothing)).to_string(), "there is no sound in it");
}

#[test]
fn what_is_wrong_before_the_sound_does_not_hide_it() {
    let sound = filled(b"data", &sound());
    for (what, chunk) in [
        ("an odd one that is not filled up", filled(b"junk", b"abcde")),
        ("one that is", [filled(b"junk", b"abcde"), vec![0]].concat()),
        ("an odd item that is not filled up", filled(b"LIST", b"INFOISFT\x05\0\0\0Lavf!")),
        ("one item behind it", filled(b"LIST", b"INFOISFT\x03\0\0\0abcINAM\x02\0\0\0ab")),
        ("a list that is too short", chunk(b"LIST", 17, b"INFOISFT\x06\0\0\0Lavf63")),
        ("an item that is too long", filled(b"LIST", b"INFOISFT\xff\xff\0\0Lavf")),
        ("a list that is too long", chunk(b"LIST", 0x7fff_ffff, b"INFOISFT\x04\0\0\0Lavf")),
        ("one that ends in the sound", chunk(b"LIST", 6_000, b"INFOISFT\x04\0\0\0Lavf")),
        ("a long one", filled(b"junk", &[0; 70_000])),
        ("a fact of another length", filled(b"fact", &[0; 12])),
    ] {
        let chunks = [filled(b"fmt ", &format()), chunk, sound.clone()];
        is_whole(what, &riff(8_036, &chunks));
    }
    is_whole("the format behind", &riff(0, &[sound.clone(), filled(b"fmt ", &format())]));
    let longer = [&format()[..], &[0; 4]].concat();
    is_whole("a longer format", &riff(0, &[filled(b"fmt ", &longer), sound.clone()]));
    let extensible = [
        &[0xfe, 0xff][..],
        &format()[2..],
        &[22, 0, 16, 0, 0, 0, 0, 0],
        b"\x01\0\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71",
    ];
    is_whole("extensible", &riff(0, &[filled(b"fmt ", &extensible.concat()), sound.clone()]));
    let none = problem("a.wav", &riff(0, &[sound]));
    assert!(none.to_string().contains("nothing says how its samples are stored"), "{none}");
}

/// A 64-bit length is in a separate chunk; it may be absent.
#[test]
fn long_forms_are_heard() {
    for name in [b"RF64", b"BW64"] {
        for length in [8_000u64, 0, u64::MAX] {
            let lengths = [8_072, length, 4_000].map(u64::to_le_bytes).concat();
            let lengths = [&lengths[..], &[0; 4]].concat();
            let chunks = [
                filled(b"ds64", &lengths),
                filled(b"fmt ", &format()),
                chunk(b"data", u32::MAX, &sound()),
                filled(b"LIST", b"INFO"),
            ];
            let mut bytes = riff(u32::MAX, &chunks);
            bytes[..4].copy_from_slice(name);
            if length == u64::MAX {
                assert_eq!(noticed("a.wav", &bytes).1.len(), 1);
            } else {
                is_whole(&format!("{length}"), &bytes);
            }
        }
    }
}

#[test]
fn other_codecs_are_named_with_a_remedy() {
    let of = |tag: u16| {
        let format = [&tag.to_le_bytes(), &format()[2..]].concat();
        problem("a.wav", &riff(0, &[filled(b"fmt ", &format), filled(b"data", &sound())]))
    };
    for (tag, name) in [
        (0x02, "Microsoft ADPCM in a WAV"),
        (0x11, "IMA ADPCM in a WAV"),
        (0x31, "GSM 6.10 in a WAV"),
        (0x161, "Windows Media Audio in a WAV"),
        (0x1234, "of the unknown kind 0x1234"),
    ] {
        let text = format!("its sound is {name}, which this program does not decode");
        assert_eq!(of(tag).to_string(), text);
        assert!(of(tag).hint().contains("`ffmpeg -i FILE sound.flac` converts"));
    }
}

#[test]
fn an_mp3_in_a_wav_is_heard() {
    let mp3 = bytes_of("sine.mp3");
    let format = [&[0x55, 0][..], &format()[2..]].concat();
    let bytes = riff(0, &[filled(b"fmt ", &format), filled(b"data", &mp3)]);
    assert_eq!(noticed("a.wav", &bytes), noticed("a.mp3", &mp3));
}

/// Twenty bits use the upper bits of three bytes.
#[test]
fn samples_of_twenty_bits_are_heard() {
    let mut format = format();
    format[12..16].copy_from_slice(&[3, 0, 20, 0]);
    let sound = [0u8, 0, 0x40].repeat(1_000);
    let (audio, _) =
        noticed("a.wav", &riff(0, &[filled(b"fmt ", &format), filled(b"data", &sound)]));
    assert_eq!(audio.channels, [[0.5; 1_000]]);
}
