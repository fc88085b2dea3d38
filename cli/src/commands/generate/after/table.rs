//! Scores of a batch, as a table and as JSON.

use acestep_music::lm::pmi::LanguageScore;
use acestep_session::song::{Found, Row};
use serde_json::{Value, json};

use super::super::written::WrittenSong;

/// Returns a table with one line per song, best first; `None` if nothing was scored.
pub(in super::super) fn table(found: &Found, written: &[WrittenSong]) -> Option<String> {
    let rows = found.rows(written.len());
    rows.iter().find_map(Row::key)?;
    let mut cells: Vec<Vec<String>> = vec![
        ["score", "caption", "lyrics", "metadata", "words", "seed", "song"]
            .map(String::from)
            .into(),
    ];
    for row in &rows {
        let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.4}"));
        let judged = |of: fn(&LanguageScore) -> Option<f64>| number(row.judged.and_then(of));
        let song = &written[row.index];
        cells.push(vec![
            judged(LanguageScore::total),
            judged(|of| of.caption),
            judged(|of| of.lyrics),
            judged(mean_of_metadata),
            number(row.words.map(|words| words.song.score)),
            song.seed.map_or("-".into(), |seed| seed.to_string()),
            song.target.to_string(),
        ]);
    }
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..cells[0].len()).map(|i| width(i).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).enumerate().map(|(i, (cell, &width))| {
            // The last column has no padding.
            if i + 1 == row.len() { cell.clone() } else { format!("{cell:>width$}") }
        });
        padded.collect::<Vec<_>>().join("  ")
    };
    Some(cells.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Returns the songs as a list, best first.
pub(in super::super) fn ranking(found: &Found, written: &[WrittenSong]) -> Value {
    let entry = |row: &Row<'_>| {
        let song = &written[row.index];
        json!({"path": song.target.to_string(), "seed": song.seed, "score": row.key()})
    };
    found.rows(written.len()).iter().map(entry).collect()
}

fn mean_of_metadata(score: &LanguageScore) -> Option<f64> {
    let count = score.metadata.len();
    let sum: f64 = score.metadata.iter().map(|(_, score)| score).sum();
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use acestep_music::align::{Aligned, attention_maps::Scores, score::Alignment};

    use super::*;
    use crate::commands::target::Target;

    fn words(score: f64) -> Aligned {
        let of = Alignment { coverage: 1.0, monotonicity: 1.0, confidence: score, score };
        Aligned { lines: vec![], score: Some(Scores { outline: of, song: of }) }
    }

    #[test]
    fn the_best_song_comes_first_and_what_was_not_scored_is_a_dash() {
        let targets: Vec<Target> =
            ["a.wav", "b.wav", "c.wav"].map(|name| Target::File(PathBuf::from(name))).into();
        let written: Vec<WrittenSong> = targets
            .iter()
            .zip([7, 123, 9])
            .map(|(target, seed)| WrittenSong {
                target: target.clone(),
                seed: Some(seed),
                seconds: 1.0,
                samples: 48_000,
                sample_rate: 48_000,
                channels: 2,
            })
            .collect();
        let aligned = vec![words(0.2), words(0.5), words(0.3)];
        let mut found = Found { aligned, ..Found::default() };
        let text = table(&found, &written).expect("scores");
        assert_eq!(
            text,
            "score  caption  lyrics  metadata   words  seed  song\n    \
             -        -       -         -  0.5000   123  b.wav\n    \
             -        -       -         -  0.3000     9  c.wav\n    \
             -        -       -         -  0.2000     7  a.wav"
        );
        let judged = |caption| {
            let metadata = vec![("bpm", 1.0), ("duration", 0.5)];
            LanguageScore { caption: Some(caption), lyrics: None, metadata }
        };
        found.judged = vec![judged(0.9), judged(0.1), judged(0.9)];
        let text = table(&found, &written).expect("scores");
        let order: Vec<&str> = text.lines().skip(1).filter_map(|l| l.split("  ").last()).collect();
        assert_eq!(order, ["a.wav", "c.wav", "b.wav"]);
        // (0.5 * 0.9 + 0.2 * 0.75) / 0.7
        assert!(
            text.lines().nth(1).expect("a line").starts_with("0.8571   0.9000       -    0.7500")
        );
        assert_eq!(table(&Found::default(), &written), None);
    }
}
