//! A warp: 32 threads that run the same instructions, in groups where they take different ways.
//!
//! The group that is furthest behind runs first, so threads meet again where their ways do.

use std::collections::VecDeque;

use crate::{
    decode::Code,
    instruction::{Comparison, Doubles, LANES, Source, Special, Target, Words},
    launch::Launch,
    memory::Range,
};

/// Threads of a warp that are at the same instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) at: usize,
    pub(crate) mask: u32,
    pub(crate) wait: Wait,
    /// It asked for something that is not there yet, and lets others run.
    pub(crate) polled: bool,
}

impl Group {
    pub(crate) fn new(at: usize, mask: u32) -> Self {
        Self { at, mask, wait: Wait::Nothing, polled: false }
    }
}

/// The reason why a group does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Nothing,
    /// A barrier of the block, whose generation it waits to end.
    Barrier {
        id: usize,
        generation: u32,
    },
    Cluster {
        generation: u32,
    },
    /// Other threads of the warp must come to the same instruction.
    Threads,
}

/// A copy to shared memory that nobody has waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copy {
    /// Addresses in the memory of the host.
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) bytes: usize,
    /// Bytes that are read; the others become zero.
    pub(crate) present: usize,
}

/// Copies of a thread: groups that were committed, and the one that was not.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) groups: VecDeque<Vec<Copy>>,
    pub(crate) open: Vec<Copy>,
}

/// The state of a warp.
#[derive(Debug)]
pub(crate) struct Warp {
    /// The block in its cluster.
    pub(crate) block: usize,
    pub(crate) number: usize,
    pub(crate) tid: [Words; 3],
    pub(crate) groups: Vec<Group>,
    predicates: Vec<u32>,
    words: Vec<Words>,
    doubles: Vec<Doubles>,
    /// Memory of each thread in turn.
    pub(crate) local: Vec<u128>,
    pub(crate) local_bytes: usize,
    pub(crate) copies: Vec<Copies>,
    /// The generation of the cluster's barrier that this warp arrived at.
    pub(crate) cluster_generation: u32,
    /// The memory that was last used.
    pub(crate) known: Range,
}

impl Warp {
    pub(crate) fn new(code: &Code, launch: &Launch<'_>, block: usize, number: usize) -> Self {
        let [x, y, z] = launch.block;
        let threads = x * y * z;
        let first = (number * LANES) as u32;
        let thread = |lane: usize| first + lane as u32;
        let tid = [
            std::array::from_fn(|lane| thread(lane) % x),
            std::array::from_fn(|lane| thread(lane) / x % y),
            std::array::from_fn(|lane| thread(lane) / (x * y)),
        ];
        let count = (threads - first).min(LANES as u32);
        let lanes = if count == 32 { u32::MAX } else { (1 << count) - 1 };
        let [predicates, words, doubles] = code.registers;
        Self {
            block,
            number,
            tid,
            groups: vec![Group::new(0, lanes)],
            predicates: vec![0; predicates],
            words: vec![[0xdead_beef; LANES]; words],
            doubles: vec![[0xdead_beef_dead_beef; LANES]; doubles],
            local: vec![0; code.local_bytes * LANES / 16],
            local_bytes: code.local_bytes,
            copies: (0..LANES).map(|_| Copies::default()).collect(),
            cluster_generation: 0,
            known: Range::default(),
        }
    }

    /// Returns the threads that did not end.
    pub(crate) fn alive(&self) -> u32 {
        self.groups.iter().fold(0, |mask, group| mask | group.mask)
    }

    pub(crate) fn local_range(&self) -> Range {
        let start = self.local.as_ptr() as u64;
        Range { start, end: start + (self.local.len() * 16) as u64 }
    }

    pub(crate) fn predicate(&self, source: Source) -> u32 {
        match source {
            Source::Predicate(register, negated) => {
                let mask = self.predicates[register as usize];
                if negated { !mask } else { mask }
            }
            Source::Immediate(value) => {
                if value == 0 {
                    0
                } else {
                    u32::MAX
                }
            }
            other => bits(&self.words(other, &Places::default()), |word| word != 0),
        }
    }

    pub(crate) fn words(&self, source: Source, places: &Places) -> Words {
        match source {
            Source::Word(register) => self.words[register as usize],
            Source::Double(register) => self.doubles[register as usize].map(|value| value as u32),
            Source::Predicate(..) => {
                let mask = self.predicate(source);
                std::array::from_fn(|lane| mask >> lane & 1)
            }
            Source::Immediate(value) => [value as u32; LANES],
            Source::Special(special) => self.special(special, places).map(|value| value as u32),
            Source::Parameter(offset) => [(places.parameters + offset) as u32; LANES],
            Source::Nothing => [0; LANES],
        }
    }

    pub(crate) fn doubles(&self, source: Source, places: &Places) -> Doubles {
        match source {
            Source::Double(register) => self.doubles[register as usize],
            Source::Immediate(value) => [value; LANES],
            Source::Special(special) => self.special(special, places),
            Source::Parameter(offset) => [places.parameters + offset; LANES],
            other => self.words(other, places).map(u64::from),
        }
    }

    /// Returns the threads for which a comparison is true.
    pub(crate) fn compared(
        &self,
        comparison: Comparison,
        [a, b]: [Source; 2],
        places: &Places,
    ) -> u32 {
        let all = |of: &dyn Fn(usize) -> bool| {
            (0..LANES).fold(0, |mask, lane| mask | u32::from(of(lane)) << lane)
        };
        match comparison {
            Comparison::Words(of) => {
                let (a, b) = (self.words(a, places), self.words(b, places));
                all(&|lane| of(a[lane], b[lane]))
            }
            Comparison::Doubles(of) => {
                let (a, b) = (self.doubles(a, places), self.doubles(b, places));
                all(&|lane| of(a[lane], b[lane]))
            }
        }
    }

    fn special(&self, special: Special, places: &Places) -> Doubles {
        let all = |value: u32| [u64::from(value); LANES];
        match special {
            Special::Tid(axis) => self.tid[axis].map(u64::from),
            Special::Ntid(axis) => all(places.block_size[axis]),
            Special::Ctaid(axis) => all(places.block[axis]),
            Special::Nctaid(axis) => all(places.grid[axis]),
            Special::Lane => std::array::from_fn(|lane| lane as u64),
            Special::LaneMask(of) => std::array::from_fn(|lane| u64::from(of(lane as u32))),
            Special::Warp => all(self.number as u32),
            Special::Warps => all(places.block_size.iter().product::<u32>().div_ceil(32)),
            Special::ClusterRank => all(self.block as u32),
            Special::ClusterSize => all(places.cluster),
            Special::ClusterId(axis) => {
                all(if axis == 0 { places.block[0] / places.cluster } else { places.block[axis] })
            }
            Special::Multiprocessor => all(places.block[0] % 4),
            Special::Clock => all(places.clock),
            Special::DynamicShared => all(places.dynamic_shared),
        }
    }

    pub(crate) fn set_predicate(&mut self, target: Target, mask: u32, values: u32) {
        match target {
            Target::Predicate(register) => {
                let to = &mut self.predicates[register as usize];
                *to = *to & !mask | values & mask;
            }
            Target::Nothing => {}
            other => self.set_words(other, mask, &std::array::from_fn(|lane| values >> lane & 1)),
        }
    }

    pub(crate) fn set_words(&mut self, target: Target, mask: u32, values: &Words) {
        match target {
            Target::Word(register) => {
                let to = &mut self.words[register as usize];
                if mask == u32::MAX {
                    *to = *values;
                } else {
                    for lane in 0..LANES {
                        if mask >> lane & 1 == 1 {
                            to[lane] = values[lane];
                        }
                    }
                }
            }
            Target::Double(_) => self.set_doubles(target, mask, &values.map(u64::from)),
            Target::Predicate(_) => {
                self.set_predicate(target, mask, bits(values, |value| value != 0))
            }
            Target::Nothing => {}
        }
    }

    pub(crate) fn set_doubles(&mut self, target: Target, mask: u32, values: &Doubles) {
        match target {
            Target::Double(register) => {
                let to = &mut self.doubles[register as usize];
                if mask == u32::MAX {
                    *to = *values;
                } else {
                    for lane in 0..LANES {
                        if mask >> lane & 1 == 1 {
                            to[lane] = values[lane];
                        }
                    }
                }
            }
            other => self.set_words(other, mask, &values.map(|value| value as u32)),
        }
    }

    /// Joins groups at the same instruction, and lets the joined threads try again together.
    pub(crate) fn join(&mut self) {
        let mut at = 0;
        while at < self.groups.len() {
            let group = self.groups[at];
            let joins = |other: &Group| {
                other.at == group.at
                    && matches!(group.wait, Wait::Nothing | Wait::Threads)
                    && matches!(other.wait, Wait::Nothing | Wait::Threads)
            };
            match self.groups[at + 1..].iter().position(joins) {
                Some(next) => {
                    let other = self.groups.swap_remove(at + 1 + next);
                    self.groups[at].mask |= other.mask;
                    self.groups[at].wait = Wait::Nothing;
                }
                None => at += 1,
            }
        }
    }
}

/// The numbers of a block that special registers show.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Places {
    pub(crate) block: [u32; 3],
    pub(crate) block_size: [u32; 3],
    pub(crate) grid: [u32; 3],
    pub(crate) cluster: u32,
    pub(crate) parameters: u64,
    pub(crate) dynamic_shared: u32,
    pub(crate) clock: u32,
}

/// Returns the threads whose value is so.
pub(crate) fn bits<T: std::marker::Copy>(values: &[T; LANES], is_so: impl Fn(T) -> bool) -> u32 {
    values.iter().enumerate().fold(0, |mask, (lane, &value)| mask | u32::from(is_so(value)) << lane)
}
