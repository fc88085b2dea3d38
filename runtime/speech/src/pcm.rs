//! Samples as 16-bit integers.

/// Returns 16-bit samples as the realtime server of Dia2 sends them: cut to -1 to 1, times 32767, without
/// the fraction.
pub fn pcm16(samples: &[f32]) -> Vec<i16> {
    samples.iter().map(|sample| (sample.clamp(-1.0, 1.0) * 32_767.0) as i16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.5 * 32767 is 16383.5.
    #[test]
    fn sixteen_bits_are_cut_toward_zero() {
        assert_eq!(pcm16(&[0.5, -0.5, 1.5, -1.5, 0.0]), [16_383, -16_383, 32_767, -32_767, 0]);
    }
}
