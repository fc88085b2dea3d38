//! The end of speech: which frame of a step ends it.
//!
//! Two streams of codes say it: the codes that were drawn, and the likeliest codes of the decoder's own
//! head.
//!
//! Source: NeMo 3.0.0, `magpietts.py`, `detect_eos`.

use acestep_model::speech::magpie::EosDetection;

/// The codebooks that have to say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCodebooks {
    /// One of them.
    Any,
    /// All of them.
    All,
    /// The first one.
    First,
}

/// The rule of a model, by its name in `eos_detection_method`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndRule {
    /// The codebooks that have to say it.
    pub of: EndCodebooks,
    /// True if the codes that were drawn count too.
    pub with_drawn: bool,
}

impl From<EosDetection> for EndRule {
    fn from(rule: EosDetection) -> Self {
        let (of, with_drawn) = match rule {
            EosDetection::ArgmaxAny => (EndCodebooks::Any, false),
            EosDetection::ArgmaxOrMultinomialAny => (EndCodebooks::Any, true),
            EosDetection::ArgmaxAll => (EndCodebooks::All, false),
            EosDetection::ArgmaxOrMultinomialAll => (EndCodebooks::All, true),
            EosDetection::ArgmaxZeroCb => (EndCodebooks::First, false),
            EosDetection::ArgmaxOrMultinomialZeroCb => (EndCodebooks::First, true),
        };
        Self { of, with_drawn }
    }
}

impl EndRule {
    /// Returns the frame of a step that ends the speech, if one does. Codes are in the order of frames;
    /// a frame has `codebooks` of them.
    pub fn frame(
        self,
        drawn: &[u32],
        likeliest: &[u32],
        codebooks: usize,
        end: u32,
    ) -> Option<usize> {
        let says = |frame: &[u32]| {
            let mut codes = frame.iter().map(|&code| code == end);
            match self.of {
                EndCodebooks::Any => codes.any(|is_end| is_end),
                EndCodebooks::All => codes.all(|is_end| is_end),
                EndCodebooks::First => codes.next() == Some(true),
            }
        };
        let first = |codes: &[u32]| codes.chunks(codebooks).position(says);
        let drawn = first(drawn).filter(|_| self.with_drawn);
        drawn.into_iter().chain(first(likeliest)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::magpie::golden::logic;

    /// Codes `[C][S]` in the order of frames.
    fn by_frame(value: &serde_json::Value) -> (Vec<u32>, usize) {
        let codes: Vec<Vec<u32>> = serde_json::from_value(value.clone()).expect("codes");
        let frames = codes[0].len();
        let of = |frame: usize| codes.iter().map(move |codebook| codebook[frame]);
        ((0..frames).flat_map(of).collect(), codes.len())
    }

    fn named(rule: &str) -> EosDetection {
        serde_json::from_value(rule.into()).expect(rule)
    }

    #[test]
    fn each_rule_ends_at_the_frame_of_the_reference() {
        let golden = logic("eos.json");
        let end = golden["audio_eos_id"].as_u64().expect("an id") as u32;
        let (mut rules, mut ends) = (0, 0);
        for case in golden["cases"].as_array().expect("cases") {
            let (drawn, codebooks) = by_frame(&case["sampled"]);
            let (likeliest, _) = by_frame(&case["argmax"]);
            for (name, expected) in case["frame"].as_object().expect("rules") {
                let rule = EndRule::from(named(name));
                let frame = rule.frame(&drawn, &likeliest, codebooks, end);
                assert_eq!(frame.map(|frame| frame as u64), expected.as_u64(), "{name} {case}");
                rules += 1;
                ends += usize::from(frame.is_some());
            }
        }
        assert_eq!(rules, 24 * 6);
        assert!(ends > 60, "{ends}");
    }
}
