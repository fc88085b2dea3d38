//! A turn of a warp: it runs until it waits or its turn is over.

mod access;
mod cooperate;
mod matrices;

use crate::{
    convert::convert,
    instruction::{Instruction, LANES, Operation, Source},
    launch::{Cluster, Launch},
    warp::{Group, Places, Wait, Warp},
};

/// Instructions of a turn.
const TURN: usize = 20_000;

/// Instructions between two polls that count as progress, if there are more.
const OF_USE: usize = 24;

/// The end of a turn, and the number of instructions that made progress.
pub(crate) enum Turn {
    /// All threads ended.
    Done(usize),
    Waits(usize),
}

/// The next step of a group.
enum Next {
    Following,
    /// The threads go elsewhere, or wait.
    Placed,
    /// Others must come first: the next instruction is here, and the turn is over.
    Yield,
}

/// A warp that runs, with its cluster.
pub(crate) struct Running<'a> {
    pub(crate) launch: &'a Launch<'a>,
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) warp: &'a mut Warp,
    pub(crate) places: Places,
}

impl Running<'_> {
    /// Runs the warp.
    ///
    /// # Errors
    /// An error of a thread, with its place.
    pub(crate) fn turn(mut self) -> Result<Turn, String> {
        let (mut count, mut since_poll, mut useful) = (0, 0, 0);
        while count < TURN {
            useful += usize::from(self.wake());
            if self.warp.groups.is_empty() {
                return Ok(Turn::Done(count));
            }
            let ready = |group: &Group| group.wait == Wait::Nothing && !group.polled;
            let groups = self.warp.groups.iter().enumerate().filter(|(_, group)| ready(group));
            let Some((at, _)) = groups.min_by_key(|(_, group)| group.at) else {
                for group in &mut self.warp.groups {
                    group.polled = false;
                }
                return Ok(Turn::Waits(useful + if since_poll > OF_USE { since_poll } else { 0 }));
            };
            // Alone, a group needs no look at the others.
            let alone = self.warp.groups.len() == 1;
            loop {
                count += 1;
                since_poll += 1;
                match self.step(at).map_err(|error| self.located(at, &error))? {
                    Next::Following => self.warp.groups[at].at += 1,
                    Next::Placed => break,
                    Next::Yield => {
                        let group = &mut self.warp.groups[at];
                        group.at += 1;
                        group.polled = true;
                        if since_poll > OF_USE {
                            useful += since_poll;
                        }
                        since_poll = 0;
                        break;
                    }
                }
                if !alone || count >= TURN {
                    break;
                }
            }
            self.warp.join();
        }
        Ok(Turn::Waits(count))
    }

    /// Lets groups go on whose barrier was complete.
    ///
    /// Returns true if one does.
    fn wake(&mut self) -> bool {
        let block = self.warp.block;
        let mut woken = false;
        for group in &mut self.warp.groups {
            let done = match group.wait {
                Wait::Barrier { id, generation } => {
                    self.cluster.blocks[block].barriers[id].generation != generation
                }
                Wait::Cluster { generation } => self.cluster.generation != generation,
                Wait::Nothing | Wait::Threads => false,
            };
            if done {
                group.wait = Wait::Nothing;
                woken = true;
            }
        }
        if woken {
            self.warp.join();
        }
        woken
    }

    fn located(&self, at: usize, error: &str) -> String {
        let code = self.launch.code;
        let group = self.warp.groups.get(at);
        let text = group.and_then(|group| code.texts.get(group.at)).map_or("", String::as_str);
        format!(
            "{}: block {:?} of {:?}, warp {}, threads {:#010x}: {error}\n    {text}",
            code.name,
            self.places.block,
            self.launch.grid,
            self.warp.number,
            group.map_or(0, |group| group.mask),
        )
    }

    /// Runs one instruction of a group.
    fn step(&mut self, at: usize) -> Result<Next, String> {
        let group = self.warp.groups[at];
        let Some(Instruction { guard, operation }) = self.launch.code.instructions.get(group.at)
        else {
            return Ok(self.exit(at, group.mask));
        };
        let mask = match *guard {
            Some((register, negated)) => {
                group.mask & self.warp.predicate(Source::Predicate(register, negated))
            }
            None => group.mask,
        };
        if mask == 0 {
            return Ok(Next::Following);
        }
        let places = self.places;
        let warp = &mut *self.warp;
        match operation {
            Operation::Words(of, to, [a, b, c]) => {
                let result = of(
                    &warp.words(*a, &places),
                    &warp.words(*b, &places),
                    &warp.words(*c, &places),
                );
                warp.set_words(*to, mask, &result);
            }
            Operation::Doubles(of, to, [a, b, c]) => {
                let result = of(
                    &warp.doubles(*a, &places),
                    &warp.doubles(*b, &places),
                    &warp.doubles(*c, &places),
                );
                warp.set_doubles(*to, mask, &result);
            }
            Operation::Widened(of, to, [a, b, c]) => {
                let result = of(
                    &warp.words(*a, &places),
                    &warp.words(*b, &places),
                    &warp.doubles(*c, &places),
                );
                warp.set_doubles(*to, mask, &result);
            }
            Operation::Narrowed(of, to, a) => {
                let result = of(&warp.doubles(*a, &places));
                warp.set_words(*to, mask, &result);
            }
            Operation::Convert(conversion, to, from) => {
                let result = warp.doubles(*from, &places).map(|value| convert(*conversion, value));
                warp.set_doubles(*to, mask, &result);
            }
            Operation::ConvertPair(conversion, to, [high, low]) => {
                let [high, low] = [high, low].map(|source| warp.words(*source, &places));
                let half = |value: u32| convert(*conversion, u64::from(value)) as u32 & 0xffff;
                let result = std::array::from_fn(|lane| half(high[lane]) << 16 | half(low[lane]));
                warp.set_words(*to, mask, &result);
            }
            Operation::Compare { comparison, to, from, with } => {
                let result = warp.compared(*comparison, *from, &places);
                let [first, second] = match with {
                    Some((logic, other)) => {
                        let other = warp.predicate(*other);
                        [logic(result, other), logic(!result, other)]
                    }
                    None => [result, !result],
                };
                warp.set_predicate(to[0], mask, first);
                warp.set_predicate(to[1], mask, second);
            }
            Operation::Set { comparison, to, from, yes } => {
                let result = warp.compared(*comparison, *from, &places);
                let values =
                    std::array::from_fn(|lane| if result >> lane & 1 == 1 { *yes } else { 0 });
                warp.set_words(*to, mask, &values);
            }
            Operation::Predicates(of, to, [a, b]) => {
                let result = of(warp.predicate(*a), warp.predicate(*b));
                warp.set_predicate(*to, mask, result);
            }
            Operation::Select(to, [a, b], by) => {
                let by = warp.predicate(*by);
                let [a, b] = [a, b].map(|source| warp.doubles(*source, &places));
                let result =
                    std::array::from_fn(|lane| if by >> lane & 1 == 1 { a[lane] } else { b[lane] });
                warp.set_doubles(*to, mask, &result);
            }
            Operation::Insert(width, to, from) => {
                let [a, b, at, length] = from.map(|source| warp.doubles(source, &places));
                let result = std::array::from_fn(|lane| {
                    let (at, length) = (at[lane] as u32 & 0xff, length[lane] as u32 & 0xff);
                    if at >= *width || length == 0 {
                        return b[lane];
                    }
                    let length = length.min(width - at);
                    let ones = u64::MAX >> (64 - length) << at;
                    b[lane] & !ones | a[lane] << at & ones
                });
                warp.set_doubles(*to, mask, &result);
            }
            Operation::Table(to, from, table) => {
                let [a, b, c] = from.map(|source| warp.words(source, &places));
                let result = std::array::from_fn(|lane| {
                    (0..8).filter(|row| table >> row & 1 == 1).fold(0, |all, row: u32| {
                        let of =
                            |value: u32, bit: u32| if row >> bit & 1 == 1 { value } else { !value };
                        all | of(a[lane], 2) & of(b[lane], 1) & of(c[lane], 0)
                    })
                });
                warp.set_words(*to, mask, &result);
            }
            Operation::Pack(width, to, from) => {
                let mut result = [0; LANES];
                for (part, source) in from.iter().enumerate() {
                    let values = warp.doubles(*source, &places);
                    let low = if *width == 64 { u64::MAX } else { (1 << width) - 1 };
                    for lane in 0..LANES {
                        result[lane] |= (values[lane] & low) << (part as u32 * width);
                    }
                }
                warp.set_doubles(*to, mask, &result);
            }
            Operation::Unpack(width, to, from) => {
                let values = warp.doubles(*from, &places);
                let low = if *width == 64 { u64::MAX } else { (1 << width) - 1 };
                for (part, to) in to.iter().enumerate() {
                    let result = values.map(|value| value >> (part as u32 * width) & low);
                    warp.set_doubles(*to, mask, &result);
                }
            }
            Operation::Branch(to) => return Ok(self.branch(at, mask, *to)),
            Operation::Exit => return Ok(self.exit(at, mask)),
            Operation::Trap => return Err("trap".to_owned()),
            Operation::Nothing => {}
            Operation::Sleep => return Ok(Next::Yield),
            Operation::Load { .. } | Operation::Store { .. } | Operation::Atomic { .. } => {
                return self.access(operation, mask);
            }
            Operation::ToGeneric(..) | Operation::FromGeneric(..) | Operation::MapRank(..) => {
                self.moved_between_spaces(operation, mask);
            }
            Operation::LoadMatrix { .. }
            | Operation::StoreMatrix { .. }
            | Operation::Multiply { .. }
            | Operation::WmmaLoad { .. }
            | Operation::WmmaStore { .. }
            | Operation::WmmaMultiply { .. }
            | Operation::Wgmma { .. } => {
                if mask != self.warp.alive() {
                    return Ok(self.wait_for_threads(at));
                }
                self.matrices(operation, mask)?;
            }
            other => return self.cooperate(other, at, mask),
        }
        Ok(Next::Following)
    }

    fn branch(&mut self, at: usize, mask: u32, to: usize) -> Next {
        let group = &mut self.warp.groups[at];
        if group.mask == mask {
            group.at = to;
        } else {
            group.mask &= !mask;
            group.at += 1;
            self.warp.groups.push(Group::new(to, mask));
        }
        Next::Placed
    }

    fn exit(&mut self, at: usize, mask: u32) -> Next {
        self.cluster.blocks[self.warp.block].exit(mask.count_ones());
        let group = &mut self.warp.groups[at];
        group.mask &= !mask;
        group.at += 1;
        if group.mask == 0 {
            self.warp.groups.swap_remove(at);
        }
        // Threads that waited for these try again.
        for group in &mut self.warp.groups {
            if group.wait == Wait::Threads {
                group.wait = Wait::Nothing;
            }
        }
        self.cluster.check_arrivals();
        Next::Placed
    }

    fn wait_for_threads(&mut self, at: usize) -> Next {
        self.warp.groups[at].wait = Wait::Threads;
        Next::Placed
    }

    /// Returns the threads in the mask operands of `mask`'s threads that did not end.
    fn members(&self, members: Source, mask: u32) -> u32 {
        let masks = self.warp.words(members, &self.places);
        lanes(mask).fold(0, |all, lane| all | masks[lane]) & self.warp.alive()
    }
}

/// Returns the lanes of a mask.
fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}
