//! Small WAV files of every sample format, rate and layout, made here byte by byte.

use std::f64::consts::TAU;

use super::{
    tests::{noticed, problem},
    *,
};
use crate::{Unobserved, audio::resample::to_stereo};

/// A sample format of WAV: (codec number, bits, function that returns a sample's bytes).
type Store = (u16, u16, fn(f64) -> Vec<u8>);

const STORES: [Store; 6] = [
    (1, 8, |x| vec![(x * 128.0 + 128.0).round() as u8]),
    (1, 16, |x| ((x * 32_767.0).round() as i16).to_le_bytes().to_vec()),
    (1, 24, |x| ((x * 8_388_607.0).round() as i32).to_le_bytes()[..3].to_vec()),
    (1, 32, |x| ((x * 2_147_483_647.0).round() as i32).to_le_bytes().to_vec()),
    (3, 32, |x| (x as f32).to_le_bytes().to_vec()),
    (3, 64, |x| x.to_le_bytes().to_vec()),
];

/// A sine of 300 Hz; each channel has half the amplitude of the one before.
fn value(i: usize, channel: usize, rate: u32) -> f64 {
    0.8 / f64::from(1u32 << channel) * (TAU * 300.0 * i as f64 / f64::from(rate)).sin()
}

fn wav(store: Store, rate: u32, channels: u16, samples: usize) -> Vec<u8> {
    let (code, bits, bytes) = store;
    let data: Vec<u8> = (0..samples)
        .flat_map(|i| (0..channels).flat_map(move |c| bytes(value(i, c.into(), rate))))
        .collect();
    let frame = channels * bits / 8;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + data.len() as u32).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0");
    file.extend([code, channels].iter().flat_map(|x| x.to_le_bytes()));
    file.extend([rate, rate * u32::from(frame)].iter().flat_map(|x| x.to_le_bytes()));
    file.extend([frame, bits].iter().flat_map(|x| x.to_le_bytes()));
    file.extend(b"data");
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    file
}

#[test]
fn every_width_rate_and_layout_becomes_the_same_sound() {
    for store in STORES {
        for rate in [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, 192_000] {
            for channels in [1, 2, 6] {
                let what = format!("{} bits, {rate} Hz, {channels} channels", store.1);
                let samples = rate as usize / 10 + 1;
                let bytes = wav(store, rate, channels, samples);
                let (audio, notices) = noticed("a.mp3", &bytes);
                assert_eq!((audio.sample_rate, audio.samples()), (rate, samples), "{what}");
                assert_eq!(notices.len(), usize::from(channels == 6), "{what}");
                let stereo = to_stereo(&audio, 48_000, &Unobserved).expect(&what);
                let wanted = (samples * 48_000).div_ceil(rate as usize);
                assert_eq!((stereo.channels.len(), stereo.samples()), (2, wanted), "{what}");
                // The quantisation step of 8 bits, or the resampler's effect on 300 Hz.
                let most = if store.1 == 8 { 8e-3 } else { 1.5e-3 };
                let second = usize::from(channels > 1);
                for (channel, source) in stereo.channels.iter().zip([0, second]) {
                    for (i, &x) in channel.iter().enumerate().take(wanted - 100).skip(100) {
                        let off = (f64::from(x) - value(i, source, 48_000)).abs();
                        assert!(off < most, "{what}: {off} at {i}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_cut_file_is_heard_and_said_in_every_width() {
    for store in STORES {
        let bytes = wav(store, 22_050, 2, 2_000);
        let (audio, notices) = noticed("a.wav", &bytes[..bytes.len() / 2]);
        assert!((985..=1_000).contains(&audio.samples()), "{} bits: {}", store.1, audio.samples());
        let [text] = &notices[..] else { panic!("{notices:?}") };
        let said = "says that it is 0.09 s long, but ends after 0.0";
        assert!(text.contains(said), "{} bits: {text}", store.1);
        let nothing = problem("a.wav", &wav(store, 22_050, 2, 0));
        assert_eq!(nothing, Problem::Empty, "{} bits", store.1);
    }
}

/// Ten minutes at the lowest rate and width, also after resampling.
#[test]
fn ten_minutes_are_heard_to_their_end() {
    let bytes = wav(STORES[0], 8_000, 1, 600 * 8_000);
    let (audio, notices) = noticed("a.wav", &bytes);
    assert_eq!((audio.samples(), notices.len()), (4_800_000, 0));
    let stereo = to_stereo(&audio, 48_000, &Unobserved).expect("a sound");
    assert_eq!(stereo.samples(), 28_800_000);
    let i = 28_799_000;
    assert!((f64::from(stereo.channels[1][i]) - value(i, 0, 48_000)).abs() < 8e-3);
}

/// The rate is an 80-bit float: 44 100 is 0xAC44 shifted to the top, with an exponent of 15.
#[test]
fn an_aiff_is_heard() {
    let samples: Vec<u8> = (0..4_410)
        .flat_map(|i| ((value(i, 0, 44_100) * 32_767.0).round() as i16).to_be_bytes())
        .collect();
    let mut bytes = b"FORM".to_vec();
    bytes.extend((46 + samples.len() as u32).to_be_bytes());
    bytes.extend(b"AIFFCOMM\0\0\0\x12\0\x01");
    bytes.extend(4_410u32.to_be_bytes());
    bytes.extend(b"\0\x10\x40\x0e\xac\x44\0\0\0\0\0\0SSND");
    bytes.extend((8 + samples.len() as u32).to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(samples);
    let (audio, notices) = noticed("a.wav", &bytes);
    assert_eq!((audio.sample_rate, audio.samples(), notices.len()), (44_100, 4_410, 0));
    assert!((f64::from(audio.channels[0][37]) - value(37, 0, 44_100)).abs() < 1e-4);
}
