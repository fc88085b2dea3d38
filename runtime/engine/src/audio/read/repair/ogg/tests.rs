use super::*;
#[cfg(feature = "opus")]
use crate::audio::Audio;
use crate::audio::read::tests::{bytes_of, noticed, problem};

fn whole() -> Vec<u8> {
    bytes_of("sine.ogg")
}

/// The fixture's first page, its headers without comments, and the position of its sound.
fn parts(file: &[u8]) -> (Page, Vec<Vec<u8>>, u64) {
    let mut bytes = Bytes::of(file);
    let end = bytes.length();
    let first = Page::at(&mut bytes, 0, end).expect("in memory").expect("a page");
    let head = bytes.of_range(&first.body).expect("in memory");
    let count = comments(&head).expect("a codec").1;
    let range = first.body.end..end;
    let (headers, sound) =
        headers(&mut bytes, &first, &range, count).expect("in memory").expect("headers");
    (first, headers, sound)
}

/// Returns `file` with other comments.
fn with(file: &[u8], comments: &[u8]) -> Vec<u8> {
    let (first, headers, sound) = parts(file);
    let packets = iter::once(comments.to_vec()).chain(headers).collect();
    let pages = pages(&first, packets).expect("in memory");
    [&file[..first.body.end as usize], &pages, &file[sound as usize..]].concat()
}

/// Comments of several sizes and faults. A picture of 17 MB is too large for one packet.
fn comments_of(name: &[u8], end: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let picture = |length: u32| {
        let begin = [&b"\x03\0\0\0abc\x01\0\0\0"[..], &length.to_le_bytes()].concat();
        [name, &begin, &vec![b'A'; length as usize], end].concat()
    };
    vec![
        ("a picture", picture(300_000)),
        ("a great picture", picture(17 << 20)),
        ("a vendor that is too long", [name, b"\xff\xff\xff\x7fabc"].concat()),
        ("too few comments", [name, b"\x03\0\0\0abc\xff\xff\xff\xff", end].concat()),
        ("nothing", name.to_vec()),
        ("another name", vec![b'x'; 20]),
    ]
}

#[test]
fn comments_may_be_of_any_length_and_damaged() {
    let sound = noticed("a.ogg", &whole());
    for (what, comments) in comments_of(b"\x03vorbis", &[1]) {
        assert_eq!(noticed("a.ogg", &with(&whole(), &comments)), sound, "{what}");
    }
    // Now the checksum of their page is wrong.
    let mut bytes = whole();
    let place = bytes.windows(7).position(|w| w == b"\x03vorbis").expect("comments");
    bytes[place + 12] ^= 0xff;
    assert_eq!(noticed("a.ogg", &bytes), sound);
}

/// Returns `file` with a changed last page.
fn ending(file: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
    let (first, _, sound) = parts(file);
    let mut bytes = Bytes::of(file);
    let range = sound..bytes.length();
    let page = last(&mut bytes, &first, &range).expect("in memory").expect("a page");
    let mut own = file[page.start() as usize..].to_vec();
    change(&mut own);
    seal(&mut own);
    [&file[..page.start() as usize], &own].concat()
}

#[test]
fn an_end_that_is_not_said_or_cannot_be_is_not_believed() {
    let sound = noticed("a.ogg", &whole()).0;
    let open = ending(&whole(), |page| page[5] &= !ENDS);
    let (audio, notices) = noticed("a.ogg", &open);
    assert_eq!(audio, sound);
    let text = "does not say that it ends: it may be a piece of a longer one";
    assert_eq!(notices, [text]);
    for time in [-1i64, i64::MIN, 1 << 50] {
        let bytes = ending(&whole(), |page| page[6..14].copy_from_slice(&time.to_le_bytes()));
        let (audio, _) = noticed("a.ogg", &bytes);
        assert!(audio.samples() >= sound.samples(), "{time}: {}", audio.samples());
        assert_eq!(audio.channels[0][..13_000], sound.channels[0][..13_000], "{time}");
    }
    // An earlier position cuts the last block.
    let time = 13_000i64;
    let bytes = ending(&whole(), |page| page[6..14].copy_from_slice(&time.to_le_bytes()));
    assert_eq!(noticed("a.ogg", &bytes).0.samples(), 13_000);
}

#[test]
fn speex_is_named() {
    let mut bytes = whole();
    bytes[28..36].copy_from_slice(b"Speex   ");
    let text = "its sound is Speex in an Ogg, which this program does not decode";
    assert_eq!(problem("a.ogg", &bytes).to_string(), text);
}

/// The pre-skip may be longer than a packet, which has 960 samples here.
#[cfg(feature = "opus")]
#[test]
fn opus_is_as_long_as_its_last_page_says_less_what_is_skipped() {
    let file = bytes_of("sine.opus");
    let (first, _, _) = parts(&file);
    let sound = noticed("a.opus", &file).0;
    let skip = first.header.len() + SKIP;
    let own = number(&file, skip, u16::from_le_bytes).expect("a number");
    let ends = sound.samples() + usize::from(own);
    for other in [0, 100, own, 1_500, 3_840] {
        let mut bytes = file.clone();
        bytes[skip..skip + 2].copy_from_slice(&other.to_le_bytes());
        seal(&mut bytes[..first.body.end as usize]);
        let audio = noticed("a.opus", &bytes).0;
        assert_eq!(audio.samples(), ends - usize::from(other), "{other}");
        let of = |audio: &Audio| audio.channels[0][audio.samples() - 900..].to_vec();
        assert_eq!(of(&audio), of(&sound), "{other}");
    }
    for (what, comments) in comments_of(b"OpusTags", &[]) {
        assert_eq!(noticed("a.opus", &with(&file, &comments)).0, sound, "{what}");
    }
}

/// Six decibels are a factor of 1.995.
#[cfg(feature = "opus")]
#[test]
fn opus_is_as_loud_as_its_header_says() {
    let mut bytes = bytes_of("sine.opus");
    let (first, _, _) = parts(&bytes);
    let sound = noticed("a.opus", &bytes).0;
    let gain = first.header.len() + GAIN;
    bytes[gain..gain + 2].copy_from_slice(&(-6i16 * 256).to_le_bytes());
    seal(&mut bytes[..first.body.end as usize]);
    let quiet = noticed("a.opus", &bytes).0;
    for (quiet, sound) in quiet.channels[0].iter().zip(&sound.channels[0]) {
        assert!((quiet * 1.995_262 - sound).abs() < 1e-6);
    }
}
