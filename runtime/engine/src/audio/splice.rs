//! Splices a regenerated region into its source sound.
//!
//! Outside the region every sample is the source's, after it was resampled to the networks' rate
//! and clipped to full scale. Inside it is the new song, with linear crossfades at both ends of the
//! region. Upstream has two versions of this; one puts the ramps outside the region, where they
//! would change the source. If `repaint_mode` is `aggressive`, upstream splices nothing, and the
//! whole song goes through the VAE. Here it is then spliced without ramps, as in acestep.cpp.
//!
//! Source: upstream `apply_repaint_waveform_splice`.

use std::ops::Range;

use crate::audio::Audio;

/// Positions of the region and of its source in the song, in samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seam {
    /// The regenerated region.
    pub region: Range<usize>,
    /// Start of the source.
    pub source_start: usize,
    /// Length of each ramp.
    pub ramp: usize,
}

/// Keeps `made` inside the region and writes `source` outside it.
///
/// The part of the source after the last whole frame of `made` is appended, unless the region
/// reaches the end of the source.
pub fn splice(made: &mut Audio, source: &Audio, seam: &Seam) {
    let Seam { region, source_start, .. } = seam;
    let (own, source_end) = (made.samples(), source_start + source.samples());
    let keeps_end = region.end < source_end;
    let samples = if keeps_end { own.max(source_end) } else { own };
    let shares = Shares::new(seam, own, samples);
    for (song, source) in made.channels.iter_mut().zip(&source.channels) {
        for (i, sample) in song.iter_mut().enumerate() {
            let share = shares.at(i);
            // Samples outside the region are copied, so that they stay exact.
            if share < 1.0 {
                let kept = i.checked_sub(*source_start).and_then(|i| source.get(i)).copied();
                *sample = mixed(*sample, kept.unwrap_or(0.0), share);
            }
        }
        if keeps_end
            && let Some(rest) = own.checked_sub(*source_start).and_then(|i| source.get(i..))
        {
            song.extend(rest);
        }
    }
}

fn mixed(made: f32, source: f32, share: f32) -> f32 {
    if share == 0.0 { source } else { share * made + (1.0 - share) * source }
}

/// Weight of the new song at each sample.
struct Shares {
    region: Range<usize>,
    rise: usize,
    fall: usize,
}

impl Shares {
    /// Limits the ramps; `own` counts the new samples, `samples` those of the spliced song.
    fn new(seam: &Seam, own: usize, samples: usize) -> Self {
        let region = seam.region.start.min(own)..seam.region.end.min(own);
        // A ramp is no longer than the region or than the part beside it; a song's end has no ramp.
        let longest = seam.ramp.min(region.len());
        let (rise, fall) = (longest.min(region.start), longest.min(samples - region.end));
        Self { region, rise, fall }
    }

    /// Returns 0 outside the region, 1 inside it between the ramps.
    // ANCHOR: ramp
    fn at(&self, i: usize) -> f32 {
        let Self { region, rise, fall } = self;
        if !region.contains(&i) {
            return 0.0;
        }
        let (inside, left) = (i - region.start, region.end - 1 - i);
        let rising = if inside < *rise { (inside + 1) as f32 / *rise as f32 } else { 1.0 };
        // If both ramps overlap, the later one is used.
        if left < *fall { left as f32 / *fall as f32 } else { rising }
    }
    // ANCHOR_END: ramp
}

#[cfg(test)]
mod tests {
    use super::*;

    fn song(samples: Vec<f32>) -> Audio {
        Audio { channels: vec![samples.clone(), samples], sample_rate: 48_000 }
    }

    /// Ramps are `linspace(0, 1, 4)[1:]` at the beginning and `linspace(1, 0, 4)[1:]` at the end. The ends of
    /// the song have none. What was added before the source shifts it.
    #[test]
    fn ramps_lie_inside_the_region_and_the_source_around_it() {
        let (a, b) = (1.0 / 3.0, 2.0 / 3.0);
        let in_the_middle = vec![0., 0., 0., 0., a, b, 1., 1., b, a, 0., 0., 0., 0.];
        let counted = vec![1.0, 2.0, 3.0, 4.0, 5.0];
        let uneven: Vec<f32> = (0..23).map(|i| 0.1 + i as f32 / 977.0).collect();
        let mut replaced = uneven.clone();
        replaced[5..12].fill(9.0);
        for (made, source, (region, source_start, ramp), expected) in [
            (vec![9.0; 20], uneven, (5..12, 0, 0), replaced),
            (vec![1.0; 14], vec![0.0; 14], (4..11, 0, 3), in_the_middle),
            (vec![1.0; 6], vec![0.0; 6], (0..6, 0, 3), vec![1.0; 6]),
            (vec![1.0; 6], vec![0.0; 6], (1..6, 0, 3), vec![0., 1., 1., 1., 1., 1.]),
            (vec![9.0; 6], counted, (0..2, 2, 0), vec![9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
            (vec![9.0; 4], vec![1.0; 6], (2..6, 0, 0), vec![1.0, 1.0, 9.0, 9.0]),
        ] {
            let mut made = song(made);
            splice(&mut made, &song(source), &Seam { region, source_start, ramp });
            assert_eq!(made, song(expected));
        }
    }

    /// A source of 23 samples gives 20 new ones: the last three do not fill a frame.
    #[test]
    fn a_region_that_ends_near_the_end_keeps_the_rest_of_the_source() {
        let source: Vec<f32> = (0..23).map(|i| i as f32).collect();
        for (end, rest) in [(19, 19..23), (20, 20..23), (22, 20..23), (23, 20..20), (40, 20..20)] {
            let mut made = song(vec![-1.0; 20]);
            let seam = Seam { region: 10..end, source_start: 0, ramp: 0 };
            splice(&mut made, &song(source.clone()), &seam);
            let mut expected = source[..10].to_vec();
            expected.extend(vec![-1.0; end.min(20) - 10]);
            expected.extend(&source[rest]);
            assert_eq!(made.channels[0], expected, "{end}");
        }
    }
}
