//! The ids of a request: of its text, its phonemes, the words of an analyser, or its ids themselves.

use acestep_engine::{Error, Notice, check};

use super::{
    MagpieError,
    error::listed,
    request::Request,
    sentences::{chunks, units},
    text::{Encoded, MOST_DROPPED, Tokenizers, Tools},
};

/// The chunks of a request.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// The text of each; the phonemes if they were given, and nothing for ids.
    pub(super) texts: Vec<String>,
    /// The ids of each, with their end.
    pub(super) chunks: Vec<Vec<u32>>,
    /// Symbols that are left out, each once.
    dropped: Vec<String>,
}

impl Words {
    /// Reads what a request says. Phonemes, words and ids are one chunk, however long.
    pub(super) fn read(
        request: &Request,
        language: &str,
        tokenizers: &Tokenizers,
        tools: Tools<'_>,
    ) -> Result<Self, Error> {
        let given = [
            ("text", !request.text.is_empty()),
            ("phonemes", request.phonemes.is_some()),
            ("open_jtalk", request.open_jtalk.is_some()),
            ("ids", request.ids.is_some()),
        ];
        let given: Vec<_> = given.iter().filter(|(_, is_given)| *is_given).collect();
        if let [(first, _), (second, _), ..] = given[..] {
            let why = format!("`{second}` stands in place of the {first}: leave one out");
            return Err(Error::Conflict(why));
        }
        check::text("text", &request.text)?;
        check::text("phonemes", request.phonemes.as_deref().unwrap_or_default())?;
        let mut words = Self::default();
        if let Some(ids) = &request.ids {
            let least_unknown = tokenizers.end() - 1;
            if let Some(id) = ids.iter().find(|id| **id >= least_unknown) {
                let (field, value) = ("ids", id.to_string());
                let range = format!("0 to {}", least_unknown - 1);
                return Err(Error::OutOfRange { field, value, range });
            }
            let encoded = Encoded { ids: ids.clone(), dropped: Vec::new() };
            words.add(String::new(), encoded, tokenizers);
        } else if let Some(phonemes) = &request.phonemes {
            let encoded = tokenizers.phonemes(language, phonemes)?;
            words.add(phonemes.clone(), encoded, tokenizers);
        } else if let Some(analysed) = &request.open_jtalk {
            let encoded = tokenizers.words(language, analysed)?;
            let text = analysed.iter().map(|word| &*word.string).collect();
            words.add(text, encoded, tokenizers);
        } else {
            tokenizers.check(language, tools)?;
            let text = text_of(request, language);
            // The length of Japanese is the number of its words.
            let analyser = tools.open_jtalk.filter(|_| language == "ja");
            let words_of = analyser.map(|analyser| analyser.words(&text)).transpose()?;
            let count = words_of.map_or_else(|| units(&text, language), |words| words.len());
            for text in chunks(&text, count, language) {
                if !text.trim().is_empty() {
                    let encoded = tokenizers.encode(language, &text, tools)?;
                    words.add(text, encoded, tokenizers);
                }
            }
        }
        match words.chunks.is_empty() {
            true => Err(MagpieError::NothingToSay { dropped: words.dropped }.into()),
            false => Ok(words),
        }
    }

    /// Adds a chunk, unless it has no ids.
    fn add(&mut self, text: String, encoded: Encoded, tokenizers: &Tokenizers) {
        let Encoded { mut ids, dropped } = encoded;
        let new: Vec<_> = dropped.into_iter().filter(|one| !self.dropped.contains(one)).collect();
        self.dropped.extend(new);
        self.dropped.truncate(MOST_DROPPED);
        if !ids.is_empty() {
            ids.push(tokenizers.end());
            self.texts.push(text);
            self.chunks.push(ids);
        }
    }

    /// Returns notices about what is left out, and about the number of chunks.
    pub(super) fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        if !self.dropped.is_empty() {
            let text = format!("the model does not know {}: left out", listed(&self.dropped));
            notices.push(Notice(text));
        }
        if self.texts.len() > 1 {
            let text = format!("the text is spoken in {} sentences", self.texts.len());
            notices.push(Notice(text));
        }
        notices
    }
}

/// Returns the text of a request; Japanese has no blanks.
fn text_of(request: &Request, language: &str) -> String {
    match language {
        "ja" => request.text.split_whitespace().collect(),
        _ => request.text.clone(),
    }
}
