//! The flags of songs that are made from songs.

use std::path::PathBuf;

use clap::ValueHint;

/// From a song that exists.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "From another song")]
pub(crate) struct Editing {
    /// text2music, cover, repaint, ..
    ///
    /// text2music: music from words, and from audio codes. cover: the outline of another song, in
    /// another style. cover-nofsq: the same from more than its outline, so closer to it. repaint: a
    /// part made anew, or something before or after it. Of base and sft models only: lego adds a
    /// track, extract takes one out, complete adds what is missing.
    #[arg(long, value_name = "TASK", visible_alias = "task", alias = "task_type")]
    pub(crate) task_type: Option<String>,

    /// The song to start from.
    ///
    /// WAV, FLAC, MP3, Ogg Vorbis, M4A and more, of any rate; it decides the length.
    #[arg(
        long,
        value_name = "FILE",
        alias = "src_audio",
        value_hint = ValueHint::FilePath,
        conflicts_with = "src_latents"
    )]
    pub(crate) src_audio: Option<PathBuf>,

    /// The same as latents, as `acestep codec encode` writes them.
    #[arg(
        long,
        value_name = "FILE",
        alias = "src_latents",
        value_hint = ValueHint::FilePath,
        hide_short_help = true
    )]
    pub(crate) src_latents: Option<PathBuf>,

    /// A song whose sound is taken.
    ///
    /// Voice, instruments, room; for every task. Three pieces of it are heard, 30 s in all. Given several times, each is heard.
    #[arg(
        long,
        value_name = "FILE",
        visible_alias = "ref-audio",
        aliases = ["reference_audio", "ref_audio"],
        value_hint = ValueHint::FilePath
    )]
    pub(crate) reference_audio: Vec<PathBuf>,

    /// The same as latents.
    #[arg(
        long,
        value_name = "FILE",
        alias = "ref_latents",
        value_hint = ValueHint::FilePath,
        hide_short_help = true
    )]
    pub(crate) ref_latents: Vec<PathBuf>,

    /// Share of the steps that follow the source or the audio codes, 0 to 1 [default: 1].
    #[arg(
        long,
        value_name = "SHARE",
        alias = "audio_cover_strength",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) audio_cover_strength: Option<f64>,

    /// repaint, lego: seconds at which the part begins; below 0 it is before the song [default: 0].
    #[arg(
        long,
        value_name = "SECONDS",
        alias = "repainting_start",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) repainting_start: Option<f64>,

    /// repaint, lego: seconds at which it ends; may be after the song [default: its end].
    ///
    /// To add something before the song end at 0. -1 is the end of the song, also where the part begins
    /// before it: acestep.cpp then ends at the beginning.
    #[arg(
        long,
        value_name = "SECONDS",
        alias = "repainting_end",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) repainting_end: Option<f64>,

    /// How a repaint meets its surroundings [default: balanced].
    ///
    /// conservative holds on to the song around it while it is made, aggressive does not, balanced
    /// does as --repaint-strength says. custom is balanced with crossfades of your own. Outside the
    /// part every sample stays as it is, whatever the mode.
    #[arg(long, value_name = "MODE", alias = "repaint_mode", hide_short_help = true)]
    pub(crate) repaint_mode: Option<String>,

    /// Freedom of a balanced repaint: 0 as conservative, 1 as aggressive [default: 0.5].
    #[arg(
        long,
        value_name = "X",
        alias = "repaint_strength",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) repaint_strength: Option<f64>,

    /// Latent frames, in the released models 25 a second, over which a repaint is mixed with the song
    /// around it.
    ///
    /// Makes the mode custom.
    #[arg(
        long,
        value_name = "N",
        alias = "repaint_latent_crossfade_frames",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) repaint_latent_crossfade_frames: Option<i64>,

    /// Seconds over which its sound is faded in and out.
    ///
    /// Makes the mode custom.
    #[arg(
        long,
        value_name = "SECONDS",
        alias = "repaint_wav_crossfade_sec",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) repaint_wav_crossfade_sec: Option<f64>,

    /// What the model is told of the part: explicit, ones or twos [default: explicit].
    ///
    /// explicit marks the part; ones and twos mark everything with that number, as two versions of
    /// upstream do by default. auto, which upstream's files say, is explicit here.
    #[arg(long, value_name = "MODE", alias = "chunk_mask_mode", hide_short_help = true)]
    pub(crate) chunk_mask_mode: Option<String>,

    /// lego, extract: the track, e.g. vocals, drums, bass, guitar.
    ///
    /// woodwinds, brass, fx, synth, strings, percussion, keyboard, guitar, bass, drums,
    /// backing_vocals or vocals.
    #[arg(
        long,
        value_name = "TRACK",
        visible_alias = "track",
        alias = "track_name",
        hide_short_help = true
    )]
    pub(crate) track_name: Option<String>,

    /// complete: the tracks to add, e.g. drums,bass.
    #[arg(
        long,
        value_name = "TRACK,..",
        value_delimiter = ',',
        aliases = ["track_classes", "complete_track_classes"],
        hide_short_help = true
    )]
    pub(crate) track_classes: Vec<String>,
}
