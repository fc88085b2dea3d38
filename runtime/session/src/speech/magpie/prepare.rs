//! Magpie TTS as a model of speech.

use std::{fs, path::Path};

use acestep_engine::{Action, Engine, Error, Notice, Observe, texts};
use acestep_import::{Layout, MAGPIE_MODELS, Magpie};
use acestep_model::speech::magpie::Files;
use acestep_speech::{
    Options,
    magpie::{FIELDS, Pinyin, Plan, Request, Word},
};
use serde_json::{Value, json};

use super::{
    super::{Fields, Prepared, Sink, SpeechModel, Wanted, check_fields, text},
    check_memory, plans, speak,
};
use crate::SessionError;

/// Opens the model `choice` if it is one of this family, with the codec of the field `codec`.
///
/// # Errors
/// [`Error::Checkpoint`]; a field of another type.
pub(in super::super) fn open(
    choice: Option<&str>,
    fields: &mut Fields,
    layout: &Layout,
) -> Option<Result<Box<dyn SpeechModel>, Error>> {
    let choice = choice?;
    let is_name = |name: &str| name.eq_ignore_ascii_case(choice);
    let mut models = MAGPIE_MODELS.iter();
    let is_one = models.any(|model| is_name(model.name) || is_name(model.directory))
        || Magpie::is_at(Path::new(choice));
    is_one.then(|| {
        let codec = text(fields, "codec")?;
        let model = Magpie::find(Some(choice), codec.as_deref().map(Path::new), layout)
            .map_err(Error::checkpoint)?;
        Ok(Box::new(model) as Box<dyn SpeechModel>)
    })
}

impl SpeechModel for Magpie {
    fn name(&self) -> &str {
        Files::name(self)
    }

    fn notices(&self) -> Vec<Notice> {
        Self::notices(self).into_iter().map(Notice).collect()
    }

    fn sample_rate(&self) -> u32 {
        self.codec_config().sample_rate as u32
    }

    fn at_once(&self, _engine: Engine) -> usize {
        1
    }

    fn prepare(
        &self,
        wanted: Wanted<'_>,
        _notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn Prepared + '_>, Error> {
        let Wanted { texts, mut fields, seed, lines, .. } = wanted;
        let pinyin = text(&mut fields, "pinyin")?;
        let pinyin = pinyin.map(|path| table(Path::new(&path))).transpose()?;
        if let Some(path) = text(&mut fields, "open_jtalk")? {
            fields.insert("open_jtalk".to_owned(), words(Path::new(&path))?);
        }
        // The name in other families, and of the flag, is `top_k`.
        let known: Vec<_> =
            FIELDS.iter().map(|&field| if field == "topk" { "top_k" } else { field }).collect();
        if let Some(topk) = fields.remove("topk") {
            fields.entry("top_k").or_insert(topk);
        }
        check_fields(&fields, &known, SpeechModel::name(self))?;
        if let Some(top_k) = fields.remove("top_k") {
            fields.insert("topk".to_owned(), top_k);
        }
        let first: Request = serde_json::from_value(Value::Object(fields))
            .map_err(|error| SessionError::SpeechFields { why: error.to_string() })?;
        let request = |(text, index): (String, u64)| Request {
            text,
            seed: Some(seed.wrapping_add(index)),
            ..first.clone()
        };
        let requests: Vec<Request> = texts.into_iter().zip(0..).map(request).collect();
        let plans =
            plans(&requests, self, pinyin.as_ref()).map_err(|(index, error)| {
                match requests.len() {
                    1 => error,
                    _ => SessionError::Line { line: index + 1, error: Box::new(error) }.into(),
                }
            })?;
        Ok(Box::new(Planned { model: self, plans, lines }))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::File {
        action: Action::Read,
        path: path.to_owned(),
        source,
    })
}

/// Reads a file with a list of words.
fn words(path: &Path) -> Result<Value, Error> {
    let bytes = read(path)?;
    let words: Vec<Word> = serde_json::from_slice(&bytes).map_err(|error| {
        let why = format!("`open_jtalk`: {error}");
        SessionError::SpeechFields { why }
    })?;
    Ok(json!(words))
}

fn table(path: &Path) -> Result<Pinyin, Error> {
    let bytes = read(path)?;
    let bad = |why: String| SessionError::SpeechFields { why: format!("`pinyin`: {why}") };
    let text = texts::decode(&bytes).map_err(|why| bad(why.to_string()))?;
    Ok(Pinyin::read(&text)?)
}

/// Planned texts for a model.
struct Planned<'a> {
    model: &'a Magpie,
    plans: Vec<Plan>,
    lines: bool,
}

impl Prepared for Planned<'_> {
    fn check_memory(&self, engine: Engine, options: Options) -> Result<(), Error> {
        check_memory(&self.plans, self.model, engine, options)
    }

    fn speak(
        &self,
        engine: Engine,
        options: Options,
        observe: &dyn Observe,
        sink: &mut dyn Sink,
    ) -> Result<Vec<Notice>, Error> {
        speak(self.plans.clone(), self.model, engine, (options, self.lines), observe, sink)
    }
}
