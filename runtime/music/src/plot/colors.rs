//! Colours of a plot.
//!
//! Source: the spectrogram uses nine points of matplotlib's magma (CC0). Its lightness rises
//! evenly, so louder is always brighter.

/// Red, green and blue.
pub(super) type Color = [u8; 3];

pub(super) const BACKGROUND: Color = [16, 18, 24];
pub(super) const PANEL: Color = [24, 27, 35];
pub(super) const GRID: Color = [48, 53, 66];
pub(super) const FAINT: Color = [150, 157, 172];
pub(super) const TEXT: Color = [233, 236, 242];
pub(super) const ACCENT: Color = [255, 196, 107];
pub(super) const WAVE: Color = [44, 120, 133];
pub(super) const BODY: Color = [104, 211, 212];

const MAGMA: [Color; 9] = [
    [0, 0, 4],
    [28, 16, 68],
    [79, 18, 123],
    [129, 37, 129],
    [181, 54, 122],
    [229, 80, 100],
    [251, 135, 97],
    [254, 194, 135],
    [252, 253, 191],
];

/// Returns the colour of a value from 0 to 1.
pub(super) fn heat(value: f32) -> Color {
    let at = value.clamp(0.0, 1.0) * (MAGMA.len() - 1) as f32;
    let index = (at as usize).min(MAGMA.len() - 2);
    mixed(MAGMA[index], MAGMA[index + 1], at - index as f32)
}

/// Interpolates from `a` (0) to `b` (1).
pub(super) fn mixed(a: Color, b: Color, share: f32) -> Color {
    std::array::from_fn(|i| {
        let (a, b) = (f32::from(a[i]), f32::from(b[i]));
        (a + (b - a) * share).round() as u8
    })
}
