//! The models of speech of this machine, and their voices.

use std::sync::Arc;

use acestep_session::speech::{self, Fields, SpeechModel};
use acestep_speech::{SpeechError, Voices};
use serde_json::{Map, Value};

use super::Installed;
use crate::{
    catalog::{Checked, Family, Speech, Voice, voice_exists},
    error::of,
    job::JobError,
    request::{SpeechRequest, VoiceRequest, format},
};

impl Installed {
    /// Opens a model of speech, or takes the one that was opened before.
    pub(super) fn opened(&self, name: &str) -> Result<Arc<dyn SpeechModel>, acestep_engine::Error> {
        let mut opened = self.opened.lock();
        opened.retain(|(own, model)| own != name || model.is_unchanged());
        if let Some((_, model)) = opened.iter().find(|(own, _)| own == name) {
            return Ok(model.clone());
        }
        let model = speech::open(Some(name), &mut Fields::new(), None, &self.layout)?;
        opened.push((name.to_owned(), model.clone()));
        Ok(model)
    }

    pub(super) fn check_speech(&self, object: &Map<String, Value>) -> Result<Checked, JobError> {
        let request = SpeechRequest::read(object.clone())?;
        format(request.audio_format.as_deref())?;
        let name = request.model.unwrap_or_else(|| self.speech_model.clone());
        self.require(Family::Speech, "model", &name)?;
        let model = self.opened(&name).map_err(|error| of(&error))?;
        if request.timestamps.is_some() && !model.has_word_times() {
            let message = format!("`{name}` does not tell the times of words");
            let hint = "leave `timestamps` out, or take a dialogue model";
            return Err(JobError::new("bad_value", message).param("timestamps").hint(hint));
        }
        if request.append && !model.can_append() {
            let message = format!("`{name}` takes no text while it speaks");
            let hint = "send whole texts, or take a dialogue model";
            return Err(JobError::new("bad_value", message).param("append").hint(hint));
        }
        let voices = self.voices.as_ref();
        match model.check(&request.text, &request.fields, voices) {
            // Its words may come later.
            Err(error)
                if request.append
                    && matches!(error.family(), Some(SpeechError::NothingToSay { .. })) => {}
            checked => checked.map_err(|error| of(&error))?,
        }
        Ok(Checked { model: Some(self.common_name(&name)), notices: Vec::new() })
    }

    /// Returns the folder of kept voices.
    pub(crate) fn voices_or_error(&self) -> Result<&Voices, JobError> {
        let error = || of(&acestep_session::SessionError::NoVoices.into());
        self.voices.as_ref().ok_or_else(error)
    }

    /// Checks a request for a voice. Its name is new: no client replaces the voice of another one.
    pub(super) fn check_voice(&self, object: &Map<String, Value>) -> Result<Checked, JobError> {
        let request = VoiceRequest::read(object.clone())?;
        let name = &request.name;
        let path = self.voices_or_error()?.path(name);
        path.map_err(|error| {
            let JobError { message, hint, .. } = of(&error);
            JobError { hint, ..JobError::new("bad_value", message).param("name") }
        })?;
        let is_taken = self.all_voices().iter().any(|voice| voice.id.eq_ignore_ascii_case(name));
        if is_taken || self.kept_names().contains(name) {
            return Err(voice_exists(name));
        }
        if let Some(model) = &request.model {
            self.require(Family::Speech, "model", model)?;
        }
        let choice = self.model_to_keep(&request);
        let opened = speech::open_to_keep(choice.as_deref(), &request.fields, &self.layout);
        let opened = opened.map_err(|error| of(&error))?;
        let model = self.common_name(choice.as_deref().unwrap_or(opened.name()));
        Ok(Checked { model: Some(model), notices: Vec::new() })
    }

    /// Returns the model that keeps a voice: the request's, else the usual one if it takes the
    /// recordings. `None` stands for the first installed one that takes them.
    pub(crate) fn model_to_keep(&self, request: &VoiceRequest) -> Option<String> {
        if request.model.is_some() {
            return request.model.clone();
        }
        let is_dialogue = request.fields.contains_key("speaker_1");
        let field = if is_dialogue { "speaker_1" } else { "reference" };
        let usual = self.opened(&self.speech_model).ok()?;
        usual.takes().contains(&field).then(|| self.speech_model.clone())
    }

    /// Returns the voices of all models, and the kept ones whose models are here.
    pub(super) fn all_voices(&self) -> Vec<Voice> {
        let mut voices = Vec::new();
        let names = self.names(Family::Speech);
        let is_here = |of: &String| names.iter().any(|(name, _)| self.common_name(name) == *of);
        for (model, _) in &names {
            let Ok(opened) = self.opened(model) else { continue };
            let preset = |id: String| Voice { id, model: model.clone(), is_kept: false };
            voices.extend(opened.voices().into_iter().map(preset));
        }
        let kept = self.voices.as_ref();
        for id in self.kept_names() {
            if let Some(found) = kept.and_then(|voices| speech::read_kept(voices, &id).ok()) {
                let model = Some(self.common_name(&found.model)).filter(is_here);
                voices.extend(model.map(|model| Voice { id, model, is_kept: true }));
            }
        }
        voices
    }

    fn kept_names(&self) -> Vec<String> {
        self.voices.as_ref().and_then(|voices| voices.names().ok()).unwrap_or_default()
    }
}

/// Returns what clients need to know of a model of speech.
pub(super) fn facts(model: &dyn SpeechModel) -> Speech {
    let own = ["chunk_frames", "audio_format"].into_iter();
    let timestamps = model.has_word_times().then_some("timestamps");
    let fields = model.takes().into_iter().chain(own).chain(timestamps);
    Speech {
        sample_rate: model.sample_rate(),
        fields: fields.map(str::to_owned).collect(),
        default_language: model.default_language().map(str::to_owned),
        has_word_times: model.has_word_times(),
        can_append: model.can_append(),
    }
}
