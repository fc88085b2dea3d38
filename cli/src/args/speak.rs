//! Flags of `speak`.

use std::path::PathBuf;

use acestep_session::speech::Fields;
use serde::Serialize;

use super::{
    device::Where,
    files::Files,
    values::{finite, given, is_off, seed},
};
use crate::{cli_error::CliError, settings};

/// Most texts that are spoken side by side: on a CPU more would be computed by other kernels, whose
/// results differ in the last digits.
const MOST_AT_ONCE: i64 = 16;

/// Flags of `speak`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Speak {
    /// Text to speak; @FILE reads a file, - standard input.
    ///
    /// A long text is spoken in segments that end with sentences, in one file.
    #[arg(value_name = "TEXT", required_unless_present_any = ["phonemes", "open_jtalk", "ids"])]
    pub(crate) text: Option<String>,

    /// Speak each line of the text to a file of its own: speech_1.wav, speech_2.wav, ..
    ///
    /// Empty lines are left out. Line N has the seed of the first one plus N - 1.
    #[arg(long)]
    pub(crate) lines: bool,

    /// Speak the lines of standard input while they arrive, for a dialogue model; TEXT is -.
    ///
    /// The sound is as for the whole text. The model reads two words ahead, so the last words of a line
    /// wait for the next one, or for the end of the text.
    #[arg(long, conflicts_with = "lines")]
    pub(crate) follow: bool,

    #[command(flatten)]
    pub(crate) instead: Instead,

    /// Speech model: a name of `acestep model list`, a directory, or tiny-speech [default: the first
    /// installed one].
    #[arg(long, value_name = "NAME|DIR|FILE", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    /// Texts of --lines that are spoken side by side, 1 to 16 [default: 8 on a CPU, 4 on a GPU].
    ///
    /// Only Qwen3-TTS takes several. On a CPU each has the samples that it would have alone.
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MOST_AT_ONCE))]
    #[arg(help_heading = "Model and device", requires = "lines")]
    pub(crate) batch_size: Option<u32>,

    #[command(flatten)]
    pub(crate) place: Where,

    #[command(flatten)]
    pub(crate) voice: Voice,

    #[command(flatten)]
    pub(crate) drawing: Drawing,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// Flags in place of the text.
#[derive(Debug, Clone, clap::Args, Serialize)]
pub(crate) struct Instead {
    /// Phonemes of the text in place of the text, for Magpie TTS; @FILE reads a file.
    ///
    /// They are the symbols of the language in the model, side by side: `həˈloʊ` in English, `1キョ0ー0ワ`
    /// in Japanese; in Mandarin pinyin too, `ni3 hao3`. A symbol that the model does not know is left out,
    /// and a note says which.
    #[arg(long, value_name = "TEXT", hide_short_help = true, conflicts_with_all = ["text", "lines"])]
    #[serde(skip)]
    pub(crate) phonemes: Option<String>,

    /// Words of a Japanese text in place of the text, for Magpie TTS: JSON of pyopenjtalk.run_frontend.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    #[arg(conflicts_with_all = ["text", "lines", "phonemes"])]
    pub(crate) open_jtalk: Option<PathBuf>,

    /// Ids of the text in place of the text, for Magpie TTS, without the end: 12,5,93.
    #[arg(long, value_name = "ID,..", hide_short_help = true, value_delimiter = ',')]
    #[arg(conflicts_with_all = ["text", "lines", "phonemes", "open_jtalk"])]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ids: Vec<u32>,
}

/// Flags about the voice.
#[derive(Debug, Clone, clap::Args, Serialize)]
#[command(next_help_heading = "Voice")]
pub(crate) struct Voice {
    /// Named speaker, for a model that has some [default: the model's first]; for a base or a dialogue
    /// model, a voice of `acestep voice list`.
    #[arg(long, value_name = "NAME", alias = "speaker")]
    #[arg(conflicts_with_all = ["reference", "speaker_1"])]
    pub(crate) voice: Option<String>,

    /// Language of the text by name or code, english or en, zh-CN, .., or auto [default: auto; for Magpie
    /// TTS en].
    #[arg(long, value_name = "NAME", alias = "lang")]
    pub(crate) language: Option<String>,

    /// Manner of speaking, or the voice in words, for a model that follows instructions; @FILE reads
    /// a file.
    #[arg(long, value_name = "TEXT")]
    #[serde(skip)]
    pub(crate) instruct: Option<String>,

    /// Recording whose voice speaks, for a base model: 3 to 15 seconds.
    #[arg(long, value_name = "FILE", aliases = ["ref-audio", "ref-wav"])]
    pub(crate) reference: Option<PathBuf>,

    /// Recording of the first speaker of a script, for a dialogue model.
    #[arg(long, value_name = "FILE", alias = "prefix-speaker-1", hide_short_help = true)]
    pub(crate) speaker_1: Option<PathBuf>,

    /// Words of --speaker-1 with their times, as JSON of an aligner [default: the recording's name with
    /// .json].
    #[arg(long, value_name = "FILE", hide_short_help = true, requires = "speaker_1")]
    pub(crate) words_1: Option<PathBuf>,

    /// Recording of the second speaker of a script, for a dialogue model.
    #[arg(long, value_name = "FILE", alias = "prefix-speaker-2", hide_short_help = true)]
    #[arg(requires = "speaker_1")]
    pub(crate) speaker_2: Option<PathBuf>,

    /// As --words-1, for --speaker-2.
    #[arg(long, value_name = "FILE", hide_short_help = true, requires = "speaker_2")]
    pub(crate) words_2: Option<PathBuf>,

    /// Codec of Magpie TTS or Dia2 [default: beside the model, or among the models].
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) codec: Option<PathBuf>,

    /// Dictionary of Japanese words, for Magpie TTS: a directory of jpreprocess [default: naist-jdic among
    /// the models].
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) open_jtalk_dict: Option<PathBuf>,

    /// Table of Chinese syllables, for Magpie TTS: a file of pinyin-data or phrase-pinyin-data.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) pinyin: Option<PathBuf>,

    /// Words of the recording; with them the manner of speaking is kept too. @FILE reads a file.
    #[arg(long, value_name = "TEXT", requires = "reference")]
    #[serde(skip)]
    pub(crate) transcript: Option<String>,
}

/// Flags about the draws.
#[derive(Debug, Clone, clap::Args, Serialize)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct Drawing {
    /// Seed of the draws [default: random].
    #[arg(long, value_name = "SEED", value_parser = seed)]
    #[serde(skip)]
    pub(crate) seed: Option<u64>,

    /// Sampling temperature, 0 to 100; for Qwen3-TTS above 0 [default: the model's, usually 0.9].
    #[arg(long, value_name = "NUMBER", value_parser = finite)]
    temperature: Option<f32>,

    /// Number of likeliest codes to draw from, 0 for all [default: the model's, usually 50].
    #[arg(long, value_name = "NUMBER", alias = "topk")]
    top_k: Option<u32>,

    /// Probability mass of the likeliest codes to draw from, 0 to 1 [default: the model's, usually
    /// 1].
    #[arg(long, value_name = "NUMBER", hide_short_help = true, value_parser = finite)]
    top_p: Option<f32>,

    /// Penalty of first codes that were written before, up to 100, 1 for none [default: the
    /// model's, usually 1.05].
    #[arg(long, value_name = "NUMBER", hide_short_help = true, value_parser = finite)]
    repetition_penalty: Option<f32>,

    /// true, or false to take the likeliest first code [default: the model's, usually true].
    #[arg(long, value_name = "BOOL", hide_short_help = true)]
    do_sample: Option<bool>,

    /// As --temperature, for the other codes of a frame.
    #[arg(long, value_name = "NUMBER", hide_short_help = true, value_parser = finite)]
    subtalker_temperature: Option<f32>,

    /// As --top-k, for the other codes of a frame.
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    subtalker_top_k: Option<u32>,

    /// As --top-p, for the other codes of a frame.
    #[arg(long, value_name = "NUMBER", hide_short_help = true, value_parser = finite)]
    subtalker_top_p: Option<f32>,

    /// As --do-sample, for the other codes of a frame.
    #[arg(long, value_name = "BOOL", hide_short_help = true)]
    subtalker_dosample: Option<bool>,

    /// Limit on first codes of a segment: one for each frame of 80 ms, and one for the end [default:
    /// about two seconds, and half a second for each token of the text].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    max_new_tokens: Option<u32>,

    /// true to read the whole text before the first frame, false to read it with the frames [default:
    /// false for a base model, else true].
    #[arg(long, value_name = "BOOL", hide_short_help = true)]
    non_streaming_mode: Option<bool>,

    /// Most tokens of a text that is spoken in one piece; a longer one is cut at sentences [default:
    /// 300].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    max_text_tokens_per_segment: Option<u32>,

    /// Scale of guidance, up to 100, 1 for none, for Dia2 and Magpie TTS [default: 2 for Dia2; the
    /// model's, usually 2.5, for Magpie TTS].
    #[arg(long, value_name = "NUMBER", hide_short_help = true, value_parser = finite)]
    cfg_scale: Option<f32>,

    /// Number of ids that guidance leaves to draw from, 0 for all, for Dia2 [default: 50].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    cfg_filter_k: Option<u32>,

    /// As --temperature, for the text of a dialogue alone [default: 0.6].
    #[arg(long, value_name = "NUMBER", hide_short_help = true, value_parser = finite)]
    text_temperature: Option<f32>,

    /// As --top-k, for the text of a dialogue alone [default: 50].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    text_top_k: Option<u32>,

    /// As --temperature, for the codes of a dialogue alone [default: 0.8].
    #[arg(long, value_name = "NUMBER", hide_short_help = true, value_parser = finite)]
    audio_temperature: Option<f32>,

    /// As --top-k, for the codes of a dialogue alone [default: 50].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    audio_top_k: Option<u32>,

    /// Frames of 80 ms before the first word of a dialogue, up to 1000 [default: 2, or 0 with --voice].
    #[arg(long, value_name = "FRAMES", hide_short_help = true)]
    initial_padding: Option<u32>,

    /// Keep the recordings of the speakers at the beginning of the dialogue.
    #[arg(long, hide_short_help = true)]
    #[serde(skip_serializing_if = "is_off")]
    include_prefix: bool,

    /// Begin the sound of a dialogue earlier: the first frames are decoded before their last codebooks
    /// are known, and sound coarser.
    #[arg(long, hide_short_help = true)]
    #[serde(skip_serializing_if = "is_off")]
    early: bool,

    /// Limit on the steps of a dialogue, of 80 ms each [default: the model's, usually 1500].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    max_steps: Option<u32>,

    /// Limit on the frames of a sentence, for Magpie TTS [default: 500].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    max_decoder_steps: Option<u32>,

    /// Compute all rows again in each step, as the reference of Magpie TTS does: slower.
    #[arg(long, hide_short_help = true)]
    #[serde(skip_serializing_if = "is_off")]
    exact_prior: bool,

    /// Guidance, for Magpie TTS: false to run one row in place of two [default: true].
    #[arg(long, value_name = "BOOL", hide_short_help = true)]
    use_cfg: Option<bool>,

    /// Prior that keeps attention near its place in the text, for Magpie TTS [default: the model's].
    #[arg(long, value_name = "BOOL", hide_short_help = true)]
    apply_attention_prior: Option<bool>,

    /// Weight of text far from the place of attention, above 0, at most 1 [default: the model's, usually 0.1].
    #[arg(long, value_name = "NUMBER", hide_short_help = true, value_parser = finite)]
    attention_prior_epsilon: Option<f32>,

    /// Places of the text that attention may move ahead, up to 1000 [default: the model's, usually 5].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    attention_prior_lookahead_window: Option<u32>,

    /// Steps of a sentence before the prior starts, for Magpie TTS [default: the model's, usually 0].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    start_prior_after_n_audio_steps: Option<u32>,

    /// false to forbid the end before the text is spoken, for Magpie TTS [default: the model's].
    #[arg(long, value_name = "BOOL", hide_short_help = true)]
    ignore_finished_sentence_tracking: Option<bool>,

    /// Rule for the end of speech: `argmax_or_multinomial_any`, `argmax_any`, .. [default: the model's].
    #[arg(long, value_name = "RULE", hide_short_help = true)]
    eos_detection_method: Option<String>,

    /// Frames of a sentence before its end may come, for Magpie TTS [default: the model's, usually 4].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    min_generated_frames: Option<u32>,

    /// false to draw all codes of a step at once, for Magpie TTS [default: true].
    #[arg(long, value_name = "BOOL", hide_short_help = true)]
    use_local_transformer: Option<bool>,

    /// Split texts into tokens as upstream does for a local directory: `iPhone` becomes other tokens,
    /// ordinary prose does not.
    #[arg(long, hide_short_help = true)]
    #[serde(skip_serializing_if = "is_off")]
    fix_mistral_regex: bool,
}

/// Flags about the sound.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// File to write, .wav, .flac, ..; - writes to standard output while the sound is made [default:
    /// speech.wav].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Format of the sound: wav, wav24, wav32, flac, mp3, opus; on standard output wav or pcm
    /// [default: by the file's name].
    #[arg(long, value_name = "FORMAT")]
    pub(crate) audio_format: Option<String>,

    /// Frames per chunk of sound, 1 to 1000, of 80 ms, for Magpie TTS of 46 ms; the first chunk has
    /// one [default: 8].
    ///
    /// Chunks of any size give the same sound. Large ones take less work, small ones come earlier.
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) stream_chunk: Option<u32>,

    /// File for the words with their times, for a dialogue model: .json, .srt or .vtt.
    #[arg(long, value_name = "FILE", conflicts_with = "lines")]
    pub(crate) timestamps: Option<PathBuf>,

    /// Play the sound while it is made, in builds with the feature play; lines one after the other.
    #[arg(long)]
    pub(crate) play: bool,

    #[command(flatten)]
    pub(crate) files: Files,
}

impl Speak {
    /// Returns the files that are read, and must not be written.
    pub(crate) fn inputs(&self) -> Vec<PathBuf> {
        let voice = &self.voice;
        let words = |sound: &Option<PathBuf>, words: &Option<PathBuf>| {
            words.clone().or_else(|| Some(sound.as_ref()?.with_extension("json")))
        };
        let model = self.model.as_ref().map(PathBuf::from).filter(|path| path.is_file());
        let file = |text: &Option<String>| Some(PathBuf::from(text.as_ref()?.strip_prefix('@')?));
        let all = [
            voice.reference.clone(),
            voice.speaker_1.clone(),
            words(&voice.speaker_1, &voice.words_1),
            voice.speaker_2.clone(),
            words(&voice.speaker_2, &voice.words_2),
            voice.codec.clone(),
            voice.pinyin.clone(),
            self.instead.open_jtalk.clone(),
            model,
            file(&self.text),
            file(&self.instead.phonemes),
            file(&voice.instruct),
            file(&voice.transcript),
            settings::loaded().file.clone(),
        ];
        all.into_iter().flatten().collect()
    }

    /// Returns the flags that were given as fields of a request, except the texts that may be files.
    ///
    /// # Errors
    /// A file whose name is not UTF-8 text.
    pub(crate) fn fields(&self) -> Result<Fields, CliError> {
        let mut fields = given(&self.instead)?;
        fields.extend(given(&self.voice)?);
        fields.extend(given(&self.drawing)?);
        Ok(fields)
    }
}
