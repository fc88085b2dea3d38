//! Song files and their tags.

use std::path::PathBuf;

use acestep_engine::{
    Error,
    audio::{tags::Tags, write},
    files::Existing,
};
use acestep_music::{Song, exchange::Array3, latents};
use anyhow::Result;
use serde_json::{Value, json};

use super::{Job, describe, outputs::Target, together::Done};
use crate::{interrupt, report};

/// A song that was written to the disk or to standard output.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) target: Target,
    /// `None` if the seed had no effect.
    pub(super) seed: Option<u64>,
    pub(super) seconds: f64,
    pub(super) samples: usize,
    pub(super) sample_rate: u32,
    pub(super) channels: usize,
}

impl Written {
    pub(super) fn to_json(&self) -> serde_json::Map<String, Value> {
        let object = json!({
            "path": self.target.to_string(),
            "seed": self.seed,
            "seconds": self.seconds,
            "samples": self.samples,
            "sample_rate": self.sample_rate,
            "channels": self.channels,
        });
        object.as_object().cloned().unwrap_or_default()
    }
}

impl Job {
    /// Writes the latents of the songs, if they are kept.
    pub(super) fn write_latents(
        &self,
        songs: &[Array3],
        existing: Existing,
        files: &mut Vec<PathBuf>,
    ) -> Result<(), Error> {
        let Some((paths, format)) = &self.outputs.latents else { return Ok(()) };
        let rate = self.plan.frames_per_second();
        for (path, song) in paths.iter().zip(songs) {
            interrupt::whole(|| latents::save(path, song, *format, rate, existing))?;
            files.push(path.clone());
        }
        Ok(())
    }

    /// Returns the tags of song `index`.
    fn tags(&self, index: usize) -> Tags {
        const SHOWN: usize = 200;
        let plan = &self.plan;
        let is_kept = self.inputs.noise.is_none() && self.inputs.conditioning.is_none();
        let seed = self.seeds().map(|seeds| format!("seed {} · ", seeds[index]));
        Tags {
            title: plan.caption.chars().take(SHOWN).collect(),
            comment: format!(
                "{} · {}{} · {}",
                plan.caption,
                seed.unwrap_or_default(),
                self.folder.name(),
                describe::counted(plan.steps(), "step"),
            ),
            software: concat!("acestep ", env!("CARGO_PKG_VERSION")).to_owned(),
            // A request cannot contain the data of other files.
            request: match is_kept {
                true => self.asked.of_song(plan, &self.folder, index).to_json(),
                false => String::new(),
            },
        }
    }

    /// Writes the songs and, if wanted, the request, and records each in `done`.
    pub(super) fn write(&self, songs: &[Song], existing: Existing, done: &mut Done) -> Result<()> {
        for (index, (target, song)) in self.outputs.songs.iter().zip(songs).enumerate() {
            if interrupt::was_pressed() {
                return Err(Error::Cancelled.into());
            }
            let (audio, encoding) = (&song.audio, &self.encoding);
            let tags = self.tagged.then(|| self.tags(index));
            match target {
                Target::File(path) => {
                    interrupt::whole(|| {
                        write::save(path, audio, encoding, tags.as_ref(), existing)
                    })?;
                }
                Target::Stdout => {
                    report::bytes(&write::to_bytes(audio, encoding, tags.as_ref())?)?;
                }
            }
            done.written.push(Written {
                target: target.clone(),
                seed: self.seeds().map(|_| song.seed),
                seconds: song.audio.seconds(),
                samples: song.audio.samples(),
                sample_rate: song.audio.sample_rate,
                channels: song.audio.channels.len(),
            });
        }
        if let Some(path) = &self.outputs.request {
            if !self.is_kept {
                self.asked.save(&self.plan, &self.folder, path, existing)?;
            }
            done.files.push(path.clone());
        }
        Ok(())
    }
}
