//! Signs of a run that went wrong: silence, a loop, and a frame that is no sound.
//!
//! Language models over codes sometimes write the same code for ever, or codes of silence. Upstream
//! goes on until its limit of eleven minutes.

/// Frames of one first code that are a loop, of 80 ms each: 4 s.
const LOOP: usize = 50;
/// Frames of silence after which a run ends, of 80 ms each: 5 s.
const SILENCE: usize = 62;
/// A frame is silent if no sample is above this: -60 dB.
const SILENT: f32 = 1e-3;

/// A sign that a run went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The same first code in all of the last frames.
    #[error("the model repeated code {code} for {frames} frames")]
    Loop {
        /// The code.
        code: u32,
        /// The number of frames.
        frames: usize,
    },
    /// Only silence in the last frames.
    #[error("the last {frames} frames are silent")]
    Silence {
        /// The number of frames.
        frames: usize,
    },
    /// A frame with the code of the end in some codebooks only, which no codec can decode.
    #[error("the model wrote its end in some codebooks only")]
    HalfEnd,
}

/// Watches the frames and the samples of a run.
#[derive(Debug, Clone)]
pub struct Guard {
    most_same: usize,
    most_silent: usize,
    code: Option<u32>,
    same: usize,
    silent: usize,
}

impl Default for Guard {
    /// Returns a guard for frames of 80 ms.
    fn default() -> Self {
        Self { most_same: LOOP, most_silent: SILENCE, code: None, same: 0, silent: 0 }
    }
}

impl Guard {
    /// Returns a guard for frames of another length, after 4 s and 5 s as the usual one.
    pub fn of_rate(frames_per_second: f64) -> Self {
        let frames = |seconds: f64| (seconds * frames_per_second).floor().max(1.0) as usize;
        Self { most_same: frames(4.0), most_silent: frames(5.0), ..Self::default() }
    }

    /// True if `pending`, frames after those that were added, end with a loop. So a loop is noticed before
    /// its sound is decoded.
    pub fn is_loop<'a>(
        &self,
        pending: impl IntoIterator<Item = &'a Vec<u32>, IntoIter: DoubleEndedIterator>,
    ) -> bool {
        let mut codes = pending.into_iter().rev().map(|frame| frame.first());
        let Some(Some(code)) = codes.next() else { return false };
        let mut same = 1;
        for other in codes {
            if other != Some(code) {
                return same >= self.most_same;
            }
            same += 1;
        }
        same + if self.code == Some(*code) { self.same } else { 0 } >= self.most_same
    }

    /// Adds frames with their samples. Returns the first fault, and the number of frames up to it: what
    /// comes after it is not kept, so that the speech does not depend on the sizes of chunks.
    pub fn add(&mut self, frames: &[Vec<u32>], samples: &[f32]) -> Option<(usize, Fault)> {
        let per_frame = samples.len() / frames.len().max(1);
        let frames = frames.iter().zip(samples.chunks(per_frame.max(1)));
        for (number, (frame, samples)) in (1..).zip(frames) {
            let code = frame.first().copied();
            self.same = if code == self.code { self.same + 1 } else { 1 };
            self.code = code;
            let is_silent = samples.iter().all(|sample| sample.abs() < SILENT);
            self.silent = if is_silent { self.silent + 1 } else { 0 };
            if let Some(code) = code.filter(|_| self.same >= self.most_same) {
                return Some((number, Fault::Loop { code, frames: self.same }));
            }
            if self.silent >= self.most_silent {
                return Some((number, Fault::Silence { frames: self.silent }));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_and_silence_are_found_and_interrupted_ones_are_not() {
        let loud = [0.5, -0.5];
        let frame = |code: u32| vec![vec![code, 0]];
        let mut guard = Guard::default();
        for index in 0..LOOP - 1 {
            assert_eq!(guard.add(&frame(7), &loud), None, "{index}");
        }
        assert_eq!(guard.clone().add(&frame(8), &loud), None);
        assert_eq!(guard.add(&frame(7), &loud), Some((1, Fault::Loop { code: 7, frames: LOOP })));

        let mut guard = Guard::default();
        let quiet = [1e-4, 0.0];
        for index in 0..SILENCE as u32 - 1 {
            assert_eq!(guard.add(&frame(index), &quiet), None, "{index}");
        }
        assert_eq!(guard.clone().add(&frame(99), &loud), None);
        assert_eq!(guard.add(&frame(99), &quiet), Some((1, Fault::Silence { frames: SILENCE })));
    }

    /// 22050 / 1024 = 21.533 frames a second: 86.1 in 4 s, 107.7 in 5 s. And 12.5 of 80 ms.
    #[test]
    fn the_times_are_the_same_at_any_frame_rate() {
        for (rate, same, silent) in [(22_050.0 / 1024.0, 86, 107), (12.5, LOOP, SILENCE)] {
            let mut guard = Guard::of_rate(rate);
            let found = guard.add(&vec![vec![3]; 200], &[0.5; 200]);
            assert_eq!(found, Some((same, Fault::Loop { code: 3, frames: same })));
            let frames: Vec<Vec<u32>> = (0..200).map(|code| vec![code]).collect();
            let found = Guard::of_rate(rate).add(&frames, &[0.0; 200]);
            assert_eq!(found, Some((silent, Fault::Silence { frames: silent })));
        }
    }

    /// 20 frames with sound and 30 without are a loop of 50, as are 50 without sound.
    #[test]
    fn a_loop_is_noticed_before_its_sound() {
        let mut guard = Guard::default();
        assert_eq!(guard.add(&vec![vec![7, 1]; 20], &[0.5; 20]), None);
        let pending = |code: u32, count: usize| vec![vec![code, 2]; count];
        assert!(!guard.is_loop(&pending(7, 29)));
        assert!(guard.is_loop(&pending(7, 30)));
        assert!(!guard.is_loop(&pending(8, 49)));
        assert!(guard.is_loop(&pending(8, 50)));
        // Another code between them.
        assert!(!guard.is_loop(&[pending(8, 1), pending(7, 49)].concat()));
        assert!(!guard.is_loop(&[]));
    }
}
