//! Names of tracks, for tasks that extract or add a track.

use acestep_engine::{Error, check, error::shortened};

use super::Task;
use crate::{Request, SongError, prompt};

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

/// Returns the tracks that `complete` adds; acestep.cpp writes them as one text.
pub(super) fn classes(request: &Request) -> Vec<&str> {
    match (&request.track_classes, &request.track_name) {
        (Some(classes), _) => named(classes.iter().map(String::as_str)),
        (None, Some(track)) => named(track.split(['|', ','])),
        (None, None) => Vec::new(),
    }
}

fn named<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Returns the training name of a track; an unknown name stays as it is.
pub(super) fn canonical(name: &str) -> String {
    let known = name.trim().to_lowercase().replace([' ', '-'], "_");
    if TRACKS.contains(&known.as_str()) { known } else { name.trim().to_owned() }
}

/// Checks track names; notes unknown and unused ones.
pub(super) fn tracks(
    request: &Request,
    task: Task,
    note: &mut impl FnMut(String),
) -> Result<(), Error> {
    let (track, several) = (request.track_name.as_deref(), request.track_classes.is_some());
    let named = match task {
        Task::Complete => classes(request),
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
    let own = request.instruction.as_deref().is_some_and(|text| {
        let text = text.trim();
        !text.is_empty() && text != prompt::TEXT_TO_MUSIC
    });
    match task {
        Task::Lego | Task::Extract if track.is_none() && !own => {
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
