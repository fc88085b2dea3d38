//! The result of a song: its latents, loudness, fades and file format.

use acestep_engine::{
    Error, Notice,
    audio::{encoding::EncodingOptions, loudness::Loudness},
    check::{above, real, whole},
};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::{length::MOST_SECONDS, topic::topic, values::shortest};

topic! {
    /// Latents, loudness, fades and format of the result.
    Output {
        /// Output format: `wav16`, `flac`, `mp3`, ..; see [`Encoding`](acestep_engine::audio::format::Encoding).
        /// A [`Plan`](crate::Plan) does not read it, nor the rates below.
        audio_format: String = Word("output_format"),
        /// MP3 bitrate in kilobits per second.
        mp3_bitrate: i64 = Kilobits,
        /// MP3 sample rate in Hz.
        mp3_sample_rate: i64 = Count,
        /// Opus bitrate in kilobits per second.
        opus_bitrate: i64 = Kilobits,
        /// True to normalise the loudness; without another target, the peak to `normalization_db`.
        enable_normalization: bool = Flag,
        /// Peak in dB relative to full scale.
        normalization_db: f64 = Number,
        /// Integrated loudness in LUFS, instead of a peak.
        lufs: f64 = Number,
        /// acestep.cpp's loudness: number of samples per million that may be clipped.
        peak_clip: i64 = Whole,
        /// Seconds of fade-in.
        fade_in_duration: f64 = Number,
        /// Seconds of fade-out.
        fade_out_duration: f64 = Number,
        /// Factor for the finished latents.
        latent_rescale: f64 = Number,
        /// Offset for the finished latents, added after the factor.
        latent_shift: f64 = Number,
    }
}

/// Changes to a finished song.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OutputPlan {
    /// Loudness target of the songs.
    #[serde(flatten, serialize_with = "of_loudness")]
    pub loudness: Loudness,
    /// Seconds of fade-in.
    pub fade_in_duration: f64,
    /// Seconds of fade-out.
    pub fade_out_duration: f64,
    /// Factor for the finished latents.
    pub latent_rescale: f32,
    /// Offset for the finished latents, added after [`OutputPlan::latent_rescale`].
    pub latent_shift: f32,
}

impl OutputPlan {
    /// Returns the seconds of fade-in and fade-out.
    pub fn fades(&self) -> (f64, f64) {
        (self.fade_in_duration, self.fade_out_duration)
    }
}

/// Writes a loudness as the fields of a request that choose it.
fn of_loudness<S: Serializer>(loudness: &Loudness, to: S) -> Result<S::Ok, S::Error> {
    let (peak, lufs, clipped) = match *loudness {
        Loudness::AsIs => (None, None, None),
        Loudness::Peak(decibels) => (Some(shortest(decibels)), None, None),
        Loudness::Integrated(lufs) => (None, Some(shortest(lufs)), None),
        Loudness::Clipped(millionths) => (None, None, Some(millionths)),
    };
    json!({ "normalization_db": peak, "lufs": lufs, "peak_clip": clipped }).serialize(to)
}

/// Largest number of millionths that acestep.cpp clips.
const MOST_CLIPPED: u32 = 999;
/// Far beyond any useful value.
const MOST_SHIFT: f64 = 10.0;
const MOST_RESCALE: f64 = 10.0;

impl Output {
    /// Decides the changes to a song of `duration_s`. If a part of the source is kept (`keeps`), the
    /// loudness stays too unless the request sets it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], or [`Error::Conflict`] if the request selects two kinds of loudness.
    pub fn plan(
        &self,
        keeps: bool,
        duration_s: f64,
        notices: &mut Vec<Notice>,
    ) -> Result<OutputPlan, Error> {
        let rescale = self.latent_rescale.unwrap_or(1.0);
        let shift = self.latent_shift.unwrap_or(0.0);
        let loudness = self.loudness(keeps, notices)?;
        let mut fade = |field, asked: Option<f64>| {
            let seconds = real(field, asked.unwrap_or(0.0), 0.0, MOST_SECONDS)?;
            if seconds > duration_s {
                notices.push(Notice(format!(
                    "`{field}: {seconds}` is longer than the song: it counts as {duration_s} s"
                )));
            }
            Ok::<_, Error>(seconds)
        };
        Ok(OutputPlan {
            loudness,
            fade_in_duration: fade("fade_in_duration", self.fade_in_duration)?,
            fade_out_duration: fade("fade_out_duration", self.fade_out_duration)?,
            latent_rescale: above("latent_rescale", rescale, 0.0, MOST_RESCALE)? as f32,
            latent_shift: real("latent_shift", shift, -MOST_SHIFT, MOST_SHIFT)? as f32,
        })
    }

    /// The options of the sound file.
    pub fn encoding(&self) -> EncodingOptions {
        EncodingOptions {
            mp3_bitrate: self.mp3_bitrate,
            mp3_sample_rate: self.mp3_sample_rate,
            opus_bitrate: self.opus_bitrate,
        }
    }

    /// Returns the loudness target: the request may select one of four kinds.
    fn loudness(&self, keeps: bool, notices: &mut Vec<Notice>) -> Result<Loudness, Error> {
        let decibels = real("normalization_db", self.normalization_db.unwrap_or(-1.0), -60.0, 0.0)?;
        let lufs = self.lufs.map(|lufs| real("lufs", lufs, -60.0, -5.0)).transpose()?;
        let clipped =
            self.peak_clip.map(|clip| whole("peak_clip", clip, 0, MOST_CLIPPED)).transpose()?;
        if lufs.is_some() && clipped.is_some() {
            let why =
                "`lufs` and `peak_clip` both decide how loud the song is: leave one of them out";
            return Err(Error::Conflict(why.into()));
        }
        let other = lufs.map(|_| "lufs").or(clipped.map(|_| "peak_clip"));
        if let Some(other) = other.filter(|_| self.normalization_db.is_some()) {
            notices.push(Notice(format!(
                "`normalization_db` is not used: `{other}` decides the loudness"
            )));
        }
        let asked = self.normalization_db.is_some() || other.is_some();
        let is_on = self.enable_normalization.unwrap_or(asked || !keeps);
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

    /// Returns the fields with the decisions of `plan`, which they make again.
    pub(crate) fn decided(&self, plan: &OutputPlan) -> Self {
        Self {
            enable_normalization: Some(plan.loudness != Loudness::AsIs),
            normalization_db: match plan.loudness {
                Loudness::Peak(decibels) => Some(shortest(decibels)),
                _ => None,
            },
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(output: &Output, keeps: bool) -> (Loudness, usize) {
        let mut notices = vec![];
        let loudness = output.loudness(keeps, &mut notices).expect("in range");
        (loudness, notices.len())
    }

    #[test]
    fn one_of_four_ways_decides_the_loudness() {
        let none = Output::default;
        for (output, expected, said) in [
            (none(), Loudness::Peak(-1.0), 0),
            (Output { normalization_db: Some(-6.0), ..none() }, Loudness::Peak(-6.0), 0),
            (Output { lufs: Some(-14.0), ..none() }, Loudness::Integrated(-14.0), 0),
            (Output { peak_clip: Some(0), ..none() }, Loudness::Clipped(0), 0),
            (Output { enable_normalization: Some(false), ..none() }, Loudness::AsIs, 0),
            // Upstream's files always contain `normalization_db`.
            (
                Output { lufs: Some(-14.0), normalization_db: Some(-1.0), ..none() },
                Loudness::Integrated(-14.0),
                1,
            ),
        ] {
            assert_eq!(decided(&output, false), (expected, said), "{output:?}");
        }
        let both = Output { lufs: Some(-14.0), peak_clip: Some(10), ..none() };
        both.loudness(false, &mut vec![]).expect_err("two ways");
        for bad in [
            Output { lufs: Some(0.0), ..none() },
            Output { lufs: Some(f64::NAN), ..none() },
            Output { peak_clip: Some(1000), ..none() },
            Output { peak_clip: Some(-1), ..none() },
        ] {
            let error = bad.loudness(false, &mut vec![]).expect_err("out of range");
            assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
        }
    }

    /// A requested loudness is applied, with a notice that it also changes the kept part.
    #[test]
    fn where_sound_is_kept_its_loudness_is_unless_another_is_asked_for() {
        assert_eq!(decided(&Output::default(), true), (Loudness::AsIs, 0));
        let asked = Output { lufs: Some(-20.0), ..Output::default() };
        assert_eq!(decided(&asked, true), (Loudness::Integrated(-20.0), 1));
    }

    #[test]
    fn a_plan_is_written_with_the_shortest_decimal_of_its_loudness() {
        let asked = Output { lufs: Some(-14.3), ..Output::default() };
        let plan = asked.plan(false, 10.0, &mut vec![]).expect("in range");
        let text = serde_json::to_string(&plan).expect("a map");
        assert!(text.contains(r#""lufs":-14.3,"#), "{text}");
    }

    #[test]
    fn a_fade_is_no_longer_than_the_song() {
        let asked = Output {
            fade_in_duration: Some(2.0),
            fade_out_duration: Some(20.0),
            ..Output::default()
        };
        let mut notices = vec![];
        let plan = asked.plan(false, 10.0, &mut notices).expect("in range");
        assert_eq!(plan.fades(), (2.0, 20.0));
        let text = "`fade_out_duration: 20` is longer than the song: it counts as 10 s";
        assert_eq!(notices, [Notice(text.into())]);
        let bad = Output { fade_in_duration: Some(-1.0), ..Output::default() };
        bad.plan(false, 10.0, &mut vec![]).expect_err("out of range");
    }
}
