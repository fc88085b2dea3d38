//! Filters: guidance, repetition penalty, top-k and top-p.
//!
//! Source: upstream `_apply_top_k_filter`, `_apply_top_p_filter`; transformers
//! `RepetitionPenaltyLogitsProcessor`.

use super::{Scores, largest, softmax};

/// Classifier-free guidance: writes `u + scale (c - u)` to `conditional`.
///
/// # Panics
/// If the two are not scores of the same tokens.
pub fn guide(conditional: &mut Scores, unconditional: &Scores, scale: f32) {
    assert_eq!(conditional.tokens, unconditional.tokens, "scores of the same tokens");
    assert_eq!(conditional.logits.len(), unconditional.logits.len(), "as many scores");
    // ANCHOR: guide
    for (c, &u) in conditional.logits.iter_mut().zip(&unconditional.logits) {
        *c = u + scale * (*c - u);
    }
    // ANCHOR_END: guide
}

/// Penalises tokens that were written before, including the prompt, each token once.
///
/// A positive score is divided by `penalty`, a negative one is multiplied.
pub fn penalise(scores: &mut Scores, history: &[u32], penalty: f32) {
    let penalised = |score: f32| if score < 0.0 { score * penalty } else { score / penalty };
    // Read all before writing any, so that a repeated token counts once.
    let new: Vec<_> = history
        .iter()
        .filter_map(|&token| scores.index(token))
        .map(|index| (index, penalised(scores.logits[index])))
        .collect();
    for (index, score) in new {
        scores.logits[index] = score;
    }
}

/// Forbids every token below the `k`-th most likely one; tokens equal to it stay.
///
/// `k` of 0 keeps everything, as in upstream.
pub fn keep_top_k(scores: &mut Scores, k: usize) {
    if k == 0 || k >= scores.logits.len() {
        return;
    }
    let mut keys: Vec<u32> = scores.logits.iter().map(|&score| ascending(score)).collect();
    let (_, &mut least, _) = keys.select_nth_unstable_by(k - 1, |a, b| b.cmp(a));
    for score in &mut scores.logits {
        if ascending(*score) < least {
            *score = f32::NEG_INFINITY;
        }
    }
}

/// Keeps the smallest set of most likely tokens whose probabilities sum to more than `p`.
///
/// Of equal tokens the first ones stay. As in upstream, the probabilities are computed before the
/// temperature. `p` outside 0 to 1, both excluded, keeps everything.
///
/// Probabilities are summed as integers, so the order of summation does not matter and no sort is
/// needed. The last kept token is found by the leading bits of its score, then by median splits.
pub fn keep_top_p(scores: &mut Scores, p: f32) {
    if !(p > 0.0 && p < 1.0) {
        return;
    }
    let Some(probabilities) = softmax(&scores.logits, 1.0) else { return };
    // Scores near the largest one are often enough, and are few.
    let near = group(largest(&scores.logits) - NEAR);
    let last = |least| last_kept(&scores.logits, &probabilities, least, p);
    // Rounding can keep the total sum below a `p` close to 1.
    let Some(last) = last(near).or_else(|| last(0)) else { return };
    for (index, score) in scores.logits.iter_mut().enumerate() {
        if rank(*score, index) < last {
            *score = f32::NEG_INFINITY;
        }
    }
}

/// Distance of scores from the largest one that are read first; a probability there is 2e4 times smaller.
const NEAR: f32 = 10.0;

/// Returns the rank of the last token that [`keep_top_p`] keeps; `None` if the tokens of group `least` and
/// above have too little probability.
fn last_kept(logits: &[f32], probabilities: &[f32], least: usize, p: f32) -> Option<u64> {
    // 2^-60 is far below one unit in the last place of any relevant probability.
    let weight = |index: usize| (f64::from(probabilities[index]) * (1u64 << 60) as f64) as u64;
    let exceeds = |sum: u64| (sum as f64 / (1u64 << 60) as f64) as f32 > p;

    let read = logits.iter().copied().enumerate().filter(|&(_, score)| group(score) >= least);
    let read: Vec<(usize, f32)> = read.collect();
    let mut groups = vec![0; 1 << (32 - GROUP_SHIFT)];
    for &(index, score) in &read {
        groups[group(score)] += weight(index);
    }
    let mut above = 0;
    let last_group = groups.iter().rposition(|&sum| {
        let exceeded = exceeds(above + sum);
        if !exceeded {
            above += sum;
        }
        exceeded
    })?;

    let members = read.into_iter().filter(|&(_, score)| group(score) == last_group);
    let mut members: Vec<u64> = members.map(|(index, score)| rank(score, index)).collect();
    let mut undecided = &mut members[..];
    while undecided.len() > 1 {
        let half = undecided.len() / 2;
        undecided.select_nth_unstable_by(half - 1, |a, b| b.cmp(a));
        let (upper, lower) = undecided.split_at_mut(half);
        let sum = upper.iter().fold(above, |sum, &rank| sum + weight(place(rank)));
        if exceeds(sum) {
            undecided = upper;
        } else {
            above = sum;
            undecided = lower;
        }
    }
    undecided.first().copied()
}

/// Returns the group of a score: tokens of a larger group are likelier.
fn group(score: f32) -> usize {
    (ascending(score) >> GROUP_SHIFT) as usize
}

/// Bits of a score that its group ignores; sign, exponent and three bits of the fraction remain.
const GROUP_SHIFT: u32 = 20;

/// Maps a score to an integer of the same order; both zeros are equal.
fn ascending(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

/// Returns a rank that grows with the score; of equal scores the first has the highest rank.
fn rank(score: f32, index: usize) -> u64 {
    u64::from(ascending(score)) << 32 | u64::from(!(index as u32))
}

/// Returns the index in a [`rank`].
fn place(rank: u64) -> usize {
    !(rank as u32) as usize
}

#[cfg(test)]
mod tests {
    use super::{super::TokenMap, *};

    fn all(logits: &[f32]) -> Scores {
        Scores { logits: logits.to_vec(), tokens: TokenMap::All }
    }

    fn kept(scores: &Scores) -> Vec<usize> {
        (0..scores.logits.len()).filter(|&i| scores.logits[i] > f32::NEG_INFINITY).collect()
    }

    /// Reference implementation: sorts, sums and cuts.
    fn kept_by_definition(logits: &[f32], p: f32) -> Vec<usize> {
        let probabilities = softmax(logits, 1.0).expect("something");
        let mut order: Vec<usize> = (0..logits.len()).collect();
        // Stable: equal scores stay in order.
        order.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).expect("no NaN"));
        let mut sum = 0.0f64;
        let mut kept = Vec::new();
        for index in order {
            if sum as f32 <= p && logits[index] > f32::NEG_INFINITY {
                kept.push(index);
            }
            sum += f64::from(probabilities[index]);
        }
        kept.sort_unstable();
        kept
    }

    #[test]
    fn guidance_goes_away_from_the_unconditional_score() {
        let mut scores = all(&[1.0, -2.0, 0.5]);
        guide(&mut scores, &all(&[0.5, -1.0, 0.5]), 2.0);
        assert_eq!(scores.logits, [1.5, -3.0, 0.5]);
    }

    #[test]
    fn equals_of_the_last_stay_with_top_k_but_not_with_top_p() {
        let logits = [1.0, 3.0, 2.0, 2.0, 2.0, f32::NEG_INFINITY, -0.0, 0.0];
        let mut scores = all(&logits);
        keep_top_k(&mut scores, 2);
        assert_eq!(kept(&scores), [1, 2, 3, 4]);
        // e^3, e^2 and so on over their sum: 0.42, 0.16, 0.16, 0.16, 0.06, 0.02, 0.02.
        for (p, expected) in [
            (0.40, &[1][..]),
            (0.50, &[1, 2]),
            (0.60, &[1, 2, 3]),
            (0.97, &[0, 1, 2, 3, 4, 6]),
            (0.9999, &[0, 1, 2, 3, 4, 6, 7]),
        ] {
            let mut scores = all(&logits);
            keep_top_p(&mut scores, p);
            assert_eq!(kept(&scores), expected, "{p}");
        }
    }

    #[test]
    fn the_median_gives_what_the_sort_gives() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        for case in 0..300 {
            let n = 1 + next() as usize % 70;
            let spread = [0.1, 1.0, 4.0, 30.0][case % 4];
            let mut logits: Vec<f32> = (0..n).map(|_| (next() % 9) as f32 / 8.0 * spread).collect();
            if n > 3 {
                logits[0] = f32::NEG_INFINITY;
            }
            let p = next() as f32 / (1 << 24) as f32;
            let mut scores = all(&logits);
            keep_top_p(&mut scores, p);
            assert_eq!(kept(&scores), kept_by_definition(&logits, p), "{p} of {logits:?}");
        }
    }

    #[test]
    fn limits_that_limit_nothing_change_nothing() {
        let logits = [1.0, f32::NEG_INFINITY, 0.5];
        for k in [0, 3, usize::MAX] {
            let mut scores = all(&logits);
            keep_top_k(&mut scores, k);
            assert_eq!(scores.logits, logits);
        }
        for p in [0.0, 1.0, -1.0, f32::NAN, 1.5] {
            let mut scores = all(&logits);
            keep_top_p(&mut scores, p);
            assert_eq!(scores.logits, logits);
        }
        let mut nothing = all(&[]);
        keep_top_p(&mut nothing, 0.5);
        keep_top_k(&mut nothing, 1);
        penalise(&mut nothing, &[1], 2.0);
        let mut forbidden = all(&[f32::NEG_INFINITY; 3]);
        keep_top_p(&mut forbidden, 0.5);
        assert_eq!(forbidden.best(), None);
    }

    #[test]
    fn what_stands_twice_in_the_history_is_penalised_once() {
        let mut scores = all(&[4.0, -4.0, 0.0, 1.0, f32::NEG_INFINITY]);
        penalise(&mut scores, &[0, 1, 1, 0, 4, 2, 1000], 2.0);
        assert_eq!(scores.logits, [2.0, -8.0, 0.0, 1.0, f32::NEG_INFINITY]);
    }
}
