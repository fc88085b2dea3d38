//! Short excerpts of composed pieces.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rayon::prelude::*;

use crate::composer::{Band, Piece, Wish};

/// Length of the pieces that excerpts are taken from, in seconds.
const SECONDS: f64 = 8.0;

/// Number of pieces in memory.
const AT_HAND: usize = 48;

/// Number of steps per new piece.
const STEPS_A_PIECE: usize = 2;

/// Creates the excerpts of each step, which depend only on its number.
#[derive(Debug)]
pub struct Crops {
    seed: u64,
    items: usize,
    samples: usize,
    /// One of this many pieces is played by the band that the later networks are trained on.
    same: Option<usize>,
    pieces: BTreeMap<usize, [Vec<f32>; 2]>,
}

impl Crops {
    /// Creates a source of `items` excerpts of `samples` samples per step.
    pub fn new(seed: u64, items: usize, samples: usize) -> Self {
        Self { seed, items, samples, same: None, pieces: BTreeMap::new() }
    }

    /// Changes one of `count` pieces to the band that the later networks are trained on.
    pub fn with_same_band(self, count: usize) -> Self {
        Self { same: Some(count), ..self }
    }

    /// Returns the excerpts of a step, `items` times `[2, samples]`.
    pub fn of_step(&mut self, step: usize) -> Vec<f32> {
        let first = step / STEPS_A_PIECE;
        self.pieces.retain(|&piece, _| piece >= first);
        let missing: Vec<usize> =
            (first..first + AT_HAND).filter(|piece| !self.pieces.contains_key(piece)).collect();
        let (seed, same) = (self.seed, self.same);
        let composed: Vec<(usize, [Vec<f32>; 2])> = missing
            .into_par_iter()
            .with_max_len(1)
            .map(|piece| {
                let is_same = same.is_some_and(|count| piece % count == 0);
                let band = if is_same { Band::Same } else { Band::default() };
                let wish = Wish { duration_s: Some(SECONDS), band, ..Wish::default() };
                (piece, Piece::compose(seed.wrapping_add(piece as u64), &wish).render())
            })
            .collect();
        self.pieces.extend(composed);

        let mut random =
            Pcg64::seed_from_u64(seed ^ (step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut crops = Vec::with_capacity(self.items * 2 * self.samples);
        for _ in 0..self.items {
            let [left, right] = &self.pieces[&(first + random.random_range(0..AT_HAND))];
            let start = random.random_range(0..=left.len() - self.samples);
            let gain = random.random_range(0.4..1.2);
            let swapped = random.random::<bool>();
            let channels = if swapped { [right, left] } else { [left, right] };
            for channel in channels {
                crops.extend(channel[start..start + self.samples].iter().map(|x| gain * x));
            }
        }
        crops
    }
}
