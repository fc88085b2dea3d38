//! Training pieces, grouped by length, with a cache of their latents after the audio codes.

use std::sync::OnceLock;

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::corpus::Example;

/// Pieces as latents, with cached results.
pub struct Pieces<'a> {
    all: &'a [Example],
    /// Indices of the pieces of each length, shortest first.
    by_length: Vec<Vec<usize>>,
    /// Latents of each piece after its codes, computed at first use: each time would be a fifth of
    /// a step.
    remembered: Vec<OnceLock<Vec<f32>>>,
}

impl<'a> Pieces<'a> {
    /// Groups the training pieces; there must be at least one.
    pub fn new(all: &'a [Example]) -> Self {
        let mut lengths: Vec<usize> = all.iter().map(|example| example.latents.len()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let of = |&length: &usize| {
            let is = |&index: &usize| all[index].latents.len() == length;
            (0..all.len()).filter(is).collect()
        };
        let by_length = lengths.iter().map(of).collect();
        Self { all, by_length, remembered: all.iter().map(|_| OnceLock::new()).collect() }
    }

    /// Returns one piece.
    pub fn piece(&self, number: usize) -> &'a Example {
        &self.all[number]
    }

    /// Draws the indices of pieces of one length; the probability of a length is its share of
    /// frames.
    pub fn class(&self, random: &mut Pcg64) -> &[usize] {
        let frames = |class: &Vec<usize>| class.len() * self.all[class[0]].latents.len();
        let mut left = random.random_range(0..self.by_length.iter().map(frames).sum::<usize>());
        for class in &self.by_length {
            if left < frames(class) {
                return class;
            }
            left -= frames(class);
        }
        &self.by_length[0]
    }

    /// Returns the cached result of `ask` for a piece; calls it at first use.
    pub fn remembered(&self, number: usize, ask: impl FnOnce(&Example) -> Vec<f32>) -> &[f32] {
        self.remembered[number].get_or_init(|| ask(&self.all[number]))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rand::SeedableRng;

    use super::*;
    use crate::{corpus::piece, labels::Labels};

    #[test]
    fn a_length_comes_as_often_as_it_has_frames_and_a_piece_is_asked_once() {
        let example = |index: usize, frames: usize| {
            let latents = vec![index as f32; frames];
            Example { latents, labels: Labels::of(&piece(1, index)) }
        };
        // 60 frames of three short pieces, 40 of a long one.
        let all = [example(0, 20), example(1, 40), example(2, 20), example(3, 20)];
        let pieces = Pieces::new(&all);
        let mut random = Pcg64::seed_from_u64(1);
        let classes: Vec<&[usize]> = (0..1000).map(|_| pieces.class(&mut random)).collect();
        assert!(classes.iter().all(|class| matches!(class, [0, 2, 3] | [1])), "{classes:?}");
        let short = classes.iter().filter(|class| class.len() == 3).count();
        assert!((550..650).contains(&short), "{short} of 1000 are short");

        let asked = Cell::new(0);
        let ask = |example: &Example| {
            asked.set(asked.get() + 1);
            vec![example.latents[0] + 0.5]
        };
        assert_eq!([2, 1, 2].map(|number| pieces.remembered(number, ask)), [[2.5], [1.5], [2.5]]);
        assert_eq!(asked.get(), 2);
    }
}
