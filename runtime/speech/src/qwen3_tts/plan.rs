//! Everything that a run will do; nothing is optional.

use std::collections::VecDeque;

use acestep_engine::{Error, Notice, check, nearest};
use acestep_model::speech::qwen3_tts::{Files, GenerationConfig, ModelType};

use super::{
    prompt::{Parts, Prompt, SpeakerRow},
    request::{Request, Sampling},
    voice::{Context, Voice},
};
use crate::{error::SpeechError, segments::segments};

/// Most rows of a prompt, with its frames; upstream's `max_position_embeddings`.
const MOST_POSITIONS: usize = 32_768;
/// Fewest tokens that a segment may be limited to.
const LEAST_SEGMENT: u32 = 10;

/// Most tokens of a segment if the request has no limit: about two minutes of speech.
const USUAL_SEGMENT: usize = 300;

/// Most tokens of the segment that all others of a described voice continue: about 15 seconds.
const DESCRIBED: usize = 40;

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
    /// Notices for the user.
    pub notices: Vec<Notice>,
    /// The texts after this one.
    pub following: VecDeque<String>,
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
        let seed = request.seed.unwrap_or(seed);
        Self::segment(text, texts, voice, seed, (request, rules), model)
    }

    /// Plans the segment after this one, with the next seed; `None` after the last one. `frames` are
    /// those of this segment.
    ///
    /// A voice that is described in words would be another one in each segment. So the following
    /// segments continue the sound of the first one, as that of a recording.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn next(&self, frames: &[Vec<u32>], model: &dyn Files) -> Result<Option<Self>, Error> {
        let mut following = self.following.clone();
        let Some(text) = following.pop_front() else { return Ok(None) };
        let is_described = model.config().tts_model_type == ModelType::VoiceDesign;
        let voice = match &self.voice {
            None if is_described && !frames.is_empty() => {
                let context = Context { transcript: self.text.clone(), frames: frames.to_vec() };
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

    fn segment(
        text: String,
        following: VecDeque<String>,
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
            // Upstream's defaults: clones get streamed text.
            non_streaming_mode: request
                .non_streaming_mode
                .unwrap_or(config.tts_model_type != ModelType::Base),
        };
        let tokenizer = model.tokenizer().map_err(Error::Checkpoint)?;
        let prompt = Prompt::new(&parts, config, tokenizer);
        let most = MOST_POSITIONS.saturating_sub(prompt.rows.len());
        if most == 0 {
            let (tokens, most) = (prompt.rows.len(), MOST_POSITIONS);
            return Err(SpeechError::TooLong { tokens, most }.into());
        }
        // The last first code of the limit gets no frame.
        let own = request.sampling.max_new_tokens.map(|tokens| tokens as usize - 1);
        let usual = usual_frames(tokenizer.encode(&text).len());
        let limit = own.unwrap_or_else(|| usual.min(rules.sampling.max_new_tokens - 1));
        Ok(Self {
            text,
            prompt,
            voice,
            sampling: rules.sampling,
            seed,
            most_frames: limit.min(most),
            notices: rules.notices,
            following,
            request: Request { text: String::new(), ..request.clone() },
        })
    }
}

/// A request's settings for a model.
struct Rules {
    sampling: GenerationConfig,
    speaker: SpeakerRow,
    instruct: String,
    language: Option<u32>,
    /// Most tokens of a segment.
    segment: usize,
    notices: Vec<Notice>,
}

impl Rules {
    fn of(request: &Request, has_voice: bool, model: &dyn Files) -> Result<Self, Error> {
        let mut notices = Vec::new();
        check::text("text", &request.text)?;
        let segment = match request.max_text_tokens_per_segment {
            None => USUAL_SEGMENT,
            Some(most) => {
                let field = "max_text_tokens_per_segment";
                check::whole(field, most.into(), LEAST_SEGMENT, MOST_POSITIONS as u32)? as usize
            }
        };
        let sampling = sampling(&request.sampling, model.generation_config())?;
        let speaker = speaker(request, has_voice, model, &mut notices)?;
        let instruct = instruct(request, model, &mut notices)?;
        check::text("instruct", &instruct)?;
        let language = language(request, model)?;
        Ok(Self { sampling, speaker, instruct, language, segment, notices })
    }
}

/// Returns a generous number of frames for a text: the models sometimes do not end by themselves.
/// Two seconds, and half a second for each token.
fn usual_frames(tokens: usize) -> usize {
    (25 * (4 + tokens)).div_ceil(4)
}

fn sampling(own: &Sampling, checkpoint: &GenerationConfig) -> Result<GenerationConfig, Error> {
    let mut sampling = checkpoint.clone();
    for (to, field, from) in [
        (&mut sampling.temperature, "temperature", own.temperature),
        (&mut sampling.subtalker_temperature, "subtalker_temperature", own.subtalker_temperature),
        (&mut sampling.repetition_penalty, "repetition_penalty", own.repetition_penalty),
    ] {
        if let Some(value) = from {
            check::above(field, value.into(), 0.0, 100.0)?;
            *to = value;
        }
    }
    for (to, field, from) in [
        (&mut sampling.top_p, "top_p", own.top_p),
        (&mut sampling.subtalker_top_p, "subtalker_top_p", own.subtalker_top_p),
    ] {
        *to = from.map_or(Ok(*to), |p| mass(field, p))?;
    }
    if let Some(k) = own.top_k {
        sampling.top_k = k as usize;
    }
    if let Some(k) = own.subtalker_top_k {
        sampling.subtalker_top_k = k as usize;
    }
    sampling.do_sample = own.do_sample.unwrap_or(sampling.do_sample);
    sampling.subtalker_dosample = own.subtalker_dosample.unwrap_or(sampling.subtalker_dosample);
    if let Some(tokens) = own.max_new_tokens {
        sampling.max_new_tokens =
            check::whole("max_new_tokens", tokens.into(), 2, MOST_POSITIONS as u32)? as usize;
    }
    Ok(sampling)
}

/// Checks a probability mass. As in upstream, more than 1 is as 1.
fn mass(field: &'static str, p: f32) -> Result<f32, Error> {
    if p >= 0.0 {
        return Ok(p.min(1.0));
    }
    let range = "from 0 to 1, or more for no limit".to_owned();
    Err(Error::OutOfRange { field, value: p.to_string(), range })
}

/// Returns a noun phrase for messages.
fn kind(model_type: ModelType) -> &'static str {
    match model_type {
        ModelType::Base => "a base model, which speaks with the voice of a recording",
        ModelType::CustomVoice => "a model of named speakers",
        ModelType::VoiceDesign => "a model whose voice is described in words",
    }
}

fn not_for(field: &'static str, model: &dyn Files) -> Error {
    let kind = kind(model.config().tts_model_type);
    SpeechError::NotForThisModel { model: model.name().to_owned(), field, kind }.into()
}

fn speaker(
    request: &Request,
    has_voice: bool,
    model: &dyn Files,
    notices: &mut Vec<Notice>,
) -> Result<SpeakerRow, Error> {
    let talker = &model.config().talker_config;
    match (model.config().tts_model_type, has_voice) {
        (ModelType::Base, _) if request.voice.is_some() => Err(not_for("voice", model)),
        (ModelType::Base, true) => Ok(SpeakerRow::Vector),
        (ModelType::Base, false) => {
            Err(SpeechError::NoVoice { model: model.name().to_owned() }.into())
        }
        (_, true) => Err(not_for("reference", model)),
        (ModelType::VoiceDesign, false) => match &request.voice {
            Some(_) => Err(not_for("voice", model)),
            None => Ok(SpeakerRow::None),
        },
        (ModelType::CustomVoice, false) => match &request.voice {
            // As upstream: an empty name leaves the row out.
            Some(name) if name.is_empty() => Ok(SpeakerRow::None),
            Some(name) => named(name, "voice", &talker.spk_id).map(SpeakerRow::Id),
            None => {
                let Some((name, &id)) = talker.spk_id.iter().next() else {
                    return Ok(SpeakerRow::None);
                };
                notices.push(Notice(format!("no `voice` was given: {name} speaks")));
                Ok(SpeakerRow::Id(id))
            }
        },
    }
}

/// Returns the id of `name`, in any case.
fn named(
    name: &str,
    field: &'static str,
    ids: &std::collections::BTreeMap<String, u32>,
) -> Result<u32, Error> {
    let lower = name.to_lowercase();
    ids.get(&lower).copied().ok_or_else(|| {
        let names: Vec<&str> = ids.keys().map(String::as_str).collect();
        Error::BadValue {
            field,
            value: name.to_owned(),
            why: format!("use {}", check::one_of(&names)),
            near: nearest(&lower, names.iter().copied()).map(str::to_owned),
        }
    })
}

fn instruct(
    request: &Request,
    model: &dyn Files,
    notices: &mut Vec<Notice>,
) -> Result<String, Error> {
    let config = model.config();
    let text = request.instruct.clone().unwrap_or_default();
    match config.tts_model_type {
        ModelType::Base if !text.is_empty() => Err(not_for("instruct", model)),
        // Upstream drops it there, because this size was not trained with instructions.
        ModelType::CustomVoice if !text.is_empty() && config.tts_model_size == "0b6" => {
            let name = model.name();
            notices.push(Notice(format!("`instruct` has no effect: `{name}` follows none")));
            Ok(String::new())
        }
        _ => Ok(text),
    }
}

/// Returns the codec id of the language. A speaker of a dialect speaks it in Chinese, and if no
/// language is given.
fn language(request: &Request, model: &dyn Files) -> Result<Option<u32>, Error> {
    let talker = &model.config().talker_config;
    let name = request.language.as_deref().unwrap_or("auto").to_lowercase();
    let speaker = request.voice.as_deref().unwrap_or_default().to_lowercase();
    if ["auto", "chinese"].contains(&&*name)
        && let Some(dialect) = talker.dialect_of(&speaker)
    {
        return Ok(talker.codec_language_id.get(dialect).copied());
    }
    if name == "auto" {
        return Ok(None);
    }
    let is_language = |name: &&String| !name.ends_with("_dialect");
    let languages = talker.codec_language_id.iter().filter(|(name, _)| is_language(name));
    let languages = languages.map(|(name, &id)| (name.clone(), id)).collect();
    named(&name, "language", &languages).map(Some)
}
