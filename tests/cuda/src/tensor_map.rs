//! Maps of tensors for the copy engine (TMA), and its copies.
//!
//! Source: NVIDIA, "CUDA Driver API", `cuTensorMapEncodeTiled`; "Parallel Thread Execution ISA", "Tensors".

use crate::memory::Range;

/// The maximum number of axes.
pub(crate) const MOST_AXES: usize = 5;

/// Marks a map of this driver.
const MAGIC: u64 = 0x6163_6573_7465_7031;

/// A map of a tensor; the axis whose values are neighbours is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TensorMap {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
    pub(crate) axes: usize,
    /// Bytes of a row of the pattern in which pieces of 16 bytes are exchanged, or 0.
    pub(crate) swizzle: u32,
    pub(crate) sizes: [u64; MOST_AXES],
    /// Bytes between values that are neighbours on an axis.
    pub(crate) strides: [u64; MOST_AXES],
    pub(crate) tile: [u32; MOST_AXES],
}

impl TensorMap {
    /// Checks the rules of the driver.
    ///
    /// # Errors
    /// A rule that is broken.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_aligned = |value: u64| value.is_multiple_of(16);
        if self.axes == 0 || self.axes > MOST_AXES {
            return Err(format!("{} axes", self.axes));
        }
        if !is_aligned(self.address) {
            return Err(format!("the address {:#x} is no multiple of 16", self.address));
        }
        for axis in 0..self.axes {
            let (size, stride, tile) = (self.sizes[axis], self.strides[axis], self.tile[axis]);
            if size == 0 || size > 1 << 32 {
                return Err(format!("axis {axis} has the size {size}"));
            }
            if axis > 0 && (!is_aligned(stride) || stride >= 1 << 40) {
                return Err(format!("axis {axis} has the stride {stride}"));
            }
            if tile == 0 || tile > 256 {
                return Err(format!("axis {axis} has tiles of {tile}"));
            }
        }
        let line = u64::from(self.tile[0]) * self.bytes as u64;
        if !is_aligned(line) || self.swizzle > 0 && line > u64::from(self.swizzle) {
            return Err(format!("lines of {line} bytes, swizzle {}", self.swizzle));
        }
        Ok(())
    }

    /// Returns the 16 words that a kernel gets.
    pub(crate) fn encoded(&self) -> [u64; 16] {
        let mut words = [0; 16];
        words[0] = MAGIC;
        words[1] = self.address;
        words[2] = self.bytes as u64 | (self.axes as u64) << 8 | u64::from(self.swizzle) << 16;
        for axis in 0..MOST_AXES {
            // Sizes to 2^32 and tiles to 256, less one.
            words[3 + axis] = self.sizes[axis].wrapping_sub(1) & 0xffff_ffff
                | u64::from(self.tile[axis].wrapping_sub(1)) << 32;
            words[8 + axis] = self.strides[axis];
        }
        words
    }

    /// Reads the words of [`Self::encoded`].
    ///
    /// # Errors
    /// Words that are no map.
    pub(crate) fn decoded(words: &[u64; 16]) -> Result<Self, String> {
        if words[0] != MAGIC {
            return Err("no map of a tensor".to_owned());
        }
        let axes = (words[2] >> 8 & 0xff) as usize;
        let axis = |axis: usize| if axis < axes { words[3 + axis] } else { 0 };
        Ok(Self {
            address: words[1],
            bytes: (words[2] & 0xff) as usize,
            axes,
            swizzle: (words[2] >> 16) as u32,
            sizes: std::array::from_fn(
                |at| if at < axes { (axis(at) & 0xffff_ffff) + 1 } else { 0 },
            ),
            strides: std::array::from_fn(|at| if at < axes { words[8 + at] } else { 0 }),
            tile: std::array::from_fn(|at| if at < axes { (axis(at) >> 32) as u32 + 1 } else { 0 }),
        })
    }

    /// Bytes of a tile.
    pub(crate) fn tile_bytes(&self) -> usize {
        self.tile[..self.axes].iter().map(|&tile| tile as usize).product::<usize>() * self.bytes
    }

    /// Copies a tile to `to`; zeros where there is no tensor.
    ///
    /// `base` is the address that the pattern of the swizzle counts from: the place of `to` in shared memory.
    ///
    /// # Errors
    /// Memory outside of `allocation`.
    pub(crate) fn copy(
        &self,
        at: &[i32],
        base: u32,
        allocation: Range,
        mut to: impl FnMut(u32, &[u8]),
    ) -> Result<(), String> {
        let count = self.tile_bytes() / self.bytes;
        for index in 0..count {
            let (mut rest, mut address, mut inside) = (index, self.address, true);
            for axis in 0..self.axes {
                let place = at[axis] as i64 + (rest % self.tile[axis] as usize) as i64;
                rest /= self.tile[axis] as usize;
                inside &= place >= 0 && (place as u64) < self.sizes[axis];
                let stride = if axis == 0 { self.bytes as u64 } else { self.strides[axis] };
                address = address.wrapping_add((place as u64).wrapping_mul(stride));
            }
            let mut value = [0; 8];
            if inside {
                if !allocation.contains(address, self.bytes) {
                    return Err(format!("a map reads {address:#x}, outside of its memory"));
                }
                #[expect(unsafe_code, reason = "memory of the device has no type")]
                // SAFETY: the address is in an allocation, as checked above.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        address as *const u8,
                        value.as_mut_ptr(),
                        self.bytes,
                    );
                }
            }
            let place = base + (index * self.bytes) as u32;
            let place = if self.swizzle > 0 {
                place ^ ((place >> 7 & (self.swizzle / 16 - 1)) << 4)
            } else {
                place
            };
            to(place, &value[..self.bytes]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> TensorMap {
        TensorMap {
            address: 0x1000,
            bytes: 2,
            axes: 2,
            swizzle: 128,
            sizes: [100, 1 << 32, 0, 0, 0],
            strides: [2, 208, 0, 0, 0],
            tile: [64, 256, 0, 0, 0],
        }
    }

    #[test]
    fn a_map_survives_its_words() {
        assert_eq!(map().check(), Ok(()));
        assert_eq!(TensorMap::decoded(&map().encoded()), Ok(map()));
        assert!(TensorMap::decoded(&[0; 16]).is_err());
    }

    #[test]
    fn rules_of_the_driver_are_checked() {
        assert!(TensorMap { address: 0x1008, ..map() }.check().is_err());
        assert!(TensorMap { strides: [2, 200, 0, 0, 0], ..map() }.check().is_err());
        assert!(TensorMap { tile: [65, 1, 0, 0, 0], ..map() }.check().is_err());
        assert!(TensorMap { tile: [64, 257, 0, 0, 0], ..map() }.check().is_err());
        assert!(TensorMap { sizes: [100, 0, 0, 0, 0], ..map() }.check().is_err());
    }

    #[test]
    fn a_tile_is_copied_with_its_swizzle_and_zeros_outside() {
        let values: Vec<u16> = (0..4 * 64).collect();
        let address = values.as_ptr() as u64;
        let map = TensorMap {
            address,
            sizes: [64, 4, 0, 0, 0],
            strides: [2, 128, 0, 0, 0],
            tile: [64, 4, 0, 0, 0],
            ..map()
        };
        let allocation = Range { start: address, end: address + 512 };
        let mut got = vec![0u8; 512];
        map.copy(&[8, 1], 0, allocation, |place, value| {
            got[place as usize..][..value.len()].copy_from_slice(value);
        })
        .expect("inside");
        let read = |row: usize, column: usize| {
            let place = row * 128 + column * 2;
            let place = place ^ ((place >> 7 & 7) << 4);
            u16::from_le_bytes([got[place], got[place + 1]])
        };
        assert_eq!(
            [read(0, 0), read(0, 55), read(0, 56), read(2, 3), read(3, 0)],
            [72, 127, 0, 203, 0]
        );
    }
}
