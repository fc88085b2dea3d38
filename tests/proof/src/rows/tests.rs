use super::*;

fn distance(relative_rms: f64, tolerance: f64, processor: Option<f64>) -> Distance {
    Distance { relative_rms, tolerance, processor }
}

fn length() -> Length {
    Length {
        seconds: 10.0,
        dtype: "f32".into(),
        samples: 480_000,
        expected_samples: 480_000,
        quietest: 0.01,
        repeats: true,
        overflowed: vec![],
        notes: vec!["the VAE did not fit; again with 224 frames".into()],
        latents: Some(distance(1e-6, 1e-5, None)),
        sound: Some(distance(0.5, 0.6, Some(0.4))),
        wall_s: 1.0,
    }
}

#[test]
fn a_song_that_was_made_in_smaller_pieces_is_a_good_one() {
    assert_eq!(length().problems(), Vec::<String>::new());
}

#[test]
fn whatever_is_wrong_with_a_song_is_said() {
    let broken = Length {
        samples: 479_999,
        quietest: f64::NAN,
        repeats: false,
        overflowed: vec!["the VAE overflowed in f16".into()],
        latents: Some(distance(f64::NAN, 1e-5, None)),
        sound: Some(distance(0.7, 0.6, Some(0.4))),
        ..length()
    };
    assert_eq!(
        broken.problems(),
        [
            "479999 samples, not 480000",
            "silence in it",
            "the same seed gave other samples",
            "the VAE overflowed in f16",
            "latents are NaN from the processor's f32",
            "samples are 7.0e-1 from the processor's f32, its own in that type 4.0e-1",
        ]
    );
}

#[test]
fn no_distance_is_near_where_the_cpu_has_nan() {
    let latents = Some(distance(0.1, f64::NAN, Some(f64::NAN)));
    assert_eq!(Length { latents, ..length() }.problems().len(), 1);
}

/// Such a row can occur for a song.
#[test]
fn a_row_with_a_number_that_is_none_is_read_and_fails() {
    let latents = Some(distance(f64::NAN, f64::INFINITY, Some(f64::NAN)));
    let row = Length { quietest: f64::NAN, latents, ..length() };
    let text = serde_json::to_string(&Line::Length(row)).expect("JSON");
    let Line::Length(read) = serde_json::from_str(&text).expect("a line") else { panic!("{text}") };
    let problems = ["silence in it", "latents are NaN from the processor's f32"];
    assert_eq!(read.problems(), problems);
}

#[test]
fn a_kernel_whose_result_is_not_finite_does_not_pass() {
    let kernel = |error| Kernel {
        operation: "snake".into(),
        shape: "1".into(),
        dtype: "f32".into(),
        error,
        tolerance: 1e-5,
        kernel_s: None,
        reference_s: None,
    };
    assert!(kernel(Some(1e-5)).passes());
    assert!(!kernel(Some(1.1e-5)).passes());
    assert!(!kernel(Some(f64::NAN)).passes());
    assert!(!kernel(None).passes());
}

#[test]
fn a_line_is_read_as_it_is_written() {
    let lines = [
        Line::Begin { index: 3, name: "snake".into() },
        Line::Length(length()),
        Line::Ceiling(Ceiling {
            dtype: "f16".into(),
            measured: Ceilings { flop_per_s: 1e12, bytes_per_s: 1e9 },
        }),
        Line::Problem("no".into()),
    ];
    for line in lines {
        let text = serde_json::to_string(&line).expect("JSON");
        assert!(!text.contains('\n'));
        assert_eq!(serde_json::from_str::<Line>(&text).expect("a line"), line);
    }
}
