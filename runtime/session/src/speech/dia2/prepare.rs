//! Dia2 as a model of speech.

use std::{path::PathBuf, sync::Arc};

use acestep_engine::{Engine, Error, Notice, Observe, on_engine};
use acestep_import::{DIALOGUE_MODELS, Dia2, Dia2Choice, Layout};
use acestep_model::speech::dia2::Files;
use acestep_speech::{
    Chunks, SpeechError, Voices as Kept,
    dia2::{
        Dia2Error, Entry, FIELDS, KeptSnapshot, MOST_PREFIX, Networks, Request, SAMPLE_RATE,
        Streams, check_request, reader, streams, words_of_json,
    },
};
use serde_json::Value;

use super::{
    super::{
        Advanced, Fields, PreparedVoice, Ready, SpeechInput, SpeechModel, VoiceFile, check_fields,
        family::of_family, flag, in_line, kept::made_by, taken, text,
    },
    Resident, Speaker, Words, check_memory, cut, encoded, longest, most_seconds,
};
use crate::SessionError;

/// A script for warm-ups.
const ANY_SCRIPT: &str = "[S1] Yes.";
/// Recordings of the speakers, and their words.
const RECORDINGS: [(&str, &str); 2] = [("speaker_1", "words_1"), ("speaker_2", "words_2")];
/// Fields of recordings.
const OF_RECORDINGS: [&str; 4] = ["speaker_1", "words_1", "speaker_2", "words_2"];
/// Fields of all voices.
const OF_VOICES: [&str; 6] = ["voice", "speaker_1", "words_1", "speaker_2", "words_2", "snapshot"];

/// Opens the first installed model.
///
/// # Errors
/// [`Error::Checkpoint`], which tells how to get one.
pub(in super::super) fn first(layout: &Layout) -> Result<Arc<dyn SpeechModel>, Error> {
    let model = Dia2::find(None, &Dia2Choice::default(), layout).map_err(Error::checkpoint)?;
    Ok(Arc::new(model))
}

/// Returns the name of the first installed model.
pub(in super::super) fn name_here(layout: &Layout) -> Option<&'static str> {
    DIALOGUE_MODELS.iter().find(|own| layout.has(own)).map(|own| own.name)
}

/// Finds the model `choice` if it is one of this family, with the codec of the field `codec`.
///
/// # Errors
/// [`Error::Checkpoint`]; a field of another type.
pub(in super::super) fn find(
    choice: Option<&str>,
    fields: &mut Fields,
    layout: &Layout,
) -> Option<Result<Dia2, Error>> {
    let choice = choice?;
    let is_one = DIALOGUE_MODELS.iter().any(|model| model.is_called(choice))
        || layout.place_called(choice).is_some_and(|place| Dia2::is_at(&place));
    is_one.then(|| {
        let places = Dia2Choice { mimi: text(fields, "codec")?, ..Dia2Choice::default() };
        Dia2::find(Some(choice), &places, layout).map_err(Error::checkpoint)
    })
}

/// A recording that is not read yet.
#[derive(Debug, Clone)]
pub(super) struct Given {
    /// The file of the sound.
    pub(super) sound: PathBuf,
    /// Its words, and their field.
    pub(super) words: (Words, &'static str),
}

/// The fields of a request.
pub(super) struct Read {
    /// The settings of all scripts.
    pub(super) first: Request,
    /// Recordings of speaker 1, and of speaker 2.
    pub(super) speakers: Vec<Given>,
    /// True to begin at the state after the recordings, which does not depend on the script.
    pub(super) snapshot: bool,
    /// The name of a kept voice.
    pub(super) voice: Option<String>,
}

/// Takes the recordings of the speakers out of the fields.
///
/// # Errors
/// Words without a recording; a second speaker without a first.
fn given(fields: &mut Fields) -> Result<Vec<Given>, Error> {
    let mut speakers = Vec::new();
    for (index, (of_sound, field)) in RECORDINGS.into_iter().enumerate() {
        let words = words_of(fields, field)?;
        let Some(sound) = text(fields, of_sound)? else {
            if words.is_some() {
                return Err(Error::Conflict(format!("`{field}` has no `{of_sound}`")));
            }
            continue;
        };
        if speakers.len() < index {
            let why = "`speaker_2` follows the recording of `speaker_1`, and there is none";
            return Err(Error::Conflict(why.to_owned()));
        }
        let words = (words.unwrap_or(Words::Beside), field);
        speakers.push(Given { sound: PathBuf::from(sound), words });
    }
    Ok(speakers)
}

/// Reads recordings.
///
/// # Errors
/// The errors of [`Speaker::read`].
fn read_all(
    given: Vec<Given>,
    observe: &dyn Observe,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Speaker>, Error> {
    let of = |Given { sound, words }| Speaker::read(&sound, words, observe, notices);
    given.into_iter().map(of).collect()
}

/// Reads the fields of a request.
///
/// # Errors
/// A field that the family does not have, or of another type; fields that contradict each other.
pub(super) fn read(mut fields: Fields, model: &Dia2) -> Result<Read, Error> {
    let speakers = given(&mut fields)?;
    let voice = text(&mut fields, "voice")?;
    if voice.is_some() && !speakers.is_empty() {
        let why = "`voice` is a kept voice, and `speaker_1` another one";
        return Err(Error::Conflict(why.to_owned()));
    }
    let snapshot = flag(&mut fields, "snapshot")?;
    check_fields(&fields, FIELDS, model.takes(), SpeechModel::name(model))?;
    let first: Request = serde_json::from_value(Value::Object(fields))
        .map_err(|error| SessionError::SpeechFields { why: error.to_string() })?;
    if speakers.is_empty() {
        for (field, is_given) in [
            ("include_prefix", first.include_prefix == Some(true)),
            ("max_prefix_duration", first.max_prefix_duration.is_some()),
            ("snapshot", snapshot),
        ] {
            if is_given {
                let why = format!("`{field}` is about recordings, and there is no `speaker_1`");
                return Err(Error::Conflict(why));
            }
        }
    }
    if snapshot && first.include_prefix == Some(true) {
        let why = "a snapshot has no sound for `include_prefix`: leave one of them out";
        return Err(Error::Conflict(why.to_owned()));
    }
    Ok(Read { first, speakers, snapshot, voice })
}

/// Takes the words of a recording: the path of their file, or the list itself.
fn words_of(fields: &mut Fields, field: &'static str) -> Result<Option<Words>, Error> {
    match fields.get(field) {
        Some(value) if super::super::is_content(value) => {
            let words = words_of_json(&value.to_string(), field)?;
            fields.remove(field);
            Ok(Some(Words::List(words)))
        }
        _ => Ok(text(fields, field)?.map(|path| Words::File(PathBuf::from(path)))),
    }
}

/// Returns a request for each script.
pub(super) fn requests(first: &Request, scripts: Vec<String>, seed: u64) -> Vec<Request> {
    let request = |(script, index): (String, u64)| Request {
        script,
        seed: Some(seed.wrapping_add(index)),
        ..first.clone()
    };
    scripts.into_iter().zip(0..).map(request).collect()
}

/// Checks requests, and that their scripts can be read. A script that `may_grow` needs no word yet.
///
/// # Errors
/// A field that is out of range; a break without a number; no word. Several requests are named by
/// their place.
pub(super) fn check_scripts(
    requests: &[Request],
    streams: &Streams,
    model: &Dia2,
    may_grow: bool,
) -> Result<(), Error> {
    let reader = reader(streams, model)?;
    for (index, request) in requests.iter().enumerate() {
        let read = check_request(request).and_then(|()| {
            let entries = reader.script(&request.script).map_err(Error::from)?;
            match may_grow || !entries.iter().all(Entry::is_break) {
                true => Ok(()),
                false => Err(SpeechError::NothingToSay { field: "script" }.into()),
            }
        });
        read.map_err(|error| in_line(error, index, requests.len()))?;
    }
    Ok(())
}

impl SpeechModel for Dia2 {
    of_family!(|model: Dia2| model => Dia2, false);

    fn notices(&self) -> Vec<Notice> {
        Self::notices(self).into_iter().map(Notice).collect()
    }

    fn sample_rate(&self) -> u32 {
        SAMPLE_RATE
    }

    fn takes(&self) -> Vec<&'static str> {
        taken(FIELDS, &[], &OF_VOICES)
    }

    fn has_word_times(&self) -> bool {
        true
    }

    fn can_append(&self) -> bool {
        true
    }

    fn check(&self, text: &str, fields: &Fields, voices: Option<&Kept>) -> Result<(), Error> {
        let Read { first, speakers, voice, .. } = read(fields.clone(), self)?;
        if let Some(name) = voice {
            // It is read when it is needed: here its file must be there.
            voices.ok_or(SessionError::NoVoices)?.existing(&name)?;
        }
        // A file that was sent has no file beside it.
        let is_lonely = |given: &Given| matches!(given.words.0, Words::Beside);
        if let Some(index) = speakers.iter().position(is_lonely) {
            let (sound, field) = RECORDINGS[index];
            let why = format!("`{sound}` has no `{field}`");
            return Err(Dia2Error::Words { field, why }.into());
        }
        check_scripts(&requests(&first, vec![text.to_owned()], 0), &streams(self)?, self, false)
    }

    fn constants(&self) -> Option<String> {
        streams(self).ok().map(|streams| streams.to_string())
    }

    fn warmups(&self, voices: Option<&Kept>) -> Vec<(String, Fields)> {
        // The first frame is complete after the delays. The first chunk of sound has one frame, and a usual
        // one comes after it.
        let delay = self.config().data.delay_pattern.iter().max().copied().unwrap_or_default();
        let Chunks { first, others } = Chunks::default();
        let steps = delay + first + others;
        let warmup = |own: (&str, Value)| {
            let mut fields = Fields::new();
            fields.insert("max_steps".to_owned(), steps.into());
            fields.insert(own.0.to_owned(), own.1);
            (ANY_SCRIPT.to_owned(), fields)
        };
        // Without guidance the networks work on one row.
        let scales = [2.0, 1.0].map(|scale| warmup(("cfg_scale", scale.into())));
        let own = made_by(SpeechModel::name(self), voices).into_iter();
        scales.into_iter().chain(own.map(|name| warmup(("voice", name.into())))).collect()
    }

    fn prepare_voice(
        &self,
        mut fields: Fields,
        engine: Engine,
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn PreparedVoice + '_>, Error> {
        let speakers = read_all(given(&mut fields)?, observe, notices)?;
        check_fields(&fields, &[], OF_RECORDINGS.into(), SpeechModel::name(self))?;
        if speakers.is_empty() {
            let why = "a voice of this model is made of `speaker_1`, and there is none";
            return Err(Error::Conflict(why.to_owned()));
        }
        let most = most_seconds(MOST_PREFIX, &streams(self)?);
        check_memory(self, engine, longest(&speakers).min(most))?;
        Ok(Box::new(Recordings { model: self, speakers }))
    }
}

/// Recordings whose voices will be kept.
struct Recordings<'a> {
    model: &'a Dia2,
    speakers: Vec<Speaker>,
}

impl PreparedVoice for Recordings<'_> {
    fn keep(&self, engine: Engine, observe: &dyn Observe) -> Result<Box<dyn VoiceFile>, Error> {
        let recordings = self;
        let kept = on_engine!(engine,
        for<'a>(recordings: &'a Recordings<'a>, observe: &'a dyn Observe)
            -> Result<KeptSnapshot, Error>,
        |place: B| {
            let Recordings { model, speakers } = recordings;
            model.check::<B>(&place.device).map_err(Error::checkpoint)?;
            let networks = Networks::<B>::new(*model, place);
            let speakers = cut(speakers, MOST_PREFIX, &streams(*model)?);
            KeptSnapshot::new(encoded(&speakers, &networks, observe)?, &networks, observe)
        })??;
        Ok(Box::new(kept))
    }
}

/// Refuses recordings that leave no room, before they are encoded. Those of a request that says where to cut
/// are not refused, nor are those before a snapshot: both are cut before they are encoded.
pub(super) fn check_length(
    request: &Request,
    speakers: &[Speaker],
    streams: &Streams,
) -> Result<(), Error> {
    if request.max_prefix_duration.is_some() {
        return Ok(());
    }
    let seconds: f64 = speakers.iter().map(|speaker| speaker.sound.seconds()).sum();
    let frames = (seconds * streams.frame_rate) as usize;
    let most = streams.most_steps.saturating_sub(1);
    match frames <= most {
        true => Ok(()),
        false => Err(Dia2Error::TooLong { frames, most }.into()),
    }
}
