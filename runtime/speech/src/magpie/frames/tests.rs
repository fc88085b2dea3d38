//! Runs with networks that answer as they are told: the numbers are worked out by hand.

use std::collections::VecDeque;

use acestep_engine::{Error, sampling::Draws};

use super::*;
use crate::magpie::end::EndCodebooks;

/// Codes of a codebook; a codebook has two begin and end ids behind them, then six others.
const CODES: usize = 4;
const END: u32 = CODES as u32 + 1;

/// Networks with two codebooks and two frames in a step. Each step writes the stack that is next.
#[derive(Default)]
struct Fake {
    stacks: VecDeque<[u32; 4]>,
    /// The stacks of the local transformer, if they are others.
    drawn: VecDeque<[u32; 4]>,
    /// The position with the most attention in each step.
    attention: VecDeque<usize>,
    length: usize,
    encoded: Vec<Vec<u32>>,
    spliced: Vec<(usize, usize)>,
    read: Vec<Vec<u32>>,
    priors: Vec<Option<Vec<f32>>>,
    stack: [u32; 4],
    before: Vec<Option<u32>>,
}

fn one_hot(code: u32) -> Vec<f32> {
    let mut logits = vec![0.0; CODES + SPECIAL_IDS];
    logits[code as usize] = 5.0;
    logits
}

impl VoiceNetworks for Fake {
    type Memory = Vec<u32>;

    fn codebooks(&self) -> usize {
        2
    }

    fn tables(&self) -> usize {
        4
    }

    fn encode(&mut self, ids: &[u32]) -> Result<Vec<u32>, Error> {
        self.encoded.push(ids.to_vec());
        Ok(ids.to_vec())
    }

    fn spliced(&self, before: &Vec<u32>, memory: Vec<u32>, rows: usize) -> Vec<u32> {
        let history = &before[before.len() - rows..];
        [history, &memory[rows..]].concat()
    }

    fn begin(&mut self, memory: &Vec<u32>) -> Result<(), Error> {
        self.length = memory.len();
        self.spliced.push((memory.len(), memory[0] as usize));
        Ok(())
    }

    fn step(&mut self, stack: &[u32], prior: Option<&[f32]>) -> Result<StepOutput, Error> {
        self.read.push(stack.to_vec());
        self.priors.push(prior.map(<[f32]>::to_vec));
        self.stack = self.stacks.pop_front().unwrap_or([0; 4]);
        let mut attention = vec![0.0; self.length];
        let at = self.attention.pop_front().unwrap_or(1);
        attention[at] = 1.0;
        let logits = self.stack.iter().flat_map(|&code| one_hot(code)).collect();
        self.stack = self.drawn.pop_front().unwrap_or(self.stack);
        Ok(StepOutput { logits: vec![logits], attention: vec![attention] })
    }

    fn code(&mut self, index: usize, before: Option<u32>) -> Result<Vec<Vec<f32>>, Error> {
        self.before.push(before);
        Ok(vec![one_hot(self.stack[index])])
    }
}

fn settings() -> Settings {
    Settings {
        guidance: None,
        sampling: DrawSettings { temperature: 0.0, top_k: 3 },
        prior: align::PriorSettings { lookahead: 5, epsilon: 0.1, wraps: false },
        has_prior: true,
        start_prior_after: 0,
        is_tracking: false,
        end: EndRule { of: EndCodebooks::Any, with_drawn: true },
        least_frames: 0,
        most_frames: 8,
        is_local: true,
    }
}

fn run(network: Fake, chunks: &[usize], settings: Settings) -> (Vec<Stepped>, Frames<Fake>) {
    let mut next = 0..;
    let ids = chunks.iter().map(|&length| next.by_ref().take(length).collect()).collect();
    let source = RandomSource::Seeded(Box::new(Draws::new(0, CODES + SPECIAL_IDS)));
    let mut frames = Frames::new(network, ids, CODES, settings, source);
    let mut steps = Vec::new();
    while let Some(step) = frames.step().expect("a step") {
        steps.push(step);
    }
    (steps, frames)
}

fn kept(steps: &[Stepped]) -> Vec<Vec<u32>> {
    steps.iter().flat_map(|step| step.frames.clone()).collect()
}

#[test]
fn a_step_reads_the_stack_before_it_and_the_frame_of_the_end_is_dropped() {
    let stacks = [[0, 1, 2, 3], [3, 2, 1, END]].into();
    let (steps, frames) = run(Fake { stacks, ..Fake::default() }, &[9], settings());
    assert_eq!(kept(&steps), [[0, 1], [2, 3], [3, 2]]);
    assert_eq!(steps[1].ended, Some(ChunkEnd::Finished));
    let fake = frames.network();
    assert_eq!(fake.read, [[CODES as u32; 4], [0, 1, 2, 3]]);
    let before = [None, Some(0), Some(1), Some(2), None, Some(3), Some(2), Some(1)];
    assert_eq!(fake.before, before);
}

#[test]
fn the_end_waits_for_the_least_frames_and_the_limit_keeps_all_frames() {
    let stacks = [[END, 0, 0, 0], [1, 1, 1, 1], [END, 0, 0, 0]].into();
    let least = Settings { least_frames: 4, ..settings() };
    let (steps, _) = run(Fake { stacks, ..Fake::default() }, &[9], least);
    // The end of the first step is forbidden, so the first of the other codes is taken.
    assert_eq!(kept(&steps), [[0, 0], [0, 0], [1, 1], [1, 1]]);
    // An odd limit counts whole steps.
    let (steps, _) = run(Fake::default(), &[9], Settings { most_frames: 7, ..settings() });
    assert_eq!((kept(&steps).len(), steps[2].ended), (6, Some(ChunkEnd::Limit)));
}

#[test]
fn a_later_chunk_is_read_with_the_end_of_the_text_before_it() {
    let stacks = [[END; 4], [END; 4], [END; 4]].into();
    let (_, frames) = run(Fake { stacks, ..Fake::default() }, &[30, 4, 25], settings());
    let fake = frames.network();
    let window = |range: std::ops::Range<u32>| range.collect::<Vec<_>>();
    // At most as many ids as the chunk has, and at most 20.
    assert_eq!(fake.encoded, [window(0..30), window(26..34), window(26..59)]);
    assert_eq!(fake.spliced, [(30, 0), (8, 26), (33, 26)]);
    assert_eq!(frames.align.left(), 26);
    // The first step of a later chunk has a prior, and every chunk begins with the same codes.
    assert_eq!(fake.priors[0], None);
    let prior = fake.priors[1].as_ref().expect("a prior");
    assert!((prior[0] - 0.01).abs() < 1e-6 && prior[4] == 0.5 && prior[5] == 1.0, "{prior:?}");
    assert!(fake.read.iter().all(|stack| *stack == [CODES as u32; 4]));
}

#[test]
fn a_chunk_that_is_not_the_last_ends_three_steps_after_its_text() {
    // Positions 1, 4, 7, then the window is empty: the end of the text.
    let attention = [1, 4, 7, 7, 7, 7, 7].into();
    let most = Settings { most_frames: 40, ..settings() };
    let fake = Fake { attention, ..Fake::default() };
    let (steps, _) = run(fake, &[11, 11], most);
    let first = steps.iter().position(|step| step.ended.is_some()).expect("an end");
    assert_eq!(steps[first].ended, Some(ChunkEnd::Spoken));
    let attended: Vec<_> = steps[..=first].iter().filter_map(|s| s.decided.attended).collect();
    let near = attended.iter().filter(|&&position| position >= 9).count();
    assert_eq!((near, attended.last()), (3, Some(&10)), "{attended:?}");
    assert_eq!(steps[first].frames.len(), 2);
}

#[test]
fn tracking_forbids_the_end_while_text_is_left() {
    let stacks = [[END; 4], [END; 4]].into();
    let tracked = Settings { is_tracking: true, most_frames: 4, ..settings() };
    let (steps, _) = run(Fake { stacks, ..Fake::default() }, &[30], tracked);
    assert_eq!(kept(&steps), [[0; 2]; 4]);
}

/// The end in one of two codebooks ends nothing in these rules, and the codec has no such code.
#[test]
fn a_frame_with_an_end_that_the_rule_does_not_see_is_cut_and_said() {
    let rule = |of, with_drawn| Settings { end: EndRule { of, with_drawn }, ..settings() };
    for (stacks, rule, frames) in [
        ([[0, 1, 2, 3], [3, 2, END, 0]], rule(EndCodebooks::All, true), 3),
        ([[0, 1, 2, 3], [3, END, 1, 0]], rule(EndCodebooks::First, true), 2),
        // The second frame is an end, and the first one is half an end.
        ([[0, 1, 2, 3], [END, 2, END, END]], rule(EndCodebooks::All, true), 2),
    ] {
        let network = Fake { stacks: stacks.into(), ..Fake::default() };
        let (steps, _) = run(network, &[9], rule);
        assert_eq!((kept(&steps).len(), steps[1].ended), (frames, Some(ChunkEnd::HalfEnd)));
        assert!(kept(&steps).iter().flatten().all(|&code| code < CODES as u32));
    }
    // A whole end before half an end is an end.
    let stacks = [[END, END, END, 1]].into();
    let (steps, _) = run(Fake { stacks, ..Fake::default() }, &[9], rule(EndCodebooks::All, true));
    assert_eq!((kept(&steps).len(), steps[0].ended), (0, Some(ChunkEnd::Finished)));
}

/// The likeliest codes say nothing, and the drawn ones do not count.
#[test]
fn an_end_that_was_only_drawn_is_cut_if_drawn_codes_do_not_count() {
    let own = Settings { end: EndRule { of: EndCodebooks::Any, with_drawn: false }, ..settings() };
    let drawn = [[0, 1, 2, 3], [1, END, 0, 0]].into();
    let (steps, _) = run(Fake { stacks: [[0; 4]; 2].into(), drawn, ..Fake::default() }, &[9], own);
    assert_eq!(kept(&steps), [[0, 1], [2, 3]]);
    assert_eq!(steps[1].ended, Some(ChunkEnd::HalfEnd));
}

/// The reference makes the prior of a later chunk with or without the flag, and replaces it only with it.
#[test]
fn without_a_prior_a_later_chunk_keeps_that_of_its_first_step() {
    let stacks = [[END; 4], [0; 4], [1; 4], [END; 4]].into();
    let without = Settings { has_prior: false, most_frames: 40, ..settings() };
    let (_, frames) = run(Fake { stacks, ..Fake::default() }, &[30, 25], without);
    let priors = &frames.network().priors;
    assert_eq!((priors.len(), &priors[0]), (4, &None));
    let first = priors[1].as_ref().expect("a prior");
    assert!((first[0] - 0.01).abs() < 1e-6 && first[20..22] == [0.5, 1.0], "{first:?}");
    assert!(priors[2..].iter().all(|prior| *prior == priors[1]));
}

#[test]
fn logits_that_are_not_finite_end_the_run_with_the_step() {
    struct Broken;
    impl VoiceNetworks for Broken {
        type Memory = ();
        fn codebooks(&self) -> usize {
            1
        }
        fn tables(&self) -> usize {
            1
        }
        fn encode(&mut self, _: &[u32]) -> Result<(), Error> {
            Ok(())
        }
        fn spliced(&self, (): &(), (): (), _: usize) {}
        fn begin(&mut self, (): &()) -> Result<(), Error> {
            Ok(())
        }
        fn step(&mut self, _: &[u32], _: Option<&[f32]>) -> Result<StepOutput, Error> {
            let logits = vec![vec![f32::NAN; CODES + SPECIAL_IDS]];
            Ok(StepOutput { logits, attention: vec![vec![1.0; 3]] })
        }
        fn code(&mut self, _: usize, _: Option<u32>) -> Result<Vec<Vec<f32>>, Error> {
            Ok(Vec::new())
        }
    }
    let source = RandomSource::Seeded(Box::new(Draws::new(0, 1)));
    let mut frames = Frames::new(Broken, vec![vec![0; 3]], CODES, settings(), source);
    let error = frames.step().expect_err("no codes");
    assert!(format!("{error:?}").contains("step"), "{error:?}");
}
