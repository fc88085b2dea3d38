use std::{cell::Cell, f64::consts::TAU, fs, path::PathBuf};

use super::*;
use crate::{
    Action, CancelIf, Notice,
    audio::{
        read::read,
        resample::tests::noise,
        tags::{RequestTag, request_in},
    },
};

const RATE: u32 = 48_000;

/// Returns a little more than a second of two tones, with noise in the last bits.
fn song() -> Audio {
    let mut state = 1u32;
    let mut channel = |hertz: f64| {
        let mut sample = |i: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = f64::from(state) / 2f64.powi(32) * 1e-4;
            (0.6 * (TAU * hertz * i as f64 / f64::from(RATE)).sin() + noise) as f32
        };
        (0..50_001).map(&mut sample).collect::<Vec<f32>>()
    };
    Audio { channels: vec![channel(440.0), channel(660.0)], sample_rate: RATE }
}

fn tags() -> Tags {
    Tags {
        title: "rain \u{2014} \u{96e8}\nslow".into(),
        comment: "a song of rain".into(),
        software: "acestep 0.1.0".into(),
        request: r#"{"caption": "rain — 雨", "seed": 7}"#.into(),
    }
}

/// Returns the formats that this build can write.
fn formats() -> Vec<Format> {
    Format::all().filter(|format| format.require().is_ok()).collect()
}

/// A file in a folder of its own.
struct Written {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Written {
    fn of(audio: &Audio, encoding: &Encoding, tags: Option<&Tags>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // The name has no extension: readers detect the format by content.
        let path = folder.path().join("song");
        save(&path, audio, encoding, tags, Existing::Keep).expect("saved");
        Self { path, _folder: folder }
    }

    fn song(format: Format, tags: Option<&Tags>) -> Self {
        Self::of(&song(), &Encoding::new(format), tags)
    }

    fn heard(&self) -> (Audio, Vec<Notice>) {
        read(&self.path, &Unobserved).expect("a sound")
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).expect("readable")
    }

    fn request(&self) -> RequestTag {
        request_in(&self.path).expect("readable")
    }
}

/// Returns the RMS of the difference, ignoring `edge` samples at both ends.
fn difference(a: &Audio, b: &Audio, edge: usize) -> f64 {
    assert_eq!((a.samples(), a.channels.len()), (b.samples(), b.channels.len()));
    let middle = |audio: &Audio| -> Vec<f32> {
        let inside = edge..audio.samples() - edge;
        audio.channels.iter().flat_map(|channel| channel[inside.clone()].to_vec()).collect()
    };
    let (a, b) = (middle(a), middle(b));
    let pairs = || a.iter().zip(&b);
    let sum: f64 = pairs().map(|(&a, &b)| f64::from(a - b).powi(2)).sum();
    (sum / pairs().count() as f64).sqrt()
}

/// Lossy or not, tagged or not, the sound keeps its length, position and loudness.
#[test]
fn what_is_written_is_read_back() {
    for format in formats() {
        // The sound begins and ends abruptly, which no lossy frame can represent. An offset of one
        // sample would give a difference of 0.03.
        let (most, edge) = match format {
            Format::Wav16 | Format::Flac16 => (1.0e-5, 0),
            Format::Wav24 | Format::Flac => (5e-8, 0),
            Format::Wav32 => (0.0, 0),
            Format::Mp3 | Format::Opus => (5e-3, 2_400),
        };
        let (plain, notices) = Written::song(format, None).heard();
        assert_eq!((plain.sample_rate, notices.len()), (RATE, 0), "{format}");
        let difference = difference(&plain, &song(), edge);
        assert!(difference <= most, "{format}: {difference:e}");
        let tagged = Written::song(format, Some(&tags())).heard();
        assert_eq!((plain, notices), tagged, "{format}");
    }
}

/// Bit by bit: FLAC keeps all the integers of the WAV.
#[test]
fn a_flac_has_the_samples_of_the_wav() {
    for pair in [[Format::Flac, Format::Wav24], [Format::Flac16, Format::Wav16]] {
        let [flac, wav] = pair.map(|format| Written::song(format, None));
        assert_eq!(flac.heard(), wav.heard());
        assert!(flac.bytes().len() < wav.bytes().len() * 9 / 10);
    }
    // Extremes, silence, and a single sample of one channel.
    for channels in [
        vec![vec![1.0, -1.0, 1.5, -1.5, f32::MIN_POSITIVE]; 2],
        vec![vec![0.0; 4096], vec![-0.0; 4096]],
        vec![vec![0.25]],
    ] {
        let audio = Audio { channels, sample_rate: 44_100 };
        let [flac, wav] = [Format::Flac, Format::Wav24]
            .map(|format| Written::of(&audio, &Encoding::new(format), None).heard());
        assert_eq!(flac, wav);
    }
}

#[test]
fn a_song_of_no_sample_is_a_file_without_sound() {
    let audio = Audio { channels: vec![vec![]; 2], sample_rate: RATE };
    for format in [Format::Wav16, Format::Wav32, Format::Flac, Format::Flac16] {
        let file = Written::of(&audio, &Encoding::new(format), None);
        let error = read(&file.path, &Unobserved).expect_err("no sound").to_string();
        // A FLAC whose samples were all lost has the same header.
        let wanted = match format.extension() {
            "wav" => "there is no sound in it",
            _ => "it ends after 0.00 s, before its end",
        };
        assert!(error.ends_with(wanted), "{format}: {error}");
    }
}

/// Equal to the bit. Noise is verbatim in a FLAC, and 20 000 samples are no whole blocks. Frames of an MP3 have
/// 1152 samples; a packet of Opus has 960; 312 of the last one are the delay.
#[test]
fn a_file_in_pieces_has_the_bytes_of_the_whole_sound() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pieces");
    let tone = song().channels.swap_remove(0);
    // Peaks of 0.6, 0.96 late, and 1: an MP3 of 128 kbit/s has a reserve above 0.95.
    let mut late = tone.clone();
    late[30_000..].iter_mut().for_each(|x| *x *= 1.6);
    let mut sounds = vec![(24_000, tone.clone()), (22_050, late), (24_000, noise(20_000))];
    for samples in [0, 1, 648, 649, 1_152, 1_153] {
        sounds.extend([24_000, 22_050, RATE].map(|rate| (rate, tone[..samples].to_vec())));
    }
    let mut encodings: Vec<_> = formats().into_iter().map(Encoding::new).collect();
    if cfg!(feature = "mp3") {
        let (mp3_bitrate, mp3_sample_rate) = (320, 44_100);
        encodings.push(Encoding { mp3_bitrate, mp3_sample_rate, ..Encoding::new(Format::Mp3) });
    }
    for (sample_rate, samples) in sounds {
        let audio = Audio { channels: vec![samples], sample_rate };
        for encoding in &encodings {
            let whole = to_bytes(&audio, encoding, None, &Unobserved).expect("encoded");
            let samples = &audio.channels[0];
            for size in [samples.len() / 2_000 + 1, 1_921] {
                let begun = SoundWriter::begin(&path, sample_rate, encoding, Existing::Replace);
                let mut writer = begun.expect("begun");
                for piece in samples.chunks(size) {
                    writer.write(piece).expect("written");
                }
                writer.finish(&Unobserved).expect("finished");
                let same = fs::read(&path).expect("a file") == whole;
                assert!(same, "{encoding:?}: {} in pieces of {size}", samples.len());
            }
        }
    }
    for encoding in &encodings {
        let half = SoundWriter::begin(&path, 24_000, encoding, Existing::Replace);
        half.expect("begun").write(&[0.5; 9_000]).expect("written");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "{encoding:?}");
    }
}

/// Loud noise cannot be predicted, but the file must not be larger than its samples.
#[test]
fn a_flac_of_noise_is_no_larger_than_its_samples() {
    let channels = noise(2 * 20_000).chunks(20_000).map(<[f32]>::to_vec).collect();
    let audio = Audio { channels, sample_rate: RATE };
    let file = Written::of(&audio, &Encoding::new(Format::Flac), None);
    let size = file.bytes().len();
    assert!(size < 2 * 20_000 * 3 * 101 / 100, "{size}");
    let heard = file.heard().0;
    let off = |(a, b): (&f32, &f32)| (a - b).abs() <= 1.0 / 8_388_607.0;
    for (own, other) in audio.channels.iter().zip(&heard.channels) {
        assert!(own.iter().zip(other).all(off));
    }
}

#[test]
fn a_tagged_file_gives_its_request_back() {
    for format in formats() {
        let tagged = Written::song(format, Some(&tags()));
        assert_eq!(tagged.request(), RequestTag::Request(tags().request), "{format}");
        let plain = Written::song(format, None);
        assert_eq!(plain.request(), RequestTag::None);
        let tagged = tagged.bytes();
        assert!(tagged.len() > plain.bytes().len(), "{format}");
        // Tags that other programs show.
        let has = |text: &str| tagged.windows(text.len()).any(|w| w == text.as_bytes());
        assert!(has("rain \u{2014} \u{96e8} slow") && has("a song of rain"), "{format}");
        assert!(has("acestep 0.1.0"), "{format}");
        // Encoding is deterministic.
        assert_eq!(tagged, Written::song(format, Some(&tags())).bytes(), "{format}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.json");
    fs::write(&path, "{}").expect("written");
    assert_eq!(request_in(&path).expect("readable"), RequestTag::NoSound);
    assert!(request_in(&folder.path().join("absent")).is_err());
    // Only the first bytes of a file.
    for head in [&b"RIFF\0\0\0\0WAVE"[..], b"fLaC", b"OggS", b"ID3\x04", b"\xff\xfb\x90"] {
        fs::write(&path, head).expect("written");
        assert_eq!(request_in(&path).expect("readable"), RequestTag::None, "{head:?}");
    }
}

/// A long request, such as one with the codes of ten minutes.
#[test]
fn a_long_request_fits() {
    let codes = (0..3000).map(|i| (i * 21 % 64_000).to_string()).collect::<Vec<_>>().join(",");
    let request = format!("{{\"audio_codes\": \"{codes}\"}}");
    for format in formats() {
        let tags = Tags { request: request.clone(), ..tags() };
        let file = Written::song(format, Some(&tags));
        let (audio, notices) = file.heard();
        assert_eq!((audio.samples(), notices.len()), (song().samples(), 0), "{format}");
        assert_eq!(file.request(), RequestTag::Request(request.clone()), "{format}");
    }
}

#[test]
fn audio_that_no_file_can_hold_is_refused() {
    for format in formats() {
        let many = if format.extension() == "wav" { 65_536 } else { 9 };
        for channels in [vec![], vec![vec![0.0; 2], vec![0.0; 3]], vec![vec![0.0]; many]] {
            // At a rate that MP3 does not have; resampling takes two channels.
            let audio = Audio { channels, sample_rate: 44_100 };
            let error =
                to_bytes(&audio, &Encoding::new(format), None, &Unobserved).expect_err("refused");
            assert!(matches!(error, Error::Encode { .. }), "{format}: {error}");
        }
    }
    let absent = Format::all().filter(|format| format.require().is_err());
    for format in absent {
        let error =
            to_bytes(&song(), &Encoding::new(format), None, &Unobserved).expect_err("not built in");
        assert!(error.to_string().contains("is not built into this program"), "{error}");
    }
}

/// 50 001 samples are three blocks; a FLAC encodes 256 of its own blocks together.
#[test]
fn a_song_is_cancelled_while_it_is_encoded() {
    for format in formats() {
        let checks = Cell::new(0);
        let last = if format.extension() == "flac" { 0 } else { 2 };
        let cancel = CancelIf(|| checks.replace(checks.get() + 1) == last);
        let error =
            to_bytes(&song(), &Encoding::new(format), None, &cancel).expect_err("cancelled");
        assert!(matches!(error, Error::Cancelled), "{format}: {error}");
    }
}

/// The peak of 1 leaves no reserve.
#[cfg(feature = "mp3")]
#[test]
fn a_loud_mp3_is_cancelled_while_it_is_encoded_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, encoding) = (folder.path().join("a.mp3"), Encoding::new(Format::Mp3));
    for (height, is_whole) in [(1.0, false), (0.5, true)] {
        let begun = SoundWriter::begin(&path, 24_000, &encoding, Existing::Keep);
        let mut writer = begun.expect("begun");
        writer.write(&[height; 9_000]).expect("written");
        let finished = writer.finish(&CancelIf(|| true));
        assert!(is_whole || matches!(finished, Err(Error::Cancelled)), "{finished:?}");
        let files = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!((finished.is_ok(), files), (is_whole, usize::from(is_whole)));
    }
}

#[test]
fn a_failed_encoding_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let audio = Audio { channels: vec![], sample_rate: RATE };
    let encoding = Encoding::new(Format::Flac);
    save(&folder.path().join("a.flac"), &audio, &encoding, None, Existing::Keep)
        .expect_err("no channels");
    // A name too long for any file system fails before anything is written.
    let path = folder.path().join("a".repeat(300));
    let error = save(&path, &song(), &encoding, None, Existing::Keep).expect_err("too long");
    assert!(matches!(error, Error::File { action: Action::Create, .. }), "{error:?}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// 48 kHz is resampled to 44.1 kHz, and a higher bitrate gives a larger file.
#[cfg(feature = "mp3")]
#[test]
fn an_mp3_has_the_rate_and_the_bitrate_that_were_asked_for() {
    for (mp3_bitrate, mp3_sample_rate) in [(128, 48_000), (320, 44_100), (64, 48_000)] {
        let encoding = Encoding { mp3_bitrate, mp3_sample_rate, ..Encoding::new(Format::Mp3) };
        let file = Written::of(&song(), &encoding, None);
        let (audio, notices) = file.heard();
        assert_eq!((audio.sample_rate, notices.len()), (mp3_sample_rate, 0));
        let seconds = song().seconds();
        assert!((audio.seconds() - seconds).abs() < 1e-3, "{}", audio.seconds());
        let bytes = file.bytes().len() as f64;
        let expected = f64::from(mp3_bitrate) * 125.0 * seconds;
        assert!((bytes / expected - 1.0).abs() < 0.15, "{mp3_bitrate}: {bytes}");
    }
}

/// A song with a peak of 0.6 keeps its loudness. LAME makes one at full scale a little quieter: 5 %
/// up to 160 kbit/s, nothing from 256 on.
#[cfg(feature = "mp3")]
#[test]
fn an_mp3_is_as_loud_as_the_song() {
    use crate::audio::loudness::rms;
    let factor = |audio: &Audio, mp3_bitrate| {
        let encoding = Encoding { mp3_bitrate, ..Encoding::new(Format::Mp3) };
        rms(&Written::of(audio, &encoding, None).heard().0) / rms(audio)
    };
    let mut full = song();
    let samples = full.channels.iter_mut().flatten();
    samples.for_each(|x| *x = (*x / 0.6).clamp(-1.0, 1.0));
    for (bitrate, of_full) in
        [(128, 0.95), (160, 0.95), (192, 0.97), (224, 0.98), (256, 1.0), (320, 1.0)]
    {
        let (plain, loud) = (factor(&song(), bitrate), factor(&full, bitrate));
        assert!((plain - 1.0).abs() < 3e-3, "{bitrate}: {plain}");
        assert!((loud - of_full).abs() < 3e-3, "{bitrate}: {loud}");
    }
}

#[cfg(feature = "opus")]
#[test]
fn an_opus_file_of_more_kilobits_is_larger_and_nearer() {
    let mut last = (0, f64::MAX);
    for opus_bitrate in [24, 96] {
        let encoding = Encoding { opus_bitrate, ..Encoding::new(Format::Opus) };
        let file = Written::of(&song(), &encoding, None);
        let now = (file.bytes().len(), difference(&file.heard().0, &song(), 2_400));
        assert!(now.0 > last.0 && now.1 < last.1, "{opus_bitrate}: {now:?} after {last:?}");
        last = now;
    }
    // Speech has one channel and another rate.
    let slow = Audio { channels: vec![song().channels.swap_remove(0)], sample_rate: 24_000 };
    let audio = Written::of(&slow, &Encoding::new(Format::Opus), None).heard().0;
    assert_eq!((audio.sample_rate, audio.channels.len()), (RATE, 1));
    assert_eq!(audio.samples(), 2 * slow.samples());
}
