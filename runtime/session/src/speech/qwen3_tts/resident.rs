//! Qwen3-TTS with its networks, and with the voices that it spoke with last.

use std::{cell::RefCell, path::PathBuf, rc::Rc, sync::Arc};

use acestep_engine::{Engine, Error, Notice, Observe, SharedRef};
use acestep_import::Qwen3Tts;
use acestep_model::{
    Backend, Place,
    speech::qwen3_tts::{Checkpoint, Files as _},
};
use acestep_speech::{
    Options, StreamItem, Voices,
    qwen3_tts::{Networks, Plan, Request, Speaking},
};

use super::{
    super::{
        Fields, Sink, SpeechInput, SpeechModel,
        files::Seen,
        given, of_line,
        recent::Recent,
        resident::{Arriving, Ready, SpeechOn, VOICES, no_more},
    },
    Loaded, VoiceSource, check_memory,
    prepare::{self, Read},
};

/// A recording by its file and its words, or a kept voice by its file.
type Key = (Seen, Option<String>);
/// A voice, and the notices of reading it.
type ReadVoice = (Rc<VoiceSource>, Rc<[Notice]>);
/// A voice, and its state on the device.
type Known<B> = (ReadVoice, Rc<Loaded<B>>);

/// A model with its networks.
pub(in super::super) struct Resident<B: Backend> {
    model: Arc<Qwen3Tts>,
    networks: Networks<'static, B>,
    /// Voices with their state on the device.
    voices: RefCell<Recent<Key, Known<B>>>,
}

impl<B: Backend> Resident<B> {
    /// A model whose networks are loaded when they are needed.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if its files do not have the networks.
    pub(in super::super) fn new(model: Arc<Qwen3Tts>, place: Place<B>) -> Result<Self, Error> {
        model.check::<B>(&place.device).map_err(Error::checkpoint)?;
        let checkpoint = model.clone() as Arc<dyn Checkpoint<B>>;
        let networks = Networks::of(SharedRef::Shared(checkpoint), place);
        Ok(Self { model, networks, voices: RefCell::new(Recent::new(VOICES.0, VOICES.1)) })
    }

    /// Returns the voice of a request with the notices of reading it, and its key if it has a file.
    fn voice(
        &self,
        recording: Option<(PathBuf, Option<String>)>,
        name: Option<&str>,
        voices: Option<&Voices>,
        observe: &dyn Observe,
    ) -> Result<(ReadVoice, Option<Key>), Error> {
        // Looked at before it is read: a file that is written meanwhile is another one.
        let key = match (&recording, name) {
            (Some((path, words)), _) => Some((Seen::of(path)?, words.clone())),
            (None, Some(name)) => match voices.and_then(|voices| voices.existing(name).ok()) {
                Some(path) => Some((Seen::of(&path)?, None)),
                None => None,
            },
            (None, None) => None,
        };
        if let Some((voice, _)) = key.as_ref().and_then(|key| self.voices.borrow_mut().get(key)) {
            return Ok((voice, key));
        }
        let (model, mut notices) = (&*self.model, Vec::new());
        // Each of them keeps one core busy: the vocabulary is read beside the voice. Its error comes
        // with the first text.
        let voice = std::thread::scope(|scope| -> Result<VoiceSource, Error> {
            scope.spawn(|| drop(model.tokenizer()));
            Ok(match (recording, name) {
                (Some((path, words)), _) => {
                    VoiceSource::recording(&path, words, observe, &mut notices)?
                }
                (None, Some(name)) => VoiceSource::named(name, model, voices)?,
                (None, None) => VoiceSource::Model,
            })
        })?;
        let key = key.filter(|_| voice.is_recording());
        Ok(((Rc::new(voice), notices.into()), key))
    }
}

impl<B: Backend> SpeechOn<B> for Resident<B> {
    fn model(&self) -> &dyn SpeechModel {
        &*self.model
    }

    fn load(&self) -> Result<(), Error> {
        self.networks.talker()?;
        self.networks.codec_decoder().map(drop)
    }

    fn prepare(
        self: Rc<Self>,
        input: SpeechInput<'_>,
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn Ready>, Error> {
        let SpeechInput { texts, fields, seed, voices, lines } = input.with_unix_lines();
        let Read { mut first, recording } = prepare::read(fields, &self.model)?;
        prepare::unused_voice(&mut first, recording.is_some(), notices);
        let (heard, key) = self.voice(recording, first.voice.as_deref(), voices, observe)?;
        // Each text with a poor recording is told of it, also if the recording is in memory.
        notices.extend_from_slice(&heard.1);
        let voice = &heard.0;
        let name = first.voice.clone();
        let requests = prepare::requests(&first, voice, texts, seed, &self.model);
        let positions = prepare::most_positions(&requests, voice, &self.model)?;
        Ok(Box::new(Turn { on: self, requests, name, heard, key, positions, lines }))
    }
}

/// Requests that were checked.
struct Turn<B: Backend> {
    on: Rc<Resident<B>>,
    requests: Vec<Request>,
    /// The name of the voice.
    name: Option<String>,
    heard: ReadVoice,
    key: Option<Key>,
    /// The most prompt rows and frames of a run.
    positions: usize,
    lines: bool,
}

impl<B: Backend> Turn<B> {
    fn known(&self) -> Option<Rc<Loaded<B>>> {
        let found = self.on.voices.borrow_mut().get(self.key.as_ref()?);
        found.map(|(_, loaded)| loaded)
    }

    fn loaded(&self, observe: &dyn Observe) -> Result<Rc<Loaded<B>>, Error> {
        if let Some(loaded) = self.known() {
            return Ok(loaded);
        }
        let voice = &self.heard.0;
        let loaded = Rc::new(voice.load(&self.on.networks, observe)?);
        if let Some(key) = &self.key {
            let value = (self.heard.clone(), loaded.clone());
            // A file of a recording is smaller than its samples, which stay in memory too.
            let bytes = key.0.bytes.max(voice.bytes());
            self.on.voices.borrow_mut().put(key.clone(), bytes, value);
        }
        Ok(loaded)
    }
}

impl<B: Backend> Ready for Turn<B> {
    fn check_memory(&self, engine: Engine, options: Options) -> Result<(), Error> {
        check_memory(&self.on.model, engine, options, self.positions, self.heard.0.recorded())
    }

    fn decided(&self) -> Fields {
        let voice = self.name.clone();
        let request = self.requests.first();
        request.map(|own| given(&Request { voice, ..own.clone() })).unwrap_or_default()
    }

    fn has_voice(&self) -> bool {
        self.known().is_some()
    }

    fn load_voice(&self, observe: &dyn Observe) -> Result<(), Error> {
        self.loaded(observe).map(drop)
    }

    fn speak(
        &self,
        options: Options,
        more: Option<&mut dyn Arriving>,
        observe: &dyn Observe,
        sink: &mut dyn Sink,
    ) -> Result<Vec<Notice>, Error> {
        let Self { on, requests, heard: (source, _), .. } = self;
        no_more(more, on.model().name())?;
        let loaded = self.loaded(observe)?;
        let Loaded { voice, snapshot } = &*loaded;
        let plan = |request| Plan::new(request, voice.clone(), 0, &*on.model);
        let plans = requests.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        let unused = source.unused(snapshot.as_ref(), &plans);
        let mut notices: Vec<Notice> = unused.into_iter().collect();
        for (index, plan) in plans.iter().enumerate() {
            notices.extend(plan.notices.iter().map(|notice| of_line(notice, index, self.lines)));
        }
        for made in Speaking::begin(plans, snapshot.as_ref(), &on.networks, options, observe)? {
            match made? {
                (index, StreamItem::Samples(samples)) => sink.samples(index, &samples)?,
                (index, StreamItem::Done(spoken)) => sink.done(index, spoken)?,
            }
        }
        Ok(notices)
    }
}
