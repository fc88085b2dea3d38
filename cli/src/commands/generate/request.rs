//! The user's request: a request file, and the flags that override it.

use std::path::PathBuf;

use acestep_engine::Notice;
use acestep_music::{Request, codes};
use anyhow::{Context, Result};

use super::Args;
use crate::{
    args::values::put,
    commands::text::{Stdin, Typed, text_or_file},
    error::CliError,
    hint, settings,
};

/// A request, its model, and notices about them.
pub(super) struct ResolvedRequest {
    pub(super) request: Request,
    pub(super) model: String,
    /// The request file, if it names the model.
    model_is_from: Option<PathBuf>,
    pub(super) notices: Vec<Notice>,
}

impl ResolvedRequest {
    /// Reads the request file, if there is one, and applies the flags to it.
    pub(super) fn read(args: &Args) -> Result<Self> {
        let mut stdin = Stdin::default();
        let Typed { request, notices } = Typed::read(&args.song.words, &mut stdin)?;
        let (model, model_is_from) = match (&args.compute.model, &request.compute.model) {
            (Some(typed), _) => (typed.clone(), None),
            (None, Some(written)) => (written.clone(), args.song.words.request.first().cloned()),
            (None, None) => (settings::model(), None),
        };
        let mut asked = Self { request, model, model_is_from, notices };
        asked.flags(args, &mut stdin)?;
        stdin.check()?;
        Ok(asked)
    }

    /// Returns the error for a model that cannot be opened; names the request file if that asked
    /// for it.
    pub(super) fn no_model(&self, error: acestep_import::Error) -> anyhow::Error {
        let Some(path) = &self.model_is_from else { return error.into() };
        let message = format!(
            "the request `{}` asks for the model `{}`, which cannot be used",
            path.display(),
            self.model
        );
        let other = "to make it with another model, pass --model".to_owned();
        let hint =
            hint::of_model(&error).map_or(other.clone(), |hint| format!("{hint}\n      {other}"));
        CliError::new(message).hint(hint).because(error).into()
    }

    fn flags(&mut self, args: &Args, stdin: &mut Stdin) -> Result<()> {
        let Args { song, editing, thinking, language, sampling, sound, .. } = args;
        let request = &mut self.request;
        let read = |value: &String| text_or_file("--audio-codes", value, stdin);
        if let Some(text) = song.audio_codes.as_ref().map(read).transpose()? {
            let parsed = codes::parse(&text);
            let codes = match song.audio_codes.as_deref() {
                Some(file) if file.starts_with('@') => parsed
                    .with_context(|| format!("the codes of `{}` cannot be used", &file[1..]))?,
                _ => parsed?,
            };
            request.source.audio_codes = Some(vec![codes]);
            // They replace the language model's codes.
            request.language.thinking = None;
        }
        if let Some(value) = sampling.sampler.source_lyrics() {
            let lyrics = text_or_file("--flow-edit-source-lyrics", value, stdin)?;
            request.edit.flow_edit_source_lyrics = Some(lyrics);
        }
        // A typed source replaces audio codes that were not typed.
        let editing_source = editing.src_audio.is_some() || editing.src_latents.is_some();
        if editing_source
            && song.audio_codes.is_none()
            && request.source.audio_codes.take().is_some()
        {
            let text = "the request's audio codes are not used: the song follows its source";
            self.notices.push(Notice(text.into()));
        }
        sound.put_over(&mut request.output);
        language.put_over(&mut request.language);
        put(&mut request.language.thinking, thinking.typed().as_ref());
        match thinking.typed() {
            Some(true) if request.source.has_codes() => {
                request.source.audio_codes = None;
                let text = "the request's audio codes are not used: --thinking writes new ones";
                self.notices.push(Notice(text.into()));
            }
            // Requests of other programs always set some of these keys.
            Some(false) if !language.decisions.asks_by_name() => {
                for cot in [
                    &mut request.language.use_cot_metas,
                    &mut request.language.use_cot_caption,
                    &mut request.language.use_cot_language,
                ] {
                    *cot = cot.filter(|wanted| !wanted);
                }
                if request.language.lm_mode.take().is_some_and(|mode| mode != "generate") {
                    let text = "without the language model the caption is used as it stands";
                    self.notices.push(Notice(text.into()));
                }
            }
            _ => (),
        }
        editing.put_over(request)?;
        args.compute.put_over(&mut request.compute)?;
        sampling.put_over(request);
        Ok(())
    }
}
