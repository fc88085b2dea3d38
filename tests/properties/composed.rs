//! An independent listener measures tempo and key of the composer's pieces.

use acestep_demo::composer::{Key, Mode, Piece, Wish};
use acestep_demo::listener::{faults, key, tempo};

/// Over many more pieces, the listener is right for 99 of 100: see the book, "Training".
#[test]
fn tempo_and_key_are_heard_in_nearly_every_piece() {
    let wish = Wish { duration_s: Some(10.0), ..Wish::default() };
    let mut mistakes = Vec::new();
    for seed in 100_000..100_016 {
        let piece = Piece::compose(seed, &wish);
        let sound = piece.render();
        let heard = tempo(&sound).bpm;
        if (heard / f64::from(piece.bpm) - 1.0).abs() > 0.02 {
            mistakes.push(format!("{seed}, {}: {heard:.1} for {} bpm", piece.style, piece.bpm));
        }
        let heard = key(&sound);
        let mode = if heard.minor { Mode::Minor } else { Mode::Major };
        let heard = Key::new(heard.tonic, mode);
        if heard != piece.keyscale {
            mistakes.push(format!("{seed}, {}: {heard} for {}", piece.style, piece.keyscale));
        }
        let faults = faults(&sound);
        assert_eq!((faults.clipped, faults.not_finite), (0, 0), "{seed}");
        assert!(faults.silence_s < 0.3, "{seed}: {} s of silence", faults.silence_s);
    }
    assert!(mistakes.len() <= 1, "{mistakes:#?}");
}
