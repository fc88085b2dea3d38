//! Scores of a batch, as a table and as JSON.

use acestep_music::lm::pmi::LanguageScore;
use serde_json::{Value, json};

use super::{ExtraResults, SongScores};

/// A song that is ranked among others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranked {
    /// Index in the batch.
    pub index: usize,
    /// `None` if the seed had no effect.
    pub seed: Option<u64>,
    /// Its file.
    pub name: String,
}

impl ExtraResults {
    /// Returns a table with one line per song, best first; `None` if nothing was scored.
    pub fn table(&self, songs: &[Ranked]) -> Option<String> {
        let rows = self.rows(songs.iter().map(|song| song.index));
        rows.iter().find_map(SongScores::key)?;
        let mut cells: Vec<Vec<String>> = vec![
            ["score", "caption", "lyrics", "metadata", "words", "seed", "song"]
                .map(String::from)
                .into(),
        ];
        for row in &rows {
            let number =
                |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.4}"));
            let judged = |of: fn(&LanguageScore) -> Option<f64>| number(row.judged.and_then(of));
            let Some(song) = of_row(row, songs) else { continue };
            cells.push(vec![
                judged(LanguageScore::total),
                judged(|of| of.caption),
                judged(|of| of.lyrics),
                judged(mean_of_metadata),
                number(row.words.map(|words| words.song.score)),
                song.seed.map_or("-".into(), |seed| seed.to_string()),
                song.name.clone(),
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
    pub fn ranking(&self, songs: &[Ranked]) -> Value {
        let entry = |row: &SongScores<'_>| {
            let song = of_row(row, songs)?;
            Some(json!({"path": song.name, "seed": song.seed, "score": row.key()}))
        };
        self.rows(songs.iter().map(|song| song.index)).iter().filter_map(entry).collect()
    }
}

/// Returns the song of a row.
fn of_row<'a>(row: &SongScores<'_>, songs: &'a [Ranked]) -> Option<&'a Ranked> {
    songs.iter().find(|song| song.index == row.index)
}

fn mean_of_metadata(score: &LanguageScore) -> Option<f64> {
    let count = score.metadata.len();
    let sum: f64 = score.metadata.iter().map(|(_, score)| score).sum();
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use acestep_music::align::{Aligned, attention_maps::AlignmentScores, score::Alignment};

    use super::*;

    fn words(score: f64) -> Aligned {
        let of = Alignment { coverage: 1.0, monotonicity: 1.0, confidence: score, score };
        Aligned { lines: vec![], score: Some(AlignmentScores { outline: of, song: of }) }
    }

    #[test]
    fn the_best_song_comes_first_and_what_was_not_scored_is_a_dash() {
        let songs: Vec<Ranked> = [("a.wav", 7), ("b.wav", 123), ("c.wav", 9)]
            .into_iter()
            .enumerate()
            .map(|(index, (name, seed))| Ranked { index, seed: Some(seed), name: name.to_owned() })
            .collect();
        let aligned = vec![words(0.2), words(0.5), words(0.3)];
        let mut found = ExtraResults { aligned, ..ExtraResults::default() };
        let text = found.table(&songs).expect("scores");
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
        let text = found.table(&songs).expect("scores");
        let order: Vec<&str> = text.lines().skip(1).filter_map(|l| l.split("  ").last()).collect();
        assert_eq!(order, ["a.wav", "c.wav", "b.wav"]);
        // (0.5 * 0.9 + 0.2 * 0.75) / 0.7
        assert!(
            text.lines().nth(1).expect("a line").starts_with("0.8571   0.9000       -    0.7500")
        );
        assert_eq!(ExtraResults::default().table(&songs), None);
        // The first song was not written: the others keep their scores.
        found.judged.clear();
        let rest = found.ranking(&songs[1..]);
        assert_eq!(rest[0], json!({"path": "b.wav", "seed": 123, "score": 0.5}));
        assert_eq!(rest[1], json!({"path": "c.wav", "seed": 9, "score": 0.3}));
    }
}
