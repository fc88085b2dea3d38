//! Dia2 as a model of speech.

use std::path::{Path, PathBuf};

use acestep_engine::{Engine, Error, Notice, Observe};
use acestep_import::{DIALOGUE_MODELS, Dia2, Dia2Choice, Layout};
use acestep_model::speech::dia2::Files;
use acestep_speech::{
    Chunks, Options,
    dia2::{
        Dia2Error, FIELDS, KeptSnapshot, Request, Resampling, SAMPLE_RATE, Streams, check_request,
        reader, streams,
    },
};
use serde_json::Value;

use super::{
    super::{
        Fields, Prepared, PreparedVoice, Sink, SpeechModel, VoiceFile, Wanted, check_fields,
        of_line, text,
    },
    Speaker, Task, Voices, check, keep, speak,
};
use crate::SessionError;

/// A script for the check of memory, which does not depend on it.
const ANY_SCRIPT: &str = "[S1] Yes.";

/// Recordings of the speakers, and their words.
const RECORDINGS: [(&str, &str); 2] = [("speaker_1", "words_1"), ("speaker_2", "words_2")];

/// Opens the first installed model.
///
/// # Errors
/// [`Error::Checkpoint`], which tells how to get one.
pub(in super::super) fn first(layout: &Layout) -> Result<Box<dyn SpeechModel>, Error> {
    let model = Dia2::find(None, &Dia2Choice::default(), layout).map_err(Error::checkpoint)?;
    Ok(Box::new(model))
}

/// Opens the model `choice` if it is one of this family.
///
/// # Errors
/// [`Error::Checkpoint`].
pub(in super::super) fn open(
    choice: Option<&str>,
    layout: &Layout,
) -> Option<Result<Box<dyn SpeechModel>, Error>> {
    let choice = choice?;
    let is_name = |name: &str| name.eq_ignore_ascii_case(choice);
    let mut models = DIALOGUE_MODELS.iter();
    let is_one = models.any(|model| is_name(model.name) || is_name(model.directory))
        || Dia2::is_at(Path::new(choice));
    let model = |model| Box::new(model) as Box<dyn SpeechModel>;
    let find = || Dia2::find(Some(choice), &Dia2Choice::default(), layout);
    is_one.then(|| find().map(model).map_err(Error::checkpoint))
}

impl SpeechModel for Dia2 {
    fn name(&self) -> &str {
        Files::name(self)
    }

    fn notices(&self) -> Vec<Notice> {
        Self::notices(self).into_iter().map(Notice).collect()
    }

    fn sample_rate(&self) -> u32 {
        SAMPLE_RATE
    }

    fn has_word_times(&self) -> bool {
        true
    }

    fn at_once(&self, _engine: Engine) -> usize {
        1
    }

    fn prepare(
        &self,
        wanted: Wanted<'_>,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn Prepared + '_>, Error> {
        let Wanted { texts, mut fields, seed, voices, lines } = wanted;
        let speakers = speakers(&mut fields, notices)?;
        let voice = match (text(&mut fields, "voice")?, voices) {
            (None, _) => Source::Recorded(speakers),
            (Some(_), _) if !speakers.is_empty() => {
                let why = "`voice` is a kept voice, and `speaker_1` another one";
                return Err(Error::Conflict(why.to_owned()));
            }
            (Some(_), None) => return Err(SessionError::NoVoices.into()),
            (Some(name), Some(voices)) => {
                Source::Kept(Box::new(KeptSnapshot::read(&voices.existing(&name)?)?))
            }
        };
        check_fields(&fields, FIELDS, SpeechModel::name(self))?;
        let first: Request = serde_json::from_value(Value::Object(fields))
            .map_err(|error| SessionError::SpeechFields { why: error.to_string() })?;
        let request = |(script, index): (String, u64)| Request {
            script,
            seed: Some(seed.wrapping_add(index)),
            ..first.clone()
        };
        let recordings = match &voice {
            Source::Recorded(speakers) => &speakers[..],
            Source::Kept(_) => &[],
        };
        if first.include_prefix == Some(true) && recordings.is_empty() {
            let why = "`include_prefix` keeps recordings, and there is no `speaker_1`";
            return Err(Error::Conflict(why.to_owned()));
        }
        let streams = streams(self)?;
        check_length(recordings, &streams)?;
        let reader = reader(&streams, self)?;
        let requests: Vec<Request> = texts.into_iter().zip(0..).map(request).collect();
        for (index, request) in requests.iter().enumerate() {
            let read = check_request(request)
                .and_then(|()| reader.script(&request.script).map_err(Error::from).map(drop));
            read.map_err(|error| match requests.len() {
                1 => error,
                _ => SessionError::Line { line: index + 1, error: Box::new(error) }.into(),
            })?;
        }
        Ok(Box::new(Scripts { model: self, requests, voice, lines }))
    }

    fn prepare_voice(
        &self,
        mut fields: Fields,
        engine: Engine,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn PreparedVoice + '_>, Error> {
        let speakers = speakers(&mut fields, notices)?;
        check_fields(&fields, &[], SpeechModel::name(self))?;
        if speakers.is_empty() {
            let why = "a voice of this model is made of `speaker_1`, and there is none";
            return Err(Error::Conflict(why.to_owned()));
        }
        check_length(&speakers, &streams(self)?)?;
        let request = Request { script: ANY_SCRIPT.to_owned(), ..Request::default() };
        let voices = Voices::Recorded(&speakers);
        let (resampling, chunks) = (Resampling::default(), Chunks::default());
        check(Task { request: &request, voices, resampling, chunks }, self, engine)?;
        Ok(Box::new(Recordings { model: self, speakers }))
    }
}

/// Takes the recordings of the speakers out of the fields, and reads them.
///
/// # Errors
/// Words without a recording; a second speaker without a first; the errors of [`Speaker::read`].
fn speakers(fields: &mut Fields, notices: &mut Vec<Notice>) -> Result<Vec<Speaker>, Error> {
    let mut speakers = Vec::new();
    for (index, (sound, words)) in RECORDINGS.into_iter().enumerate() {
        let words = text(fields, words)?;
        let Some(sound) = text(fields, sound)? else {
            if words.is_some() {
                let (words, sound) = RECORDINGS[index];
                return Err(Error::Conflict(format!("`{sound}` has no `{words}`")));
            }
            continue;
        };
        if speakers.len() < index {
            let why = "`speaker_2` follows the recording of `speaker_1`, and there is none";
            return Err(Error::Conflict(why.to_owned()));
        }
        let sound = PathBuf::from(sound);
        let words = words.map_or_else(|| sound.with_extension("json"), PathBuf::from);
        speakers.push(Speaker::read(&sound, &words, notices)?);
    }
    Ok(speakers)
}

/// Refuses recordings that leave no room, before they are encoded.
fn check_length(speakers: &[Speaker], streams: &Streams) -> Result<(), Error> {
    let seconds: f64 = speakers.iter().map(|speaker| speaker.sound.seconds()).sum();
    let frames = (seconds * streams.frame_rate) as usize;
    let most = streams.most_steps.saturating_sub(1);
    match frames <= most {
        true => Ok(()),
        false => Err(Dia2Error::TooLong { frames, most }.into()),
    }
}

/// Recordings whose voices will be kept.
struct Recordings<'a> {
    model: &'a Dia2,
    speakers: Vec<Speaker>,
}

impl PreparedVoice for Recordings<'_> {
    fn keep(&self, engine: Engine, observe: &dyn Observe) -> Result<Box<dyn VoiceFile>, Error> {
        let kept = keep(&self.speakers, Resampling::default(), self.model, engine, observe)?;
        Ok(Box::new(kept))
    }
}

/// The source of the voices.
enum Source {
    Recorded(Vec<Speaker>),
    Kept(Box<KeptSnapshot>),
}

/// Scripts for a model.
struct Scripts<'a> {
    model: &'a Dia2,
    requests: Vec<Request>,
    voice: Source,
    lines: bool,
}

impl Scripts<'_> {
    fn task<'a>(&'a self, request: &'a Request, options: Options) -> Task<'a> {
        let voices = match &self.voice {
            Source::Recorded(speakers) => Voices::Recorded(speakers),
            Source::Kept(kept) => Voices::Kept(kept),
        };
        Task { request, voices, resampling: Resampling::default(), chunks: options.chunks }
    }
}

impl Prepared for Scripts<'_> {
    fn check_memory(&self, engine: Engine, options: Options) -> Result<(), Error> {
        let check = |request| check(self.task(request, options), self.model, engine);
        self.requests.iter().try_for_each(check)
    }

    fn speak(
        &self,
        engine: Engine,
        options: Options,
        observe: &dyn Observe,
        sink: &mut dyn Sink,
    ) -> Result<Vec<Notice>, Error> {
        let mut all = Vec::new();
        for (index, request) in self.requests.iter().enumerate() {
            let task = self.task(request, options);
            let mut samples = |samples: &[f32]| sink.samples(samples);
            let (mut notices, dialogue) = speak(task, self.model, engine, observe, &mut samples)?;
            notices.extend(dialogue.left());
            all.extend(notices.iter().map(|notice| of_line(notice, index, self.lines)));
            sink.done(index, dialogue.spoken)?;
        }
        Ok(all)
    }
}
