//! The prompt of the talker: rows of a text token and a codec vector.
//!
//! Every text is tokenised as a whole, with its template, and then cut by counts: a text that starts
//! with a line break merges it with the one of the template, as in the reference.
//!
//! Source: upstream `Qwen3TTSForConditionalGeneration.generate` and `Qwen3TTSModel`.

use acestep_model::{
    Tokenizer,
    speech::qwen3_tts::{Config, TalkerConfig},
};
use serde::{Deserialize, Serialize};

// ANCHOR: rows
/// The codec side of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Codec {
    /// An id of the codec table.
    Id(u32),
    /// The speaker vector.
    Speaker,
    /// The summed codes of a frame of the reference.
    Frame(usize),
}

/// A row of the prompt: the sum of a text token's vector and a codec vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The text token.
    pub text: Option<u32>,
    /// The codec vector.
    pub codec: Option<Codec>,
}
// ANCHOR_END: rows

/// The prompt, and the text that is added to the frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The rows.
    pub rows: Vec<Row>,
    /// The text token that is added to frame 0, 1 and so on; after them, that for no text.
    pub trailing: Vec<u32>,
    /// Number of first rows that do not depend on the text to speak; less than all.
    pub shared: usize,
}

/// The content of the speaker's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeakerRow {
    /// There is no such row.
    None,
    /// A named speaker, by its id of the codec table.
    Id(u32),
    /// A speaker vector.
    Vector,
}

/// The parts of a prompt.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The text to speak.
    pub text: &'a str,
    /// The manner of speaking, or the voice in words; empty for no instruction.
    pub instruct: &'a str,
    /// Codec id of the language, or `None` for any.
    pub language: Option<u32>,
    /// The speaker's row.
    pub speaker: SpeakerRow,
    /// The transcript of the reference and its number of frames.
    pub reference: Option<(&'a str, usize)>,
    /// True if the whole text stands before the first frame, false if it is added to the frames.
    pub non_streaming_mode: bool,
}

/// Text tokens before the text: `<|im_start|>assistant` and a line break.
const ROLE: usize = 3;
/// Text tokens after the text.
const AFTER_TEXT: usize = 5;
/// Text tokens after the transcript.
const AFTER_TRANSCRIPT: usize = 2;

impl Prompt {
    /// Builds the prompt of `parts`.
    pub fn new(parts: &Parts<'_>, config: &Config, tokenizer: &dyn Tokenizer) -> Self {
        let talker = &config.talker_config;
        let text = parts.text;
        let ids = encode(text, tokenizer);
        let body = inner(&ids, ROLE, AFTER_TEXT);
        let mut rows = Vec::new();
        if !parts.instruct.is_empty() {
            let instruct = parts.instruct;
            let ids = tokenizer.encode(&format!("<|im_start|>user\n{instruct}<|im_end|>\n"));
            rows.extend(ids.into_iter().map(text_row));
        }
        rows.extend(ids.iter().take(ROLE).copied().map(text_row));
        let codec = head(parts, talker);
        let last = codec.len() - 1;
        let text = |index: usize| match index == last {
            true => config.tts_bos_token_id,
            false => config.tts_pad_token_id,
        };
        rows.extend(codec.into_iter().enumerate().map(|(index, codec)| row(text(index), codec)));
        let mut shared = rows.len();
        let (pad, bos) = (Codec::Id(talker.codec_pad_id), Codec::Id(talker.codec_bos_id));
        let no_text = config.tts_pad_token_id;
        let trailing = match parts.reference {
            Some((transcript, frames)) => {
                let ids =
                    tokenizer.encode(&format!("<|im_start|>assistant\n{transcript}<|im_end|>\n"));
                let transcript = inner(&ids, ROLE, AFTER_TRANSCRIPT);
                let end = [config.tts_eos_token_id];
                let words = [transcript, body, &end].concat();
                let sound: Vec<_> =
                    [bos].into_iter().chain((0..frames).map(Codec::Frame)).collect();
                shared += match parts.non_streaming_mode {
                    true => transcript.len(),
                    false => transcript.len().min(sound.len() - 1),
                };
                if parts.non_streaming_mode {
                    rows.extend(words.iter().map(|&word| row(word, pad)));
                    rows.extend(sound.iter().map(|&codec| row(no_text, codec)));
                    vec![no_text]
                } else {
                    let word = |index: usize| words.get(index).copied().unwrap_or(no_text);
                    let both = sound.iter().enumerate();
                    rows.extend(both.map(|(index, &codec)| row(word(index), codec)));
                    match words.get(sound.len()..) {
                        Some([]) | None => vec![no_text],
                        Some(rest) => rest.to_vec(),
                    }
                }
            }
            None if parts.non_streaming_mode => {
                let words = body.iter().chain([&config.tts_eos_token_id]);
                rows.extend(words.map(|&word| row(word, pad)));
                rows.push(row(no_text, bos));
                vec![no_text]
            }
            None => {
                // As in the reference, the first token is taken even if the text is empty.
                rows.extend(ids.get(ROLE).map(|&word| row(word, bos)));
                let rest = inner(&ids, ROLE + 1, AFTER_TEXT);
                [rest, &[config.tts_eos_token_id]].concat()
            }
        };
        Self { rows, trailing, shared }
    }
}

/// Returns the number of rows that `text` takes if it stands before the first frame.
pub(super) fn rows_of(text: &str, tokenizer: &dyn Tokenizer) -> usize {
    inner(&encode(text, tokenizer), ROLE, AFTER_TEXT).len()
}

/// Returns the tokens of `text` with its template.
fn encode(text: &str, tokenizer: &dyn Tokenizer) -> Vec<u32> {
    tokenizer.encode(&format!("<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n"))
}

/// Returns the codec side from the language to the mark before the text.
fn head(parts: &Parts<'_>, talker: &TalkerConfig) -> Vec<Codec> {
    let (begin, end) = (talker.codec_think_bos_id, talker.codec_think_eos_id);
    let mut ids = match parts.language {
        Some(language) => vec![talker.codec_think_id, begin, language, end],
        None => vec![talker.codec_nothink_id, begin, end],
    }
    .into_iter()
    .map(Codec::Id)
    .collect::<Vec<_>>();
    ids.extend(match parts.speaker {
        SpeakerRow::None => None,
        SpeakerRow::Id(id) => Some(Codec::Id(id)),
        SpeakerRow::Vector => Some(Codec::Speaker),
    });
    ids.push(Codec::Id(talker.codec_pad_id));
    ids
}

/// Returns `ids` without the first `before` and the last `after`.
fn inner(ids: &[u32], before: usize, after: usize) -> &[u32] {
    ids.get(before..ids.len().saturating_sub(after)).unwrap_or_default()
}

fn text_row(id: u32) -> Row {
    Row { text: Some(id), codec: None }
}

fn row(text: u32, codec: Codec) -> Row {
    Row { text: Some(text), codec: Some(codec) }
}
