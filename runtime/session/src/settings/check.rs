//! Check of the defaults of requests, one by one: a wrong one is found with its source.

use std::sync::Arc;

use acestep_engine::{
    Error,
    audio::format::{Encoding, Format},
    error::shortened,
};
use acestep_music::{Array3, ModelInfo, Plan, Request, SongError, Sound, Sounds};
use serde_json::{Map, Value as Json};

use super::{FileProblem, SetBy, Settings, SettingsError, file::placed_at};

impl Settings {
    /// Checks every default of requests alone, as a request with it is checked.
    ///
    /// # Errors
    /// [`SettingsError::Wrong`] with the line, or [`SettingsError::Variable`].
    pub fn check_requests(&self) -> Result<(), Error> {
        for (name, set) in &self.request {
            let Some(error) = error_of(name, &set.text) else { continue };
            let why = why(&error);
            let value = match &set.text {
                Json::String(text) => shortened(text),
                other => shortened(&other.to_string()),
            };
            return Err(match &set.origin {
                SetBy::Variable(name) => {
                    SettingsError::Variable { name: name.clone(), value, why }.into()
                }
                SetBy::File(path) => {
                    let why = placed_at(set.line, format!("`{name}` is `{value}`: {why}"));
                    SettingsError::Wrong { path: path.clone(), source: FileProblem(why) }.into()
                }
                origin @ (SetBy::Default | SetBy::Input(_)) => {
                    let origins = origin.to_string();
                    SettingsError::Defaults { origins, source: error.into() }.into()
                }
            });
        }
        Ok(())
    }
}

/// Returns the error of a request that has only this default, if the error is about it.
fn error_of(key: &str, value: &Json) -> Option<Error> {
    let request = match Request::from_object(probe(key, value)) {
        Ok((request, _)) => request,
        Err(error) => return Some(error),
    };
    let of_key = |error: &Error| match error {
        Error::OutOfRange { field, .. } | Error::BadValue { field, .. } => *field == key,
        error => matches!(error.family(), Some(SongError::UnknownLanguage { .. })),
    };
    let planned = |is_turbo| {
        let model = released(is_turbo);
        let latents = Array3 { shape: [1, 1, model.channels], data: vec![0.0; model.channels] };
        let source = Some(Sound::Latents(Arc::new(latents)));
        let sounds = Sounds { source, ..Sounds::default() };
        Plan::with_sounds(&request, &model, &sounds).err().filter(of_key)
    };
    let Request { words, language, output, compute, .. } = &request;
    let notices = &mut Vec::new();
    let spoken = language.plan(words, &[0], notices).err();
    let format = output.audio_format.as_deref().map_or(Ok(Format::default()), str::parse::<Format>);
    let encoding = format.and_then(|of| Encoding::resolve(output.encoding(), of, notices));
    // A value may be for one kind of model only: base takes no single timestep.
    planned(true)
        .and_then(|_| planned(false))
        .or(spoken.filter(of_key))
        .or(encoding.err().filter(of_key))
        .or(compute.adapters().err().filter(of_key))
}

/// Returns a request with the default, and with the fields without which it would not be read.
fn probe(key: &str, value: &Json) -> Map<String, Json> {
    let mut object = Map::new();
    object.insert("caption".into(), "piano".into());
    if key == "adapter_scale" {
        object.insert("adapter".into(), vec!["a"; value.as_array().map_or(1, Vec::len)].into());
    }
    if key.starts_with("repaint") {
        object.insert("task_type".into(), "repaint".into());
        object.insert("repaint_mode".into(), "custom".into());
    }
    object.insert(key.to_owned(), value.clone());
    object
}

/// Returns the properties of the released models.
fn released(is_turbo: bool) -> ModelInfo {
    ModelInfo {
        name: "the model".into(),
        is_turbo,
        channels: 64,
        hop: 1920,
        sample_rate: 48_000,
        frames_per_code: 5,
        timbre_frames: 750,
        codes: 64_000,
        guidance_scale: 7.0,
    }
}

/// Returns the reason of an error without key and value.
fn why(error: &Error) -> String {
    match error {
        Error::OutOfRange { range, .. } => format!("it is out of range: {range}"),
        Error::BadValue { why, .. } => why.clone(),
        Error::RequestValue { expected, .. } => expected.clone(),
        other => other.hint().unwrap_or_else(|| other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_default_is_refused_as_a_request_with_it_is() {
        for (key, value, reason) in [
            ("bpm", json!(1000), "it is out of range: a whole number from 30 to 300"),
            ("duration", json!(601), "it is out of range: above 0, at most 600"),
            ("infer_method", json!("odd"), "use ode or sde"),
            ("lm_top_p", json!(1.5), "it is out of range: 0 to 1"),
            ("audio_format", json!("odd"), "use wav16, wav24, wav32, flac, flac16, mp3 or opus"),
            ("opus_bitrate", json!(5), "it is out of range: a whole number from 6 to 510"),
            ("adapter_scale", json!([1, 11]), "it is out of range: -10 to 10"),
            ("repaint_wav_crossfade_sec", json!(21), "it is out of range: 0 to 20"),
            ("repainting_start", json!(601), "it is out of range: -600 to 600"),
            ("seed", json!([1, 2, 3, 4, 5, 6, 7, 8, 9]), "it is out of range: at most 8"),
            ("timesteps", json!([0.5, 0.9]), "each time must be below the one before it"),
            ("vocal_language", json!("english"), "did you mean en?"),
            ("thinking", json!("perhaps"), "it must be true or false"),
        ] {
            let error = error_of(key, &value).expect(key);
            assert_eq!(why(&error), reason, "{key}: {error}");
        }
    }

    /// Some are for one kind of model, or beside another field.
    #[test]
    fn a_default_that_some_request_can_have_is_taken() {
        for (key, value) in [
            ("bpm", json!(300)),
            ("caption", json!("")),
            ("repainting_end", json!(5)),
            ("timesteps", json!([0.5])),
            ("task_type", json!("lego")),
            ("flow_edit_morph", json!(true)),
            ("retake_seed", json!([1, 2])),
        ] {
            assert!(error_of(key, &value).is_none(), "{key}: {:?}", error_of(key, &value));
        }
    }
}
