//! Dia2 with networks and voices that stay in memory.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use acestep_engine::{Engine, Error, Lent, Notice, Observe};
use acestep_import::Dia2;
use acestep_model::{Backend, Place, speech::dia2::Checkpoint};
use acestep_speech::{
    Options, Word,
    dia2::{
        KeptSnapshot, Networks, Plan, Recording, Request, Resampling, Snapshot, Speakers, streams,
    },
};
use serde_json::{Value, json};

use super::{
    super::{
        Fields, Sink, SpeechModel, Wanted,
        files::Seen,
        of_line,
        recent::Recent,
        resident::{Arriving, Ready, SpeechOn, VOICES},
    },
    Speaker, Words, check_memory, encoded,
    prepare::{self, Given, Read},
    run,
};
use crate::SessionError;

/// Recordings by their files and words, and for a snapshot the number of rows of its runs.
#[derive(Debug, Clone, PartialEq)]
struct Key {
    speakers: Vec<(Seen, Vec<Word>)>,
    rows: Option<usize>,
}

/// The state of a voice.
#[derive(Clone)]
enum Heard<B: Backend> {
    /// Recordings, which every script reads anew.
    Recordings(Rc<Vec<Recording>>),
    /// The state after them.
    Snapshot(Rc<Snapshot<B>>),
}

/// A model with its networks.
pub(in super::super) struct Resident<B: Backend> {
    model: Arc<Dia2>,
    networks: Networks<'static, B>,
    voices: RefCell<Recent<Key, Heard<B>>>,
}

impl<B: Backend> Resident<B> {
    /// A model whose networks are loaded when they are needed.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if its files do not have the networks.
    pub(in super::super) fn new(model: Dia2, place: Place<B>) -> Result<Self, Error> {
        model.check::<B>(&place.device).map_err(Error::checkpoint)?;
        let model = Arc::new(model);
        let checkpoint = model.clone() as Arc<dyn Checkpoint<B>>;
        let networks = Networks::of(Lent::Shared(checkpoint), place);
        Ok(Self { model, networks, voices: RefCell::new(Recent::new(VOICES.0, VOICES.1)) })
    }
}

impl<B: Backend> SpeechOn<B> for Resident<B> {
    fn model(&self) -> &dyn SpeechModel {
        &*self.model
    }

    fn load(&self) -> Result<(), Error> {
        self.networks.pair()?;
        self.networks.codec_decoder().map(drop)
    }

    fn prepare(
        &self,
        wanted: Wanted<'_>,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn Ready + '_>, Error> {
        let Wanted { texts, fields, seed, voices, lines } = wanted;
        let Read { first, speakers: given, snapshot, voice } = prepare::read(fields, &self.model)?;
        let streams = streams(&*self.model)?;
        let requests = prepare::requests(&first, texts, seed);
        prepare::check_scripts(&requests, &streams, &self.model)?;
        let source = Source::Recorded(Vec::new());
        let name = voice.clone();
        let mut turn = Turn { on: self, requests, name, source, key: None, lines };
        let Some(request) = turn.requests.first() else { return Ok(Box::new(turn)) };
        let rows = match snapshot || voice.is_some() {
            true => Some(Plan::new(request, Speakers::Kept, 0, &*self.model)?.guidance.rows()),
            false => None,
        };
        if let Some(name) = voice {
            let path = voices.ok_or(SessionError::NoVoices)?.existing(&name)?;
            // Looked at before it is read: a file that is written meanwhile is another one.
            turn.key = Some(Key { speakers: vec![(Seen::of(&path)?, Vec::new())], rows });
            if turn.known().is_none() {
                turn.source = Source::Kept(Box::new(KeptSnapshot::read(&path)?));
            }
            return Ok(Box::new(turn));
        }
        if given.is_empty() {
            return Ok(Box::new(turn));
        }
        let mut files = Vec::new();
        let mut key = Key { speakers: Vec::new(), rows };
        for Given { sound, words } in given {
            // Looked at before it is read: a file that is written meanwhile is another one.
            let seen = Seen::of(&sound)?;
            let words = words.read(&sound)?;
            key.speakers.push((seen, words.clone()));
            files.push((sound, words));
        }
        turn.key = Some(key);
        if turn.known().is_none() {
            let mut speakers = Vec::new();
            for (sound, words) in files {
                speakers.push(Speaker::of(&sound, Words::List(words), notices)?);
            }
            prepare::check_length(&speakers, &streams)?;
            turn.source = Source::Recorded(speakers);
        }
        Ok(Box::new(turn))
    }
}

/// The source of the voices.
enum Source {
    Recorded(Vec<Speaker>),
    Kept(Box<KeptSnapshot>),
}

/// Scripts that were checked.
struct Turn<'a, B: Backend> {
    on: &'a Resident<B>,
    requests: Vec<Request>,
    /// The name of a kept voice.
    name: Option<String>,
    /// The voices, if their state is not in memory.
    source: Source,
    /// The files of the voices; none for voices of the model.
    key: Option<Key>,
    lines: bool,
}

impl<B: Backend> Turn<'_, B> {
    fn known(&self) -> Option<Heard<B>> {
        self.on.voices.borrow_mut().get(self.key.as_ref()?)
    }

    /// Returns the state of the voices; none for voices of the model.
    fn heard(&self, observe: &dyn Observe) -> Result<Option<Heard<B>>, Error> {
        let Some(key) = &self.key else { return Ok(None) };
        if let Some(heard) = self.known() {
            return Ok(Some(heard));
        }
        let networks = &self.on.networks;
        let (bytes, heard) = match (&self.source, key.rows) {
            (Source::Kept(kept), Some(rows)) => {
                let snapshot = kept.snapshot(rows, networks, observe)?;
                (snapshot.bytes(networks), Heard::Snapshot(Rc::new(snapshot)))
            }
            (Source::Recorded(speakers), Some(rows)) => {
                let recordings = encoded(speakers, Resampling::default(), networks, observe)?;
                let snapshot = Snapshot::new(&recordings, rows, networks, observe)?;
                (snapshot.bytes(networks), Heard::Snapshot(Rc::new(snapshot)))
            }
            (Source::Recorded(speakers), None) => {
                let recordings = encoded(speakers, Resampling::default(), networks, observe)?;
                let codes = recordings.iter().flat_map(|recording| &recording.frames);
                let bytes = codes.map(|frame| 4 * frame.len() as u64).sum();
                (bytes, Heard::Recordings(Rc::new(recordings)))
            }
            (Source::Kept(_), None) => unreachable!("a kept voice has a state"),
        };
        self.on.voices.borrow_mut().put(key.clone(), bytes, heard.clone());
        Ok(Some(heard))
    }
}

impl<B: Backend> Ready for Turn<'_, B> {
    fn check_memory(&self, engine: Engine, options: Options) -> Result<(), Error> {
        check_memory(&self.on.model, engine, options.chunks)
    }

    fn decided(&self) -> Fields {
        let Some(Value::Object(mut fields)) = self.requests.first().map(|request| json!(request))
        else {
            return Fields::new();
        };
        if let Some(script) = fields.remove("script") {
            fields.insert("text".to_owned(), script);
        }
        if let Some(name) = &self.name {
            fields.insert("voice".to_owned(), name.as_str().into());
        }
        fields
    }

    fn has_voice(&self) -> bool {
        self.known().is_some()
    }

    fn load_voice(&self, observe: &dyn Observe) -> Result<(), Error> {
        self.heard(observe).map(drop)
    }

    fn speak(
        &self,
        options: Options,
        mut more: Option<&mut dyn Arriving>,
        observe: &dyn Observe,
        sink: &mut dyn Sink,
    ) -> Result<Vec<Notice>, Error> {
        let (model, networks) = (&*self.on.model, &self.on.networks);
        let heard = self.heard(observe)?;
        let mut all = Vec::new();
        for (index, request) in self.requests.iter().enumerate() {
            let (speakers, snapshot) = match &heard {
                None => (Speakers::Recorded(&[]), None),
                Some(Heard::Recordings(recordings)) => (Speakers::Recorded(recordings), None),
                Some(Heard::Snapshot(snapshot)) => (Speakers::Kept, Some(&**snapshot)),
            };
            let plan = Plan::new(request, speakers, 0, model)?;
            let chunks = (options.chunks, more.take());
            let mut samples = |samples: &[f32]| sink.samples(samples);
            let (mut notices, dialogue) =
                run(plan, snapshot, networks, chunks, observe, &mut samples)?;
            notices.extend(dialogue.left());
            all.extend(notices.iter().map(|notice| of_line(notice, index, self.lines)));
            sink.done(index, dialogue.spoken)?;
        }
        Ok(all)
    }
}
