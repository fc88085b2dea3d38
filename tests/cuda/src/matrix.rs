//! Matrix units: `mma`, `wmma`, `wgmma`, and the layouts of their factors.
//!
//! Source: NVIDIA, "Parallel Thread Execution ISA", "Matrix fragments for mma", "Warpgroup level matrix instructions".

use half::{bf16, f16};

use crate::instruction::{LANES, Number, Words};

/// Sizes `m`, `n`, `k` and types of a product.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) sizes: [usize; 3],
    pub(crate) factors: Number,
    pub(crate) sums: Number,
}

/// A matrix in memory that `wmma` loads or stores. Its place in registers is not specified; here the numbers are
/// there row by row, those of one thread after the other's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragment {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) number: Number,
    pub(crate) row_major: bool,
}

impl Number {
    /// Numbers in a register of 32 bits.
    pub(crate) fn per_register(self) -> usize {
        4 / self.bytes()
    }

    /// Returns the value of these bits.
    pub(crate) fn value(self, bits: u32) -> f32 {
        match self {
            Self::F16 => f16::from_bits(bits as u16).to_f32(),
            Self::Bf16 => f32::from_bits(bits << 16),
            Self::Signed(8) => f32::from(bits as i8),
            Self::Unsigned(8) => f32::from(bits as u8),
            Self::Signed(_) => bits as i32 as f32,
            // The units ignore the lowest bits.
            Self::Tf32 => f32::from_bits(bits & !0x1fff),
            _ => f32::from_bits(bits),
        }
    }

    /// Returns the bits of a value.
    pub(crate) fn bits_of(self, value: f32) -> u32 {
        match self {
            Self::F16 => u32::from(f16::from_f32(value).to_bits()),
            Self::Bf16 => u32::from(bf16::from_f32(value).to_bits()),
            Self::Signed(_) => value as i32 as u32,
            _ => value.to_bits(),
        }
    }

    fn read(self, registers: &[Words], lane: usize, at: usize) -> f32 {
        let per = self.per_register();
        let word = registers[at / per][lane];
        self.value(word >> (at % per * 8 * self.bytes()))
    }
}

/// Computes `c + a b` of `mma.sync`.
pub(crate) fn multiply(shape: Shape, a: &[Words], b: &[Words], c: &[Words]) -> Vec<Words> {
    let [m, n, k] = shape.sizes;
    let per = shape.factors.per_register();
    let (mut left, mut right) = (vec![0.0f32; m * k], vec![0.0f32; k * n]);
    for lane in 0..LANES {
        let (group, quad) = (lane / 4, lane % 4);
        for register in 0..a.len() {
            for item in 0..per {
                let (row, term) =
                    (group + 8 * (register & 1), quad * per + item + (register >> 1) * 4 * per);
                left[row * k + term] = shape.factors.read(a, lane, register * per + item);
            }
        }
        for register in 0..b.len() {
            for item in 0..per {
                let term = quad * per + item + register * 4 * per;
                right[term * n + group] = shape.factors.read(b, lane, register * per + item);
            }
        }
    }
    let mut sums = vec![[0; LANES]; c.len()];
    let out = shape.sums.per_register();
    for lane in 0..LANES {
        let (group, quad) = (lane / 4, lane % 4);
        for at in 0..c.len() * out {
            let (row, column) = (group + 8 * (at / 2), quad * 2 + at % 2);
            let mut sum = shape.sums.read(c, lane, at);
            for term in 0..k {
                sum += left[row * k + term] * right[term * n + column];
            }
            sums[at / out][lane] |=
                shape.sums.bits_of(sum) << (at % out * 8 * shape.sums.bytes() % 32);
        }
    }
    sums
}

impl Fragment {
    /// Returns the bytes between the first number and number `at` of the register file, in rows that are `stride`
    /// numbers apart.
    pub(crate) fn offset(self, at: usize, stride: usize) -> usize {
        let at = at % (self.rows * self.columns);
        let (row, column) = (at / self.columns, at % self.columns);
        let place = if self.row_major { row * stride + column } else { column * stride + row };
        place * self.number.bytes()
    }

    /// Returns the number in a place of one of `count` registers: those of a thread follow each other, so that number
    /// `i` of a thread is the same in every type.
    pub(crate) fn index(self, [register, count]: [usize; 2], lane: usize, item: usize) -> usize {
        (lane * count + register) * self.number.per_register() + item
    }

    fn matrix(self, registers: &[Words]) -> Vec<f32> {
        let mut matrix = vec![0.0; self.rows * self.columns];
        for register in 0..registers.len() {
            for lane in 0..LANES {
                for item in 0..self.number.per_register() {
                    let at = self.index([register, registers.len()], lane, item);
                    if at < matrix.len() {
                        matrix[at] = self.number.read(
                            registers,
                            lane,
                            register * self.number.per_register() + item,
                        );
                    }
                }
            }
        }
        matrix
    }
}

/// Computes `c + a b` of `wmma`.
pub(crate) fn multiply_fragments(
    shape: Shape,
    a: &[Words],
    b: &[Words],
    c: &[Words],
) -> Vec<Words> {
    let [m, n, k] = shape.sizes;
    let of = |rows, columns, number| Fragment { rows, columns, number, row_major: true };
    let left = of(m, k, shape.factors).matrix(a);
    let right = of(k, n, shape.factors).matrix(b);
    let sums = of(m, n, shape.sums);
    let mut out = vec![[0; LANES]; c.len()];
    let per = shape.sums.per_register();
    let old = sums.matrix(c);
    for register in 0..c.len() {
        for lane in 0..LANES {
            for item in 0..per {
                let at = sums.index([register, c.len()], lane, item);
                let (row, column) = (at / n, at % n);
                let mut sum = old[at];
                for term in 0..k {
                    sum += left[row * k + term] * right[term * n + column];
                }
                out[register][lane] |=
                    shape.sums.bits_of(sum) << (item * 8 * shape.sums.bytes() % 32);
            }
        }
    }
    out
}

/// A matrix in shared memory that `wgmma` reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptor {
    start: u32,
    leading: u32,
    stride: u32,
    /// Bytes of a row of the pattern in which lines are exchanged: 128, 64, 32, or 0.
    swizzle: u32,
}

impl Descriptor {
    pub(crate) fn of(bits: u64) -> Result<Self, String> {
        let field = |at: u32| ((bits >> at & 0x3fff) << 4) as u32;
        let swizzle = match bits >> 62 {
            0 => 0,
            1 => 128,
            2 => 64,
            _ => 32,
        };
        if bits >> 49 & 7 != 0 {
            return Err("a base offset in a descriptor is not supported".to_owned());
        }
        Ok(Self { start: field(0), leading: field(16), stride: field(32), swizzle })
    }

    /// Returns the address of a term of a row; `transposed` if the terms are the lines.
    pub(crate) fn address(self, row: usize, term: usize, transposed: bool) -> u32 {
        let (line, place) =
            if transposed { (term as u32, row as u32) } else { (row as u32, term as u32) };
        if self.swizzle == 0 {
            // Eight lines of 16 bytes follow each other.
            let (across, along) = (place / 8, line / 8);
            return self.start
                + across * self.leading
                + along * self.stride
                + line % 8 * 16
                + place % 8 * 2;
        }
        let width = self.swizzle / 2;
        let (across, inside) = (place / width, place % width);
        let address = self.start
            + across * self.leading
            + line / 8 * self.stride
            + line % 8 * self.swizzle
            + inside * 2;
        address ^ ((address >> 7 & (self.swizzle / 16 - 1)) << 4)
    }
}
