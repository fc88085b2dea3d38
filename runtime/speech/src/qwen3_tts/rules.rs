//! A request's settings, checked and completed for a model.

use std::iter;

use acestep_engine::{Error, Notice, check, nearest};
use acestep_model::speech::qwen3_tts::{Config, Files, GenerationConfig, ModelType};

use super::{
    prompt::SpeakerRow,
    request::{Request, Sampling},
};
use crate::{error::SpeechError, languages};

/// Fewest tokens that a segment may be limited to.
const LEAST_SEGMENT: u32 = 10;

/// Bound of temperatures and penalties. Scores divided by less can be infinite.
const LEAST_DIVISOR: f64 = 1e-6;

/// Most tokens of a segment if the request has no limit: about two minutes of speech.
const USUAL_SEGMENT: usize = 300;

/// A request's settings for a model.
pub(super) struct Rules {
    pub(super) sampling: GenerationConfig,
    pub(super) speaker: SpeakerRow,
    pub(super) instruct: String,
    pub(super) language: Option<u32>,
    /// Most tokens of a segment.
    pub(super) segment: usize,
    pub(super) notices: Vec<Notice>,
}

impl Rules {
    /// Checks a request for a model; `has_voice` is true if the voice of a recording follows.
    pub(super) fn of(request: &Request, has_voice: bool, model: &dyn Files) -> Result<Self, Error> {
        let mut notices = Vec::new();
        let positions = model.config().talker_config.max_position_embeddings as u32;
        check::text("text", &request.text)?;
        let segment = match request.max_text_tokens_per_segment {
            None => USUAL_SEGMENT,
            Some(most) => {
                let field = "max_text_tokens_per_segment";
                check::whole(field, most.into(), LEAST_SEGMENT, positions)? as usize
            }
        };
        let sampling = sampling(&request.sampling, model.generation_config(), positions)?;
        let speaker = speaker(request, has_voice, model, &mut notices)?;
        let instruct = instruct(request, model, &mut notices)?;
        check::text("instruct", &instruct)?;
        let language = language(request, model.config())?;
        Ok(Self { sampling, speaker, instruct, language, segment, notices })
    }
}

fn sampling(
    own: &Sampling,
    checkpoint: &GenerationConfig,
    most_tokens: u32,
) -> Result<GenerationConfig, Error> {
    let mut sampling = checkpoint.clone();
    for (to, field, from) in [
        (&mut sampling.temperature, "temperature", own.temperature),
        (&mut sampling.subtalker_temperature, "subtalker_temperature", own.subtalker_temperature),
        (&mut sampling.repetition_penalty, "repetition_penalty", own.repetition_penalty),
    ] {
        if let Some(value) = from {
            check::above(field, value.into(), LEAST_DIVISOR, 100.0)?;
            *to = value;
        }
    }
    for (to, field, from) in [
        (&mut sampling.top_p, "top_p", own.top_p),
        (&mut sampling.subtalker_top_p, "subtalker_top_p", own.subtalker_top_p),
    ] {
        *to = from.map_or(Ok(*to), |p| mass(field, p))?;
    }
    sampling.top_k = own.top_k.map_or(sampling.top_k, |k| k as usize);
    let k = own.subtalker_top_k;
    sampling.subtalker_top_k = k.map_or(sampling.subtalker_top_k, |k| k as usize);
    sampling.do_sample = own.do_sample.unwrap_or(sampling.do_sample);
    sampling.subtalker_dosample = own.subtalker_dosample.unwrap_or(sampling.subtalker_dosample);
    if let Some(tokens) = own.max_new_tokens {
        sampling.max_new_tokens =
            check::whole("max_new_tokens", tokens.into(), 2, most_tokens)? as usize;
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
            Some(name) => {
                let known = talker.spk_id.keys().map(String::as_str);
                named(name, "voice", talker.speaker(name), known).map(SpeakerRow::Id)
            }
            None => {
                let Some((name, &id)) = talker.spk_id.first_key_value() else {
                    return Ok(SpeakerRow::None);
                };
                notices.push(Notice(format!("no `voice` was given: {name} speaks")));
                Ok(SpeakerRow::Id(id))
            }
        },
    }
}

/// Returns the `id` of `name`; without one, an error with the `known` names.
fn named<'a>(
    name: &str,
    field: &'static str,
    id: Option<u32>,
    known: impl Iterator<Item = &'a str>,
) -> Result<u32, Error> {
    id.ok_or_else(|| {
        let known: Vec<&str> = known.collect();
        Error::BadValue {
            field,
            value: name.to_owned(),
            why: format!("use {}", check::one_of(&known)),
            near: nearest(name, known.iter().copied()).map(str::to_owned),
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

/// Returns the language of a model that `typed` means: its name in any case, or its code, `de` or `zh-CN`.
pub fn language_of<'a>(typed: &str, config: &'a Config) -> Option<&'a str> {
    let known: Vec<&'a str> = config.talker_config.languages().map(|(own, _)| own).collect();
    languages::meant(typed, &known)
}

/// Returns the codec id of the language. A speaker of a dialect speaks the dialect in Chinese, and if no
/// language is given. Without a voice the first speaker speaks, who may have a dialect.
fn language(request: &Request, config: &Config) -> Result<Option<u32>, Error> {
    let talker = &config.talker_config;
    let typed = request.language.as_deref().unwrap_or("auto");
    let name = language_of(typed, config).unwrap_or(typed).to_lowercase();
    let is_named = config.tts_model_type == ModelType::CustomVoice;
    let first = talker.spk_id.keys().next().filter(|_| is_named);
    let speaker = request.voice.as_ref().or(first);
    if ["auto", "chinese"].contains(&&*name)
        && let Some(dialect) = speaker.and_then(|speaker| talker.dialect_of(speaker))
    {
        return Ok(talker.codec_language_id.get(dialect).copied());
    }
    if name == "auto" {
        return Ok(None);
    }
    let id = talker.languages().find(|(own, _)| own.to_lowercase() == name).map(|(_, id)| id);
    let known = iter::once("auto").chain(talker.languages().map(|(own, _)| own));
    named(typed, "language", id, known).map(Some)
}

#[cfg(test)]
mod tests {
    use acestep_import::{Layout, Qwen3Tts, TINY_SPEECH};

    use super::*;

    /// The first of all speakers has no dialect. The dialect of this one is 90, English 66.
    #[test]
    fn a_first_speaker_who_is_not_named_speaks_its_dialect() {
        let model = Qwen3Tts::find(Some(TINY_SPEECH), &Layout::new([]));
        let mut config = model.expect("it is part of the program").config().clone();
        config.talker_config.spk_id.retain(|name, _| ["dylan", "ryan"].contains(&&**name));
        let of = |voice: Option<&str>, name: &str| {
            let (voice, name) = (voice.map(str::to_owned), Some(name.to_owned()));
            let request = Request { voice, language: name, ..Request::default() };
            language(&request, &config).expect("a language")
        };
        assert_eq!(["Auto", "Chinese", "zh-CN"].map(|name| of(None, name)), [Some(90); 3]);
        assert_eq!(["english", "EN", "en-US"].map(|name| of(None, name)), [Some(66); 3]);
        assert_eq!([of(Some("Ryan"), "auto"), of(Some(""), "auto")], [None; 2]);
        let talker = &mut config.talker_config;
        // Fine-tuned.
        talker.spk_id = [("Anna".to_owned(), 3)].into();
        talker.spk_is_dialect = [("Anna".to_owned(), "beijing_dialect".into())].into();
        for name in ["Anna", "anna", "ANNA"] {
            assert_eq!(talker.speaker(name), Some(3), "{name}");
            assert_eq!(talker.dialect_of(name), Some("beijing_dialect"), "{name}");
        }
    }
}
