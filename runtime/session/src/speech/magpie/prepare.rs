//! Magpie TTS as a model of speech.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use acestep_engine::{Engine, Error, Notice, Observe, files, on_engine, texts};
use acestep_import::{Layout, MAGPIE_MODELS, Magpie};
use acestep_model::speech::magpie::Files;
use acestep_music::request::rename;
use acestep_speech::{
    Voices,
    magpie::{
        FIELDS, JapaneseWord, OpenJTalk, Pinyin, Plan, Request, Tokenizers, Tools, USUAL_LANGUAGE,
        tokenizers,
    },
};
use serde_json::Value;

use super::{
    super::{
        Advanced, Fields, Ready, SpeechInput, SpeechModel, check_fields, family::of_family,
        in_line, is_content, taken, text,
    },
    Resident,
};
use crate::{SessionError, texts::unread};

/// The directory with a dictionary of Japanese in a models directory.
const DICTIONARY: &str = "naist-jdic";

/// Finds the model `choice` if it is one of this family, with the codec of the field `codec` and the
/// dictionary of the field `open_jtalk_dict`.
///
/// # Errors
/// [`Error::Checkpoint`]; a field of another type.
pub(in super::super) fn find(
    choice: Option<&str>,
    fields: &mut Fields,
    layout: &Layout,
) -> Option<Result<Speaker, Error>> {
    let choice = choice?;
    let is_one = MAGPIE_MODELS.iter().any(|model| model.is_called(choice))
        || layout.place_called(choice).is_some_and(|place| Magpie::is_at(&place));
    is_one.then(|| {
        let codec = text(fields, "codec")?;
        let given = text(fields, "open_jtalk_dict")?.map(PathBuf::from);
        let model = Magpie::find(Some(choice), codec.as_deref().map(Path::new), layout)
            .map_err(Error::checkpoint)?;
        Ok(Speaker {
            model: Arc::new(model),
            tokenizers: OnceLock::new(),
            dictionary: given.or_else(|| layout.find(DICTIONARY)),
            open_jtalk: OnceLock::new(),
        })
    })
}

/// A model, with the tokenizers of its texts.
pub(in super::super) struct Speaker {
    pub(super) model: Arc<Magpie>,
    tokenizers: OnceLock<Tokenizers>,
    /// The directory with a dictionary of Japanese.
    dictionary: Option<PathBuf>,
    open_jtalk: OnceLock<OpenJTalk>,
}

impl Speaker {
    fn tokenizers(&self) -> Result<&Tokenizers, Error> {
        if let Some(known) = self.tokenizers.get() {
            return Ok(known);
        }
        let read = tokenizers(&*self.model)?;
        Ok(self.tokenizers.get_or_init(|| read))
    }

    /// Returns the analyser of Japanese, if a text in this language needs it and there is a dictionary.
    fn open_jtalk(&self, first: &Request) -> Result<Option<&OpenJTalk>, Error> {
        let tokenizers = self.tokenizers()?;
        let is_japanese = |typed: &str| tokenizers.spelling(typed).eq_ignore_ascii_case("ja");
        let is_needed = first.language.as_deref().is_some_and(is_japanese) && first.is_text();
        let Some(dictionary) = self.dictionary.as_deref().filter(|_| is_needed) else {
            return Ok(None);
        };
        if let Some(known) = self.open_jtalk.get() {
            return Ok(Some(known));
        }
        let read = OpenJTalk::read(dictionary)?;
        Ok(Some(self.open_jtalk.get_or_init(|| read)))
    }

    /// Plans each text.
    ///
    /// # Errors
    /// The errors of [`Plan::new`]; several texts are named by their place.
    pub(super) fn plans(
        &self,
        first: &Request,
        texts: Vec<String>,
        seed: u64,
        pinyin: Option<&Pinyin>,
    ) -> Result<Vec<Plan>, Error> {
        let tokenizers = self.tokenizers()?;
        let tools = Tools { pinyin, open_jtalk: self.open_jtalk(first)? };
        let count = texts.len();
        let plan = |(text, index): (String, u64)| {
            let seed = Some(seed.wrapping_add(index));
            let request = Request { text, seed, ..first.clone() };
            let planned = Plan::new(&request, 0, &*self.model, tokenizers, tools);
            planned.map_err(|error| in_line(error, index as usize, count))
        };
        texts.into_iter().zip(0..).map(plan).collect()
    }
}

/// The fields of a request.
pub(super) struct Read {
    /// The settings of all texts.
    pub(super) first: Request,
    /// The path of a table of pinyin.
    pub(super) pinyin: Option<String>,
    /// The path of a list of Japanese words, if the list itself was not given.
    pub(super) open_jtalk: Option<String>,
}

impl Read {
    /// Returns the settings, with the words of the list.
    ///
    /// # Errors
    /// [`Error::File`]; a file that is no list of words.
    pub(super) fn with_words(self) -> Result<Request, Error> {
        let Self { mut first, open_jtalk, .. } = self;
        if let Some(path) = open_jtalk {
            first.open_jtalk = Some(words(Path::new(&path))?);
        }
        Ok(first)
    }
}

/// Reads the fields of a request.
///
/// # Errors
/// A field that the family does not have, of another type, or with two values under two names.
pub(super) fn read(mut fields: Fields, model: &Speaker) -> Result<Read, Error> {
    let pinyin = text(&mut fields, "pinyin")?;
    let open_jtalk = match fields.get("open_jtalk") {
        Some(list) if is_content(list) => None,
        _ => text(&mut fields, "open_jtalk")?,
    };
    // The name in other families, and of the flag, is `top_k`.
    rename(&mut fields, "topk", "top_k")?;
    check_fields(&fields, &known(), model.takes(), model.name())?;
    rename(&mut fields, "top_k", "topk")?;
    let first = serde_json::from_value(Value::Object(fields))
        .map_err(|error| SessionError::SpeechFields { why: error.to_string() })?;
    Ok(Read { first, pinyin, open_jtalk })
}

/// Returns the names of the fields, as other families spell them.
fn known() -> Vec<&'static str> {
    FIELDS.iter().map(|&field| if field == "topk" { "top_k" } else { field }).collect()
}

impl SpeechModel for Speaker {
    of_family!(|speaker: Speaker| &*speaker.model => Magpie);

    fn notices(&self) -> Vec<Notice> {
        self.model.notices().into_iter().map(Notice).collect()
    }

    fn sample_rate(&self) -> u32 {
        self.model.codec_config().sample_rate as u32
    }

    fn takes(&self) -> Vec<&'static str> {
        taken(&known(), &["ids"], &["pinyin"])
    }

    fn voices(&self) -> Vec<String> {
        let named = self.model.texts().speakers().unwrap_or_default();
        let count = self.model.sizes().context_lengths.len();
        let name = |row: usize| {
            let named = named.iter().find(|(_, own)| *own == row);
            named.map_or_else(|| row.to_string(), |(name, _)| name.clone())
        };
        (0..count).map(name).collect()
    }

    fn languages(&self) -> Vec<String> {
        self.tokenizers().map(Tokenizers::languages).unwrap_or_default()
    }

    fn default_language(&self) -> Option<&'static str> {
        Some(USUAL_LANGUAGE)
    }

    fn check(&self, text: &str, fields: &Fields, _voices: Option<&Voices>) -> Result<(), Error> {
        let Read { first, pinyin, open_jtalk } = read(fields.clone(), self)?;
        match pinyin.or(open_jtalk) {
            // Syllables and words are known when their file is read.
            Some(_) => Ok(()),
            None => self.plans(&first, vec![text.to_owned()], 0, None).map(drop),
        }
    }

    fn warmups(&self, _voices: Option<&Voices>) -> Vec<(String, Fields)> {
        let steps = 2 * self.model.config().frame_stacking_factor;
        let warmup = |language: String| {
            let mut fields = Fields::new();
            fields.insert("max_decoder_steps".to_owned(), steps.into());
            fields.insert("language".to_owned(), language.into());
            fields
        };
        // Not every language is read without more files, and not every one has this letter.
        let text = "a";
        let mut all = self.languages().into_iter().map(warmup);
        let found = all.find(|fields| self.check(text, fields, None).is_ok());
        found.map(|fields| (text.to_owned(), fields)).into_iter().collect()
    }
}

/// Reads a file with a list of words.
fn words(path: &Path) -> Result<Vec<JapaneseWord>, Error> {
    serde_json::from_slice(&files::read(path).map_err(unread(path))?).map_err(|error| {
        let why = format!("`open_jtalk`: {error}");
        SessionError::SpeechFields { why }.into()
    })
}

/// Reads a table of syllables.
pub(super) fn table(path: &Path) -> Result<Pinyin, Error> {
    let bytes = files::read(path).map_err(unread(path))?;
    let bad = |why: String| SessionError::SpeechFields { why: format!("`pinyin`: {why}") };
    let text = texts::decode(&bytes).map_err(|why| bad(why.to_string()))?;
    Ok(Pinyin::read(&text)?)
}
