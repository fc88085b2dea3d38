//! The sound decoded so far, with silence in place of packets that could not be decoded.

use symphonia::core::{audio::GenericAudioBufferRef, packet::Packet};

use super::{MOST_SECONDS, Problem};
use crate::audio::{Audio, resample::RATES};

/// At most one packet in this many may be damaged.
const DAMAGE: usize = 20;

/// The decoded sound.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) audio: Audio,
    /// Channels of the file.
    pub(super) channels: usize,
    /// The most channels that are kept.
    most_channels: usize,
    /// The channels of one packet.
    scratch: Vec<Vec<f32>>,
    pub(super) packets: usize,
    pub(super) damaged: usize,
    /// Samples of damaged packets before the first intact one.
    silence_before: usize,
    /// Positions of changes of the number of channels, in samples.
    changed: Vec<usize>,
    /// Kept channels of the last packet.
    planes: usize,
    /// The most samples of all channels.
    most: usize,
}

impl Decoded {
    /// Nothing yet, and later at most `most_channels` of the channels, and `most` samples of all.
    pub(super) fn new(most_channels: usize, most: usize) -> Self {
        Self { most_channels, most, ..Self::default() }
    }

    pub(super) fn push(&mut self, sound: &GenericAudioBufferRef<'_>) -> Result<(), Problem> {
        let (rate, planes) = (sound.spec().rate(), sound.num_planes().min(self.most_channels));
        if self.audio.channels.is_empty() {
            if !RATES.contains(&rate) {
                return Err(Problem::Damaged(format!(
                    "{rate} samples a second are outside {} to {}",
                    RATES.start(),
                    RATES.end()
                )));
            }
            (self.channels, self.audio.sample_rate) = (sound.num_planes(), rate);
            let before = vec![0.0; self.silence_before.min(self.most_samples() + 1)];
            self.audio.channels = vec![before; planes];
        }
        let samples = self.audio.samples();
        if rate != self.audio.sample_rate {
            let seconds = self.audio.seconds();
            return Err(Problem::OtherRate { from: self.audio.sample_rate, to: rate, seconds });
        }
        if self.planes != planes && self.planes > 0 {
            self.changed.push(samples);
        }
        self.planes = planes;
        // The first channel so far is copied to the new ones: of mono sound it is all.
        if let Some(first) =
            self.audio.channels.first().filter(|_| planes > self.audio.channels.len())
        {
            let first = first.clone();
            self.audio.channels.resize(planes, first);
        }
        self.channels = self.channels.max(sound.num_planes());
        sound.copy_to_vecs_planar(&mut self.scratch);
        for (index, channel) in self.audio.channels.iter_mut().enumerate() {
            let new = self.scratch.get(index).filter(|_| index < planes).or(self.scratch.first());
            channel.extend_from_slice(new.map(Vec::as_slice).unwrap_or_default());
        }
        Ok(())
    }

    /// Removes the first `samples`, which are padding.
    pub(super) fn skip(&mut self, samples: u64) {
        let samples = usize::try_from(samples).unwrap_or(usize::MAX);
        for channel in &mut self.audio.channels {
            channel.drain(..samples.min(channel.len()));
        }
    }

    /// Amplifies the sound by `gain`, in 1/256 dB.
    pub(super) fn amplify(&mut self, gain: i16) {
        if gain != 0 {
            let factor = 10f32.powf(f32::from(gain) / 256.0 / 20.0);
            self.audio.channels.iter_mut().flatten().for_each(|x| *x *= factor);
        }
    }

    /// A notice about changes of the number of channels.
    pub(super) fn changes(&self) -> Option<String> {
        let first = *self.changed.first()? as f64 / f64::from(self.audio.sample_rate.max(1));
        let channels = self.audio.channels.len();
        if channels > 2 {
            return Some(format!(
                "changes its number of channels, first after {first:.2} s: it is read with {channels}, \
                 and where one is missing, the first one takes its place"
            ));
        }
        let [before, after] = match (self.planes == 1) == self.changed.len().is_multiple_of(2) {
            true => ["mono", "stereo"],
            false => ["stereo", "mono"],
        };
        Some(match self.changed.len() {
            1 => {
                format!("is {before} for {first:.2} s and {after} after that: it is read as stereo")
            }
            count => format!(
                "changes between mono and stereo {count} times, first after {first:.2} s: it is read \
                 as stereo"
            ),
        })
    }

    /// Appends silence in place of a packet, so that later sound stays in its place.
    pub(super) fn push_silence(&mut self, packet: &Packet) {
        self.damaged += 1;
        // This is longer than any packet; a damaged packet may state any duration.
        self.extend_silent(packet.dur.get().min(1 << 16));
    }

    /// Appends `samples` of silence in place of missing packets, which last `each`.
    ///
    /// # Errors
    /// If `samples` is more than any readable file may lack: then the position is damaged too.
    pub(super) fn push_gap(&mut self, samples: u64, each: u64) -> Result<(), Problem> {
        let most = u64::from(MOST_SECONDS) * u64::from(*RATES.end()) / DAMAGE as u64;
        if samples > most {
            return Err(Problem::Damaged(format!("{samples} samples are missing in it")));
        }
        let packets = usize::try_from(samples.div_ceil(each.max(1))).unwrap_or(usize::MAX);
        self.damaged = self.damaged.saturating_add(packets);
        self.packets = self.packets.saturating_add(packets);
        self.extend_silent(samples);
        Ok(())
    }

    fn extend_silent(&mut self, samples: u64) {
        let samples = usize::try_from(samples).unwrap_or(usize::MAX);
        if self.audio.channels.is_empty() {
            self.silence_before = self.silence_before.saturating_add(samples);
        }
        let most = self.most_samples() + 1;
        for channel in &mut self.audio.channels {
            channel.resize(channel.len().saturating_add(samples).min(most), 0.0);
        }
    }

    /// Samples of a channel that may be held: those of [`MOST_SECONDS`], or less if they are too many.
    fn most_samples(&self) -> usize {
        let of_time = MOST_SECONDS as usize * self.audio.sample_rate as usize;
        of_time.min(self.most / self.channels.max(1))
    }

    /// Refuses a sound that has more samples than may be decoded.
    pub(super) fn check_size(&self) -> Result<(), Problem> {
        let Self { audio, channels, most, .. } = self;
        let least = MOST_SECONDS as usize * audio.sample_rate as usize;
        if audio.samples().min(least).saturating_mul(*channels) <= *most {
            return Ok(());
        }
        let (channels, rate) = (*channels, audio.sample_rate);
        let seconds = *most as f64 / channels as f64 / f64::from(rate);
        Err(Problem::TooManySamples { channels, rate, seconds })
    }

    /// Cuts the sound to [`MOST_SECONDS`]. Returns true if it was longer.
    pub(super) fn is_long(&mut self) -> bool {
        let most = MOST_SECONDS as usize * self.audio.sample_rate as usize;
        let is_long = self.audio.samples() > most;
        if is_long {
            self.audio.crop(most);
        }
        is_long
    }

    /// Notices about damaged packets.
    pub(super) fn check(&self) -> Result<Vec<String>, Problem> {
        let Self { packets, damaged, .. } = *self;
        if damaged > packets / DAMAGE {
            let why = format!("{damaged} of its {packets} packets cannot be decoded");
            return Err(Problem::Damaged(why));
        }
        Ok(match damaged {
            0 => vec![],
            1 => vec![format!("has 1 packet of {packets} that cannot be decoded: it is silent")],
            _ => vec![format!(
                "has {damaged} packets of {packets} that cannot be decoded: they are silent"
            )],
        })
    }
}

#[cfg(test)]
mod tests {
    use symphonia::core::audio::{AudioBuffer, AudioSpec, Channels};

    use super::*;

    /// Half a second of each of `packets`, which has a value for each channel.
    fn decoded(most_channels: usize, packets: &[&[f32]]) -> Decoded {
        let mut decoded = Decoded::new(most_channels, 1 << 20);
        for packet in packets {
            let spec = AudioSpec::new(8_000, Channels::Discrete(packet.len() as u16));
            let mut sound = AudioBuffer::<f32>::new(spec, 4_000);
            sound.render(Some(4_000), packet);
            decoded.push(&GenericAudioBufferRef::F32(&sound)).expect("a sound");
        }
        decoded
    }

    /// Returns the first value of each packet in each channel.
    fn values(decoded: &Decoded) -> Vec<Vec<f32>> {
        let channels = decoded.audio.channels.iter();
        channels.map(|channel| channel.iter().copied().step_by(4_000).collect()).collect()
    }

    #[test]
    fn a_change_of_the_channels_is_said_as_it_is_read() {
        let mono = decoded(2, &[&[1.0], &[2.0, 3.0]]);
        assert_eq!(values(&mono), [[1.0, 2.0], [1.0, 3.0]]);
        let text = "is mono for 0.50 s and stereo after that: it is read as stereo";
        assert_eq!(mono.changes().as_deref(), Some(text));

        let packets: [&[f32]; 3] = [&[1.0, 2.0], &[3.0, 4.0, 5.0, 6.0], &[7.0, 8.0]];
        let recording = decoded(usize::MAX, &packets);
        let expected = [[1.0, 3.0, 7.0], [2.0, 4.0, 8.0], [1.0, 5.0, 7.0], [1.0, 6.0, 7.0]];
        assert_eq!(values(&recording), expected);
        let text = "changes its number of channels, first after 0.50 s: it is read with 4, and where \
                    one is missing, the first one takes its place";
        assert_eq!(recording.changes().as_deref(), Some(text));

        // A song has the first two of them, which do not change.
        let song = decoded(2, &packets);
        assert_eq!(values(&song), [[1.0, 3.0, 7.0], [2.0, 4.0, 8.0]]);
        assert_eq!(song.changes(), None);
    }
}
