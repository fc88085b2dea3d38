//! Transcription of a piece: the notes that sound, and the strokes with their times.
//!
//! Each moment of a fifth of a second, the length of an audio code, has 64 values from 0 to 1:
//!
//! | values | content |
//! |---|---|
//! | 12 | duration of each pitch class over all octaves, `C` first |
//! | 12 | the same for the bass alone |
//! | 4 x 10 | loudness of strokes of bass drum, snare, cymbals and notes in each 20 ms |
//!
//! Instruments are not included: a cover takes them from its caption.

use crate::composer::{Instrument, Piece, TICKS_PER_BEAT};

/// Values per moment.
pub const NUMBERS: usize = 12 + 12 + ROWS * SLOTS;

/// Exclusive ends of the three kinds of values.
pub const KINDS: [usize; 3] = [12, 24, NUMBERS];

/// Moments per second.
const MOMENTS: f64 = 5.0;

/// Time slots of a moment for strokes.
const SLOTS: usize = 10;

/// Kinds of strokes.
const ROWS: usize = 4;

/// Share of a stroke that is added to the adjacent slots, because so small an offset is inaudible.
const BLUR: f32 = 0.5;

/// Returns the first `moments` moments of a piece, [`NUMBERS`] values each.
pub fn sheet(piece: &Piece, moments: usize) -> Vec<f32> {
    let second =
        |tick: u32| f64::from(tick) * 60.0 / (f64::from(TICKS_PER_BEAT) * f64::from(piece.bpm));
    let mut sheet = vec![0.0f32; moments * NUMBERS];
    for note in &piece.notes {
        let (start, end) = (second(note.start), second(note.start + note.length));
        let slot = (start * MOMENTS * SLOTS as f64) as usize;
        for (slot, share) in
            [(slot.checked_sub(1), BLUR), (Some(slot), 1.0), (Some(slot + 1), BLUR)]
        {
            let Some((moment, slot)) = slot.map(|slot| (slot / SLOTS, slot % SLOTS)) else {
                continue;
            };
            if moment < moments {
                let place = moment * NUMBERS + 24 + row(note.instrument) * SLOTS + slot;
                sheet[place] = sheet[place].max(share * note.velocity.min(1.0));
            }
        }
        if note.instrument.is_drum() {
            continue;
        }
        let class = usize::from(note.pitch % 12);
        for moment in (start * MOMENTS) as usize..moments {
            let from = moment as f64 / MOMENTS;
            let overlap = (end.min(from + 1.0 / MOMENTS) - start.max(from)) * MOMENTS;
            if overlap <= 0.0 {
                break;
            }
            let mut add = |place: usize| {
                let number = &mut sheet[moment * NUMBERS + place];
                *number = (*number + overlap as f32).min(1.0);
            };
            add(class);
            if is_bass(note.instrument) {
                add(12 + class);
            }
        }
    }
    sheet
}

fn is_bass(instrument: Instrument) -> bool {
    matches!(instrument, Instrument::Bass | Instrument::SynthBass | Instrument::SubBass)
}

fn row(instrument: Instrument) -> usize {
    match instrument {
        Instrument::Kick => 0,
        Instrument::Snare | Instrument::Clap | Instrument::Rim => 1,
        drum if drum.is_drum() => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::composer::{Style, Wish};

    #[test]
    fn a_house_piece_is_written_down() {
        let wish = Wish {
            style: Some(Style::House),
            bpm: Some(120),
            duration_s: Some(6.0),
            ..Wish::default()
        };
        let piece = Piece::compose(3, &wish);
        let sheet = sheet(&piece, 30);
        assert_eq!(sheet.len(), 30 * NUMBERS);
        assert!(sheet.iter().all(|number| (0.0..=1.0).contains(number)));
        // 120 beats per minute: a kick every 0.5 s, which is every 2.5 moments.
        let kicks: Vec<usize> =
            (0..300).filter(|slot| sheet[slot / 10 * NUMBERS + 24 + slot % 10] > 0.6).collect();
        assert_eq!(kicks[..6], [0, 25, 50, 75, 100, 125]);
        // The tonic sounds first, in the bass and in total.
        let tonic = usize::from(piece.keyscale.tonic());
        assert!(sheet[tonic] > 0.5, "{:?}", &sheet[..24]);
        // No note is out of key.
        for moment in sheet.chunks(NUMBERS) {
            let out = (0..12).filter(|&class| !piece.keyscale.contains(class as u8));
            assert!(out.into_iter().all(|class| moment[class] == 0.0));
        }
    }
}
