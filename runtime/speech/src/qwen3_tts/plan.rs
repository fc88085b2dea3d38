//! Everything that a run will do; nothing is optional.

use std::{collections::VecDeque, ops::Deref, sync::Arc};

use acestep_engine::{Error, Notice};
use acestep_model::speech::qwen3_tts::{Config, Files, GenerationConfig, ModelType};

use super::{
    prompt::{Parts, Prompt, rows_of},
    request::Request,
    rules::Rules,
    voice::{RefRecording, Voice},
};
use crate::{error::SpeechError, segments::segments, spoken::StopReason};

/// Most tokens of the segment that all others of a described voice continue: about 15 seconds.
const DESCRIBED: usize = 40;

/// The texts of the segments after one. A copy shares them: a long text has thousands.
#[derive(Debug, Clone)]
pub struct Following {
    texts: Arc<[String]>,
    /// The number of texts before the next one.
    before: usize,
}

impl Following {
    fn of(texts: impl IntoIterator<Item = String>) -> Self {
        Self { texts: texts.into_iter().collect(), before: 0 }
    }

    /// Returns the next text, and those after it.
    fn next(&self) -> Option<(String, Self)> {
        let next = self.first()?.clone();
        Some((next, Self { texts: self.texts.clone(), before: self.before + 1 }))
    }
}

impl Deref for Following {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.texts[self.before..]
    }
}

/// A planned run: the first segment of a text, and the texts that follow.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The text of the segment.
    pub text: String,
    /// The prompt.
    pub prompt: Prompt,
    /// The voice of a recording, or of the first segment.
    pub voice: Option<Voice>,
    /// The sampling settings.
    pub sampling: GenerationConfig,
    /// The seed of the draws.
    pub seed: u64,
    /// Most frames.
    pub most_frames: usize,
    /// The reason of the end after so many frames.
    pub limit: StopReason,
    /// Notices for the user.
    pub notices: Vec<Notice>,
    /// The texts after this one.
    pub following: Following,
    request: Request,
}

/// Checks a request for a model before its networks are read. `has_voice` is true if the voice of a
/// recording follows.
///
/// # Errors
/// The errors of [`Plan::new`], except those about the voice itself and the length of the prompt.
pub fn check_request(request: &Request, has_voice: bool, model: &dyn Files) -> Result<(), Error> {
    Rules::of(request, has_voice, model).map(drop)
}

impl Plan {
    /// Plans `request` for a model; `voice` is the voice of a recording, and `seed` the seed if the
    /// request has none.
    ///
    /// # Errors
    /// An error about a field that the model does not take, that is missing, or that is out of range.
    pub fn new(
        request: &Request,
        voice: Option<Voice>,
        seed: u64,
        model: &dyn Files,
    ) -> Result<Self, Error> {
        let mut rules = Rules::of(request, voice.is_some(), model)?;
        if let Some(voice) = &voice {
            let width = model.config().talker_config.layers.hidden_size;
            voice.check(width, &model.codec_config().decoder_config)?;
        }
        let tokenizer = model.tokenizer().map_err(Error::Checkpoint)?;
        let count = |text: &str| tokenizer.encode(text).len();
        let mut texts: VecDeque<_> = segments(&request.text, rules.segment, &count).into();
        if model.config().tts_model_type == ModelType::VoiceDesign && texts.len() > 1 {
            // The first segment becomes the recording that all others continue.
            let first = texts.pop_front().unwrap_or_default();
            let parts = segments(&first, DESCRIBED, &count);
            parts.into_iter().rev().for_each(|part| texts.push_front(part));
        }
        if texts.len() > 1 {
            let text = format!("the text is spoken in {} segments", texts.len());
            rules.notices.push(Notice(text));
        }
        let text = texts.pop_front().unwrap_or_default();
        let texts = Following::of(texts);
        let seed = request.seed.unwrap_or(seed);
        Self::segment(text, texts, voice, seed, (request, rules), model)
    }

    /// Plans the segment after this one, with the next seed; `None` after the last one. `frames` are
    /// those of this segment.
    ///
    /// A voice that is described in words would be another one in each segment. So the following
    /// segments continue the sound of the first one, as they would a recording.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn next(&self, frames: &[Vec<u32>], model: &dyn Files) -> Result<Option<Self>, Error> {
        let Some((text, following)) = self.following.next() else { return Ok(None) };
        let is_described = model.config().tts_model_type == ModelType::VoiceDesign;
        let voice = match &self.voice {
            None if is_described && !frames.is_empty() => {
                let context =
                    RefRecording { transcript: self.text.clone(), frames: frames.to_vec() };
                Some(Voice { speaker: Vec::new(), context: Some(context) })
            }
            voice => voice.clone(),
        };
        let request = &self.request;
        let has_recording = voice.as_ref().is_some_and(|voice| !voice.speaker.is_empty());
        let rules = Rules { notices: Vec::new(), ..Rules::of(request, has_recording, model)? };
        let seed = self.seed.wrapping_add(1);
        Self::segment(text, following, voice, seed, (request, rules), model).map(Some)
    }

    /// Returns the most prompt rows and frames of this segment or of one after it.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn most_positions(&self, model: &dyn Files) -> Result<usize, Error> {
        let config = model.config();
        let tokenizer = model.tokenizer().map_err(Error::Checkpoint)?;
        let positions = |plan: &Self| plan.prompt.rows.len() + plan.most_frames;
        // The others may continue the sound of the first one, which is rarely longer than usual.
        let frames = self.most_frames.min(usual_frames(DESCRIBED));
        let frames = vec![vec![0; config.talker_config.num_code_groups]; frames];
        let Some(next) = self.next(&frames, model)? else { return Ok(positions(self)) };
        // Prompts after it differ only in the text. A plan for each of thousands is not needed.
        let is_whole = is_before_frames(&next.request, config);
        let rows = |text: &str| if is_whole { rows_of(text, tokenizer) } else { 0 };
        let others = next.prompt.rows.len() - rows(&next.text);
        let mut most = positions(self).max(positions(&next));
        for text in next.following.iter() {
            let rows = others + rows(text);
            let tokens = tokenizer.encode(text).len();
            let (frames, _) = most_frames(&next.request, &next.sampling, [tokens, rows], config)?;
            most = most.max(rows + frames);
        }
        Ok(most)
    }

    fn segment(
        text: String,
        following: Following,
        voice: Option<Voice>,
        seed: u64,
        (request, rules): (&Request, Rules),
        model: &dyn Files,
    ) -> Result<Self, Error> {
        let config = model.config();
        let context = voice.as_ref().and_then(|voice| voice.context.as_ref());
        let parts = Parts {
            text: &text,
            instruct: &rules.instruct,
            language: rules.language,
            speaker: rules.speaker,
            reference: context.map(|context| (&*context.transcript, context.frames.len())),
            non_streaming_mode: is_before_frames(request, config),
        };
        let tokenizer = model.tokenizer().map_err(Error::Checkpoint)?;
        let prompt = Prompt::new(&parts, config, tokenizer);
        let sizes = [tokenizer.encode(&text).len(), prompt.rows.len()];
        let (most_frames, limit) = most_frames(request, &rules.sampling, sizes, config)?;
        Ok(Self {
            text,
            prompt,
            voice,
            sampling: rules.sampling,
            seed,
            most_frames,
            limit,
            notices: rules.notices,
            following,
            request: Request { text: String::new(), ..request.clone() },
        })
    }
}

/// True if the text stands before the first frame. Upstream's default: clones get streamed text.
fn is_before_frames(request: &Request, config: &Config) -> bool {
    request.non_streaming_mode.unwrap_or(config.tts_model_type != ModelType::Base)
}

/// Returns the most frames of a text of `tokens` after a prompt of `rows`, and the reason of an end there.
fn most_frames(
    request: &Request,
    sampling: &GenerationConfig,
    [tokens, rows]: [usize; 2],
    config: &Config,
) -> Result<(usize, StopReason), Error> {
    let positions = config.talker_config.max_position_embeddings;
    let most = positions.saturating_sub(rows);
    if most == 0 {
        return Err(SpeechError::TooLong { tokens: rows, most: positions }.into());
    }
    // The last first code of the limit gets no frame.
    let own = request.sampling.max_new_tokens.map(|tokens| tokens as usize - 1);
    let limit = own.unwrap_or_else(|| usual_frames(tokens).min(sampling.max_new_tokens - 1));
    Ok(match most < limit {
        true => (most, StopReason::Context { field: "max_position_embeddings" }),
        false => (limit, StopReason::Limit { field: "max_new_tokens" }),
    })
}

/// Returns a generous number of frames for a text: the models sometimes do not end by themselves.
/// Two seconds, and half a second for each token.
fn usual_frames(tokens: usize) -> usize {
    (25 * (4 + tokens)).div_ceil(4)
}
