//! A song of a batch that is silent or not finite, and the others, which are not lost with it. If a song
//! overflows its float type, all are made again in f32; if f32 has no room, that ends them all.
//!
//! Source: upstream `generate_music`, which does not save a silent song.

use acestep_engine::{Error, audio::loudness::require_finite, host::to_host};
use acestep_model::Backend;
use burn::tensor::{DType, Tensor};

/// Returns an error for each song of `latents`, `[B, T, C]`, whose values are not all finite.
pub(crate) fn finite<B: Backend>(latents: &Tensor<B, 3>) -> Vec<Result<(), Error>> {
    let [_, frames, channels] = latents.dims();
    let values = to_host(latents.clone());
    let check = |song: &[f32]| require_finite("the diffusion transformer", song);
    values.chunks(frames * channels).map(check).collect()
}

/// Returns the songs that a network of type `dtype` made: at least one of them can be used.
///
/// # Errors
/// The first error if there is no usable song. In a type narrower than f32 also
/// [`Error::NotFinite`] of any song, because the stage is then repeated in f32.
pub(crate) fn usable<T>(
    mut songs: Vec<Result<T, Error>>,
    dtype: DType,
) -> Result<Vec<Result<T, Error>>, Error> {
    let overflowed = |song: &Result<T, Error>| matches!(song, Err(Error::NotFinite { .. }));
    let again = songs.iter().position(overflowed).filter(|_| dtype != DType::F32);
    let first = songs.iter().position(Result::is_err);
    let all = first.filter(|_| songs.iter().all(Result::is_err));
    if let Some(index) = again.or(all) {
        songs.swap_remove(index)?;
    }
    Ok(songs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what becomes of songs: `+` is usable, `s` silent, `n` not finite.
    fn told(songs: &str, dtype: DType) -> String {
        let stage = || "the VAE".to_owned();
        let song = |letter: char| match letter {
            's' => Err(Error::Silent { stage: stage(), rms: 0.0, peak: 0.0 }),
            'n' => Err(Error::NotFinite { stage: stage(), count: 1, first: 0, dtype }),
            _ => Ok(()),
        };
        let letter = |error: &Error| if matches!(error, Error::Silent { .. }) { 's' } else { 'n' };
        let shown = |song: Result<(), Error>| song.map_or_else(|error| letter(&error), |()| '+');
        match usable(songs.chars().map(song).collect(), dtype) {
            Ok(songs) => songs.into_iter().map(shown).collect(),
            Err(error) => format!("error {}", letter(&error)),
        }
    }

    #[test]
    fn one_song_ends_the_others_only_if_they_can_be_repeated_in_f32() {
        for (songs, narrow, wide) in [
            ("+s+", "+s+", "+s+"),
            ("+sn", "error n", "+sn"),
            ("ss", "error s", "error s"),
            ("sn", "error n", "error s"),
        ] {
            assert_eq!(told(songs, DType::F16), narrow, "{songs}");
            assert_eq!(told(songs, DType::F32), wide, "{songs}");
        }
    }
}
