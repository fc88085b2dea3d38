//! A catalog of tiny models.

use acestep_serve::{
    catalog::{Catalog, Checked, Family, Model, Speech, Voice},
    job::{JobError, Kind},
    request::{ComposeRequest, SongRequest, VoiceRequest},
};
use serde_json::{Map, Value, json};

/// A model of dialogues, with the fields of other families too.
fn talk() -> Speech {
    let fields = "speaker_1 words_1 speaker_2 words_2 pinyin phonemes open_jtalk cfg_scale \
                  max_decoder_steps exact_prior timestamps audio_format";
    let fields = fields.split(' ').map(str::to_owned).collect();
    let default_language = None;
    Speech {
        sample_rate: 24_000,
        fields,
        default_language,
        has_word_times: true,
        can_append: false,
    }
}

/// A catalog of one model of each family, and two of speech.
pub(crate) struct Two;

impl Catalog for Two {
    fn models(&self) -> Vec<Model> {
        let model = |id: &str, family, supports: &[&str], defaults| Model {
            id: id.to_owned(),
            family,
            is_default: true,
            about: "for tests".to_owned(),
            supports: supports.iter().map(|&name| name.to_owned()).collect(),
            defaults,
            speech: (family == Family::Speech).then(|| Speech {
                sample_rate: 24_000,
                fields: ["voice", "language", "instruct", "reference", "transcript"]
                    .map(str::to_owned)
                    .into(),
                default_language: Some("english".to_owned()),
                has_word_times: false,
                can_append: false,
            }),
        };
        let tasks = ["text2music", "cover", "repaint", "lego", "extract", "complete"];
        let defaults = json!({ "inference_steps": 8, "guidance_scale": 1.0, "duration": 30.0 });
        vec![
            model("tiny", Family::Music, &tasks, defaults),
            model("tiny-lm", Family::Language, &[], json!({})),
            model("tiny-speech", Family::Speech, &["auto", "english"], json!({})),
            Model {
                is_default: false,
                speech: Some(talk()),
                ..model("tiny-talk", Family::Speech, &[], json!({}))
            },
        ]
    }

    fn voices(&self) -> Vec<Voice> {
        let voice = |id: &str, is_kept| Voice {
            id: id.to_owned(),
            model: "tiny-speech".to_owned(),
            is_kept,
        };
        let duo = Voice { model: "tiny-talk".to_owned(), ..voice("duo", true) };
        vec![voice("vivian", false), voice("me", true), duo]
    }

    fn model_of_voice(&self, name: &str) -> Option<String> {
        let mut voices = self.voices().into_iter();
        voices.find(|voice| voice.is_kept && voice.id == name).map(|voice| voice.model)
    }

    fn speech(&self, name: Option<&str>) -> Option<(String, Speech)> {
        let is_it = |model: &Model| name.map_or(model.is_default, |name| model.id == name);
        let mut models = self.models().into_iter();
        let found = models.find(|model| model.family == Family::Speech && is_it(model))?;
        Some((found.id, found.speech?))
    }

    fn remove_voice(&self, name: &str) -> Result<(), JobError> {
        match name {
            "me" => Ok(()),
            _ => Err(JobError::new("voice_not_found", "for tests").param("voice")),
        }
    }

    fn has_language(&self, model: Option<&str>) -> bool {
        model != Some("tiny-silent")
    }

    /// Other than the usual rate.
    fn song_rate(&self, model: Option<&str>) -> Option<u32> {
        (model != Some("tiny-silent")).then_some(44_100)
    }

    fn check_adapter(&self, name: &str) -> Result<(), JobError> {
        match name {
            "rock" | "jazz" => Ok(()),
            _ => Err(JobError::new("adapter_not_found", "for tests").param("adapter")),
        }
    }

    fn check(&self, kind: Kind, request: &Map<String, Value>) -> Result<Checked, JobError> {
        let SongRequest { request: read, notices, .. } = match kind {
            Kind::Generate => SongRequest::read(request.clone())?,
            Kind::Compose => ComposeRequest::read(request.clone())?.song,
            Kind::Voice => {
                VoiceRequest::read(request.clone())?;
                return Ok(Checked::default());
            }
            _ => return Ok(Checked::default()),
        };
        match read.compute.model.as_deref() {
            None | Some("tiny" | "tiny-silent") => {}
            Some(other) => {
                let message = format!("the model `{other}` is not here");
                return Err(JobError::new("model_not_found", message).param("model"));
            }
        }
        let notices = notices.into_iter().map(|notice| notice.0).collect();
        Ok(Checked { model: Some("tiny".to_owned()), notices })
    }
}
