//! Speech: a job becomes a voice and a text, these become sound that is streamed while it is made.

use std::{io, path::Path, sync::Arc};

use acestep_engine::{Error, Lent, audio::encoding::EncodingOptions};
use acestep_import::Qwen3Tts;
use acestep_model::Backend;
use acestep_session::speech::{self, Sink, Voice, check_memory, positions, speak_with};
use acestep_speech::{
    Options, Spoken,
    qwen3_tts::{Request, SAMPLE_RATE},
};
use serde_json::json;

use super::{Failed, Networked, Speech, notify, sinks, songs};
use crate::{
    job::Content,
    preview::{Preview, PreviewFormat},
    request::SpeechRequest,
    worker::Task,
};

impl<B: Backend> Networked<'_, B> {
    /// Speaks the text of a request.
    pub(super) fn speak(&mut self, task: &mut Task<'_>) -> Result<(), Failed> {
        let object = task.job.request.as_object().cloned().unwrap_or_default();
        let read = SpeechRequest::read(&object)?;
        let SpeechRequest { mut request, model, reference, transcript, audio_format } = read;
        let mut notices = Vec::new();
        let options = EncodingOptions::default();
        let encoding = sinks::encoding(audio_format.as_deref(), options, &mut notices)?;
        let model = model.unwrap_or_else(|| self.installed.default_speech_model().to_owned());
        let folder = self.speech_folder(&model)?;
        notices.extend(folder.notices().into_iter().map(acestep_engine::Notice));
        let voice = match (&reference, request.voice.take()) {
            (Some(id), name) => {
                request.voice = name;
                let path = songs::place(task.objects, id)?;
                Voice::recording(Path::new(&path), transcript, &mut notices)?
            }
            (None, Some(name)) => {
                let voice = Voice::named(&name, &folder, self.installed.kept_voices())?;
                if !voice.is_recording() {
                    request.voice = Some(name);
                }
                voice
            }
            (None, None) => Voice::Model,
        };
        let seed =
            *request.seed.get_or_insert_with(|| u64::from(uuid::Uuid::now_v7().as_fields().2));
        notify(task.observe, notices);
        let options = Options { batch_size: 1, ..Options::default() };
        let rows = positions(&request, &voice, &folder)?;
        let engine = self.engine;
        self.with_room(|| check_memory(&folder, engine, options, rows))?;
        let networks = &self.hold_speech(&model, &folder)?.networks;
        let mut sink = Streaming::begin(task.folder)?;
        let requests = [request];
        let wanted = speech::Speech { requests: &requests, voice: &voice, options, lines: false };
        let notices = speak_with::<B>(wanted, &folder, networks, task.observe, &mut sink)?;
        notify(task.observe, notices);
        let [request] = requests;
        self.spoken(task, request, &model, seed, sink, &encoding)
    }

    fn spoken(
        &self,
        task: &mut Task<'_>,
        request: Request,
        model: &str,
        seed: u64,
        sink: Streaming,
        encoding: &acestep_engine::Encoding,
    ) -> Result<(), Failed> {
        let Some(spoken) = sink.spoken else { return Err(songs::internal().into()) };
        notify(task.observe, spoken.notices());
        let mut resolved = json!(request);
        resolved["model"] = model.into();
        resolved["seed"] = seed.into();
        (task.resolved)(resolved.clone());
        sinks::sound(task, 1, &spoken.audio, encoding, None, Some(seed))?;
        let text = format!("{resolved:#}\n");
        sinks::file(task, 1, Content::Request, "1.request.json", text.as_bytes())?;
        Ok(())
    }

    /// Opens a model of speech, or takes the one in memory.
    fn speech_folder(&self, name: &str) -> Result<Arc<Qwen3Tts>, Failed> {
        if let Some(speech) = self.speech.as_ref().filter(|speech| speech.name == name) {
            return Ok(speech.folder.clone());
        }
        let folder = Qwen3Tts::find(Some(name), self.installed.layout());
        Ok(Arc::new(folder.map_err(Error::checkpoint)?))
    }

    /// Puts a model of speech into memory; networks are loaded when they are needed.
    fn hold_speech(&mut self, name: &str, folder: &Arc<Qwen3Tts>) -> Result<&Speech<B>, Failed> {
        if self.speech.as_ref().is_none_or(|speech| speech.name != name) {
            self.drop_all();
            folder.check::<B>(&self.place.device).map_err(Error::checkpoint)?;
            let checkpoint =
                folder.clone() as Arc<dyn acestep_model::speech::qwen3_tts::Checkpoint<B>>;
            let networks = acestep_speech::qwen3_tts::Networks::of(
                Lent::Shared(checkpoint),
                self.place.clone(),
            );
            let (name, folder) = (name.to_owned(), folder.clone());
            self.speech = Some(Speech { name, folder, networks });
        }
        self.speech.as_ref().ok_or_else(|| songs::internal().into())
    }
}

/// Sound that clients follow while it is made.
struct Streaming {
    preview: Preview,
    spoken: Option<Spoken>,
}

impl Streaming {
    fn begin(folder: &Path) -> io::Result<Self> {
        let format = PreviewFormat { sample_rate: SAMPLE_RATE, channels: 1 };
        Ok(Self { preview: Preview::begin(folder, format)?, spoken: None })
    }
}

impl Sink for Streaming {
    fn samples(&mut self, samples: &[f32]) -> Result<(), Error> {
        self.preview.samples(&[samples]).map_err(|source| Error::File {
            action: acestep_engine::Action::Write,
            path: "preview.pcm".into(),
            source,
        })
    }

    fn done(&mut self, _index: usize, spoken: Spoken) -> Result<(), Error> {
        self.spoken = Some(spoken);
        Ok(())
    }
}
