//! Speech: a job becomes a voice and a text, these become sound that is streamed while it is made.
//!
//! The model is one of any family: its networks and the state of its voices stay in memory.

use std::{io, rc::Rc};

use acestep_engine::{
    Encoding, Error, Existing, Notice,
    audio::{encoding::EncodingOptions, write::SoundWriter},
};
use acestep_model::Backend;
use acestep_session::speech::{
    Arriving, FILES, Fields, Ready, Sink, SpeechInput, SpeechOn, open_on,
};
use acestep_speech::{Chunks, Options, Spoken, TimesFormat, pcm16};
use serde_json::Value;

use super::{
    Failed, LoadedSpeech, Networked, is_too_large, notify,
    sinks::{self, Peaks},
    songs,
};
use crate::{
    arriving::Incoming,
    job::{Content, JobError},
    objects::Objects,
    preview::{Preview, PreviewFormat},
    request::SpeechRequest,
    worker::JobTask,
};

/// A request after its files were found.
struct Turn {
    model: String,
    seed: u64,
    options: Options,
    encoding: Encoding,
    timestamps: Option<TimesFormat>,
    append: bool,
    voice_only: bool,
    truncate: bool,
}

/// Draws a seed. The last bits of such an id are random; the others are the time and its version.
fn drawn_seed() -> u64 {
    uuid::Uuid::now_v7().as_u64_pair().1 & u64::from(u32::MAX)
}

impl<B: Backend> Networked<'_, B> {
    pub(super) fn speak(&mut self, task: &mut JobTask<'_>) -> Result<(), Failed> {
        let mut read = SpeechRequest::read(task.request())?;
        with_places(&mut read.fields, task.objects)?;
        let mut notices = Vec::new();
        let options = EncodingOptions::default();
        let encoding = sinks::encoding(read.audio_format.as_deref(), options, &mut notices)?;
        notify(task.observe, notices);
        let model = read.model.unwrap_or_else(|| self.installed.default_speech_model().to_owned());
        let seed = read.seed.unwrap_or_else(drawn_seed);
        let usual = Options::default();
        let others = read.chunk_frames.unwrap_or(usual.chunks.others);
        // A message of a client of stream-dia2 has this size: a smaller first chunk would wait for the second.
        let first = read.chunk_frames.filter(|_| read.truncate).unwrap_or(usual.chunks.first);
        let chunks = Chunks { first, others };
        let turn = Turn {
            model,
            seed,
            options: Options { chunks, batch_size: 1, keeps_samples: false, ..usual },
            encoding,
            timestamps: read.timestamps,
            append: read.append,
            voice_only: read.voice_only,
            truncate: read.truncate,
        };
        let voices = self.installed.kept_voices();
        let texts = vec![read.text];
        let input = SpeechInput { texts, fields: read.fields, seed, voices, lines: false };
        for is_last in [false, true] {
            let speech = self.speech_of(&turn.model)?;
            let mut notices = speech.model().notices();
            let ready = speech.clone().prepare(input.clone(), task.observe, &mut notices)?;
            match ready.check_memory(self.engine, turn.options) {
                Err(error) if !is_last && is_too_large(&error) => {
                    drop(ready);
                    drop(speech);
                    self.drop_all();
                    continue;
                }
                checked => checked?,
            }
            notify(task.observe, notices);
            self.hold_speech(&turn.model, &speech);
            return spoken(task, &turn, &*ready, speech.model().sample_rate());
        }
        Err(songs::internal().into())
    }

    /// Opens a model of speech, or takes the one in memory.
    pub(super) fn speech_of(&self, name: &str) -> Result<Rc<dyn SpeechOn<B>>, Failed> {
        match self.speech.as_ref().filter(|speech| speech.name == name) {
            Some(speech) => Ok(speech.on.clone()),
            None => Ok(open_on(name, self.installed.layout(), self.place.clone())?),
        }
    }

    /// Keeps a model of speech in memory, in place of all others.
    pub(super) fn hold_speech(&mut self, name: &str, speech: &Rc<dyn SpeechOn<B>>) {
        if self.speech.as_ref().is_none_or(|own| own.name != name) {
            self.drop_all();
            self.speech = Some(LoadedSpeech { name: name.to_owned(), on: speech.clone() });
        }
    }
}

/// Replaces ids of files by their places.
pub(super) fn with_places(fields: &mut Fields, objects: &Objects) -> Result<(), JobError> {
    for name in FILES {
        if let Some(Value::String(id)) = fields.get_mut(name) {
            *id = songs::place(objects, id)?;
        }
    }
    Ok(())
}

/// Speaks a request that was checked, and writes its results.
fn spoken(
    task: &mut JobTask<'_>,
    turn: &Turn,
    ready: &dyn Ready,
    sample_rate: u32,
) -> Result<(), Failed> {
    if ready.has_voice() {
        tracing::debug!("the state of the voice is in memory");
    }
    let mut resolved = Value::Object(ready.decided());
    // As they were sent: their places are no business of a client.
    for name in FILES {
        if let Some(sent) = task.job.request.get(name) {
            resolved[name] = sent.clone();
        }
    }
    resolved["model"] = turn.model.as_str().into();
    resolved["seed"] = turn.seed.into();
    if turn.voice_only {
        ready.load_voice(task.observe)?;
        (task.resolved)(resolved);
        return Ok(());
    }
    let name = sinks::name(1, &turn.encoding);
    let path = task.folder.join(&name);
    let mut sink = Streaming {
        preview: Preview::begin(task.folder, PreviewFormat { sample_rate, channels: 1 })?,
        truncate: turn.truncate,
        file: SoundWriter::begin(&path, sample_rate, &turn.encoding, Existing::Replace)?,
        peaks: Peaks::new(),
        spoken: None,
    };
    let mut incoming = turn.append.then(|| Incoming::of(task.folder));
    let more = incoming.as_mut().map(|incoming| incoming as &mut dyn Arriving);
    let notices: Vec<Notice> = ready.speak(turn.options, more, task.observe, &mut sink)?;
    notify(task.observe, notices);
    let Streaming { file, peaks, spoken: Some(spoken), .. } = sink else {
        return Err(songs::internal().into());
    };
    notify(task.observe, spoken.notices());
    if let Some(incoming) = incoming {
        // The client that sent the text learns how many pieces were spoken.
        resolved["appended"] = incoming.taken().into();
    }
    let mut told = resolved.clone();
    told["frames"] = spoken.frames().into();
    told["reason"] = spoken.reason().into();
    (task.resolved)(told);
    file.finish(task.observe)?;
    sinks::made(task, 1, name, Some(turn.seed), (&peaks, sample_rate))?;
    if !spoken.words.is_empty() || turn.timestamps.is_some() {
        let other = turn.timestamps.filter(|own| *own != TimesFormat::Json);
        for form in std::iter::once(TimesFormat::Json).chain(other) {
            let suffix = format!("words.{}", form.extension());
            sinks::file(task, 1, Content::Words, &suffix, form.text(&spoken.words))?;
        }
    }
    Ok(sinks::file(task, 1, Content::Request, "request.json", format!("{resolved:#}\n"))?)
}

/// Sound that is written while it is made, and that clients follow: its samples need no memory.
struct Streaming {
    preview: Preview,
    /// True for samples of the preview that are cut toward zero.
    truncate: bool,
    file: SoundWriter,
    peaks: Peaks,
    spoken: Option<Spoken>,
}

fn unwritten(source: io::Error) -> Error {
    Error::File { action: acestep_engine::Action::Write, path: "preview.pcm".into(), source }
}

impl Sink for Streaming {
    fn goes_on(&mut self, _index: usize, is_certain: bool) -> Result<(), Error> {
        // Other streams have no marks.
        match self.truncate {
            true => self.preview.goes_on(is_certain).map_err(unwritten),
            false => Ok(()),
        }
    }

    fn samples(&mut self, _index: usize, samples: &[f32]) -> Result<(), Error> {
        let written = match self.truncate {
            true => self.preview.integers(&pcm16(samples)),
            false => self.preview.samples(&[samples]),
        };
        written.map_err(unwritten)?;
        self.peaks.add(&[samples]);
        self.file.write(samples)
    }

    fn done(&mut self, _index: usize, spoken: Spoken) -> Result<(), Error> {
        self.spoken = Some(spoken);
        Ok(())
    }
}
