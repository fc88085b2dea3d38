//! Scores of the match between a song's audio codes and the request, by the language model.
//!
//! The model reads the audio codes and is asked to describe the song. Metadata are scored by the
//! probability of the true values. Caption and lyrics are scored by the gain in likelihood with
//! these codes over none (pointwise mutual information).
//!
//! Source: upstream `lm_score.py`.

/// A true token counts if it is among this many likeliest tokens.
pub const MOST_RANK: usize = 10;

/// Scale of the likelihood gain in the sigmoid, in nats per token.
pub const SCALE: f64 = 0.1;

const CAPTION: f64 = 0.5;
const LYRICS: f64 = 0.3;
const METADATA: f64 = 0.2;

/// Measures of one true token under one row of logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Likelihood {
    /// 1 if it was the likeliest, less 0.1 for each likelier token; 0 from rank eleven on.
    pub recall: f64,
    /// Logarithm of its probability.
    pub log_probability: f64,
}

/// Measures one row of logits; among equal logits the first counts as likelier.
pub fn read(scores: &[f32], token: usize) -> Likelihood {
    let own = scores[token];
    let before =
        scores.iter().enumerate().filter(|&(i, &x)| x > own || x == own && i < token).count();
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = scores.iter().map(|&x| f64::from(x - most).exp()).sum();
    Likelihood {
        recall: if before < MOST_RANK { 1.0 - before as f64 / MOST_RANK as f64 } else { 0.0 },
        log_probability: f64::from(own - most) - sum.ln(),
    }
}

/// Returns the mean over a text's tokens; 0 and minus infinity without tokens.
pub fn mean(readings: &[Likelihood]) -> Likelihood {
    let count = readings.len() as f64;
    let of = |value: fn(&Likelihood) -> f64| readings.iter().map(value).sum::<f64>() / count;
    if readings.is_empty() {
        return Likelihood { recall: 0.0, log_probability: f64::NEG_INFINITY };
    }
    Likelihood { recall: of(|r| r.recall), log_probability: of(|r| r.log_probability) }
}

/// Maps a likelihood gain to a score; 0.5 if the text is as likely with the codes as without.
pub fn likelier(with: f64, without: f64, scale: f64) -> f64 {
    1.0 / (1.0 + (-(with - without) / scale).exp())
}

/// Scores of one song, each from 0 to 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LanguageScore {
    /// Score of the caption, if there is one.
    pub caption: Option<f64>,
    /// Score of the lyrics, if there are any.
    pub lyrics: Option<f64>,
    /// Scores of the known metadata, by key.
    pub metadata: Vec<(&'static str, f64)>,
}

impl LanguageScore {
    /// Returns the weighted total: caption 0.5, lyrics 0.3, mean of the metadata 0.2. Weights are
    /// normalised over the present scores.
    pub fn total(&self) -> Option<f64> {
        let count = self.metadata.len() as f64;
        let metadata = self.metadata.iter().map(|(_, score)| score).sum::<f64>() / count;
        let metadata = (!self.metadata.is_empty()).then_some(metadata);
        let parts = [(self.caption, CAPTION), (self.lyrics, LYRICS), (metadata, METADATA)];
        let present = || parts.iter().filter_map(|&(score, weight)| Some((score?, weight)));
        let weights: f64 = present().map(|(_, weight)| weight).sum();
        (weights > 0.0).then(|| present().map(|(s, weight)| s * weight).sum::<f64>() / weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::align::expected::{cases, close, floats, wholes};

    #[test]
    fn recall_and_probability_are_those_of_the_description() {
        let cases = cases("language");
        assert_eq!(cases.len(), 4);
        for case in &cases {
            let width = wholes(&case["shape"])[1];
            let scores: Vec<f32> = floats(&case["in"]).into_iter().map(|x| x as f32).collect();
            let rows = scores.chunks(width).zip(wholes(&case["targets"]));
            let readings: Vec<_> = rows.map(|(row, target)| read(row, target)).collect();
            let Likelihood { recall, log_probability } = mean(&readings);
            let wanted = [&case["recall"], &case["log_probability"]].map(|x| x.as_f64());
            close(&[recall, log_probability], &wanted.map(|x| x.expect("a number")), 1e-6);
        }
    }

    #[test]
    fn a_total_shares_out_what_is_absent() {
        for case in &cases("reward") {
            let metadata = floats(&case["metadata"]).into_iter().map(|score| ("bpm", score));
            let score = LanguageScore {
                caption: case["caption"].as_f64(),
                lyrics: case["lyrics"].as_f64(),
                metadata: metadata.collect(),
            };
            close(&[score.total().expect("a part")], &[case["out"].as_f64().expect("out")], 1e-12);
        }
        assert_eq!(LanguageScore::default().total(), None);
    }

    #[test]
    fn as_likely_as_without_the_codes_is_a_half() {
        for case in &cases("sigmoid") {
            let number = |key: &str| case[key].as_f64().expect("a number");
            let found = likelier(number("difference"), 0.0, number("scale"));
            close(&[found], &[number("out")], 1e-12);
        }
        assert_eq!(likelier(-3.5, -3.5, SCALE), 0.5);
    }
}
