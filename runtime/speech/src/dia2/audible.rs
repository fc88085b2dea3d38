//! The frames of a run that are heard.
//!
//! As in upstream, the sound begins with the first word. If nothing would be left, all frames are heard.
//! The first word may be known late, so frames wait here until then.
//!
//! Source: nari-labs/dia2 at 8687268, `runtime/generator.py`, `crop`.

/// The first frame that is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// The frame of this number.
    At(usize),
    /// The frame of the first step that begins a word, less these frames.
    Word {
        /// `initial_padding` of the run.
        less: usize,
        /// The frame if no step begins a word.
        otherwise: usize,
    },
}

/// Frames on their way to the codec.
#[derive(Debug, Clone)]
pub struct AudibleFrames {
    beginning: Beginning,
    /// The first frame, if it is known.
    first: Option<usize>,
    /// Frames that may be heard.
    waiting: Vec<Vec<u32>>,
    /// True as soon as a frame was heard.
    is_settled: bool,
}

impl AudibleFrames {
    /// No frame yet.
    pub fn new(beginning: Beginning) -> Self {
        let first = match beginning {
            Beginning::At(first) => Some(first),
            Beginning::Word { .. } => None,
        };
        Self { beginning, first, waiting: Vec::new(), is_settled: false }
    }

    /// Notes that `step` begins a word.
    pub fn word(&mut self, step: usize) {
        if let (Beginning::Word { less, .. }, None) = (self.beginning, self.first) {
            self.first = Some(step.saturating_sub(less));
        }
    }

    /// Adds the next frame, and returns the frames that are heard.
    pub fn add(&mut self, frame: Vec<u32>) -> Vec<Vec<u32>> {
        self.waiting.push(frame);
        match self.first {
            Some(first) if !self.is_settled && self.waiting.len() > first => {
                self.is_settled = true;
                self.waiting.drain(..first);
            }
            _ if self.is_settled => (),
            _ => return Vec::new(),
        }
        std::mem::take(&mut self.waiting)
    }

    /// Ends the run: returns the frames that are heard.
    pub fn end(&mut self) -> Vec<Vec<u32>> {
        if self.is_settled {
            return Vec::new();
        }
        self.is_settled = true;
        let otherwise = match self.beginning {
            Beginning::At(first) | Beginning::Word { otherwise: first, .. } => first,
        };
        // A beginning after the last frame would leave nothing: then all is heard.
        let first = self.first.unwrap_or(otherwise);
        let first = if first < self.waiting.len() { first } else { 0 };
        self.first = Some(first);
        self.waiting.drain(..first);
        std::mem::take(&mut self.waiting)
    }

    /// The first frame that is heard, if it is known.
    pub fn first(&self) -> Option<usize> {
        self.first.filter(|_| self.is_settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u32) -> Vec<u32> {
        vec![number]
    }

    #[test]
    fn frames_are_heard_from_a_number_on() {
        let mut heard = AudibleFrames::new(Beginning::At(2));
        assert_eq!(heard.add(frame(0)), Vec::<Vec<u32>>::new());
        assert_eq!(heard.add(frame(1)), Vec::<Vec<u32>>::new());
        assert_eq!(heard.first(), None);
        assert_eq!(heard.add(frame(2)), [[2]]);
        assert_eq!(heard.add(frame(3)), [[3]]);
        assert_eq!((heard.end(), heard.first()), (Vec::new(), Some(2)));
    }

    /// The first word begins at step 5, and two frames before it are heard.
    #[test]
    fn frames_wait_for_the_first_word() {
        let mut heard = AudibleFrames::new(Beginning::Word { less: 2, otherwise: 0 });
        assert_eq!(heard.add(frame(0)), Vec::<Vec<u32>>::new());
        heard.word(5);
        heard.word(6);
        assert_eq!(heard.add(frame(1)), Vec::<Vec<u32>>::new());
        assert_eq!(heard.add(frame(2)), Vec::<Vec<u32>>::new());
        assert_eq!(heard.add(frame(3)), [[3]]);
        assert_eq!(heard.first(), Some(3));
        // A word before the padding is over begins at the beginning.
        let mut heard = AudibleFrames::new(Beginning::Word { less: 2, otherwise: 9 });
        heard.word(1);
        assert_eq!(heard.add(frame(0)), [[0]]);
    }

    #[test]
    fn a_beginning_after_the_end_is_the_beginning() {
        let all = [[0], [1]];
        let mut heard = AudibleFrames::new(Beginning::At(2));
        (0..2).for_each(|number| drop(heard.add(frame(number))));
        assert_eq!((heard.end(), heard.first()), (all.map(Vec::from).to_vec(), Some(0)));
        let mut heard = AudibleFrames::new(Beginning::Word { less: 0, otherwise: 1 });
        (0..2).for_each(|number| drop(heard.add(frame(number))));
        assert_eq!((heard.end(), heard.first()), (vec![vec![1]], Some(1)));
    }
}
