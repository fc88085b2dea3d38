//! Songs of a batch: their number, seeds and noise.

use acestep_engine::{
    Error, Notice,
    check::{length, real, whole},
};
use serde::Serialize;

use super::{edit::FlowEdit, topic::topic};
use crate::flow::{latents::retaken, noise::NoiseSource};

topic! {
    /// Songs of a batch, and their noise.
    Noise {
        /// One seed for the first song (the next ones count up), or one per song.
        #[serde(with = "super::one_or_many")]
        seed: Vec<u64> = Seeds("seeds"),
        /// Number of songs.
        batch_size: i64 = Count("synth_batch_size"),
        /// Seeds of the second noise of a retake: one, or one per song.
        #[serde(with = "super::one_or_many")]
        retake_seed: Vec<u64> = Seeds("retake_seeds"),
        /// Share of the second noise, 0 to 1.
        retake_variance: f64 = Number,
        /// Generator of the noise: `philox`, `philox:THREADS` or `mt19937`.
        rng: String = Word,
    }
}

/// A variation of a song: see [`retaken`](crate::flow::latents::retaken).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retake {
    /// Share of the second noise, 0 to 1.
    pub variance: f64,
    /// One per song: seeds of the second noise.
    pub seeds: Vec<u64>,
}

/// The noise of each song.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoisePlan {
    /// One seed per song.
    pub seeds: Vec<u64>,
    /// Generator of the noise.
    #[serde(rename = "rng")]
    pub source: NoiseSource,
    /// Retake of the songs; `None` = the songs of `seeds` themselves.
    pub retake: Option<Retake>,
}

impl NoisePlan {
    /// Returns the noise of song `index`, `[frames, channels]`.
    pub(crate) fn initial(&self, index: usize, frames: usize, channels: usize) -> Vec<f32> {
        let of = |seed| self.source.initial_noise(seed, frames, channels);
        let noise = of(self.seeds[index]);
        match &self.retake {
            None => noise,
            Some(retake) => retaken(&noise, &of(retake.seeds[index]), retake.variance),
        }
    }
}

/// Largest batch, as in upstream's entry points.
const MOST_SONGS: u32 = 8;

impl Noise {
    /// Returns one seed for each requested song: drawn, counted up or listed.
    ///
    /// # Errors
    /// Too many songs, or different numbers of songs and seeds.
    pub fn seeds(&self) -> Result<Vec<u64>, Error> {
        self.seeds_for(1, NoiseSource::default(), &mut Vec::new())
    }

    /// Decides seeds and noise; `outlines` is the number of code lists. `is_edit` is true if the
    /// request edits its source, which needs no retake.
    pub(crate) fn plan(
        &self,
        outlines: usize,
        is_edit: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<NoisePlan, Error> {
        let source = self.rng.as_deref().map(str::parse).transpose()?.unwrap_or_default();
        let seeds = self.seeds_for(outlines, source, notices)?;
        let retake = self.retake(seeds.len(), is_edit, notices)?;
        Ok(NoisePlan { seeds, source, retake })
    }

    fn retake(
        &self,
        songs: usize,
        is_edit: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<Option<Retake>, Error> {
        let variance = real("retake_variance", self.retake_variance.unwrap_or(0.0), 0.0, 1.0)?;
        if variance == 0.0 || is_edit {
            if self.retake_seed.is_some() && !is_edit {
                let text = "`retake_seed` has no effect without `retake_variance`";
                notices.push(Notice(text.into()));
            }
            return Ok(None);
        }
        let seeds = retake_seeds(self.retake_seed.as_deref(), songs)?;
        Ok(Some(Retake { variance, seeds }))
    }

    /// Decides the seeds; more than one of `outlines` means one per song.
    fn seeds_for(
        &self,
        outlines: usize,
        source: NoiseSource,
        notices: &mut Vec<Notice>,
    ) -> Result<Vec<u64>, Error> {
        if outlines > MOST_SONGS as usize {
            return Err(Error::OutOfRange {
                field: "audio_codes",
                value: format!("(of {outlines} songs)"),
                range: format!("at most {MOST_SONGS}"),
            });
        }
        let songs = self.batch_size.map(|songs| whole("batch_size", songs, 1, MOST_SONGS));
        let songs = songs.transpose()?.map(|songs| songs as usize);
        let listed = self.seed.as_ref().map_or(0, Vec::len) > 1;
        let songs = songs.or((outlines > 1 && !listed).then_some(outlines));
        let seeds = match self.seed.as_deref() {
            None | Some([]) => counted(drawn(), songs.unwrap_or(1)),
            Some(&[seed]) => counted(seed, songs.unwrap_or(1)),
            Some(seeds) => {
                length("seed", seeds.len(), "seeds", MOST_SONGS as usize)?;
                match songs {
                    Some(songs) if songs != seeds.len() => {
                        return Err(Error::Conflict(format!(
                            "`seed` has {} seeds, but `batch_size` is {songs}: leave `batch_size` out, or \
                             give one seed",
                            seeds.len()
                        )));
                    }
                    _ => seeds.to_vec(),
                }
            }
        };
        if outlines > 1 && outlines != seeds.len() {
            return Err(Error::Conflict(format!(
                "there are audio codes for {outlines} songs, but {} {} made: leave `batch_size` out, or give a \
                 seed for each",
                seeds.len(),
                if seeds.len() == 1 { "is" } else { "are" }
            )));
        }
        if source == NoiseSource::Mt19937 && seeds.iter().any(|&seed| seed > u64::from(u32::MAX)) {
            notices.push(Notice("mt19937 uses only the low 32 bits of a seed".into()));
        }
        Ok(seeds)
    }

    /// Returns the fields with the decisions of `plan`, which they make again.
    pub(crate) fn decided(&self, plan: &NoisePlan, edit: Option<&FlowEdit>) -> Self {
        Self {
            seed: Some(plan.seeds.clone()),
            batch_size: Some(plan.seeds.len() as i64),
            retake_seed: match (&plan.retake, edit) {
                (Some(retake), _) => Some(retake.seeds.clone()),
                (None, Some(edit)) => self.retake_seed.as_ref().map(|_| edit.seeds.clone()),
                (None, None) => None,
            },
            rng: Some(plan.source.to_string()),
            ..self.clone()
        }
    }
}

/// Draws a 32-bit seed as upstream does, so that both generators use all of its bits.
fn drawn() -> u64 {
    u64::from(rand::random::<u32>())
}

/// Returns the seeds of a retake or an edit, one for each of `songs` songs.
pub(super) fn retake_seeds(given: Option<&[u64]>, songs: usize) -> Result<Vec<u64>, Error> {
    match given {
        None | Some([]) => Ok(counted(drawn(), songs)),
        Some(&[seed]) => Ok(counted(seed, songs)),
        Some(seeds) if seeds.len() == songs => Ok(seeds.to_vec()),
        Some(seeds) => Err(Error::Conflict(format!(
            "`retake_seed` has {} seeds, but there {} {songs} song{}: give one seed, or one for each",
            seeds.len(),
            if songs == 1 { "is" } else { "are" },
            if songs == 1 { "" } else { "s" },
        ))),
    }
}

/// Counts up: song i has seed + i, as in acestep.cpp; upstream draws all but the first at random.
fn counted(first: u64, songs: usize) -> Vec<u64> {
    (0..songs as u64).map(|i| first.wrapping_add(i)).collect()
}
