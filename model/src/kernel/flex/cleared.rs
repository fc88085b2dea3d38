//! Memory that all cores clear, each its own part.
//!
//! `vec![0.0; n]` is cleared by one core, while the others wait. On two cores this is a twentieth of the time of a product of
//! 3,000 rows; the more cores there are, the larger is its share.

use std::{mem::MaybeUninit, ptr};

use rayon::prelude::*;

/// Returns `part` with `zero` in every place.
#[expect(unsafe_code, reason = "memory of a vector that is not yet a part of it")]
pub(super) fn cleared<'a, T: Clone>(part: &'a mut [MaybeUninit<T>], zero: &T) -> &'a mut [T] {
    for value in &mut *part {
        value.write(zero.clone());
    }
    // SAFETY: every value was written, and both types have one layout.
    unsafe { &mut *(ptr::from_mut(part) as *mut [T]) }
}

/// Returns values that are computed in parts of these `lengths`. `compute` gets the index of a part and its values, all of them
/// `zero`.
#[expect(unsafe_code, reason = "memory of a vector that is not yet a part of it")]
pub(super) fn in_parts<T: Clone + Send + Sync>(
    zero: T,
    lengths: impl Iterator<Item = usize> + Clone,
    compute: impl Fn(usize, &mut [T]) + Send + Sync,
) -> Vec<T> {
    let all = lengths.clone().sum();
    let mut values = Vec::with_capacity(all);
    let mut rest = &mut values.spare_capacity_mut()[..all];
    let mut parts = Vec::new();
    for length in lengths {
        let part;
        (part, rest) = rest.split_at_mut(length);
        parts.push(part);
    }
    // The second pass over the lengths must be the first.
    assert!(rest.is_empty());
    parts
        .into_par_iter()
        .enumerate()
        .for_each(|(index, part)| compute(index, cleared(part, &zero)));
    // SAFETY: the parts are all of these values, and each was cleared.
    unsafe { values.set_len(all) };
    values
}
