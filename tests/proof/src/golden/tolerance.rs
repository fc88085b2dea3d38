//! The allowed difference from the reference in f32.
//!
//! It is ten times the measured difference between the reference's f32 and its f64. Without a
//! measurement for the tensor, it is the bound of the file's row in the family's table.

use super::set::Golden;

/// Bounds of the tensors of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// (Part of the tensor's name, bound). The first match is used.
    pub(crate) of: &'static [(&'static str, f64)],
    /// The largest relative error of a bf16 network against the reference in bf16.
    pub(crate) bf16: f64,
}

/// Returns bounds in f32, and one in bf16, where both results are rounded independently.
pub(crate) const fn bounds(of: &'static [(&'static str, f64)], bf16: f64) -> Bounds {
    Bounds { of, bf16 }
}

/// The largest difference allowed for a stored tensor.
// ANCHOR: tolerance
pub(crate) fn of(golden: &Golden, name: &str, bounds: Bounds) -> f64 {
    // A measured 0 means that nothing was computed in f64: the tensor was assembled from others.
    if let Some(measured) = golden.f32_vs_f64(name).filter(|&measured| measured > 0.0) {
        return 10.0 * measured;
    }
    // Values that are copied, looked up or counted have no bound: they must be equal.
    let fits = |(part, _): &&(&str, f64)| name.contains(part);
    bounds.of.iter().find(fits).map_or(0.0, |&(_, bound)| bound)
}
// ANCHOR_END: tolerance

/// Returns of each pair of samples the one that is farther from the stored one; NaN is farthest.
pub(crate) fn worse(theirs: &[f32], whole: &[f32], streamed: &[f32]) -> Vec<f32> {
    let farther = |((theirs, whole), streamed): ((&f32, &f32), &f32)| {
        let [own, other] = [streamed, whole].map(|sample| (sample - theirs).abs());
        if own.total_cmp(&other).is_gt() { *streamed } else { *whole }
    };
    theirs.iter().zip(whole).zip(streamed).map(farther).collect()
}
