//! Files of extra results for finished songs: times of lines, pictures.
//!
//! They are decided and checked before the first network is loaded. If one fails after the songs
//! were made, the songs are written anyway, and then the failure is reported.

mod files;

use std::path::{Path, PathBuf};

use acestep_session::song::ExtraResults;
use anyhow::Result;
use serde_json::{Map, Value};

use super::{
    song::SongTask,
    written::{Indexed, Written},
};
use crate::commands::{target::Target, text::write_bytes};
pub(super) use files::{Files, Named};

impl SongTask {
    /// Returns the extra results of one song as a JSON object, with its own files out of `files`.
    pub(super) fn extras_json(
        &self,
        found: &ExtraResults,
        index: usize,
        files: &[PathBuf],
    ) -> Map<String, Value> {
        let mut object = found.to_json(&self.resolved.setup.extras, index);
        for (key, path) in self.places.extras.of_song(index) {
            if files.contains(path) {
                object.insert(key.into(), path.display().to_string().into());
            }
        }
        object
    }

    /// Writes the extra files of the songs, and adds each to `written`.
    pub(super) fn write_after(&self, songs: &[Indexed], written: &mut Written) -> Result<()> {
        for &(index, ref song) in songs {
            let title = title(&self.places.outputs.songs[index]);
            for (kind, path) in self.places.extras.of_song(index) {
                let Some(bytes) = written.found.file(kind, index, song, &title)? else { continue };
                write_bytes(path, &bytes, self.places.existing)?;
                written.files.push(path.clone());
            }
        }
        Ok(())
    }
}

/// Returns the title for a picture of a song.
fn title(song: &Target) -> String {
    let path = song.file().unwrap_or(Path::new("song"));
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into())
}
