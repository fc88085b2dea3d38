//! Processing of a song's sound before it is written to a file.

use acestep_engine::{
    Error, Notice,
    audio::loudness::Loudness,
    check::{real, whole},
};

use super::MOST_SECONDS;
use crate::Request;

/// Largest number of millionths that acestep.cpp clips.
const MOST_CLIPPED: u32 = 999;

/// Returns the loudness target: the request may select one of four kinds. If a part of the source
/// is kept (`keeps`), the loudness stays too unless the request sets it.
///
/// # Errors
/// [`Error::OutOfRange`], or [`Error::Conflict`] if the request selects two kinds.
pub fn loudness(
    request: &Request,
    keeps: bool,
    notices: &mut Vec<Notice>,
) -> Result<Loudness, Error> {
    let decibels = real("normalization_db", request.normalization_db.unwrap_or(-1.0), -60.0, 0.0)?;
    let lufs = request.lufs.map(|lufs| real("lufs", lufs, -60.0, -5.0)).transpose()?;
    let clipped =
        request.peak_clip.map(|clip| whole("peak_clip", clip, 0, MOST_CLIPPED)).transpose()?;
    if lufs.is_some() && clipped.is_some() {
        let why = "`lufs` and `peak_clip` both decide how loud the song is: leave one of them out";
        return Err(Error::Conflict(why.into()));
    }
    let other = lufs.map(|_| "lufs").or(clipped.map(|_| "peak_clip"));
    if let Some(other) = other.filter(|_| request.normalization_db.is_some()) {
        notices.push(Notice(format!(
            "`normalization_db` is not used: `{other}` decides the loudness"
        )));
    }
    let asked = request.normalization_db.is_some() || other.is_some();
    let is_on = request.enable_normalization.unwrap_or(asked || !keeps);
    if is_on && keeps {
        let text = "the loudness of the whole song is changed, also outside the region; \
                    `enable_normalization: false` leaves it";
        notices.push(Notice(text.into()));
    }
    Ok(match (is_on, lufs, clipped) {
        (false, ..) => Loudness::AsIs,
        (_, Some(lufs), _) => Loudness::Integrated(lufs as f32),
        (_, _, Some(millionths)) => Loudness::Clipped(millionths),
        (true, None, None) => Loudness::Peak(decibels as f32),
    })
}

/// Returns the seconds of fade-in and fade-out of a song of `duration_s`.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn fades(
    request: &Request,
    duration_s: f64,
    notices: &mut Vec<Notice>,
) -> Result<(f64, f64), Error> {
    let mut fade = |field, asked: Option<f64>| {
        let seconds = real(field, asked.unwrap_or(0.0), 0.0, MOST_SECONDS)?;
        if seconds > duration_s {
            notices.push(Notice(format!(
                "`{field}: {seconds}` is longer than the song: it counts as {duration_s} s"
            )));
        }
        Ok::<_, Error>(seconds)
    };
    Ok((
        fade("fade_in_duration", request.fade_in_duration)?,
        fade("fade_out_duration", request.fade_out_duration)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(request: &Request, keeps: bool) -> (Loudness, usize) {
        let mut notices = vec![];
        let loudness = loudness(request, keeps, &mut notices).expect("in range");
        (loudness, notices.len())
    }

    #[test]
    fn one_of_four_ways_decides_the_loudness() {
        let none = Request::default;
        for (request, expected, said) in [
            (none(), Loudness::Peak(-1.0), 0),
            (Request { normalization_db: Some(-6.0), ..none() }, Loudness::Peak(-6.0), 0),
            (Request { lufs: Some(-14.0), ..none() }, Loudness::Integrated(-14.0), 0),
            (Request { peak_clip: Some(0), ..none() }, Loudness::Clipped(0), 0),
            (Request { enable_normalization: Some(false), ..none() }, Loudness::AsIs, 0),
            // Upstream's files always contain `normalization_db`.
            (
                Request { lufs: Some(-14.0), normalization_db: Some(-1.0), ..none() },
                Loudness::Integrated(-14.0),
                1,
            ),
        ] {
            assert_eq!(decided(&request, false), (expected, said), "{request:?}");
        }
        let both = Request { lufs: Some(-14.0), peak_clip: Some(10), ..none() };
        loudness(&both, false, &mut vec![]).expect_err("two ways");
        for bad in [
            Request { lufs: Some(0.0), ..none() },
            Request { lufs: Some(f64::NAN), ..none() },
            Request { peak_clip: Some(1000), ..none() },
            Request { peak_clip: Some(-1), ..none() },
        ] {
            let error = loudness(&bad, false, &mut vec![]).expect_err("out of range");
            assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
        }
    }

    /// A requested loudness is applied, with a notice that it also changes the kept part.
    #[test]
    fn where_sound_is_kept_its_loudness_is_unless_another_is_asked_for() {
        assert_eq!(decided(&Request::default(), true), (Loudness::AsIs, 0));
        let asked = Request { lufs: Some(-20.0), ..Request::default() };
        assert_eq!(decided(&asked, true), (Loudness::Integrated(-20.0), 1));
    }

    #[test]
    fn a_fade_is_no_longer_than_the_song() {
        let asked = Request {
            fade_in_duration: Some(2.0),
            fade_out_duration: Some(20.0),
            ..Request::default()
        };
        let mut notices = vec![];
        assert_eq!(fades(&asked, 10.0, &mut notices).expect("in range"), (2.0, 20.0));
        let text = "`fade_out_duration: 20` is longer than the song: it counts as 10 s";
        assert_eq!(notices, [Notice(text.into())]);
        let bad = Request { fade_in_duration: Some(-1.0), ..Request::default() };
        fades(&bad, 10.0, &mut vec![]).expect_err("out of range");
    }
}
