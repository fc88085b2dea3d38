//! Dia2 with its networks, and with the voices that it spoke with last.

mod noting;

use std::{cell::RefCell, rc::Rc, sync::Arc};

use acestep_engine::{Engine, Error, Event, Notice, Observe, SharedRef};
use acestep_import::Dia2;
use acestep_model::{Backend, Place, speech::dia2::Checkpoint};
use acestep_speech::{
    Options, Word,
    dia2::{KeptSnapshot, Networks, Plan, Recording, Request, Snapshot, Speakers, streams},
};

use super::{
    super::{
        Fields, Sink, SpeechInput, SpeechModel,
        files::Seen,
        given, of_line,
        recent::Recent,
        resident::{Arriving, Ready, SpeechOn, VOICES},
    },
    Speaker, Words, check_memory, cut, encoded, longest, most_prefix,
    prepare::{self, Given, Read},
    run::{Text, run},
};
use crate::SessionError;
use noting::Noting;

/// The most files whose SHA-256 is remembered.
const SUMS: usize = 64;

/// A state of voices.
#[derive(Debug, Clone, PartialEq)]
struct Key {
    voices: Voices,
    /// For a snapshot, the number of rows of its runs.
    rows: Option<usize>,
}

/// The source of a state.
#[derive(Debug, Clone, PartialEq)]
enum Voices {
    /// The file of a kept voice.
    Kept(Seen),
    /// The SHA-256 and the words of each recording, and the most frames of them, if they are cut. The same
    /// recording may be sent again, as another file.
    Recorded(Vec<([u8; 32], Vec<Word>)>, Option<usize>),
}

/// The state of a voice.
#[derive(Clone)]
enum VoiceState<B: Backend> {
    /// Recordings, which every script reads anew.
    Recordings(Rc<Vec<Recording>>),
    /// The state after them.
    Snapshot(Rc<Snapshot<B>>),
}

/// The state of a voice, and the notices of its making, which are about each text that it speaks.
#[derive(Clone)]
struct Known<B: Backend> {
    heard: VoiceState<B>,
    notices: Vec<Notice>,
}

/// A model with its networks.
pub(in super::super) struct Resident<B: Backend> {
    model: Arc<Dia2>,
    networks: Networks<'static, B>,
    voices: RefCell<Recent<Key, Known<B>>>,
    /// The SHA-256 of files.
    sums: RefCell<Recent<Seen, [u8; 32]>>,
    /// False for one run: its recordings are read once, and may be pipes.
    keeps: bool,
}

impl<B: Backend> Resident<B> {
    /// A model whose networks are loaded when they are needed, and that `keeps` the state of recordings.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if its files do not have the networks.
    pub(in super::super) fn new(
        model: Arc<Dia2>,
        place: Place<B>,
        keeps: bool,
    ) -> Result<Self, Error> {
        model.check::<B>(&place.device).map_err(Error::checkpoint)?;
        let checkpoint = model.clone() as Arc<dyn Checkpoint<B>>;
        let networks = Networks::of(SharedRef::Shared(checkpoint), place);
        let voices = RefCell::new(Recent::new(VOICES.0, VOICES.1));
        let sums = RefCell::new(Recent::new(SUMS, u64::MAX));
        Ok(Self { model, networks, voices, sums, keeps })
    }

    /// Returns the SHA-256 of a file, which is not read again if it is as it was.
    fn sum(&self, seen: Seen) -> Result<[u8; 32], Error> {
        let known = self.sums.borrow_mut().get(&seen);
        if let Some(sum) = known {
            return Ok(sum);
        }
        let sum = seen.sum()?;
        self.sums.borrow_mut().put(seen, 0, sum);
        Ok(sum)
    }

    /// Reads the files of a request, and checks it.
    fn turn(
        self: &Rc<Self>,
        input: SpeechInput<'_>,
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<Turn<B>, Error> {
        let SpeechInput { texts, fields, seed, voices, lines } = input.with_unix_lines();
        let Read { first, speakers: given, snapshot, voice } = prepare::read(fields, &self.model)?;
        let streams = streams(&*self.model)?;
        let requests = prepare::requests(&first, texts, seed);
        prepare::check_scripts(&requests, &streams, &self.model, true)?;
        let mut turn = Turn {
            on: Rc::clone(self),
            requests,
            name: voice.clone(),
            source: Source::Recorded(Vec::new()),
            key: None,
            is_kept: self.keeps,
            notices: Vec::new(),
            most: most_prefix(&first, &streams),
            lines,
        };
        let Some(request) = turn.requests.first() else { return Ok(turn) };
        let rows = match snapshot || voice.is_some() {
            true => Some(Plan::new(request, Speakers::Kept, 0, &*self.model)?.guidance.rows()),
            false => None,
        };
        if let Some(name) = voice {
            let path = voices.ok_or(SessionError::NoVoices)?.existing(&name)?;
            // Looked at before it is read: a file that is written meanwhile is another one.
            turn.key = Some(Key { voices: Voices::Kept(Seen::of(&path)?), rows });
            if turn.known().is_none() {
                turn.source = Source::Kept(Box::new(KeptSnapshot::read(&path)?));
            }
            return Ok(turn);
        }
        if given.is_empty() {
            return Ok(turn);
        }
        let (mut files, mut recorded) = (Vec::new(), Vec::new());
        for Given { sound, words: (words, field) } in given {
            let seen = Seen::of(&sound)?;
            let sum = if self.keeps { self.sum(seen.clone())? } else { [0; 32] };
            let words = words.read(&sound, field)?;
            recorded.push((sum, words.clone()));
            files.push((sound, seen, (Words::List(words), field)));
        }
        let is_cut = rows.is_some() || first.max_prefix_duration.is_some();
        let voices = Voices::Recorded(recorded, is_cut.then_some(turn.most));
        turn.key = Some(Key { voices, rows });
        if turn.known().is_none() {
            let mut speakers = Vec::new();
            for (sound, seen, words) in files {
                speakers.push(Speaker::read(&sound, words, observe, &mut turn.notices)?);
                // The file was looked at before its sum was taken. If it is still the same, the sum is of this
                // sound.
                turn.is_kept &= seen.is_unchanged()?;
            }
            notices.extend_from_slice(&turn.notices);
            match is_cut {
                true => speakers = cut(&speakers, turn.most, &streams),
                false => prepare::check_length(&first, &speakers, &streams)?,
            }
            turn.source = Source::Recorded(speakers);
        }
        Ok(turn)
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
        self: Rc<Self>,
        input: SpeechInput<'_>,
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn Ready>, Error> {
        Ok(Box::new(self.turn(input, observe, notices)?))
    }
}

/// The source of the voices.
enum Source {
    Recorded(Vec<Speaker>),
    Kept(Box<KeptSnapshot>),
}

/// Scripts that were checked.
struct Turn<B: Backend> {
    on: Rc<Resident<B>>,
    requests: Vec<Request>,
    /// The name of a kept voice.
    name: Option<String>,
    /// The voices, if their state is not in memory.
    source: Source,
    /// The files of the voices; none for voices of the model.
    key: Option<Key>,
    /// False for one run, and if a file changed while it was read: its state does not belong to the key.
    is_kept: bool,
    /// The notices of reading the files.
    notices: Vec<Notice>,
    /// The most frames of recordings, if they are cut.
    most: usize,
    lines: bool,
}

impl<B: Backend> Turn<B> {
    fn known(&self) -> Option<Known<B>> {
        self.on.voices.borrow_mut().get(self.key.as_ref()?)
    }

    /// Returns the state of the voices; none for voices of the model.
    fn heard(&self, observe: &dyn Observe) -> Result<Option<VoiceState<B>>, Error> {
        let Some(key) = &self.key else { return Ok(None) };
        if let Some(Known { heard, notices }) = self.known() {
            notices.into_iter().for_each(|notice| observe.event(Event::Noticed(notice)));
            return Ok(Some(heard));
        }
        let networks = &self.on.networks;
        let noting = Noting::after(self.notices.clone(), observe);
        let observe = &noting;
        let (bytes, heard) = match (&self.source, key.rows) {
            (Source::Kept(kept), Some(rows)) => {
                let snapshot = kept.snapshot(rows, networks, observe)?;
                (snapshot.bytes(networks), VoiceState::Snapshot(Rc::new(snapshot)))
            }
            (Source::Recorded(speakers), Some(rows)) => {
                let recordings = encoded(speakers, networks, observe)?;
                let snapshot = Snapshot::within(self.most, &recordings, rows, networks, observe)?;
                (snapshot.bytes(networks), VoiceState::Snapshot(Rc::new(snapshot)))
            }
            (Source::Recorded(speakers), None) => {
                let recordings = encoded(speakers, networks, observe)?;
                let codes = recordings.iter().flat_map(|recording| &recording.frames);
                let bytes = codes.map(|frame| 4 * frame.len() as u64).sum();
                (bytes, VoiceState::Recordings(Rc::new(recordings)))
            }
            (Source::Kept(_), None) => unreachable!("a kept voice has a state"),
        };
        if self.is_kept {
            let known = Known { heard: heard.clone(), notices: noting.notices() };
            self.on.voices.borrow_mut().put(key.clone(), bytes, known);
        }
        Ok(Some(heard))
    }
}

impl<B: Backend> Ready for Turn<B> {
    fn check_memory(&self, engine: Engine, _: Options) -> Result<(), Error> {
        let recorded = match &self.source {
            Source::Recorded(speakers) => longest(speakers),
            Source::Kept(_) => 0.0,
        };
        check_memory(&self.on.model, engine, recorded)
    }

    fn decided(&self) -> Fields {
        let Some(request) = self.requests.first() else { return Fields::new() };
        let mut fields = given(request);
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
        prepare::check_scripts(&self.requests, &streams(model)?, model, more.is_some())?;
        let heard = self.heard(observe)?;
        let mut all = Vec::new();
        for (index, request) in self.requests.iter().enumerate() {
            let (speakers, snapshot) = match &heard {
                None => (Speakers::Recorded(&[]), None),
                Some(VoiceState::Recordings(recordings)) => (Speakers::Recorded(recordings), None),
                Some(VoiceState::Snapshot(snapshot)) => (Speakers::Kept, Some(&**snapshot)),
            };
            let plan = Plan::new(request, speakers, 0, model)?;
            let text = Text { first: &request.script, more: more.take() };
            let mut samples = |samples: &[f32], goes_on: bool| {
                sink.goes_on(index, goes_on)?;
                sink.samples(index, samples)
            };
            let options = Options { since: options.since.filter(|_| index == 0), ..options };
            let (mut notices, dialogue) =
                run(plan, snapshot, networks, options, text, observe, &mut samples)?;
            notices.extend(dialogue.left());
            all.extend(notices.iter().map(|notice| of_line(notice, index, self.lines)));
            sink.done(index, dialogue.spoken)?;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
