//! Flags of `generate`, in upstream's names.
//!
//! This file has no musical defaults: the runtime's `Plan` fills in absent values.

use std::path::PathBuf;

use acestep_engine::{Residency, files::Existing};
use clap::ValueHint;

use super::{
    after::After, device::Where, editing::Editing, files::existing, language::Language,
    sampler::Sampler, sound::Sound, thinking::Thinking, values::seed,
};

/// Shown under the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep generate \"a slow charming waltz, accordion\" --instrumental --model demo
      makes music with the small built-in model, without a download
  acestep generate \"upbeat pop, female voice\" --lyrics @song.txt --bpm 120 -o pop.wav
      makes a song with the lyrics in song.txt
  acestep generate \"dark techno\" --model base --steps 50 --cfg-scale 7 --seed 7
      uses more steps and guidance; the seed always gives the same song
  acestep generate --request pop.json --seed 8 --batch-size 4 -o 'pop-{seed}.wav'
      makes four more songs from a request that --save-request wrote
  acestep generate \"bossa nova, nylon guitar\" --task cover --src-audio song.mp3 -o cover.wav
      makes the same song in another style
  acestep generate --task repaint --src-audio song.wav --repainting-start 30 --repainting-end 42
      makes 12 seconds anew, from second 30; the rest stays as it is
  acestep generate --task extract --track vocals --src-audio song.wav --model base
      extracts the voice
  acestep generate \"jazz trio\" --dry-run
      shows what would be done: seconds, steps, seeds and memory";

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
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "positional_caption",
        hide_short_help = true,
        allow_hyphen_values = true
    )]
    pub(crate) caption: Option<String>,

    /// Lyrics; @FILE reads them from a file.
    ///
    /// @- is standard input; a text that begins with @ needs a second @ before it. Mark sections
    /// with [Verse], [Chorus] and the like.
    #[arg(long, value_name = "TEXT|@FILE", allow_hyphen_values = true)]
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

    /// Beats per bar: 2, 3, 4 or 6.
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
    #[arg(long, value_name = "CODES|@FILE", hide_short_help = true, allow_hyphen_values = true)]
    pub(crate) audio_codes: Option<String>,
}

/// Settings of the diffusion.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct Sampling {
    /// Seed of the noise [default: random].
    ///
    /// The same seed makes the same song again. The songs of a batch count up from it, or a list
    /// gives each its own: 7,9,11.
    #[arg(long, value_name = "SEED", value_delimiter = ',', value_parser = seed)]
    pub(crate) seed: Option<Vec<u64>>,

    /// Number of songs, 1 to 8 [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) batch_size: Option<i64>,

    /// Steps; turbo takes 8 [default: 50].
    #[arg(long, value_name = "N", visible_alias = "steps")]
    pub(crate) inference_steps: Option<i64>,

    /// Guidance scale; not turbo [default: 7; demo 4].
    ///
    /// 1 is no guidance; a higher value follows the request more closely.
    #[arg(long, value_name = "X", visible_alias = "cfg-scale")]
    pub(crate) guidance_scale: Option<f64>,

    /// Kind of guidance: apg, cfg, adg, adg_w_norm or adg_wo_clip [default: apg].
    #[arg(long, value_name = "MODE")]
    pub(crate) guidance_mode: Option<String>,

    /// Lowest time at which guidance applies, 0 to 1 [default: 0].
    #[arg(long, value_name = "T")]
    pub(crate) cfg_interval_start: Option<f64>,

    /// Highest time at which guidance applies, 0 to 1 [default: 1].
    #[arg(long, value_name = "T")]
    pub(crate) cfg_interval_end: Option<f64>,

    /// Shift of the steps towards the noise [default: turbo 3, else 1].
    #[arg(long, value_name = "X")]
    pub(crate) shift: Option<f64>,

    /// Times of the steps, falling from 1 to 0; replaces steps and shift.
    #[arg(long, value_name = "T,T,..", value_delimiter = ',')]
    pub(crate) timesteps: Option<Vec<f64>>,

    /// Steps without (ode) or with fresh noise (sde) [default: ode].
    #[arg(long, value_name = "METHOD")]
    pub(crate) infer_method: Option<String>,

    #[command(flatten)]
    pub(crate) sampler: Sampler,

    /// Generator of the noise: philox, philox:THREADS or mt19937 [default: philox].
    ///
    /// philox is PyTorch's generator on an NVIDIA GPU; the GPU's number of threads matters for long
    /// songs. mt19937 is PyTorch's generator on a CPU.
    #[arg(long, value_name = "NAME")]
    pub(crate) rng: Option<String>,

    /// File with the initial noise, in place of the seed's noise.
    ///
    /// A .bin as --dump-conditioning writes it (three little-endian int32 of shape, then f32), or a
    /// .safetensors with `initial_noise`. With --infer-method sde, the seed still determines the
    /// noise of the steps.
    #[arg(long, value_name = "FILE")]
    pub(crate) noise: Option<PathBuf>,

    /// Folder with the transformer's conditions, in place of caption and lyrics.
    ///
    /// The initial noise is also read from there.
    #[arg(long, value_name = "DIR")]
    pub(crate) conditioning: Option<PathBuf>,

    /// Write the transformer's conditions and the initial noise to the files of a folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) dump_conditioning: Option<PathBuf>,
}

/// Networks, and their device.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model and device")]
pub(crate) struct Compute {
    /// turbo, base, sft, demo, .. or a path [default: turbo].
    ///
    /// A short name (turbo, base, sft, turbo-shift1, turbo-shift3, turbo-continuous, xl-turbo,
    /// xl-base, xl-sft), the name of a directory or file in the models directory, or a path. It can
    /// be a released directory, a GGUF file of acestep.cpp (acestep-v15-turbo-Q8_0.gguf, which is
    /// also found as turbo), a single safetensors file of ComfyUI or a pipeline of diffusers; all
    /// are detected by their content. Two models are built in: demo, a small model that learned
    /// from music composed by this project, and tiny, a random network that tests the pipeline.
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) model: Option<String>,

    /// LoRA, LoKr, LoHa or DoRA for the model; can be given several times.
    ///
    /// A .safetensors file, a directory as PEFT writes it, or a name in `adapters/` of the models
    /// directory. A number after a colon is its strength: voice.safetensors:0.8; 1 is as it was
    /// trained. These adapters replace the ones of a request file. --lora is the same.
    #[arg(
        long,
        value_name = "PATH[:SCALE]",
        alias = "lora",
        hide_short_help = true,
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) adapter: Vec<String>,

    /// Strength of adapters, -10 to 10: one number for all, or one for each [default: 1].
    #[arg(long, value_name = "X,..", value_delimiter = ',', hide_short_help = true)]
    pub(crate) adapter_scale: Option<Vec<f64>>,

    /// Ignore the adapters of the request file.
    #[arg(long, hide_short_help = true, conflicts_with_all = ["adapter", "adapter_scale"])]
    pub(crate) no_adapter: bool,

    #[command(flatten)]
    pub(crate) place: Where,

    /// Keep every network in memory; by default, only one at a time.
    #[arg(long, hide_short_help = true)]
    pub(crate) keep_loaded: bool,

    /// Latent frames that the VAE decodes at once, 25 per second in the released models [default:
    /// 512, on a GPU fewer if its memory is small].
    #[arg(long, value_name = "FRAMES", hide_short_help = true)]
    pub(crate) vae_chunk: Option<i64>,

    /// Latent frames of overlap on each side, whose sound is discarded [default: 64].
    ///
    /// From 9 on, the value has no audible effect; below, the joints of chunks can be audible.
    #[arg(long, value_name = "FRAMES", hide_short_help = true)]
    pub(crate) vae_overlap: Option<i64>,
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

impl Compute {
    /// Returns how long networks stay in memory.
    pub(crate) fn residency(&self) -> Residency {
        if self.keep_loaded { Residency::Kept } else { Residency::Last }
    }
}

impl Output {
    /// Returns the treatment of existing files.
    pub(crate) fn existing(&self) -> Existing {
        existing(self.force)
    }
}
