//! The attended position of the text, and the attention prior.
//!
//! After each step the position with the most attention in a small window is taken as the one that is
//! spoken. The prior of the next step multiplies attention far from it by a small number, so that
//! nothing is skipped or repeated.
//!
//! Positions count from the beginning of the whole text. A later chunk sees a window of it, which
//! begins at `left`; `n` is the length of that window, with the end of the text.
//!
//! Source: NeMo 3.0.0, `magpietts.py`: `get_most_attended_text_timestep`,
//! `construct_inference_prior`, `construct_multi_chunk_prior`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

/// Steps on one position after which the next one is the least that counts.
const STEPS_UNTIL_NEXT: u32 = 8;
/// Steps on one position after which everything up to it is left behind.
const STEPS_UNTIL_LEFT: u32 = 10;
/// Positions before the end that count as near it.
const NEAR_END: i64 = 3;
/// Steps near the end after which the text of the first or last chunk counts as spoken.
const STEPS_NEAR_END: u32 = 5;
/// Text length up to which the first chunk has no prior.
const SHORT: usize = 5;
/// Text length up to which a later chunk has no prior.
const SHORT_LATER: usize = 35;
/// Prior of the first positions of a later chunk, before its first step.
const AT_START: [f32; 5] = [0.5, 1.0, 0.8, 0.2, 0.2];
/// Prior of the positions after the attended one, in a later chunk.
const AFTER: [f32; 4] = [0.6, 0.4, 0.2, 0.2];
/// Prior of the position before the attended one, in a later chunk.
const BEFORE: f32 = 0.2;

/// Settings of the prior.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriorSettings {
    /// Positions after the attended one that the next one is looked for in.
    pub lookahead: usize,
    /// Prior of positions far from the attended one.
    pub epsilon: f32,
    /// True to take positions before the window from its end, as the reference does by accident.
    pub wraps: bool,
}

/// The state of a text.
#[derive(Debug, Clone)]
pub struct Align {
    settings: PriorSettings,
    /// The attended position.
    last: i64,
    /// The beginning of the window.
    left: i64,
    /// Length of the window.
    n: usize,
    is_first: bool,
    /// Steps on each position, in this chunk.
    counts: BTreeMap<i64, u32>,
    near: Option<u32>,
    is_unfinished: bool,
}

impl Align {
    /// Begins a text whose first chunk has `n` ids.
    pub fn new(settings: PriorSettings, n: usize) -> Self {
        Self {
            settings,
            last: 1,
            left: 0,
            n,
            is_first: true,
            counts: BTreeMap::new(),
            near: None,
            is_unfinished: false,
        }
    }

    pub(super) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Begins a later chunk, whose window has `n` ids and begins at `left`. Returns the prior of its
    /// first step; `own` is the number of ids of the chunk itself.
    pub fn begin_chunk(&mut self, left: usize, n: usize, own: usize) -> Vec<f32> {
        self.left = left as i64;
        if !self.settings.wraps {
            // A chunk that ended early leaves a position that this window does not have.
            self.last = self.last.max(self.left);
        }
        (self.n, self.is_first) = (n, false);
        self.counts.clear();
        (self.near, self.is_unfinished) = (None, false);
        let epsilon = self.settings.epsilon;
        let mut prior = vec![epsilon; n];
        prior[..n - own].fill(epsilon * epsilon);
        prior[n - own..].iter_mut().zip(AT_START).for_each(|(prior, value)| *prior = value);
        prior
    }

    /// The beginning of the window.
    pub fn left(&self) -> usize {
        self.left as usize
    }

    /// Takes the attention of a step to each position of the window. Returns the attended position.
    pub fn attend(&mut self, scores: &[f32]) -> usize {
        let tired = self.counts.get(&self.last).is_some_and(|&count| count >= STEPS_UNTIL_NEXT);
        let from = self.last + i64::from(tired);
        let start = from - self.left;
        let end = (start + self.settings.lookahead as i64).min(self.n as i64 - NEAR_END);
        let window = &scores[slice(start, end, scores.len())];
        let mut best: Option<(i64, f32)> = None;
        for (index, &score) in (0..).zip(window) {
            if best.is_none_or(|(_, most)| score > most) {
                best = Some((index, score));
            }
        }
        self.last = match best {
            Some((index, _)) => from + index,
            None => self.n as i64 - 1 + self.left,
        };
        *self.counts.entry(self.last).or_default() += 1;
        self.last as usize
    }

    /// Returns the prior of the next step, and looks whether the end is near.
    pub fn prior(&mut self) -> Vec<f32> {
        if self.is_first { self.prior_of_first() } else { self.prior_of_later() }
    }

    fn prior_of_first(&mut self) -> Vec<f32> {
        let PriorSettings { epsilon, lookahead, .. } = self.settings;
        let (n, attended) = (self.n, self.last as usize);
        let mut prior = vec![epsilon; n];
        if n <= SHORT {
            prior.fill(1.0);
        } else {
            prior[attended.saturating_sub(1).max(1)] = 1.0;
            for offset in 0..=lookahead {
                prior[(attended + offset).min(n - 1)] = 1.0;
            }
        }
        for (&position, _) in self.counts.iter().filter(|(_, count)| **count >= STEPS_UNTIL_LEFT) {
            prior[..=position as usize].fill(epsilon);
        }
        self.is_unfinished = self.last < n as i64 - NEAR_END;
        if self.last >= n as i64 - 2 {
            self.near.get_or_insert(0);
        }
        if let Some(steps) = &mut self.near {
            *steps += 1;
            self.is_unfinished &= *steps <= STEPS_NEAR_END;
        }
        prior
    }

    fn prior_of_later(&mut self) -> Vec<f32> {
        let far = self.settings.epsilon * self.settings.epsilon;
        let (n, attended) = (self.n, self.last - self.left);
        let mut prior = vec![self.settings.epsilon; n];
        if n <= SHORT_LATER {
            prior.fill(1.0);
        } else {
            let before = (attended - 1).max(1);
            prior[slice(0, before, n)].fill(far);
            set(&mut prior, before, BEFORE);
            set(&mut prior, attended, 1.0);
            for (offset, value) in (1..).zip(AFTER) {
                if attended + offset < n as i64 {
                    set(&mut prior, attended + offset, value);
                }
            }
            let rest = attended + AFTER.len() as i64 + 1;
            if rest < n as i64 {
                prior[slice(rest, n as i64, n)].fill(far);
            }
        }
        let left_behind = self.counts.iter().filter(|(_, count)| **count >= STEPS_UNTIL_LEFT);
        for (&position, _) in left_behind.filter(|(position, _)| **position > self.left) {
            prior[slice(0, position - self.left + 1, n)].fill(far);
        }
        let is_near = attended >= n as i64 - NEAR_END;
        self.is_unfinished = !is_near;
        if is_near {
            self.near.get_or_insert(0);
        }
        prior
    }

    /// Counts a step near the end of a later chunk, after its prior.
    pub fn count(&mut self, is_last_chunk: bool) {
        if let Some(steps) = self.near.as_mut().filter(|_| !self.is_first) {
            *steps += 1;
            self.is_unfinished &= *steps <= if is_last_chunk { STEPS_NEAR_END } else { 1 };
        }
    }

    /// Steps near the end, if it was reached.
    pub fn near(&self) -> Option<u32> {
        self.near
    }

    /// True if text is left to speak.
    pub fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }
}

/// Returns a range as Python's slices have it: negative numbers count from the end.
fn slice(start: i64, end: i64, length: usize) -> std::ops::Range<usize> {
    let place = |index: i64| {
        let index = if index < 0 { index + length as i64 } else { index };
        index.clamp(0, length as i64) as usize
    };
    let (start, end) = (place(start), place(end));
    start..end.max(start)
}

/// Writes an element as Python does; one that is not there is left out.
fn set(values: &mut [f32], index: i64, value: f32) {
    let index = if index < 0 { index + values.len() as i64 } else { index };
    if let Some(place) = usize::try_from(index).ok().and_then(|index| values.get_mut(index)) {
        *place = value;
    }
}
