//! Tiles of a long sequence: equal results with bounded memory.
//!
//! Frames are split into cores. Each core is computed with `overlap` extra frames on either side,
//! whose result is discarded.

use std::ops::Range;

use crate::Error;

/// Tile size and overlap, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiling {
    /// Frames decoded or encoded at once; more than twice `overlap`.
    pub chunk: usize,
    /// Frames on either side whose result is discarded, at most.
    pub overlap: usize,
}

impl Default for Tiling {
    /// Upstream's: 512 frames (20 s) with 64 on each side.
    fn default() -> Self {
        Self { chunk: 512, overlap: 64 }
    }
}

impl Tiling {
    /// Upstream's for encoding: 750 frames (30 s) with 50 (2 s) on each side.
    pub const ENCODE: Self = Self { chunk: 750, overlap: 50 };

    /// Minimum tile size that is chosen automatically; smaller tiles would be audible at their
    /// borders.
    pub const LEAST: usize = 64;

    /// Returns tiles of half the size for `frames` frames, or `None` if they would be smaller than
    /// [`Self::LEAST`].
    pub fn smaller(self, frames: usize) -> Option<Self> {
        // Half of a tile larger than the whole song could still cover the whole song.
        let chunk = self.chunk.min(frames) / 2;
        if chunk < Self::LEAST {
            return None;
        }
        Self { chunk, ..self }.fitted().ok()
    }

    /// Halves the overlap until a core is left, as upstream does.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `chunk` is 0.
    pub fn fitted(self) -> Result<Self, Error> {
        let Self { chunk, mut overlap } = self;
        if chunk == 0 {
            let range = "at least 1 frame".into();
            return Err(Error::OutOfRange { field: "vae_chunk", value: "0".into(), range });
        }
        while 2 * overlap >= chunk {
            overlap /= 2;
        }
        Ok(Self { chunk, overlap })
    }

    /// Returns the window length of each tile of `frames` frames, for a network of this reach.
    ///
    /// # Errors
    /// The errors of [`Self::fitted`].
    pub fn windows(self, frames: usize, reach: usize) -> Result<Vec<usize>, Error> {
        let tiles = self.fitted()?.tiles(frames).into_iter();
        Ok(tiles.map(|tile| tile.within(reach).window.len()).collect())
    }

    /// Returns a limit of the lengths of [`Self::windows`]: the length of a window with neighbours on both sides, or of the only window.
    pub fn window_limit(self, frames: usize, reach: usize) -> usize {
        match self.fitted() {
            Ok(Self { chunk, overlap }) if chunk < frames => {
                chunk - 2 * overlap.saturating_sub(reach)
            }
            Ok(_) | Err(_) => frames,
        }
    }

    /// Returns the tiles of `frames` frames; one tile if they fit into a chunk.
    pub fn tiles(self, frames: usize) -> Vec<Tile> {
        if frames <= self.chunk {
            return vec![Tile { core: 0..frames, window: 0..frames }];
        }
        // ANCHOR: tiles
        let stride = self.chunk - 2 * self.overlap;
        let tile = |start: usize| {
            let core = start..(start + stride).min(frames);
            let window =
                core.start.saturating_sub(self.overlap)..(core.end + self.overlap).min(frames);
            Tile { core, window }
        };
        (0..frames).step_by(stride).map(tile).collect()
        // ANCHOR_END: tiles
    }
}

/// One tile: its core, and the window of frames that the network reads for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// The frames whose result is kept.
    pub core: Range<usize>,
    /// The frames that the network reads.
    pub window: Range<usize>,
}

impl Tile {
    /// Returns the tile without the frames that are more than `reach` away from its core: nothing in the core depends on
    /// them.
    #[must_use]
    pub fn within(self, reach: usize) -> Self {
        let Self { core, window } = self;
        let start = window.start.max(core.start.saturating_sub(reach));
        let end = window.end.min(core.end + reach);
        Self { core, window: start..end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_cover_every_frame_once_and_windows_stay_inside() {
        for frames in 1..70 {
            let tiling = Tiling { chunk: 16, overlap: 4 };
            let tiles = tiling.tiles(frames);
            let covered: Vec<usize> = tiles.iter().flat_map(|tile| tile.core.clone()).collect();
            assert_eq!(covered, (0..frames).collect::<Vec<_>>(), "{frames} frames");
            assert!(tiles.iter().all(|tile| tile.window.len() <= 16 && tile.window.end <= frames));
        }
    }

    /// 60 s: cores of 384 frames, and 64 more on each side that has a neighbour, or as many as a core depends on.
    #[test]
    fn a_window_is_its_core_and_what_is_left_and_right_of_it() {
        for (frames, reach, expected) in [
            (1500, 100, &[384 + 64, 64 + 384 + 64, 64 + 384 + 64, 64 + 348][..]),
            (1500, 9, &[384 + 9, 9 + 384 + 9, 9 + 384 + 9, 9 + 348]),
            (512, 9, &[512]),
        ] {
            let tiling = Tiling::default();
            assert_eq!(tiling.windows(frames, reach).expect("a tiling"), expected);
            let limit = expected.iter().max().copied();
            assert_eq!(Some(tiling.window_limit(frames, reach)), limit);
        }
        // Golden `vae_tiled.dec3`: a chunk of 10 reduces the overlap from 64 to 4. Cores of 2 frames, and 3 of
        // the 4 on each side.
        let unfitted = Tiling { chunk: 10, overlap: 64 };
        assert_eq!(unfitted.fitted().expect("a tiling"), Tiling { chunk: 10, overlap: 4 });
        assert_eq!(unfitted.windows(100, 3).expect("a tiling").iter().max(), Some(&8));
        assert_eq!(unfitted.window_limit(100, 3), 8);
    }
}
