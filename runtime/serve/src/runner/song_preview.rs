//! The first song of a job while its latents become sound: a preview, tile by tile.
//!
//! Loudness, fades and the seams of a repainted part need the whole song, so the finished file may
//! differ from its preview.

use std::{cell::RefCell, io, path::Path};

use acestep_engine::{AudioChunk, Event, Observe};

use crate::preview::{Preview, PreviewFormat};

/// An observer that also writes a preview.
pub(super) struct SongPreview<'a> {
    observe: &'a dyn Observe,
    folder: &'a Path,
    format: PreviewFormat,
    /// Length of the song; latents may be a little longer.
    samples: usize,
    state: RefCell<State>,
}

enum State {
    /// Nothing is decoded yet.
    Waiting,
    Begun(Preview),
    /// It could not be written: the song is made without it.
    Failed,
}

impl<'a> SongPreview<'a> {
    /// Forwards everything to `observe`, and writes a preview of at most `samples` samples into `folder`.
    pub(super) fn new(
        observe: &'a dyn Observe,
        folder: &'a Path,
        sample_rate: u32,
        samples: usize,
    ) -> Self {
        let format = PreviewFormat { sample_rate, channels: 2 };
        Self { observe, folder, format, samples, state: RefCell::new(State::Waiting) }
    }

    fn append(&self, chunk: AudioChunk<'_>) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        if let State::Waiting = *state {
            *state = State::Begun(Preview::begin(self.folder, self.format)?);
        }
        let State::Begun(preview) = &mut *state else { return Ok(()) };
        let heard = |channel: &'_ Vec<f32>| channel.len().min(self.samples - chunk.start);
        let channels = chunk.channels.iter().map(|channel| &channel[..heard(channel)]);
        preview.part(chunk.start, &channels.collect::<Vec<_>>())
    }
}

impl Observe for SongPreview<'_> {
    fn event(&self, event: Event) {
        self.observe.event(event);
    }

    fn listens(&self) -> bool {
        !matches!(*self.state.borrow(), State::Failed)
    }

    fn sound(&self, chunk: AudioChunk<'_>) {
        // Values that are not finite are decoded again, in a wider type.
        let is_finite = chunk.channels.iter().flatten().all(|value| value.is_finite());
        if !is_finite || chunk.start >= self.samples || chunk.channels.len() != 2 {
            return;
        }
        if let Err(error) = self.append(chunk) {
            tracing::warn!(%error, "the song cannot be heard before its end");
            *self.state.borrow_mut() = State::Failed;
        }
    }

    fn cancelled(&self) -> bool {
        self.observe.cancelled()
    }
}

#[cfg(test)]
mod tests {
    use acestep_engine::Unobserved;

    use super::*;
    use crate::preview;

    #[test]
    fn a_preview_has_the_length_of_the_song_and_no_sound_that_is_not_finite() {
        let folder = tempfile::tempdir().expect("a folder");
        let preview = SongPreview::new(&Unobserved, folder.path(), 48_000, 5);
        let sound = |start, values: [f32; 3]| {
            preview.sound(AudioChunk { start, channels: &[values.to_vec(), values.to_vec()] });
        };
        sound(0, [f32::NAN, 0.0, 0.0]);
        assert!(!preview::path(folder.path()).exists());
        sound(0, [0.25, -2.0, 0.0]);
        sound(3, [0.25, 0.25, 0.5]);
        sound(6, [1.0; 3]);
        let bytes = std::fs::read(preview::path(folder.path())).expect("samples");
        let left: Vec<i16> =
            bytes.chunks(4).map(|frame| i16::from_le_bytes([frame[0], frame[1]])).collect();
        assert_eq!(left, [8192, -32768, 0, 8192, 8192]);
        assert!(preview.listens());
    }

    #[test]
    fn a_song_goes_on_without_a_preview_that_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = folder.path().join("missing");
        let preview = SongPreview::new(&Unobserved, &missing, 48_000, 5);
        preview.sound(AudioChunk { start: 0, channels: &[vec![0.0], vec![0.0]] });
        assert!(!preview.listens());
    }
}
