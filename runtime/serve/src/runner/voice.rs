//! Recordings to a kept voice.

use std::{fs, io, path::Path};

use acestep_engine::{Error, Observe, files::Existing};
use acestep_model::Backend;
use acestep_session::speech::{self, Fields, KeptVoiceInfo, SpeechModel, VoiceFile};
use serde_json::{Value, json};

use super::{Failed, Networked, is_too_large, notify, sinks, speech::with_places};
use crate::{catalog::voice_exists, job::Content, request::VoiceRequest, worker::JobTask};

impl<B: Backend> Networked<'_, B> {
    /// Keeps the voice of recordings in the folder of this machine.
    pub(super) fn voice(&mut self, task: &mut JobTask<'_>) -> Result<(), Failed> {
        let request = VoiceRequest::read(task.request())?;
        let choice = self.installed.model_to_keep(&request);
        let VoiceRequest { name, mut fields, .. } = request;
        with_places(&mut fields, task.objects)?;
        let voices = self.installed.voices_or_error()?;
        let path = voices.path(&name)?;
        voices.create()?;
        let model = speech::open_to_keep(choice.as_deref(), &fields, self.installed.layout())?;
        notify(task.observe, model.notices());
        let file = self.encoded(&*model, &fields, task.observe)?;
        keep(&*file, &name, &path, task)?;
        let KeptVoiceInfo { model, language, seconds, transcripts, frames } = file.describe();
        let description = json!({
            "name": name, "model": model, "language": language, "seconds": seconds,
            "transcripts": transcripts, "frames": frames,
        });
        let text = format!("{description:#}\n");
        Ok(sinks::file(task, 1, Content::Description, "description.json", text)?)
    }

    /// Encodes recordings, if need be without the networks that are in memory.
    fn encoded(
        &mut self,
        model: &dyn SpeechModel,
        fields: &Fields,
        observe: &dyn Observe,
    ) -> Result<Box<dyn VoiceFile>, Error> {
        let (engine, mut notices) = (self.engine, Vec::new());
        let prepared = match model.prepare_voice(fields.clone(), engine, observe, &mut notices) {
            Err(error) if is_too_large(&error) => {
                self.drop_all();
                notices.clear();
                model.prepare_voice(fields.clone(), engine, observe, &mut notices)?
            }
            prepared => prepared?,
        };
        notify(observe, notices);
        prepared.keep(engine, observe)
    }
}

/// Writes the file of a voice. No file is replaced: another client may have made it. A later attempt of a
/// job may find the file of an earlier one, which is the same.
fn keep(file: &dyn VoiceFile, name: &str, path: &Path, task: &JobTask<'_>) -> Result<(), Failed> {
    match file.write(path, Existing::Keep) {
        Err(Error::AlreadyExists { .. }) => {}
        // The name was taken at the same moment. Without its name the file is no voice.
        Err(Error::Elsewhere { kept, cause }) if matches!(*cause, Error::AlreadyExists { .. }) => {
            fs::remove_file(kept)?;
        }
        written => return Ok(written?),
    }
    let is_own = task.job.attempts > 1 && {
        let own = task.folder.join("voice.part");
        file.write(&own, Existing::Replace)?;
        let is_same = is_same(&own, path);
        fs::remove_file(&own)?;
        is_same?
    };
    if is_own { Ok(()) } else { Err(voice_exists(name).into()) }
}

/// True if two files of safetensors have the same content. The keys of their headers have any order.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (fs::read(one)?, fs::read(other)?);
    Ok(one == other || parts(&one).is_some_and(|own| Some(own) == parts(&other)))
}

/// The header and the bytes of a file of safetensors; none for another file.
fn parts(file: &[u8]) -> Option<(Value, &[u8])> {
    let (length, rest) = file.split_first_chunk()?;
    let (header, bytes) = rest.split_at_checked(u64::from_le_bytes(*length).try_into().ok()?)?;
    Some((serde_json::from_slice(header).ok()?, bytes))
}

#[cfg(test)]
mod tests {
    use acestep_engine::write_whole;
    use uuid::Uuid;

    use super::*;
    use crate::{
        job::{Kind, NewJob},
        objects::Objects,
        worker::Stopped,
    };

    /// A voice of one tensor, whose header has its keys in one of two orders.
    struct Bytes(&'static str, u8);

    impl VoiceFile for Bytes {
        fn describe(&self) -> KeptVoiceInfo {
            let (model, language, transcripts) = ("m".to_owned(), None, Vec::new());
            KeptVoiceInfo { model, language, seconds: 1.0, transcripts, frames: 0 }
        }

        fn write(&self, path: &Path, existing: Existing) -> Result<(), Error> {
            let length = (self.0.len() as u64).to_le_bytes();
            let bytes = [&length[..], self.0.as_bytes(), &[self.1]].concat();
            write_whole(path, existing, |file| io::Write::write_all(file, &bytes))
        }
    }

    #[test]
    fn no_attempt_replaces_a_voice_and_a_later_one_takes_only_its_own() {
        const ORDERS: [&str; 2] = [r#"{"a":"1","b":"2"}"#, r#"{"b":"2","a":"1"} "#];
        let folder = tempfile::tempdir().expect("a folder");
        let objects = Objects::open(folder.path()).expect("a folder");
        let path = folder.path().join("me.voice");
        let attempt = |attempts, file: &Bytes| {
            let new = NewJob::new(Kind::Voice, None, json!({ "name": "me" }), "ann");
            let mut job = new.stored(Uuid::now_v7(), 0);
            job.attempts = attempts;
            let task = JobTask {
                job: &job,
                folder: folder.path(),
                objects: &objects,
                observe: &acestep_engine::Unobserved,
                resolved: &|_| (),
                made: &mut Vec::new(),
            };
            match keep(file, "me", &path, &task).map_err(Failed::into_stopped) {
                Ok(()) => String::new(),
                Err(Stopped::Failed(error)) => error.code,
                Err(other) => panic!("{other:?}"),
            }
        };
        let own = Bytes(ORDERS[0], 1);
        assert_eq!(attempt(1, &own), "");
        let first = fs::read(&path).expect("the voice");
        assert_eq!(attempt(1, &own), "voice_exists", "the first attempt made nothing before");
        assert_eq!(attempt(2, &own), "");
        assert_eq!(attempt(2, &Bytes(ORDERS[1], 1)), "", "the order of keys means nothing");
        assert_eq!(attempt(2, &Bytes(ORDERS[0], 2)), "voice_exists");
        assert_eq!(fs::read(&path).expect("the voice"), first);
        let names = fs::read_dir(folder.path()).expect("a folder");
        let names = names.filter(|name| name.as_ref().expect("a name").path().is_file());
        assert_eq!(names.count(), 1, "nothing else is left");
    }
}
