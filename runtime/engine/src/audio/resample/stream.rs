//! Sound that is resampled while it arrives. Pieces of any sizes become the same samples.

use rayon::prelude::*;

use super::{Filter, RATES, problem};
use crate::{Error, Observe, progress::check};

/// Samples between two checks for a cancellation: some milliseconds of one core.
const SAMPLES_PER_CHECK: usize = 1 << 18;

/// Samples of a work item, at least.
const LEAST: usize = 1 << 10;

/// A sound that arrives in pieces.
pub(in crate::audio) struct Stream {
    channels: Vec<Channel>,
    /// None if both rates are equal.
    filter: Option<Filter>,
    is_stereo: bool,
}

impl Stream {
    /// A sound of `channels` channels. If it `is_stereo`, it is brought into `[-1, 1]`, and one channel is
    /// doubled.
    pub(in crate::audio) fn new(
        channels: usize,
        [from, to]: [u32; 2],
        is_stereo: bool,
    ) -> Result<Self, Error> {
        if let Some(rate) = [from, to].into_iter().find(|rate| !RATES.contains(rate)) {
            let (least, most) = RATES.into_inner();
            return Err(problem(&format!("{rate} samples a second are outside {least} to {most}")));
        }
        let filter = (from != to).then(|| Filter::new(from, to));
        Ok(Self { channels: vec![Channel::default(); channels], filter, is_stereo })
    }

    /// Takes all samples of each channel, and returns the whole sound.
    pub(super) fn whole(
        mut self,
        channels: Vec<Vec<f32>>,
        observe: &dyn Observe,
    ) -> Result<Vec<Vec<f32>>, Error> {
        let (pairs, filter) = (self.channels.iter_mut().zip(channels), self.filter.as_ref());
        let made = pairs.map(|(own, samples)| own.whole(samples, filter, observe));
        let made = made.collect::<Result<_, _>>()?;
        Ok(self.formed(made))
    }

    /// Takes the next samples of each channel, and returns those that they complete.
    #[cfg(any(test, feature = "mp3", feature = "opus"))]
    pub(in crate::audio) fn write(&mut self, channels: &[&[f32]]) -> Vec<Vec<f32>> {
        let (pairs, filter) = (self.channels.iter_mut().zip(channels), self.filter.as_ref());
        let made = pairs.map(|(own, samples)| own.write(samples, filter)).collect();
        self.formed(made)
    }

    /// Returns the last samples, for silence after the sound.
    #[cfg(any(test, feature = "mp3", feature = "opus"))]
    pub(in crate::audio) fn finish(&mut self) -> Vec<Vec<f32>> {
        let filter = self.filter.as_ref();
        let made = self.channels.iter_mut().map(|own| own.finish(filter)).collect();
        self.formed(made)
    }

    fn formed(&self, mut made: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
        if self.is_stereo {
            made.iter_mut().flatten().for_each(|sample| *sample = sample.clamp(-1.0, 1.0));
            if let [only] = &made[..] {
                made = vec![only.clone(), only.clone()];
            }
        }
        made
    }
}

/// The state of a channel.
#[derive(Clone, Default)]
struct Channel {
    /// Input samples that are still needed.
    input: Vec<f32>,
    /// The number of input samples before these.
    passed: usize,
    /// The number of output samples so far.
    made: usize,
}

impl Channel {
    #[cfg(any(test, feature = "mp3", feature = "opus"))]
    fn write(&mut self, samples: &[f32], filter: Option<&Filter>) -> Vec<f32> {
        self.input.extend_from_slice(samples);
        let Some(filter) = filter else { return std::mem::take(&mut self.input) };
        let end = self.passed + self.input.len();
        let is_complete = |n: usize| {
            let (start, taps) = filter.taps(n);
            start + taps.len() as isize <= end as isize
        };
        let mut wanted = filter.ratio.samples(end);
        while wanted > self.made && !is_complete(wanted - 1) {
            wanted -= 1;
        }
        let first = (filter.taps(wanted).0.max(0) as usize).min(end);
        let made = self.up_to(wanted, filter);
        self.input.drain(..first - self.passed);
        self.passed = first;
        made
    }

    /// Returns the output samples of all input samples.
    fn whole(
        &mut self,
        samples: Vec<f32>,
        filter: Option<&Filter>,
        observe: &dyn Observe,
    ) -> Result<Vec<f32>, Error> {
        let Some(filter) = filter else { return Ok(samples) };
        let mut made = vec![0.0; filter.ratio.samples(samples.len())];
        self.input = samples;
        for part in made.chunks_mut(SAMPLES_PER_CHECK) {
            check(observe)?;
            let (input, first) = (&self.input, self.made);
            part.par_iter_mut().enumerate().with_min_len(LEAST).for_each(|(index, sample)| {
                *sample = filter.sample(first + index, input, self.passed);
            });
            self.made += part.len();
        }
        Ok(made)
    }

    #[cfg(any(test, feature = "mp3", feature = "opus"))]
    fn finish(&mut self, filter: Option<&Filter>) -> Vec<f32> {
        let Some(filter) = filter else { return std::mem::take(&mut self.input) };
        let end = filter.ratio.samples(self.passed + self.input.len());
        self.up_to(end, filter)
    }

    /// Returns the next output samples before sample `end`.
    #[cfg(any(test, feature = "mp3", feature = "opus"))]
    fn up_to(&mut self, end: usize, filter: &Filter) -> Vec<f32> {
        let next = std::mem::replace(&mut self.made, end);
        (next..end).map(|n| filter.sample(n, &self.input, self.passed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::{
        Audio,
        resample::{
            tests::{noise, to_stereo},
            to_mono,
        },
    };

    /// Equal to the bit, for pieces of any size. The rates of speech and of songs, and one with a long
    /// filter.
    #[test]
    fn pieces_become_the_samples_of_the_whole_sound() {
        for (from, to) in
            [(24_000, 48_000), (22_050, 48_000), (48_000, 44_100), (96_000, 8_000), (8_000, 8_000)]
        {
            for samples in [0, 1, 2, 90, 3_001] {
                let mut one: Vec<f32> = noise(2 * samples).iter().map(|x| 1.25 * x).collect();
                let other = one.split_off(samples);
                let (mono, pair) = (vec![one.clone()], vec![one, other]);
                for (channels, is_stereo) in [(mono.clone(), false), (mono, true), (pair, true)] {
                    let audio = Audio { channels, sample_rate: from };
                    let whole = match is_stereo {
                        true => to_stereo(&audio, to).expect("sound").channels,
                        false => vec![to_mono(&audio, to).expect("sound")],
                    };
                    for size in [1, 7, 160, 5_000] {
                        let count = audio.channels.len();
                        let mut stream = Stream::new(count, [from, to], is_stereo).expect("rates");
                        let mut made = vec![Vec::new(); whole.len()];
                        let mut add = |more: Vec<Vec<f32>>| {
                            made.iter_mut().zip(more).for_each(|(own, more)| own.extend(more));
                        };
                        for start in (0..samples).step_by(size) {
                            let end = samples.min(start + size);
                            let piece: Vec<_> =
                                audio.channels.iter().map(|channel| &channel[start..end]).collect();
                            add(stream.write(&piece));
                            let held = stream.channels[0].input.len();
                            assert!(held <= 160, "{held} samples are held of {samples}");
                        }
                        add(stream.finish());
                        assert!(made == whole, "{from} to {to}: {samples} in pieces of {size}");
                    }
                }
            }
        }
        // The second filter would have 4 billion phases.
        for rates in [[0, 48_000], [48_000, 4_000_000_007]] {
            let error = Stream::new(1, rates, false).err().expect("no filter").to_string();
            assert!(error.contains("outside 1000 to 768000"), "{error}");
        }
    }
}
