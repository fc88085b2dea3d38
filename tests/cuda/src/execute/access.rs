//! Loads, stores and atomic operations.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::{Next, Running, lanes};
use crate::{
    instruction::{Address, Atomic, Doubles, LANES, Number, Operation, Source, Space, Target},
    memory::Range,
};

/// The bit at which the number of a block begins in an address of shared memory; it is one more than the rank, and zero means
/// the own block.
const RANK: u32 = 24;

impl Running<'_> {
    pub(super) fn access(&mut self, operation: &Operation, mask: u32) -> Result<Next, String> {
        match operation {
            Operation::Load { space, number, to, from, acquires } => {
                match *to.as_slice() {
                    [a] => self.load([a], (*space, *number), *from, mask)?,
                    [a, b] => self.load([a, b], (*space, *number), *from, mask)?,
                    [a, b, c, d] => self.load([a, b, c, d], (*space, *number), *from, mask)?,
                    _ => return Err("a load of so many numbers".to_owned()),
                }
                if *acquires {
                    std::sync::atomic::fence(Ordering::SeqCst);
                    return Ok(Next::Yield);
                }
            }
            Operation::Store { space, bytes, to, from } => {
                let addresses = self.addresses(*to);
                let values: Vec<Doubles> =
                    from.iter().map(|source| self.warp.doubles(*source, &self.places)).collect();
                for lane in lanes(mask) {
                    let start = self.reach(*space, lane, addresses[lane], bytes * from.len())?;
                    for (at, values) in values.iter().enumerate() {
                        store(start.wrapping_add(at * bytes), *bytes, values[lane]);
                    }
                }
            }
            Operation::Atomic { space, atomic, number, to, at, with, .. } => {
                if self.atomic((*space, *at), (*atomic, *number), *to, *with, mask)? {
                    return Ok(Next::Yield);
                }
            }
            _ => unreachable!("the caller chose"),
        }
        Ok(Next::Following)
    }

    fn load<const N: usize>(
        &mut self,
        to: [Target; N],
        (space, number): (Space, Number),
        from: Address,
        mask: u32,
    ) -> Result<(), String> {
        let bytes = number.bytes();
        let addresses = self.addresses(from);
        let mut values = [[0u64; LANES]; N];
        for lane in lanes(mask) {
            let start = self.reach(space, lane, addresses[lane], bytes * N)?;
            for (at, values) in values.iter_mut().enumerate() {
                values[lane] = extended(number, load(start.wrapping_add(at * bytes), bytes));
            }
        }
        for (to, values) in to.iter().zip(&values) {
            self.warp.set_doubles(*to, mask, values);
        }
        Ok(())
    }

    pub(super) fn addresses(&self, address: Address) -> Doubles {
        let base = self.warp.doubles(address.base, &self.places);
        base.map(|base| base.wrapping_add(address.offset as u64))
    }

    /// Returns the place of an address of a thread, in the memory of the host.
    pub(super) fn reach(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        bytes: usize,
    ) -> Result<*mut u8, String> {
        if !address.is_multiple_of(bytes.next_power_of_two() as u64) {
            return Err(format!(
                "thread {lane} uses {bytes} bytes at {address:#x}, which is not aligned"
            ));
        }
        self.reach_unaligned(space, lane, address, bytes)
    }

    pub(super) fn reach_unaligned(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        bytes: usize,
    ) -> Result<*mut u8, String> {
        let outside = || {
            format!(
                "thread {lane} uses {bytes} bytes at {address:#x} of {space:?} memory, where nothing is"
            )
        };
        match space {
            Space::Shared => {
                let rank = address as u32 >> RANK;
                let block = if rank == 0 { self.warp.block } else { rank as usize - 1 };
                let range = self.cluster.blocks.get(block).ok_or_else(outside)?.shared_range();
                let place = range.start + (address & ((1 << RANK) - 1));
                range.contains(place, bytes).then_some(place as *mut u8).ok_or_else(outside)
            }
            Space::Local => {
                let range = self.warp.local_range();
                let place = self.local_start(lane) + address;
                let inside = address as usize + bytes <= self.warp.local_bytes;
                (inside && range.contains(place, bytes))
                    .then_some(place as *mut u8)
                    .ok_or_else(outside)
            }
            Space::Generic | Space::Parameter => {
                if self.warp.known.contains(address, bytes) {
                    return Ok(address as *mut u8);
                }
                let range = self.range_of(address).filter(|range| range.contains(address, bytes));
                self.warp.known = range.ok_or_else(outside)?;
                Ok(address as *mut u8)
            }
        }
    }

    fn local_start(&self, lane: usize) -> u64 {
        self.warp.local_range().start + (lane * self.warp.local_bytes) as u64
    }

    /// Returns the memory that a generic address is in.
    fn range_of(&self, address: u64) -> Option<Range> {
        let start = self.launch.parameters.as_ptr() as u64;
        let parameters =
            Range { start, end: start + size_of_val(self.launch.parameters.as_slice()) as u64 };
        let shared = self.cluster.blocks.iter().map(|block| block.shared_range());
        let mut own = shared.chain([parameters, self.warp.local_range()]);
        own.find(|range| range.contains(address, 1))
            .or_else(|| self.launch.allocations.range_of(address))
    }

    pub(super) fn moved_between_spaces(&mut self, operation: &Operation, mask: u32) {
        let (to, from, values) = match operation {
            Operation::ToGeneric(space, to, from) | Operation::FromGeneric(space, to, from) => {
                let base: Doubles = match space {
                    Space::Shared => {
                        [self.cluster.blocks[self.warp.block].shared_range().start; LANES]
                    }
                    Space::Local => std::array::from_fn(|lane| self.local_start(lane)),
                    Space::Generic | Space::Parameter => [0; LANES],
                };
                (to, from, base)
            }
            Operation::MapRank(to, from, rank) => {
                let rank = self.warp.doubles(*rank, &self.places);
                (to, from, rank.map(|rank| (rank + 1) << RANK))
            }
            _ => unreachable!("the caller chose"),
        };
        let subtracts = matches!(operation, Operation::FromGeneric(..));
        let from = self.warp.doubles(*from, &self.places);
        let moved = std::array::from_fn(|lane| {
            if subtracts {
                from[lane].wrapping_sub(values[lane])
            } else {
                from[lane].wrapping_add(values[lane])
            }
        });
        self.warp.set_doubles(*to, mask, &moved);
    }

    /// Returns true if an exchange failed, so that another thread may have to run first.
    fn atomic(
        &mut self,
        (space, at): (Space, Address),
        (atomic, number): (Atomic, Number),
        to: Target,
        with: [Source; 2],
        mask: u32,
    ) -> Result<bool, String> {
        let addresses = self.addresses(at);
        let mut failed = false;
        let [first, second] = with.map(|source| self.warp.doubles(source, &self.places));
        let mut old = [0; LANES];
        for lane in lanes(mask) {
            let place = self.reach(space, lane, addresses[lane], number.bytes())?;
            let low = u64::MAX >> (64 - 8 * number.bytes());
            let [a, b] = [first[lane] & low, second[lane] & low];
            let change = |old: u64| combined(atomic, number, old, a, b);
            old[lane] = changed(place, number.bytes(), change);
            failed |= atomic == Atomic::CompareExchange && old[lane] != a;
        }
        self.warp.set_doubles(to, mask, &old);
        Ok(failed)
    }
}

fn extended(number: Number, bits: u64) -> u64 {
    match number {
        Number::Signed(width) => ((bits << (64 - width)) as i64 >> (64 - width)) as u64,
        _ => bits,
    }
}

/// Reads aligned bytes that other threads of the host may write.
#[expect(unsafe_code, reason = "memory of the device has no type")]
pub(super) fn load(from: *const u8, bytes: usize) -> u64 {
    // SAFETY: `reach` found these bytes in memory that lives as long as the launch, and checked the alignment.
    unsafe {
        match bytes {
            1 => u64::from(from.read_volatile()),
            2 => u64::from(from.cast::<u16>().read_volatile()),
            4 => u64::from(from.cast::<u32>().read_volatile()),
            _ => from.cast::<u64>().read_volatile(),
        }
    }
}

#[expect(unsafe_code, reason = "memory of the device has no type")]
pub(super) fn store(to: *mut u8, bytes: usize, value: u64) {
    // SAFETY: see `load`.
    unsafe {
        match bytes {
            1 => to.write_volatile(value as u8),
            2 => to.cast::<u16>().write_volatile(value as u16),
            4 => to.cast::<u32>().write_volatile(value as u32),
            _ => to.cast::<u64>().write_volatile(value),
        }
    }
}

/// Changes memory in one step, and returns what was there.
#[expect(unsafe_code, reason = "memory of the device has no type")]
pub(super) fn changed(place: *mut u8, bytes: usize, change: impl Fn(u64) -> u64) -> u64 {
    macro_rules! of {
        ($atomic:ty, $bits:ty) => {{
            // SAFETY: see `load`.
            let place = unsafe { <$atomic>::from_ptr(place.cast()) };
            let change = |old: $bits| Some(change(u64::from(old)) as $bits);
            u64::from(
                place
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, change)
                    .expect("it always changes"),
            )
        }};
    }
    match bytes {
        2 => of!(AtomicU16, u16),
        4 => of!(AtomicU32, u32),
        _ => of!(AtomicU64, u64),
    }
}

/// Returns the result of an operation on a value in memory.
pub(super) fn combined(atomic: Atomic, number: Number, old: u64, a: u64, b: u64) -> u64 {
    let float = |of: fn(f32, f32) -> f32| {
        u64::from(number.bits_of(of(number.value(old as u32), number.value(a as u32))))
    };
    let signed = |of: fn(i64, i64) -> i64| {
        of(extended(number, old) as i64, extended(number, a) as i64) as u64
    };
    match (atomic, number) {
        (Atomic::Add, Number::F64) => (f64::from_bits(old) + f64::from_bits(a)).to_bits(),
        (Atomic::Add, Number::F16 | Number::Bf16 | Number::F32) => float(|x, y| x + y),
        (Atomic::Min, Number::F16 | Number::Bf16 | Number::F32) => float(f32::min),
        (Atomic::Max, Number::F16 | Number::Bf16 | Number::F32) => float(f32::max),
        (Atomic::Add, _) => old.wrapping_add(a),
        (Atomic::Min, Number::Signed(_)) => signed(i64::min),
        (Atomic::Max, Number::Signed(_)) => signed(i64::max),
        (Atomic::Min, _) => old.min(a),
        (Atomic::Max, _) => old.max(a),
        (Atomic::And, _) => old & a,
        (Atomic::Or, _) => old | a,
        (Atomic::Xor, _) => old ^ a,
        (Atomic::Inc, _) => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        (Atomic::Dec, _) => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
        (Atomic::Exchange, _) => a,
        (Atomic::CompareExchange, _) => {
            if old == a {
                b
            } else {
                old
            }
        }
    }
}
