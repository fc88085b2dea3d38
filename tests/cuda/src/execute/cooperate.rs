//! Threads that work together: exchanges, barriers, copies that run meanwhile.

use super::{
    Next, Running,
    access::{changed, combined, load, store},
    lanes,
};
use crate::{
    instruction::{Address, LANES, Operation, Shuffle, Source, Space, Target, Vote},
    launch::{Cluster, Pending},
    mbarrier::Mbarrier,
    tensor_map::TensorMap,
    warp::{Copy, Wait, bits},
};

impl Running<'_> {
    pub(super) fn cooperate(
        &mut self,
        operation: &Operation,
        at: usize,
        mask: u32,
    ) -> Result<Next, String> {
        let places = self.places;
        match operation {
            Operation::Shuffle { shuffle, to, value, lane, clamp, mask: members } => {
                if self.members(*members, mask) & !mask != 0 {
                    return Ok(self.wait_for_threads(at));
                }
                let [values, by, clamp] =
                    [value, lane, clamp].map(|source| self.warp.words(*source, &places));
                let mut result = [0; LANES];
                let mut found = 0;
                for lane in lanes(mask) {
                    let (source, is_found) =
                        source_of(*shuffle, lane as u32, by[lane], clamp[lane]);
                    if is_found && mask >> source & 1 == 0 {
                        return Err(format!(
                            "thread {lane} reads thread {source}, which does not take part"
                        ));
                    }
                    result[lane] = values[source as usize];
                    found |= u32::from(is_found) << lane;
                }
                self.warp.set_words(to[0], mask, &result);
                self.warp.set_predicate(to[1], mask, found);
            }
            Operation::Vote { vote, to, value, mask: members } => {
                if self.members(*members, mask) & !mask != 0 {
                    return Ok(self.wait_for_threads(at));
                }
                let votes = self.warp.predicate(*value) & mask;
                let all = |is_so: bool| if is_so { u32::MAX } else { 0 };
                match vote {
                    Vote::All => self.warp.set_predicate(*to, mask, all(votes == mask)),
                    Vote::Any => self.warp.set_predicate(*to, mask, all(votes != 0)),
                    Vote::Uniform => {
                        self.warp.set_predicate(*to, mask, all(votes == 0 || votes == mask))
                    }
                    Vote::Ballot => self.warp.set_words(*to, mask, &[votes; LANES]),
                }
            }
            Operation::Match { to, value, mask: members } => {
                if self.members(*members, mask) & !mask != 0 {
                    return Ok(self.wait_for_threads(at));
                }
                let values = self.warp.doubles(*value, &places);
                let result =
                    std::array::from_fn(|lane| bits(&values, |value| value == values[lane]) & mask);
                self.warp.set_words(*to, mask, &result);
            }
            Operation::Reduce { atomic, number, to, value, mask: members } => {
                if self.members(*members, mask) & !mask != 0 {
                    return Ok(self.wait_for_threads(at));
                }
                let values = self.warp.doubles(*value, &places);
                let all = lanes(mask)
                    .map(|lane| values[lane])
                    .reduce(|a, b| combined(*atomic, *number, a, b, 0));
                self.warp.set_doubles(*to, mask, &[all.unwrap_or(0); LANES]);
            }
            Operation::Elect { to, mask: members } => {
                if self.members(*members, mask) & !mask != 0 {
                    return Ok(self.wait_for_threads(at));
                }
                let first = mask.trailing_zeros();
                self.warp.set_words(to[0], mask, &[first; LANES]);
                self.warp.set_predicate(to[1], mask, 1 << first);
            }
            Operation::ActiveMask(to) => self.warp.set_words(*to, mask, &[mask; LANES]),
            Operation::WarpBarrier(members) => {
                if self.members(*members, mask) & !mask != 0 {
                    return Ok(self.wait_for_threads(at));
                }
            }
            Operation::Barrier { id, count, waits } => {
                return self.barrier((*id, *count), *waits, at, mask);
            }
            Operation::ClusterArrive => {
                self.warp.cluster_generation = self.cluster.generation;
                self.cluster.arrived += mask.count_ones();
                self.cluster.check_arrivals();
            }
            Operation::ClusterWait => {
                let generation = self.warp.cluster_generation;
                if self.cluster.generation == generation {
                    return Ok(self.wait(at, mask, Wait::Cluster { generation }));
                }
            }
            Operation::MbarrierInit(place, count) => {
                let counts = self.warp.words(*count, &places);
                for (lane, place) in self.barrier_places(*place, mask)? {
                    store(place, 8, Mbarrier::new(counts[lane]).bits());
                }
            }
            Operation::MbarrierArrive { at: place, expected, count, state, .. } => {
                let word =
                    |source: &Option<Source>| source.map(|source| self.warp.words(source, &places));
                let (expected, count) = (word(expected), word(count));
                let mut before = [0; LANES];
                for (lane, place) in self.barrier_places(*place, mask)? {
                    let bytes = expected.map_or(0, |expected| expected[lane]);
                    let count = count.map_or(1, |count| count[lane]);
                    let mut barrier = Mbarrier::from_bits(load(place, 8));
                    before[lane] = barrier.bits();
                    barrier.expect(bytes);
                    barrier.arrive(count)?;
                    store(place, 8, barrier.bits());
                }
                self.warp.set_doubles(*state, mask, &before);
            }
            Operation::MbarrierExpect(place, bytes) => {
                let bytes = self.warp.words(*bytes, &places);
                for (lane, place) in self.barrier_places(*place, mask)? {
                    let mut barrier = Mbarrier::from_bits(load(place, 8));
                    barrier.expect(bytes[lane]);
                    store(place, 8, barrier.bits());
                }
            }
            Operation::MbarrierWait { at: place, to, parity, state } => {
                return self.mbarrier_wait(*place, *to, [*parity, *state], mask);
            }
            Operation::CopyAsync { to, from, bytes, present } => {
                let (to, from) = (self.addresses(*to), self.addresses(*from));
                let present = present.map(|source| self.warp.words(source, &places));
                for lane in lanes(mask) {
                    let present = present.map_or(*bytes, |present| present[lane] as usize);
                    if present > *bytes {
                        return Err(format!("a copy reads {present} of {bytes} bytes"));
                    }
                    let to = self.reach(Space::Shared, lane, to[lane], *bytes)? as u64;
                    let from = match present {
                        0 => 0,
                        _ => {
                            if !from[lane].is_multiple_of(*bytes as u64) {
                                return Err(format!(
                                    "thread {lane} copies from {:#x}, which is not aligned",
                                    from[lane]
                                ));
                            }
                            self.reach_unaligned(Space::Generic, lane, from[lane], present)? as u64
                        }
                    };
                    self.warp.copies[lane].open.push(Copy { to, from, bytes: *bytes, present });
                }
            }
            Operation::CopyCommit => {
                for lane in lanes(mask) {
                    let copies = &mut self.warp.copies[lane];
                    let group = std::mem::take(&mut copies.open);
                    copies.groups.push_back(group);
                }
            }
            Operation::CopyWait(pending) => {
                for lane in lanes(mask) {
                    let copies = &mut self.warp.copies[lane];
                    while copies.groups.len() as u64 > pending.unwrap_or(0) {
                        copies.groups.pop_front().into_iter().flatten().for_each(copy);
                    }
                    if pending.is_none() {
                        copies.open.drain(..).for_each(copy);
                    }
                }
            }
            Operation::TensorLoad { to, map, at: place, barrier, blocks } => {
                self.tensor_load([*to, *barrier], *map, place, *blocks, mask)?;
            }
            other => return Err(format!("not supported: {other:?}")),
        }
        Ok(Next::Following)
    }

    /// Lets threads of a group wait; the others stay at the instruction after it.
    fn wait(&mut self, at: usize, mask: u32, wait: Wait) -> Next {
        let group = self.warp.groups[at];
        let after = group.at + 1;
        if group.mask != mask {
            self.warp.groups.push(crate::warp::Group::new(after, group.mask & !mask));
        }
        self.warp.groups[at] = crate::warp::Group { wait, ..crate::warp::Group::new(after, mask) };
        Next::Placed
    }

    fn barrier(
        &mut self,
        (id, count): (Source, Option<Source>),
        waits: bool,
        at: usize,
        mask: u32,
    ) -> Result<Next, String> {
        let first = mask.trailing_zeros() as usize;
        let id = self.warp.words(id, &self.places)[first] as usize;
        let count = count.map(|count| self.warp.words(count, &self.places)[first]);
        let block = &mut self.cluster.blocks[self.warp.block];
        if id >= block.barriers.len() {
            return Err(format!("there is no barrier {id}"));
        }
        let generation = block.barriers[id].generation;
        block.arrive(id, count, mask.count_ones());
        if waits && block.barriers[id].generation == generation {
            return Ok(self.wait(at, mask, Wait::Barrier { id, generation }));
        }
        Ok(Next::Following)
    }

    fn barrier_places(
        &mut self,
        place: Address,
        mask: u32,
    ) -> Result<Vec<(usize, *mut u8)>, String> {
        let addresses = self.addresses(place);
        lanes(mask)
            .map(|lane| Ok((lane, self.reach(Space::Shared, lane, addresses[lane], 8)?)))
            .collect()
    }

    fn mbarrier_wait(
        &mut self,
        place: Address,
        to: Target,
        [parity, state]: [Option<Source>; 2],
        mask: u32,
    ) -> Result<Next, String> {
        let addresses = self.addresses(place);
        let parity = match (parity, state) {
            (Some(parity), _) => {
                self.warp.words(parity, &self.places).map(|parity| parity & 1 == 1)
            }
            (None, Some(state)) => self
                .warp
                .doubles(state, &self.places)
                .map(|state| Mbarrier::from_bits(state).phase()),
            (None, None) => return Err("a wait without a phase".to_owned()),
        };
        let mut ended = 0;
        for lane in lanes(mask) {
            let place = self.reach(Space::Shared, lane, addresses[lane], 8)?;
            if !Mbarrier::from_bits(load(place, 8)).has_ended(parity[lane]) {
                // Copies take place when somebody waits for them, which is as late as possible.
                self.copy_tiles(self.warp.block, addresses[lane] as u32)?;
            }
            ended |= u32::from(Mbarrier::from_bits(load(place, 8)).has_ended(parity[lane])) << lane;
        }
        self.warp.set_predicate(to, mask, ended);
        Ok(if ended == mask { Next::Following } else { Next::Yield })
    }

    fn tensor_load(
        &mut self,
        [to, barrier]: [Address; 2],
        map: Source,
        at: &[Source],
        blocks: Option<Source>,
        mask: u32,
    ) -> Result<(), String> {
        let [to, barrier] = [to, barrier].map(|address| self.addresses(address));
        let maps = self.warp.doubles(map, &self.places);
        let at: Vec<_> = at.iter().map(|source| self.warp.words(*source, &self.places)).collect();
        let blocks = blocks.map(|source| self.warp.words(source, &self.places));
        for lane in lanes(mask) {
            if !maps[lane].is_multiple_of(64) {
                return Err(format!("a map at {:#x}, which is no multiple of 64", maps[lane]));
            }
            let from = self.reach_unaligned(Space::Generic, lane, maps[lane], 128)?;
            let words = std::array::from_fn(|word| load(from.wrapping_add(word * 8), 8));
            let map = TensorMap::decoded(&words)?;
            if map.axes != at.len() {
                return Err(format!("a map of {} axes, {} places", map.axes, at.len()));
            }
            let most = if map.swizzle > 0 { 128 } else { 16 };
            if !to[lane].is_multiple_of(most) {
                return Err(format!("a tile at {:#x}, which is no multiple of {most}", to[lane]));
            }
            let own = 1 << self.warp.block;
            for block in lanes(blocks.map_or(own, |blocks| blocks[lane])) {
                let (to, barrier) = (to[lane] as u32, barrier[lane] as u32);
                let at = at.iter().map(|at| at[lane] as i32).collect();
                self.cluster.pending.push(Pending { block, to, barrier, map, at });
            }
        }
        Ok(())
    }

    /// Carries out the copies that this barrier counts.
    fn copy_tiles(&mut self, block: usize, barrier: u32) -> Result<(), String> {
        let pending = std::mem::take(&mut self.cluster.pending);
        let (now, later): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|copy| copy.block == block && copy.barrier == barrier);
        self.cluster.pending = later;
        for Pending { block, to, barrier, map, at } in now {
            let shared = self.cluster.blocks[block].shared_range();
            if !shared.contains(shared.start + u64::from(to), map.tile_bytes()) {
                return Err(format!("a tile at {to:#x} of shared memory, where nothing is"));
            }
            if !shared.contains(shared.start + u64::from(barrier), 8) {
                return Err(format!(
                    "a barrier at {barrier:#x} of shared memory, where nothing is"
                ));
            }
            let allocation = self
                .launch
                .allocations
                .range_of(map.address)
                .ok_or("a map of memory that was freed")?;
            map.copy(&at, to, allocation, |place, value| {
                write(shared.start + u64::from(place), value)
            })?;
            let place = (shared.start + u64::from(barrier)) as *mut u8;
            let bytes = map.tile_bytes() as u32;
            changed(place, 8, |bits| {
                let mut barrier = Mbarrier::from_bits(bits);
                barrier.complete(bytes);
                barrier.bits()
            });
        }
        Ok(())
    }
}

impl Cluster {
    /// Ends the generation of the cluster's barrier if all threads arrived.
    pub(crate) fn check_arrivals(&mut self) {
        let alive: u32 = self.blocks.iter().map(|block| block.alive).sum();
        if self.arrived > 0 && self.arrived >= alive {
            self.arrived = 0;
            self.generation += 1;
        }
    }
}

/// Returns the thread that a thread reads, and true if it is in the range.
fn source_of(shuffle: Shuffle, lane: u32, by: u32, clamp: u32) -> (u32, bool) {
    let (by, limit, segment) = (by & 31, clamp & 31, clamp >> 8 & 31);
    let most = lane & segment | limit & !segment;
    let least = lane & segment;
    let (source, is_found) = match shuffle {
        Shuffle::Up => (lane.wrapping_sub(by), lane as i32 - by as i32 >= most as i32),
        Shuffle::Down => (lane + by, lane + by <= most),
        Shuffle::Butterfly => (lane ^ by, lane ^ by <= most),
        Shuffle::Index => (least | by & !segment, least | by & !segment <= most),
    };
    if is_found { (source, true) } else { (lane, false) }
}

#[expect(unsafe_code, reason = "memory of the device has no type")]
fn copy(copy: Copy) {
    // SAFETY: both places were checked when the copy was asked for.
    unsafe {
        (copy.to as *mut u8).write_bytes(0, copy.bytes);
        if copy.present > 0 {
            std::ptr::copy_nonoverlapping(copy.from as *const u8, copy.to as *mut u8, copy.present);
        }
    }
}

#[expect(unsafe_code, reason = "memory of the device has no type")]
fn write(to: u64, value: &[u8]) {
    // SAFETY: the caller checked that the tile is in shared memory; its pattern leaves it inside.
    unsafe {
        std::ptr::copy_nonoverlapping(value.as_ptr(), to as *mut u8, value.len());
    }
}
