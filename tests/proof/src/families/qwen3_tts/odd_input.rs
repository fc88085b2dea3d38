//! Odd input of public calls: the program speaks where the reference speaks, and refuses where it
//! refuses, unless it has a better answer.
//!
//! The stored cases have no arguments, so these stand here, as the reference got them. Its recording is
//! not stored. With another one the speech may end earlier, so only its frames are counted.

use std::io;

use acestep_engine::{
    Audio, Error, Unobserved,
    audio::{
        encoding::EncodingOptions,
        format::{Encoding, Format},
        read, write,
    },
    files::Existing,
};
use acestep_import::Qwen3Tts;
use acestep_model::{
    Backend, Place,
    speech::qwen3_tts::{Files as _, ModelType},
};
use acestep_speech::{
    Chunks,
    qwen3_tts::{Networks, Plan, Request, SAMPLE_RATE, Voice, check_request, speak},
};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    families::{GoldenSource, with},
    golden::page::Page,
};

/// Samples of a recording of a second.
const SECOND: usize = 24_000;

/// A recording.
#[derive(Debug, Clone)]
enum Reference {
    Sound(Audio),
    /// A file that is not there.
    Missing,
}

/// A call: a request for each text.
struct Call {
    model_type: ModelType,
    texts: &'static [&'static str],
    /// Fields that differ from those of all calls.
    fields: Value,
    reference: Option<(Reference, Option<&'static str>)>,
    /// True if the program refuses what the reference takes.
    is_refused: bool,
}

impl Call {
    /// A call that says one word in English.
    fn of(model_type: ModelType, fields: Value) -> Self {
        let reference = None;
        Self { model_type, texts: &["hi"], fields, reference, is_refused: false }
    }

    fn custom(fields: Value) -> Self {
        Self::of(ModelType::CustomVoice, with(json!({ "voice": "ryan" }), &fields))
    }

    fn clone_of(samples: Vec<f32>, rate: u32) -> Self {
        let sound = Audio { channels: vec![samples], sample_rate: rate };
        let reference = Some((Reference::Sound(sound), Some("a")));
        Self { reference, ..Self::of(ModelType::Base, json!({})) }
    }

    /// True if the recording has other samples than the one of the reference. Silence is the same.
    fn has_other_recording(&self) -> bool {
        match &self.reference {
            Some((Reference::Sound(sound), _)) => sound.channels[0].iter().any(|&x| x != 0.0),
            _ => false,
        }
    }
}

/// True if each text has two or three frames. A call has at most four first codes: the first two
/// cannot be the end, and the last has no frame.
fn is_of_clones(lengths: &[usize], per_frame: usize) -> bool {
    lengths.iter().all(|&samples| [2 * per_frame, 3 * per_frame].contains(&samples))
}

/// A signal that no network finds trivial.
fn recording(samples: usize) -> Vec<f32> {
    let at = |i: usize| {
        let t = i as f32 / SECOND as f32;
        0.4 * (1400.0 * t).sin() * (11.0 * t).cos() + 0.1 * (7000.0 * t * t).sin()
    };
    (0..samples).map(at).collect()
}

/// Returns the call of a stored case, or the reason why it is not compared.
fn call(case: &str) -> Result<Call, &'static str> {
    let whole = || Call::clone_of(recording(SECOND), 24_000);
    let part = |samples| Call::clone_of(recording(samples), 24_000);
    let scaled =
        |by: f32| Call::clone_of(recording(SECOND).into_iter().map(|x| by * x).collect(), 24_000);
    let sampled =
        |key: &str, value: Value| Call::custom(json!({ "do_sample": true, (key): value }));
    let custom = |key: &str, value: Value| Call::custom(json!({ (key): value }));
    Ok(match case {
        "custom_voice: unknown speaker" => custom("voice", json!("nobody")),
        "custom_voice: speaker name in capitals" => {
            Call::custom(json!({ "voice": "RYAN", "language": "English" }))
        }
        "custom_voice: empty speaker name" => custom("voice", json!("")),
        "custom_voice: unknown language" => custom("language", json!("klingon")),
        "custom_voice: dialect as language" => custom("language", json!("beijing_dialect")),
        "custom_voice: language None" => custom("language", Value::Null),
        "custom_voice: empty text, non-streaming" => {
            Call { texts: &[""], ..Call::custom(json!({})) }
        }
        "custom_voice: empty text, streaming" => {
            Call { texts: &[""], ..custom("non_streaming_mode", json!(false)) }
        }
        "custom_voice: 2 texts, 1 speaker" => {
            Call { texts: &["a", "b"], ..Call::custom(json!({})) }
        }
        "custom_voice: temperature 0" => sampled("temperature", json!(0.0)),
        "custom_voice: temperature as int 1" => sampled("temperature", json!(1)),
        "custom_voice: top_k 0" => sampled("top_k", json!(0)),
        "custom_voice: top_k -1" => sampled("top_k", json!(-1)),
        "custom_voice: top_p 1.5" => sampled("top_p", json!(1.5)),
        "custom_voice: top_p 0" => sampled("top_p", json!(0.0)),
        "custom_voice: repetition_penalty int 1" => custom("repetition_penalty", json!(1)),
        "custom_voice: repetition_penalty 0.0" => custom("repetition_penalty", json!(0.0)),
        "custom_voice: max_new_tokens 1" => custom("max_new_tokens", json!(1)),
        "custom_voice: max_new_tokens 2" => custom("max_new_tokens", json!(2)),
        "custom_voice: max_new_tokens 0" => custom("max_new_tokens", json!(0)),
        "custom_voice: seed argument" => custom("seed", json!(3)),
        "custom_voice model, clone call" | "custom_voice model, create_voice_clone_prompt" => {
            Call { model_type: ModelType::CustomVoice, ..whole() }
        }
        "base model, custom voice call" => {
            Call { model_type: ModelType::Base, ..Call::custom(json!({})) }
        }
        "clone: no reference" => Call::of(ModelType::Base, json!({})),
        "clone: in-context with empty transcript" => {
            let reference = whole().reference.map(|(sound, _)| (sound, Some("")));
            Call { reference, ..whole() }
        }
        // The reference does not read the transcript then.
        "clone: x-vector with transcript" => {
            let reference = whole().reference.map(|(sound, _)| (sound, None));
            Call { reference, ..whole() }
        }
        "clone: missing file" => {
            Call { reference: Some((Reference::Missing, Some("a"))), ..whole() }
        }
        "clone: empty audio" => part(0),
        "clone: 384 samples" => part(384),
        "clone: 385 samples" => part(385),
        "clone: 1279 samples" => part(1279),
        "clone: 1280 samples" => part(1280),
        "clone: silence" => scaled(0.0),
        "clone: NaN" => Call { is_refused: true, ..scaled(f32::NAN) },
        "clone: louder than 1" => scaled(4.0),
        "clone: 16 kHz" => Call::clone_of(recording(16_000), 16_000),
        "clone: 1 reference, 2 texts" => Call { texts: &["a", "b"], ..whole() },
        "clone: empty text" => Call { texts: &[""], ..whole() },
        "voice_design: empty instruct" => {
            Call::of(ModelType::VoiceDesign, json!({ "instruct": "" }))
        }
        "voice_design: instruct None" => Call::of(ModelType::VoiceDesign, json!({})),
        "voice_design model, custom voice call" => {
            Call { model_type: ModelType::VoiceDesign, ..Call::custom(json!({})) }
        }
        "custom_voice: empty list of texts"
        | "custom_voice: 2 texts, 3 speakers"
        | "clone: 2 references, 3 texts" => return Err("requests have no lists"),
        "custom_voice: temperature as int 2" | "custom_voice: repetition_penalty int 2" => {
            return Err("2 is 2.0 here");
        }
        "custom_voice: unknown extra argument" => {
            return Err("an unknown field is refused, so that a misspelt one is not lost");
        }
        "clone: in-context without transcript" => {
            return Err("without its words a recording is only imitated");
        }
        "clone: bare array" => return Err("every sound has a rate"),
        "clone: stereo array (frames, channels)" => return Err("the mean of channels is taken"),
        _ => return Err("this version does not know this case"),
    })
}

/// All stored cases.
pub(super) fn compare<B: Backend>(
    page: Page<'_>,
    content: &Value,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    // Each is loaded once.
    let mut networks: Vec<(ModelType, Networks<'_, B>)> = Vec::new();
    for entry in content["cases"].as_array().into_iter().flatten() {
        let case = entry["case"].as_str().unwrap_or_default();
        let Some(call) = page.found(case, call(case)) else { continue };
        let model_type = call.model_type;
        let Some(model) = page.found(case, of.speech.of_type(model_type)) else { continue };
        if networks.iter().all(|(own, _)| *own != model_type) {
            networks.push((model_type, Networks::<B>::new(model, place.clone())));
        }
        let own = networks.iter().find(|(own, _)| *own == model_type);
        let own = &own.expect("they were added").1;
        page.attempt(vec![case.to_owned()], || {
            let spoken = spoken(&call, model, own)?;
            let is_refused = call.is_refused || entry["result"] != "ok";
            match spoken {
                Ok(lengths) if !is_refused && call.has_other_recording() => {
                    let per_frame = model.codec_config().decoder_config.samples_per_frame();
                    let texts = entry["samples"].as_array().map_or(0, Vec::len);
                    let is_usual = lengths.len() == texts && is_of_clones(&lengths, per_frame);
                    page.equal(case.to_owned(), &json!(is_usual), &json!(true));
                }
                Ok(lengths) if !is_refused => {
                    page.equal(case.to_owned(), &json!(lengths), &entry["samples"]);
                }
                Ok(_) => page.fail(case, "it speaks, and must be refused"),
                Err(error) if is_refused && is_refusal(&error) => {
                    page.equal(case.to_owned(), &json!("refused"), &json!("refused"));
                }
                Err(error) if is_refused => {
                    page.fail(case, &format!("it must be refused, but has another error: {error}"));
                }
                Err(error) => page.fail(case, &format!("it must speak: {error}")),
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// True for an error about the input, and not about the model or the device.
fn is_refusal(error: &Error) -> bool {
    match error {
        Error::File { source, .. } => source.kind() == io::ErrorKind::NotFound,
        Error::NotFinite { stage, .. } => stage == "the recording",
        error => error.is_usage(),
    }
}

/// Returns the numbers of samples of the texts, or the error.
fn spoken<B: Backend>(
    call: &Call,
    model: &Qwen3Tts,
    networks: &Networks<'_, B>,
) -> Result<Result<Vec<usize>, Error>> {
    let sound = match &call.reference {
        None => None,
        Some((reference, words)) => match heard(reference)? {
            Ok(sound) => Some((sound, *words)),
            Err(error) => return Ok(Err(error)),
        },
    };
    let mut lengths = Vec::new();
    for text in call.texts {
        let Ok(request) = request(call, text) else {
            // A value of another type.
            return Ok(Err(Error::Conflict("the request cannot be read".to_owned())));
        };
        let speak = || -> Result<usize, Error> {
            check_request(&request, sound.is_some(), model)?;
            let voice = sound
                .as_ref()
                .map(|(sound, words)| Voice::of_recording(sound, *words, networks, &Unobserved));
            let plan = Plan::new(&request, voice.transpose()?, 0, model)?;
            let (chunks, mut sink) = (Chunks::default(), |_: &[f32]| Ok(()));
            let spoken = speak(&plan, None, networks, chunks, &Unobserved, &mut sink)?;
            Ok(spoken.audio.samples())
        };
        match speak() {
            Ok(samples) => lengths.push(samples),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(lengths))
}

/// Returns the request of a text; what a call does not say is as in all stored calls.
fn request(call: &Call, text: &str) -> serde_json::Result<Request> {
    let fields = json!({
        "text": text, "language": "english", "seed": 0, "max_new_tokens": 4, "do_sample": false,
        "subtalker_dosample": false,
    });
    serde_json::from_value(with(fields, &call.fields))
}

/// Returns the sound of a recording, from a file if it can be one.
fn heard(reference: &Reference) -> Result<Result<Audio, Error>> {
    let folder = tempfile::tempdir().context("cannot create a temporary directory")?;
    let path = folder.path().join("a.wav");
    if let Reference::Sound(sound) = reference {
        if sound.samples() == 0 || sound.channels[0].iter().any(|x| !x.is_finite()) {
            return Ok(Ok(sound.clone()));
        }
        let encoding =
            Encoding::resolve(EncodingOptions::default(), Format::Wav32, &mut Vec::new())?;
        write::save(&path, sound, &encoding, None, Existing::Keep)?;
    }
    Ok(read::recording(&path, 0.0, SAMPLE_RATE, &Unobserved).map(|(sound, _)| sound))
}

#[cfg(test)]
mod tests {
    use acestep_engine::audio::loudness::require_finite;

    use super::*;

    #[test]
    fn a_fault_of_the_model_or_the_device_is_no_refusal() {
        let not_finite = |stage| require_finite(stage, &[f32::NAN]).expect_err("NaN");
        let conflict = Error::Conflict("two fields".to_owned());
        let missing = heard(&Reference::Missing).expect("a folder").expect_err("no file");
        for error in [not_finite("the recording"), conflict, missing] {
            assert!(is_refusal(&error), "{error}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let unreadable =
            read::recording(folder.path(), 0.0, SAMPLE_RATE, &Unobserved).expect_err("a folder");
        for error in [not_finite("the speaker encoder"), Error::Cancelled, unreadable] {
            assert!(!is_refusal(&error), "{error}");
        }
    }

    #[test]
    fn with_another_recording_a_clone_has_two_or_three_frames() {
        assert!(is_of_clones(&[3840, 5760], 1920));
        for samples in [0, 1920, 3841, 7680] {
            assert!(!is_of_clones(&[5760, samples], 1920), "{samples}");
        }
        let other = |case: &str| call(case).expect("a known case").has_other_recording();
        let cases = ["louder than 1", "empty text", "silence", "missing file"];
        assert_eq!(cases.map(|case| other(&format!("clone: {case}"))), [true, true, false, false]);
        assert!(!other("custom_voice: top_k 0"));
    }

    /// The fields of a call come before those of all calls.
    #[test]
    fn a_case_has_the_arguments_of_its_call() {
        let of = |case: &str| {
            let call = call(case).expect("a known case");
            let request = request(&call, call.texts[0]).expect("a request");
            (call, request)
        };
        let (call, request) = of("custom_voice: max_new_tokens 2");
        assert_eq!((call.model_type, request.text.as_str()), (ModelType::CustomVoice, "hi"));
        assert_eq!(request.sampling.max_new_tokens, Some(2));
        assert_eq!(
            (request.sampling.do_sample, request.voice.as_deref()),
            (Some(false), Some("ryan"))
        );
        assert_eq!(of("custom_voice: language None").1.language, None);
        assert_eq!(of("custom_voice: unknown speaker").1.voice.as_deref(), Some("nobody"));
        assert_eq!(of("custom_voice: top_p 0").1.sampling.do_sample, Some(true));
        let (call, request) = of("clone: empty text");
        assert_eq!((call.model_type, request.text.as_str()), (ModelType::Base, ""));
        assert_eq!(request.voice, None);
    }
}
