//! Names of tracks, for tasks that extract or add a track.

use acestep_engine::{Error, Notice, check, error::shortened};

use super::{Source, Task};
use crate::SongError;

/// Tracks that the models were trained on.
pub const TRACKS: [&str; 12] = [
    "woodwinds",
    "brass",
    "fx",
    "synth",
    "strings",
    "percussion",
    "keyboard",
    "guitar",
    "bass",
    "drums",
    "backing_vocals",
    "vocals",
];

/// Returns the training name of a track; an unknown name stays as it is.
pub(super) fn canonical(name: &str) -> String {
    let known = name.trim().to_lowercase().replace([' ', '-'], "_");
    if TRACKS.contains(&known.as_str()) { known } else { name.trim().to_owned() }
}

fn named<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.map(str::trim).filter(|name| !name.is_empty()).collect()
}

impl Source {
    /// Returns the tracks that `complete` adds; acestep.cpp writes them as one text.
    pub(super) fn classes(&self) -> Vec<&str> {
        match (&self.track_classes, &self.track_name) {
            (Some(classes), _) => named(classes.iter().map(String::as_str)),
            (None, Some(track)) => named(track.split(['|', ','])),
            (None, None) => Vec::new(),
        }
    }

    /// Checks track names; notes unknown and unused ones.
    pub(super) fn check_tracks(&self, task: Task, notices: &mut Vec<Notice>) -> Result<(), Error> {
        let mut note = |text: String| notices.push(Notice(text));
        let (track, several) = (self.track_name.as_deref(), self.track_classes.is_some());
        let named = match task {
            Task::Complete => self.classes(),
            Task::Lego | Task::Extract => track.into_iter().collect(),
            _ => Vec::new(),
        };
        for name in named {
            check::text("track_name", name)?;
            if !TRACKS.contains(&canonical(name).as_str()) {
                note(format!(
                    "the model does not know the track `{}`; it knows {}",
                    shortened(name),
                    TRACKS.join(", ")
                ));
            }
        }
        match task {
            Task::Lego | Task::Extract if track.is_none() && self.own_instruction().is_none() => {
                return Err(SongError::NoTrack { task: task.name(), tracks: &TRACKS }.into());
            }
            Task::Lego | Task::Extract if several => {
                note("`track_classes` has no effect: it is for `complete`".into());
            }
            Task::Lego | Task::Extract | Task::Complete => (),
            _ if track.is_some() || several => {
                note(format!("track names have no effect on `{}`", task.name()));
            }
            _ => (),
        }
        Ok(())
    }
}
