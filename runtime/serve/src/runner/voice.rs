//! Recordings to a kept voice.

use acestep_engine::{Error, Observe, files::Existing};
use acestep_model::Backend;
use acestep_session::speech::{self, Fields, KeptVoice, SpeechModel, VoiceFile};
use serde_json::json;

use super::{Failed, Networked, is_too_large, notify, sinks, speech::with_places};
use crate::{job::Content, request::VoiceRequest, worker::Task};

impl<B: Backend> Networked<'_, B> {
    /// Keeps the voice of recordings in the folder of this machine.
    pub(super) fn voice(&mut self, task: &mut Task<'_>) -> Result<(), Failed> {
        let object = task.job.request.as_object().cloned().unwrap_or_default();
        let request = VoiceRequest::read(&object)?;
        let choice = self.installed.model_to_keep(&request);
        let VoiceRequest { name, mut fields, .. } = request;
        with_places(&mut fields, task.objects)?;
        let voices = self.installed.voices_or_error()?;
        let path = voices.path(&name)?;
        voices.create()?;
        // The file of an earlier attempt is this job's own.
        let existing = if task.job.attempts > 1 { Existing::Replace } else { Existing::Keep };
        let model = speech::open_to_keep(choice.as_deref(), &fields, self.installed.layout())?;
        notify(task.observe, model.notices());
        let file = self.encoded(&*model, &fields, task.observe)?;
        file.write(&path, existing)?;
        let KeptVoice { model, language, seconds, transcripts, frames } = file.describe();
        let description = json!({
            "name": name, "model": model, "language": language, "seconds": seconds,
            "transcripts": transcripts, "frames": frames,
        });
        let text = format!("{description:#}\n");
        sinks::file(task, 1, Content::Description, "1.description.json", text.as_bytes())?;
        Ok(())
    }

    /// Encodes recordings, if need be without the networks that are in memory.
    fn encoded(
        &mut self,
        model: &dyn SpeechModel,
        fields: &Fields,
        observe: &dyn Observe,
    ) -> Result<Box<dyn VoiceFile>, Error> {
        let (engine, mut notices) = (self.engine, Vec::new());
        let prepared = match model.prepare_voice(fields.clone(), engine, &mut notices) {
            Err(error) if is_too_large(&error) => {
                self.drop_all();
                notices.clear();
                model.prepare_voice(fields.clone(), engine, &mut notices)?
            }
            prepared => prepared?,
        };
        notify(observe, notices);
        prepared.keep(engine, observe)
    }
}
