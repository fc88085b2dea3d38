//! Flags for songs that are made from other songs.

use std::path::{Path, PathBuf};

use acestep_music::Request;

use super::values::{put, put_all};
use crate::cli_error::CliError;

/// Flags for a source or reference song.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "From another song")]
pub(crate) struct Editing {
    /// text2music, cover, repaint, ..
    ///
    /// text2music: music from words, and from audio codes. cover: the outline of another song, in
    /// another style. cover-nofsq: a cover from more than the outline, so closer to the song.
    /// repaint: a new version of a part, or an addition before or after the song. Only for base and
    /// sft models: lego adds a track, extract isolates one, complete adds the missing ones.
    #[arg(long, value_name = "TASK", visible_alias = "task")]
    pub(crate) task_type: Option<String>,

    /// Song to start from.
    ///
    /// WAV, FLAC, MP3, Ogg Vorbis, M4A and more, at any sample rate; it sets the length.
    #[arg(long, value_name = "FILE", conflicts_with = "src_latents")]
    pub(crate) src_audio: Option<PathBuf>,

    /// Source as latents, as `acestep codec encode` writes them.
    #[arg(long, value_name = "FILE")]
    pub(crate) src_latents: Option<PathBuf>,

    /// Reference for the sound.
    ///
    /// Voice, instruments, room; for every task. Three excerpts of it are used, 30 s in all. Give
    /// the flag several times to use several songs.
    #[arg(long, value_name = "FILE", visible_alias = "ref-audio")]
    pub(crate) reference_audio: Vec<PathBuf>,

    /// Reference as latents.
    #[arg(long, value_name = "FILE")]
    pub(crate) ref_latents: Vec<PathBuf>,

    /// Share of the steps that follow the source or the audio codes, 0 to 1 [default: 1].
    #[arg(long, value_name = "SHARE")]
    pub(crate) audio_cover_strength: Option<f64>,

    /// repaint, lego: start of the part in seconds; below 0 is before the song [default: 0].
    #[arg(long, value_name = "SECONDS")]
    pub(crate) repainting_start: Option<f64>,

    /// repaint, lego: end of the part in seconds; may be after the song [default: its end].
    ///
    /// To add something before the song, end at 0. -1 is the end of the song, even if the part
    /// begins before the song; acestep.cpp would end at the song's beginning.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) repainting_end: Option<f64>,

    /// Transition of a repaint to its surroundings [default: balanced].
    ///
    /// conservative keeps the song around the part during sampling, aggressive does not, and
    /// balanced follows --repaint-strength. custom is balanced with crossfades of your own. Outside
    /// the part every sample stays as it is, in every mode.
    #[arg(long, value_name = "MODE")]
    pub(crate) repaint_mode: Option<String>,

    /// Freedom of a balanced repaint: 0 is conservative, 1 is aggressive [default: 0.5].
    #[arg(long, value_name = "X")]
    pub(crate) repaint_strength: Option<f64>,

    /// Crossfade of a repaint with the song around it, 0 to 250 latent frames (25 per second in the
    /// released models).
    ///
    /// Sets the mode to custom.
    #[arg(long, value_name = "N")]
    pub(crate) repaint_latent_crossfade_frames: Option<i64>,

    /// Crossfade of a repaint's sound in seconds, 0 to 20.
    ///
    /// Sets the mode to custom.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) repaint_wav_crossfade_sec: Option<f64>,

    /// Mask of the part for the model: explicit, ones or twos [default: explicit].
    ///
    /// explicit marks the part; ones and twos mark everything with that number, as two versions of
    /// upstream do by default. auto, which upstream's files contain, means explicit here.
    #[arg(long, value_name = "MODE")]
    pub(crate) chunk_mask_mode: Option<String>,

    /// lego, extract: the track, e.g. vocals, drums, bass, guitar.
    ///
    /// woodwinds, brass, fx, synth, strings, percussion, keyboard, guitar, bass, drums,
    /// backing_vocals or vocals.
    #[arg(long, value_name = "TRACK", visible_alias = "track")]
    pub(crate) track_name: Option<String>,

    /// complete: the tracks to add, e.g. drums,bass.
    #[arg(long, value_name = "TRACK,..", value_delimiter = ',', alias = "complete-track-classes")]
    pub(crate) track_classes: Vec<String>,
}

impl Editing {
    /// Overwrites values of `request` with values of the command line.
    pub(crate) fn put_over(&self, request: &mut Request) -> Result<(), CliError> {
        let source = &mut request.source;
        put_all!(self => source; task_type, audio_cover_strength, track_name);
        // A song or latents from the command line replace both kinds in the request.
        if self.src_audio.is_some() || self.src_latents.is_some() {
            source.src_audio = self.src_audio.as_deref().map(text).transpose()?;
            source.src_latents = self.src_latents.as_deref().map(text).transpose()?;
        }
        if !self.reference_audio.is_empty() || !self.ref_latents.is_empty() {
            source.reference_audio = texts(&self.reference_audio)?;
            source.ref_latents = texts(&self.ref_latents)?;
        }
        let classes = (!self.track_classes.is_empty()).then_some(&self.track_classes);
        put(&mut source.track_classes, classes);
        let widths = (self.repaint_latent_crossfade_frames, self.repaint_wav_crossfade_sec);
        if widths != (None, None) && self.repaint_mode.is_none() {
            request.repaint.repaint_mode = Some("custom".into());
        }
        put_all!(self => request.repaint;
            repainting_start, repainting_end, repaint_strength, repaint_mode,
            repaint_latent_crossfade_frames, repaint_wav_crossfade_sec, chunk_mask_mode);
        Ok(())
    }
}

fn texts(paths: &[PathBuf]) -> Result<Option<Vec<String>>, CliError> {
    let texts = paths.iter().map(|path| text(path)).collect::<Result<Vec<_>, _>>()?;
    Ok((!texts.is_empty()).then_some(texts))
}

fn text(path: &Path) -> Result<String, CliError> {
    let Some(text) = path.to_str() else {
        let message = format!("the name `{}` is not UTF-8 text", path.display());
        return Err(CliError::usage(message).hint("rename the file, or link to it"));
    };
    Ok(text.to_owned())
}
