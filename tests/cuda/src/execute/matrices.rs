//! Matrix units. All threads of a warp take part.

use super::{
    Running,
    access::{load, store},
    lanes,
};
use crate::{
    instruction::{Address, LANES, Number, Operation, Source, Space, Target, Words},
    matrix::{Descriptor, Fragment, multiply, multiply_fragments},
};

impl Running<'_> {
    pub(super) fn matrices(&mut self, operation: &Operation, mask: u32) -> Result<(), String> {
        match operation {
            Operation::LoadMatrix { to, from, transposed } => {
                let addresses = self.addresses(*from);
                for (matrix, to) in to.iter().enumerate() {
                    let mut rows = [[0u16; 8]; 8];
                    for (row, values) in rows.iter_mut().enumerate() {
                        let lane = matrix * 8 + row;
                        let place = self.reach(Space::Shared, lane, addresses[lane], 16)?;
                        *values =
                            std::array::from_fn(|at| load(place.wrapping_add(at * 2), 2) as u16);
                    }
                    let number = |row: usize, column: usize| {
                        u32::from(if *transposed { rows[column][row] } else { rows[row][column] })
                    };
                    let result: Words = std::array::from_fn(|lane| {
                        let (row, column) = (lane / 4, lane % 4 * 2);
                        number(row, column) | number(row, column + 1) << 16
                    });
                    self.warp.set_words(*to, mask, &result);
                }
            }
            Operation::StoreMatrix { to, from, transposed } => {
                let addresses = self.addresses(*to);
                for (matrix, source) in from.iter().enumerate() {
                    let words = self.warp.words(*source, &self.places);
                    for lane in 0..LANES {
                        for item in 0..2 {
                            let (row, column) = (lane / 4, lane % 4 * 2 + item);
                            let (row, column) =
                                if *transposed { (column, row) } else { (row, column) };
                            let holder = matrix * 8 + row;
                            let place = self.reach(Space::Shared, holder, addresses[holder], 16)?;
                            store(
                                place.wrapping_add(column * 2),
                                2,
                                u64::from(words[lane] >> (16 * item) & 0xffff),
                            );
                        }
                    }
                }
            }
            Operation::Multiply { shape, to, a, b, c } => {
                let [a, b, c] = [a, b, c].map(|list| self.lists(list));
                let result = multiply(*shape, &a, &b, &c);
                self.keep(to, mask, &result);
            }
            Operation::WmmaMultiply { shape, to, a, b, c } => {
                let [a, b, c] = [a, b, c].map(|list| self.lists(list));
                let result = multiply_fragments(*shape, &a, &b, &c);
                self.keep(to, mask, &result);
            }
            Operation::WmmaLoad { fragment, space, to, from, stride } => {
                let mut result = vec![[0; LANES]; to.len()];
                self.each_number(
                    *fragment,
                    (*space, *from, *stride),
                    to.len(),
                    |place, register, lane, shift, bytes| {
                        result[register][lane] |= (load(place, bytes) as u32) << shift;
                    },
                )?;
                self.keep(to, mask, &result);
            }
            Operation::WmmaStore { fragment, space, to, from, stride } => {
                let values = self.lists(from);
                self.each_number(
                    *fragment,
                    (*space, *to, *stride),
                    from.len(),
                    |place, register, lane, shift, bytes| {
                        store(place, bytes, u64::from(values[register][lane] >> shift));
                    },
                )?;
            }
            Operation::Wgmma { columns, from, sums, a, b, keeps, transposed } => {
                self.wgmma(*columns, *from, sums, (a, *b, *keeps), *transposed, mask)?;
            }
            _ => unreachable!("the caller chose"),
        }
        Ok(())
    }

    fn lists(&self, sources: &[Source]) -> Vec<Words> {
        sources.iter().map(|source| self.warp.words(*source, &self.places)).collect()
    }

    fn keep(&mut self, to: &[Target], mask: u32, values: &[Words]) {
        for (to, values) in to.iter().zip(values) {
            self.warp.set_words(*to, mask, values);
        }
    }

    /// Calls `visit` with the place in memory of each number of a matrix, and its place in registers.
    fn each_number(
        &mut self,
        fragment: Fragment,
        (space, at, stride): (Space, Address, Source),
        registers: usize,
        mut visit: impl FnMut(*mut u8, usize, usize, u32, usize),
    ) -> Result<(), String> {
        let start = self.addresses(at)[0];
        let stride = self.warp.words(stride, &self.places)[0] as usize;
        let bytes = fragment.number.bytes();
        for register in 0..registers {
            for lane in 0..LANES {
                for item in 0..fragment.number.per_register() {
                    let number = fragment.index([register, registers], lane, item);
                    let address = start + fragment.offset(number, stride) as u64;
                    let place = self.reach(space, lane, address, bytes)?;
                    visit(place, register, lane, (item * 8 * bytes) as u32, bytes);
                }
            }
        }
        Ok(())
    }

    /// Computes the rows of this warp: 16 of the 64 of its group.
    ///
    /// The result is there at once. Where the units read factors and when they may be overwritten is not checked.
    fn wgmma(
        &mut self,
        columns: usize,
        number: Number,
        sums: &[Target],
        (a, b, keeps): (&[Source], Source, Source),
        [turned_a, turned_b]: [bool; 2],
        mask: u32,
    ) -> Result<(), String> {
        const TERMS: usize = 16;
        const ROWS: usize = 16;
        let first = self.warp.number % 4 * ROWS;
        let mut left = [[0.0f32; TERMS]; ROWS];
        if let &[a] = a {
            let a = Descriptor::of(self.warp.doubles(a, &self.places)[0])?;
            for (row, left) in left.iter_mut().enumerate() {
                for (term, left) in left.iter_mut().enumerate() {
                    *left = self.factor(number, a.address(first + row, term, turned_a))?;
                }
            }
        } else {
            let a = self.lists(a);
            for lane in 0..LANES {
                for (register, words) in a.iter().enumerate() {
                    for item in 0..2 {
                        let (row, term) = (
                            lane / 4 + 8 * (register & 1),
                            lane % 4 * 2 + item + (register >> 1) * 8,
                        );
                        left[row][term] = number.value(words[lane] >> (16 * item));
                    }
                }
            }
        }
        let b = Descriptor::of(self.warp.doubles(b, &self.places)[0])?;
        let mut right = vec![0.0f32; TERMS * columns];
        for term in 0..TERMS {
            for column in 0..columns {
                right[term * columns + column] =
                    self.factor(number, b.address(column, term, turned_b))?;
            }
        }
        let keeps = match keeps {
            Source::Immediate(value) => value != 0,
            keeps => self.warp.predicate(keeps) & mask == mask,
        };
        let mut all = vec![0.0f32; ROWS * columns];
        for (all, left) in all.chunks_mut(columns).zip(&left) {
            for (left, right) in left.iter().zip(right.chunks(columns)) {
                for (sum, right) in all.iter_mut().zip(right) {
                    *sum += left * right;
                }
            }
        }
        for (at, to) in sums.iter().enumerate() {
            let (group, half, item) = (at / 4, at / 2 % 2, at % 2);
            let old = match *to {
                Target::Word(register) => self.warp.words(Source::Word(register), &self.places),
                _ => return Err("a sum that is no word".to_owned()),
            };
            let mut values = [0; LANES];
            for lane in lanes(mask) {
                let (row, column) = (lane / 4 + 8 * half, 8 * group + lane % 4 * 2 + item);
                let sum = if keeps { f32::from_bits(old[lane]) } else { 0.0 };
                values[lane] = (sum + all[row * columns + column]).to_bits();
            }
            self.warp.set_words(*to, mask, &values);
        }
        Ok(())
    }

    fn factor(&mut self, number: Number, address: u32) -> Result<f32, String> {
        let place = self.reach(Space::Shared, 0, u64::from(address), 2)?;
        Ok(number.value(load(place, 2) as u32))
    }
}
