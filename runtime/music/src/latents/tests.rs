use acestep_engine::{
    Unobserved,
    audio::{
        Audio,
        format::{Encoding, Format},
        write,
    },
};
use proptest::prelude::*;

use super::*;

fn song(values: Vec<f32>) -> Array3 {
    Array3::new([1, values.len() / CHANNELS, CHANNELS], values)
}

fn wave(frames: usize) -> Array3 {
    song((0..frames * CHANNELS).map(|i| 3.0 * (i as f32 * 0.37).sin()).collect())
}

fn why(bytes: &[u8]) -> String {
    from_bytes(bytes, CHANNELS).expect_err("no latents")
}

#[test]
fn every_format_is_told_by_its_content() {
    let folder = tempfile::tempdir().expect("a folder");
    for format in LatentsFormat::ALL {
        let path = folder.path().join(format!("{format}.txt"));
        save(&path, &wave(3), format, 25.0, Existing::Keep).expect("saved");
        let bytes = fs::read(&path).expect("readable");
        assert_eq!(from_bytes(&bytes, CHANNELS).expect("latents").1, format);
        let back = read(&path, CHANNELS).expect("latents");
        assert_eq!(back.shape, [1, 3, 64]);
        let is_exact = matches!(format, LatentsFormat::Safetensors | LatentsFormat::Vae);
        assert_eq!(back == wave(3), is_exact, "{format}");
        assert_eq!(
            LatentsFormat::of(Path::new(&format!("a.{}", format.name().to_uppercase()))),
            Some(format)
        );
        for name in [format.name().to_owned(), format.name().to_uppercase()] {
            assert_eq!(name.parse::<LatentsFormat>().expect("a format"), format);
        }
    }
    assert!("nac".parse::<LatentsFormat>().is_err());
}

/// Computed by hand: a largest value of 127 gives a scale of 1, and so does 7 in int4.
#[test]
fn the_bytes_are_those_of_acestep_cpp() {
    let mut values = vec![0.0; CHANNELS];
    values[..4].copy_from_slice(&[127.0, -2.5, 2.4, -127.0]);
    let eight = to_bytes(&song(values.clone()), LatentsFormat::Nac8, 25.0).expect("a file");
    assert_eq!(eight.len(), 8 + 66);
    assert_eq!(eight[..14], *b"NAC8\x01\0\0\0\0\x3c\x7f\xfd\x02\x81");
    values[..4].copy_from_slice(&[7.0, -2.5, 2.4, -7.0]);
    let four = to_bytes(&song(values), LatentsFormat::Nac4, 25.0).expect("a file");
    assert_eq!(four.len(), 8 + 34);
    // 7 and -3 in a byte, then 2 and -7.
    assert_eq!(four[..12], *b"NAC4\x01\0\0\0\0\x3c\xd7\x92");
    let (back, _) = from_bytes(&four, CHANNELS).expect("latents");
    assert_eq!(back.data[..5], [7.0, -3.0, 2.0, -7.0, 0.0]);
}

/// acestep.cpp never writes -8 (int4) or -128 (int8), but it reads them.
#[test]
fn the_number_that_nobody_writes_is_read() {
    let mut bytes = b"NAC4\x01\0\0\0\0\x3c\x88".to_vec();
    bytes.resize(8 + 34, 0);
    assert_eq!(from_bytes(&bytes, CHANNELS).expect("latents").0.data[..3], [-8.0, -8.0, 0.0]);
    let mut bytes = b"NAC8\x01\0\0\0\0\x3c\x80".to_vec();
    bytes.resize(8 + 66, 0);
    assert_eq!(from_bytes(&bytes, CHANNELS).expect("latents").0.data[..2], [-128.0, 0.0]);
}

/// The tiny test networks have 16 channels.
#[test]
fn frames_may_be_of_other_numbers_than_sixty_four() {
    let values: Vec<f32> = (0..48).map(|i| i as f32 - 7.0).collect();
    let small = Array3::new([1, 3, 16], values);
    for format in LatentsFormat::ALL {
        let bytes = to_bytes(&small, format, 25.0).expect("a file");
        assert_eq!(from_bytes(&bytes, 16).expect("latents").0.shape, [1, 3, 16], "{format}");
        from_bytes(&bytes, CHANNELS).expect_err("of another model");
    }
    let odd = Array3::new([1, 1, 3], vec![1.0, 2.0, 3.0]);
    assert!(matches!(to_bytes(&odd, LatentsFormat::Nac4, 25.0), Err(Error::Conflict(_))));
}

#[test]
fn what_holds_no_latents_says_why() {
    assert_eq!(why(b""), "there is no frame in it");
    assert!(why(&[0; 255]).ends_with("its 255 bytes are no whole frames of 256 bytes"));
    assert!(why(b"NAC8\x02\0\0\0").contains("says 2 frames of 66 bytes, but 0 bytes follow"));
    assert!(why(b"NAC4\xff\xff\xff\xff").contains("4294967295 frames of 34 bytes"));
    assert!(why(b"NAC8\x01").contains("cut off within the header"));
    assert_eq!(why(b"NAC8\0\0\0\0"), "there is no frame in it");
    let mut cut = to_bytes(&wave(2), LatentsFormat::Safetensors, 25.0).expect("a file");
    cut.truncate(cut.len() - 7);
    from_bytes(&cut, CHANNELS).expect_err("cut off");
    assert_eq!(why(&[0xff; 256]), "value 0 is NaN: these are no latents");
    let mut infinite = to_bytes(&wave(1), LatentsFormat::Nac8, 25.0).expect("a file");
    infinite[8..10].copy_from_slice(&f16::INFINITY.to_le_bytes());
    assert!(why(&infinite).contains("value 0 is"), "{}", why(&infinite));
}

#[test]
fn a_foreign_safetensors_is_read_if_its_latents_are() {
    let stored = |name: &str, dtype, shape: Vec<usize>, bytes: &[u8]| {
        let view = TensorView::new(dtype, shape, bytes).expect("a tensor");
        safetensors::serialize([(name, view)], None).expect("a file")
    };
    let half: Vec<u8> = (0..128).flat_map(|i| f16::from_f32(i as f32).to_le_bytes()).collect();
    let bytes = stored("latents", Dtype::F16, vec![1, 2, 64], &half);
    assert_eq!(from_bytes(&bytes, CHANNELS).expect("latents").0.data[127], 127.0);
    let bytes = stored("latents", Dtype::BF16, vec![2, 64], &half);
    assert_eq!(from_bytes(&bytes, CHANNELS).expect("latents").0.shape, [1, 2, 64]);
    let bytes = stored("latents", Dtype::F16, vec![64, 2], &half);
    assert_eq!(why(&bytes), "`latents` is [64, 2], not [T, 64]");
    let bytes = stored("noise", Dtype::F16, vec![2, 64], &half);
    assert_eq!(why(&bytes), "it has no tensor `latents`, but: noise");
    let bytes = stored("latents", Dtype::I16, vec![2, 64], &half);
    assert_eq!(why(&bytes), "`latents` is I16, not F32, F16 or BF16");
}

#[test]
fn only_one_song_of_numbers_is_stored() {
    let two = Array3::new([2, 1, 64], vec![0.0; 128]);
    assert!(matches!(to_bytes(&two, LatentsFormat::Vae, 25.0), Err(Error::Conflict(_))));
    let broken = song(vec![f32::NAN; 64]);
    assert!(matches!(to_bytes(&broken, LatentsFormat::Nac8, 25.0), Err(Error::NotFinite { .. })));
    let folder = tempfile::tempdir().expect("a folder");
    let error = read(folder.path(), CHANNELS).expect_err("a folder");
    assert!(error.to_string().ends_with("it is not a regular file"), "{error}");
    assert!(matches!(read(&folder.path().join("absent"), CHANNELS), Err(Error::File { .. })));
}

/// The lengths of these files are whole frames.
#[test]
fn another_file_becomes_no_latents() {
    assert_eq!(why(&[b'x'; 256]), "value 0 is 2.0e34: these are no latents");
    let audio = Audio { channels: vec![vec![0.25; 49]], sample_rate: 48_000 };
    let encoding = Encoding::new(Format::Wav32);
    let mut wav = write::to_bytes(&audio, &encoding, None, &Unobserved).expect("a WAV");
    wav.resize(wav.len().next_multiple_of(256), 0);
    assert_eq!(why(&wav), "it is a WAV file");
    for (first, what) in [
        (&b"fLaC"[..], "a FLAC file"),
        (b"GGUF", "a GGUF file"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\0\0\0\x20ftyp", "an M4A file"),
        (b"{}", "JSON"),
    ] {
        let mut bytes = first.to_vec();
        bytes.resize(512, b' ');
        assert_eq!(why(&bytes), format!("it is {what}"));
    }
    let large = |x: f32| -> Vec<u8> { (0..64).flat_map(|_| x.to_le_bytes()).collect() };
    assert_eq!(why(&large(-10_001.0)), "value 0 is -1.0e4: these are no latents");
    assert_eq!(from_bytes(&large(-9_999.0), CHANNELS).expect("latents").0.data[63], -9_999.0);
}

#[test]
fn a_scale_that_no_f16_holds_is_refused() {
    for (format, most) in
        [(LatentsFormat::Nac8, 65_504.0 * 127.0), (LatentsFormat::Nac4, 65_504.0 * 7.0)]
    {
        let largest = |x: f32| song([vec![0.0; 100], vec![x; 28]].concat());
        let bytes = to_bytes(&largest(most), format, 25.0).expect("as much as there is room for");
        assert_eq!(from_bytes(&bytes, CHANNELS).expect("latents").0.data[127], most);
        let error =
            to_bytes(&largest(-1.01 * most), format, 25.0).expect_err("too large").to_string();
        assert!(error.starts_with(&format!("{format} cannot hold frame 1, whose")), "{error}");
    }
}

proptest! {
    /// Half a step, and for the largest number what f16 rounds of the scale: 2^-11 of it, or half
    /// of the smallest f16.
    #[test]
    fn a_quantised_number_is_off_by_half_a_step(
        values in proptest::collection::vec(-1.0f32..1.0, CHANNELS..=CHANNELS),
        height in prop_oneof![Just(0.0f32), 1e-9f32..1e-4, 1e-4f32..4.5e5],
    ) {
        let latents = song(values.iter().map(|x| x * height).collect());
        let largest = latents.data.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        for (format, most) in [(LatentsFormat::Nac8, 127.0), (LatentsFormat::Nac4, 7.0)] {
            let bytes = to_bytes(&latents, format, 25.0).expect("a file");
            let (back, found) = from_bytes(&bytes, CHANNELS).expect("latents");
            prop_assert_eq!(found, format);
            let step = largest / most;
            let rounding = (step * 2f32.powi(-11)).max(2f32.powi(-25)) * most;
            for (a, b) in latents.data.iter().zip(&back.data) {
                prop_assert!((a - b).abs() <= 0.5 * step + 1.01 * rounding, "{} {}", a, b);
            }
        }
    }

    #[test]
    fn exact_formats_give_back_every_bit(bits in proptest::collection::vec(any::<u32>(), 192)) {
        let finite = |bits: u32| Some(f32::from_bits(bits)).filter(|x| x.is_finite()).unwrap_or(1.0);
        let latents = song(bits.into_iter().map(finite).collect());
        let bytes = to_bytes(&latents, LatentsFormat::Safetensors, 25.0).expect("a file");
        let (back, _) = from_bytes(&bytes, CHANNELS).expect("latents");
        prop_assert!(back.data.iter().zip(&latents.data).all(|(a, b)| a.to_bits() == b.to_bits()));
    }

    #[test]
    fn no_bytes_make_the_reader_fail_otherwise(
        magic in prop_oneof![Just(&b""[..]), Just(&b"NAC8"[..]), Just(&b"NAC4"[..])],
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let _ = from_bytes(&[magic, &bytes].concat(), CHANNELS);
    }
}
