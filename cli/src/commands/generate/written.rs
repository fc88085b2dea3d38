//! Writes the songs with their tags, and the other files of a request.

use std::{
    mem,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use acestep_engine::{Error, audio::write, progress::check};
use acestep_music::{exchange::Array3, latents, lm::pmi::LanguageScore, pipeline::Rendered};
use acestep_session::song::{ExtraResults, Ranked, Resolved};
use anyhow::Result;
use serde::Serialize;

use super::SongTask;
use crate::{
    commands::{target::Target, text::write_bytes},
    interrupt, report,
};

/// Written files of a request, and results for its songs.
#[derive(Default)]
pub(super) struct Written {
    pub(super) songs: Vec<WrittenSong>,
    /// Songs of the batch that are silent or not finite and are not written, by their index.
    pub(super) unusable: Vec<(usize, Error)>,
    /// Other written files: latents, the request, and extra outputs.
    pub(super) files: Vec<PathBuf>,
    pub(super) found: ExtraResults,
    /// Time from the start of the run to the end of this request.
    pub(super) after: Duration,
    pub(super) end: Completion,
}

/// End of the work on a request.
#[derive(Default)]
pub(super) enum Completion {
    /// A part of the work is missing: scores, or all that Ctrl-C stopped.
    #[default]
    Open,
    Whole,
    Failed(anyhow::Error),
}

/// A song that was written to the disk or to standard output.
#[derive(Debug, Serialize)]
pub(super) struct WrittenSong {
    /// Index in the batch.
    #[serde(skip)]
    pub(super) index: usize,
    #[serde(rename = "path")]
    pub(super) target: Target,
    /// `None` if the seed had no effect.
    pub(super) seed: Option<u64>,
    pub(super) seconds: f64,
    pub(super) samples: usize,
    pub(super) sample_rate: u32,
    pub(super) channels: usize,
}

/// A song and its index in the batch.
pub(super) type Indexed = (usize, acestep_music::Song);

impl Written {
    /// True if the work neither failed nor came to its end.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.end, Completion::Open)
    }

    /// Stores the error that ended the work.
    pub(super) fn fail(&mut self, error: anyhow::Error) {
        self.end = Completion::Failed(error);
    }

    /// Takes the songs that cannot be used, and returns an error that names them, with the reason of
    /// the first; `None` if there are none.
    pub(super) fn unusable(&mut self, resolved: &Resolved) -> Option<anyhow::Error> {
        let songs = mem::take(&mut self.unusable);
        let names: Vec<String> = songs.iter().map(|(index, _)| resolved.name_of(*index)).collect();
        let (_, first) = songs.into_iter().next()?;
        let (names, are) = (names.join(", "), if names.len() == 1 { "is" } else { "are" });
        let first = first.after(resolved.setup.engine.dtype);
        Some(anyhow::Error::from(first).context(format!("{names} {are} not written")))
    }

    /// Returns the written songs, for a list of the best.
    pub(super) fn ranked(&self) -> Vec<Ranked> {
        let ranked = |song: &WrittenSong| {
            let WrittenSong { index, target, seed, .. } = song;
            Ranked { index: *index, seed: *seed, name: target.to_string() }
        };
        self.songs.iter().map(ranked).collect()
    }

    /// Adds the language model's scores, which end the work after the time `after`.
    pub(super) fn judged(
        &mut self,
        judged: Result<Vec<LanguageScore>, Error>,
        after: Duration,
    ) -> Result<()> {
        self.after = after;
        self.found.take_judged(judged)?;
        self.end = Completion::Whole;
        Ok(())
    }

    /// Prints the paths, songs first.
    fn print_paths(&self) -> Result<()> {
        let songs = self.songs.iter().filter_map(|song| song.target.file());
        let files = self.files.iter().map(PathBuf::as_path);
        Ok(songs.chain(files).try_for_each(report::path)?)
    }
}

impl SongTask {
    /// Writes the songs and their extra outputs until an error occurs. Then prints the paths,
    /// unless JSON names them. `kept` is the request, if it was saved before; `start` is the start
    /// of the run.
    pub(super) fn write(
        &self,
        rendered: Rendered,
        kept: Option<&Path>,
        start: Instant,
        json: bool,
    ) -> (Written, Result<()>) {
        let mut written = Written::default();
        let result = self.write_into(&mut written, rendered, kept);
        if result.is_ok() && self.resolved.judge().is_none() {
            written.end = Completion::Whole;
        }
        // Print paths even if a later file failed: these files exist.
        let printed = if json { Ok(()) } else { written.print_paths() };
        written.after = start.elapsed();
        (written, result.and(printed))
    }

    fn write_into(
        &self,
        written: &mut Written,
        rendered: Rendered,
        kept: Option<&Path>,
    ) -> Result<()> {
        let Rendered { songs: all, latents, aligned } = rendered;
        check(&interrupt::STOP)?;
        let mut songs = Vec::new();
        for (index, song) in all.into_iter().enumerate() {
            match song {
                Ok(song) => songs.push((index, song)),
                Err(error) => written.unusable.push((index, error)),
            }
        }
        let found = ExtraResults::of(aligned).map(|found| written.found = found);
        let sung = self.write_songs(&songs, &mut written.songs);
        // They decode to the song and are small: each of the two is tried even if the other fails.
        let kept_latents = self.write_latents(&songs, &latents, &mut written.files);
        sung?;
        if let Some(path) = &self.places.outputs.request {
            if kept.is_none() {
                self.save(path, self.places.existing)?;
            }
            written.files.push(path.clone());
        }
        kept_latents?;
        found?;
        self.write_after(&songs, written)
    }

    /// Writes the latents of the `songs`, if they are kept, and adds the paths to `files`.
    fn write_latents(
        &self,
        songs: &[Indexed],
        all: &[Array3],
        files: &mut Vec<PathBuf>,
    ) -> Result<(), Error> {
        let Some((paths, format)) = &self.places.outputs.latents else { return Ok(()) };
        let (rate, existing) = (self.resolved.plan.frames_per_second(), self.places.existing);
        for &(index, _) in songs {
            let path = &paths[index];
            write_bytes(path, &latents::to_bytes(&all[index], *format, rate)?, existing)?;
            files.push(path.clone());
        }
        Ok(())
    }

    /// Writes the songs, and adds each to `written`.
    fn write_songs(&self, songs: &[Indexed], written: &mut Vec<WrittenSong>) -> Result<()> {
        let (encoding, existing) = (&self.places.encoding, self.places.existing);
        for &(index, ref song) in songs {
            let target = &self.places.outputs.songs[index];
            let audio = &song.audio;
            let tags = self.places.is_tagged.then(|| self.resolved.tags(index));
            let bytes = write::to_bytes(audio, encoding, tags.as_ref(), &interrupt::STOP)?;
            target.write(&bytes, existing)?;
            written.push(WrittenSong {
                index,
                target: target.clone(),
                seed: self.resolved.seeds().map(|_| song.seed),
                seconds: audio.seconds(),
                samples: audio.samples(),
                sample_rate: audio.sample_rate,
                channels: audio.channels.len(),
            });
        }
        Ok(())
    }
}
