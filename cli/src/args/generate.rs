//! Flags of `generate`, in upstream's names.
//!
//! This file has no musical defaults: the runtime's `Plan` fills in absent values.

use std::path::PathBuf;

use acestep_engine::files::Existing;
use acestep_music::Request;

use super::{
    after::After, compute::Compute, editing::Editing, files::existing, language::Language,
    sampling::Sampling, sound::Sound, thinking::Thinking, values::put_all,
};

/// Flags of `generate`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) song: Song,
    #[command(flatten)]
    pub(crate) editing: Editing,
    #[command(flatten)]
    pub(crate) thinking: Thinking,
    #[command(flatten)]
    pub(crate) language: Language,
    #[command(flatten)]
    pub(crate) sampling: Sampling,
    #[command(flatten)]
    pub(crate) compute: Compute,
    #[command(flatten)]
    pub(crate) sound: Sound,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) after: After,
}

/// Description of a song in words.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Song")]
pub(crate) struct Words {
    /// Description of the sound: style, instruments, mood, voice.
    #[arg(value_name = "CAPTION", help_heading = None)]
    pub(crate) positional_caption: Option<String>,

    /// The same as CAPTION.
    #[arg(long, value_name = "TEXT", conflicts_with = "positional_caption")]
    #[arg(hide_short_help = true)]
    pub(crate) caption: Option<String>,

    /// Lyrics; @FILE reads them from a file.
    ///
    /// @- is standard input; a text that begins with @ needs a second @ before it. Mark sections
    /// with [Verse], [Chorus] and the like.
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) lyrics: Option<String>,

    /// Song without a voice.
    #[arg(long)]
    pub(crate) instrumental: bool,

    /// Beats a minute, 30 to 300.
    #[arg(long, value_name = "N")]
    pub(crate) bpm: Option<i64>,

    /// Key, e.g. "F# minor".
    #[arg(long, value_name = "KEY", alias = "key-scale", hide_short_help = true)]
    pub(crate) keyscale: Option<String>,

    /// Beats per bar: 2, 3, 4, 6 or a fraction such as 6/8.
    #[arg(long, value_name = "N", alias = "time-signature", hide_short_help = true)]
    pub(crate) timesignature: Option<String>,

    /// Seconds, up to 600 [default: the plan's, else 30].
    #[arg(long, value_name = "SECONDS")]
    pub(crate) duration: Option<f64>,

    /// Language of the voice, e.g. en, zh, ja.
    #[arg(long, value_name = "CODE")]
    pub(crate) vocal_language: Option<String>,

    /// Request from a JSON file or a tagged song.
    ///
    /// Flags override it. Files of --save-request, of ACE-Step 1.5 and of acestep.cpp work, and
    /// songs with our tags; `-` is standard input. The model that the file names is used, unless
    /// --model is given. generate takes several files, one --request each, and loads every network
    /// once for all of them.
    #[arg(long, value_name = "FILE")]
    pub(crate) request: Vec<PathBuf>,
}

/// Description of a song, with audio codes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Song")]
pub(crate) struct Song {
    #[command(flatten)]
    pub(crate) words: Words,

    /// The song's outline as audio codes, five per second; @FILE reads them from a file.
    ///
    /// Either `<|audio_code_17|><|audio_code_4|>` or `17,4`; they set the length.
    #[arg(long, value_name = "CODES|@FILE", hide_short_help = true)]
    pub(crate) audio_codes: Option<String>,
}

/// Output files.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// File to write [default: song-{seed}.wav].
    ///
    /// The extension sets the format: .wav, .flac, .mp3 or .opus; without one it is WAV. The
    /// default is song.wav if no seed has an effect, and the request's name if there are several
    /// requests. {seed}, {index} and {name} (the name of the request file) are filled in. Several
    /// songs of a request without {seed} and {index} get the suffixes _1, _2 before the extension.
    /// `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Name of songs without --output if there are several requests: the request's name.
    #[arg(skip)]
    pub(crate) stem: Option<String>,

    /// The typed --output, before {name} is filled in.
    #[arg(skip)]
    pub(crate) template: Option<PathBuf>,

    /// Also write the latents that the sound is decoded from, for `acestep codec decode`.
    ///
    /// .safetensors, .vae, .nac8 or .nac4, by the extension; the name follows the rules of
    /// --output.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) output_latents: Option<PathBuf>,

    /// Replace existing files.
    #[arg(long)]
    pub(crate) force: bool,

    /// Also write song.json, which repeats the song.
    ///
    /// It is the request with every value decided. The same model, seed, device, build and type of
    /// the weights (--dtype) give the same song, bit for bit.
    #[arg(long)]
    pub(crate) save_request: bool,

    /// Write no tags; by default a song holds its caption, its seed and its request.
    ///
    /// `acestep generate --request SONG` makes the song again from its tags.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_tags: bool,

    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print one JSON object in place of paths.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Words {
    /// Puts the typed metadata over `request`.
    pub(crate) fn put_over(&self, request: &mut Request) {
        put_all!(self => request.words; bpm, keyscale, timesignature, duration, vocal_language);
    }
}

impl Output {
    /// Returns the treatment of existing files.
    pub(crate) fn existing(&self) -> Existing {
        existing(self.force)
    }
}
