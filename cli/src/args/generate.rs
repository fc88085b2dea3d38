//! The flags of `generate`, in upstream's names.
//!
//! No default of the music stands here: what is absent is decided by the runtime's `Plan`.

use acestep_runtime::Residency;
use std::path::PathBuf;

use acestep_runtime::files::Existing;
use clap::ValueHint;

use super::{
    after::After, device::Where, editing::Editing, language::Language, sampler::Sampler,
    sound::Sound, thinking::Thinking,
};

/// Shown under the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep generate \"a slow charming waltz, accordion\" --instrumental --model demo
      music from the small model inside the program, without any download
  acestep generate \"upbeat pop, female voice\" --lyrics @song.txt --bpm 120 -o pop.wav
      a song with the words of song.txt
  acestep generate \"dark techno\" --model base --steps 50 --cfg-scale 7 --seed 7
      more steps and guidance, and always the same song
  acestep generate --request pop.json --seed 8 --batch-size 4 -o 'pop-{seed}.wav'
      four more songs from a request that --save-request wrote
  acestep generate \"bossa nova, nylon guitar\" --task cover --src-audio song.mp3 -o cover.wav
      the same song in another style
  acestep generate --task repaint --src-audio song.wav --repainting-start 30 --repainting-end 42
      half a minute in, twelve seconds made anew; the rest stays as it is
  acestep generate --task extract --track vocals --src-audio song.wav --model base
      the voice alone
  acestep generate \"jazz trio\" --dry-run
      what would be done, in seconds, steps, seeds and memory";

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

/// What is heard, in words.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Song")]
pub(crate) struct Words {
    /// What it sounds like: style, instruments, mood, voice.
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

    /// What is sung; @FILE is read from a file.
    ///
    /// @- is standard input; a text that begins with @ is written with two. Sections are marked as
    /// [Verse], [Chorus] and the like.
    #[arg(long, value_name = "TEXT|@FILE", allow_hyphen_values = true)]
    pub(crate) lyrics: Option<String>,

    /// No voice.
    #[arg(long)]
    pub(crate) instrumental: bool,

    /// Beats a minute, 30 to 300.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) bpm: Option<i64>,

    /// Key, e.g. "F# minor".
    #[arg(long, value_name = "KEY", alias = "key_scale", hide_short_help = true)]
    pub(crate) keyscale: Option<String>,

    /// Beats of a bar: 2, 3, 4 or 6.
    #[arg(long, value_name = "N", alias = "time_signature", hide_short_help = true)]
    pub(crate) timesignature: Option<String>,

    /// Seconds, up to 600 [default: the plan's, else 30].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) duration: Option<f64>,

    /// Language of the voice, e.g. en, zh, ja.
    #[arg(long, value_name = "CODE", alias = "vocal_language")]
    pub(crate) vocal_language: Option<String>,

    /// All this from a JSON file or a song of ours.
    ///
    /// Flags override it. Files of --save-request, of ACE-Step 1.5 and of acestep.cpp are read, and
    /// songs with our tags; `-` is standard input. The model that the file names is used, unless
    /// --model is given. generate takes several, one --request each, and reads every network once for
    /// all of them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) request: Vec<PathBuf>,
}

/// What is heard.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Song")]
pub(crate) struct Song {
    #[command(flatten)]
    pub(crate) words: Words,

    /// The song's outline as codes, five a second; @FILE is read from a file.
    ///
    /// Either `<|audio_code_17|><|audio_code_4|>` or `17,4`; they decide the length.
    #[arg(
        long,
        value_name = "CODES|@FILE",
        alias = "audio_codes",
        hide_short_help = true,
        allow_hyphen_values = true
    )]
    pub(crate) audio_codes: Option<String>,
}

/// From noise to music.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct Sampling {
    /// Makes the same song again [default: random].
    ///
    /// The songs of a batch count up from it, or a list gives each its own: 7,9,11.
    #[arg(
        long,
        value_name = "SEED",
        value_delimiter = ',',
        value_parser = seed,
        allow_negative_numbers = true
    )]
    pub(crate) seed: Option<Vec<u64>>,

    /// How many songs, 1 to 8 [default: 1].
    #[arg(long, value_name = "N", alias = "batch_size", allow_negative_numbers = true)]
    pub(crate) batch_size: Option<i64>,

    /// Steps; turbo takes 8 [default: 50].
    #[arg(
        long,
        value_name = "N",
        visible_alias = "steps",
        alias = "inference_steps",
        allow_negative_numbers = true
    )]
    pub(crate) inference_steps: Option<i64>,

    /// How strongly guided; not turbo [default: 7; demo 4].
    ///
    /// 1 is not at all; the more, the closer to what was asked for.
    #[arg(
        long,
        value_name = "X",
        visible_alias = "cfg-scale",
        aliases = ["guidance_scale", "cfg_scale"],
        allow_negative_numbers = true
    )]
    pub(crate) guidance_scale: Option<f64>,

    /// How guidance is computed: apg, cfg, adg, adg_w_norm or adg_wo_clip [default: apg].
    #[arg(long, value_name = "MODE", alias = "guidance_mode", hide_short_help = true)]
    pub(crate) guidance_mode: Option<String>,

    /// Guidance begins to apply at this time, 0 to 1 [default: 0].
    #[arg(
        long,
        value_name = "T",
        alias = "cfg_interval_start",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) cfg_interval_start: Option<f64>,

    /// Guidance applies up to this time, 0 to 1 [default: 1].
    #[arg(
        long,
        value_name = "T",
        alias = "cfg_interval_end",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) cfg_interval_end: Option<f64>,

    /// Leans the steps to the noise [default: turbo 3, else 1].
    #[arg(long, value_name = "X", hide_short_help = true, allow_negative_numbers = true)]
    pub(crate) shift: Option<f64>,

    /// The times of the steps, falling from 1 to 0; in place of steps and shift.
    #[arg(
        long,
        value_name = "T,T,..",
        value_delimiter = ',',
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) timesteps: Option<Vec<f64>>,

    /// Steps without or with fresh noise: ode or sde [default: ode].
    #[arg(long, value_name = "METHOD", alias = "infer_method", hide_short_help = true)]
    pub(crate) infer_method: Option<String>,

    #[command(flatten)]
    pub(crate) sampler: Sampler,

    /// Generator of the noise: philox, philox:THREADS or mt19937 [default: philox].
    ///
    /// philox is PyTorch's on an NVIDIA GPU, whose number of threads matters for long songs;
    /// mt19937 is PyTorch's on a CPU.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(crate) rng: Option<String>,

    /// The initial noise from a file, in place of the seed's.
    ///
    /// A .bin as --dump-conditioning writes it (three little-endian int32 of shape, then f32), or
    /// a .safetensors with `initial_noise`. With --infer-method sde the seed still decides the noise
    /// of the steps.
    #[arg(long, value_name = "FILE", hide_short_help = true, value_hint = ValueHint::FilePath)]
    pub(crate) noise: Option<PathBuf>,

    /// What the transformer follows from the files of a folder, in place of caption and lyrics.
    ///
    /// The initial noise is from there too.
    #[arg(long, value_name = "DIR", hide_short_help = true, value_hint = ValueHint::DirPath)]
    pub(crate) conditioning: Option<PathBuf>,

    /// Writes what the transformer follows, and its initial noise, to the files of a folder.
    #[arg(
        long,
        value_name = "DIR",
        alias = "dump_conditioning",
        hide_short_help = true,
        value_hint = ValueHint::DirPath
    )]
    pub(crate) dump_conditioning: Option<PathBuf>,
}

/// Which networks, and where they run.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model and device")]
pub(crate) struct Compute {
    /// turbo, base, sft, demo, .. or a path [default: turbo].
    ///
    /// A short name (turbo, base, sft, turbo-shift1, turbo-shift3, turbo-continuous, xl-turbo,
    /// xl-base, xl-sft), the name of a directory or file among the models, or a path. Read are the
    /// released directories, GGUF files of acestep.cpp (acestep-v15-turbo-Q8_0.gguf, which is also
    /// found as turbo), single safetensors files of ComfyUI and pipelines of diffusers; all are told
    /// by their content. Two are built in: demo, a small model that learned from music composed by
    /// this project, and tiny, a random network that proves the pipeline.
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) model: Option<String>,

    /// A LoRA, LoKr, LoHa or DoRA for the model; may be given several times.
    ///
    /// A .safetensors file, a directory as PEFT writes it, or a name in `adapters/` of the models
    /// directory. A number after a colon is how strongly it works: voice.safetensors:0.8; 1 is as it
    /// was trained. Those of a request file are replaced. --lora is the same.
    #[arg(
        long,
        value_name = "PATH[:SCALE]",
        alias = "lora",
        hide_short_help = true,
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) adapter: Vec<String>,

    /// How strongly adapters work, -10 to 10: one number for all, or one for each [default: 1].
    #[arg(
        long,
        value_name = "X,..",
        value_delimiter = ',',
        alias = "adapter_scale",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) adapter_scale: Option<Vec<f64>>,

    /// Leaves out the adapters of the request file.
    #[arg(long, alias = "no_adapter", hide_short_help = true, conflicts_with_all = ["adapter", "adapter_scale"])]
    pub(crate) no_adapter: bool,

    #[command(flatten)]
    pub(crate) place: Where,

    /// Keeps every network in memory; else one at a time is.
    #[arg(long, alias = "keep_loaded", hide_short_help = true)]
    pub(crate) keep_loaded: bool,

    /// Latent frames that the VAE decodes at once, in the released models 25 a second [default: 512, on a
    /// card fewer if its memory is small].
    #[arg(
        long,
        value_name = "FRAMES",
        alias = "vae_chunk",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) vae_chunk: Option<i64>,

    /// Latent frames on either side whose sound is thrown away [default: 64].
    ///
    /// From 9 on it changes nothing that is heard; below, it can be heard where chunks meet.
    #[arg(
        long,
        value_name = "FRAMES",
        alias = "vae_overlap",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) vae_overlap: Option<i64>,
}

/// Where the song goes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// The file to write [default: song-{seed}.wav].
    ///
    /// Its ending says the format: .wav, .flac, .mp3 or .opus; without one it is a WAV. It is song.wav if no seed decides
    /// anything, and the request's name with several of them. {seed},
    /// {index} and {name}, which is that of the request file, are filled in; several songs of a request
    /// without seed and index are told apart by _1, _2 before the extension. `-` is standard output.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// What songs are called without --output, where there are several requests: as those are.
    #[arg(skip)]
    pub(crate) stem: Option<String>,

    /// As it was typed, where --output has had its {name} filled in.
    #[arg(skip)]
    pub(crate) template: Option<PathBuf>,

    /// Also writes the latents that the sound is decoded from, for `acestep codec decode`.
    ///
    /// .safetensors, .vae, .nac8 or .nac4, as the name ends; names as of --output.
    #[arg(
        long,
        value_name = "FILE",
        alias = "output_latents",
        hide_short_help = true,
        value_hint = ValueHint::FilePath
    )]
    pub(crate) output_latents: Option<PathBuf>,

    /// Replaces files that exist.
    #[arg(long)]
    pub(crate) force: bool,

    /// Also writes song.json, which makes the song again.
    ///
    /// It is the request with everything decided. A song of the same model, seed, device, build and
    /// type of the weights (--dtype) is the same to the bit.
    #[arg(long, alias = "save_request")]
    pub(crate) save_request: bool,

    /// Writes no tags: else a song holds its caption, its seed and the request that makes it.
    ///
    /// `acestep generate --request SONG` makes it again from them.
    #[arg(long, alias = "no_tags", hide_short_help = true)]
    pub(crate) no_tags: bool,

    /// Says what would be done, and does nothing.
    #[arg(long, alias = "dry_run")]
    pub(crate) dry_run: bool,

    /// One JSON object on standard output, in place of paths.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Compute {
    /// How long networks stay in memory.
    pub(crate) fn residency(&self) -> Residency {
        if self.keep_loaded { Residency::Kept } else { Residency::Last }
    }
}

impl Output {
    /// What becomes of files that are there already.
    pub(crate) fn existing(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }
}

/// Reads a seed.
///
/// # Errors
/// What a seed looks like.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    fixed_seed(text).map_err(|why| match text.trim() {
        "-1" => "for a random seed leave it out".to_owned(),
        _ => why,
    })
}

/// Reads a seed where none is drawn: left out, it is one that is given.
///
/// # Errors
/// What a seed looks like.
pub(super) fn fixed_seed(text: &str) -> Result<u64, String> {
    let range = |_| format!("a seed is a whole number from 0 to {}", u64::MAX);
    text.trim().parse().map_err(range)
}
