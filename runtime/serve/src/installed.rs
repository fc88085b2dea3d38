//! The catalog of this machine: models inside the program, in the models directories and in the hub's
//! cache; kept voices.

mod common;

use acestep_engine::{Notice, nearest};
use acestep_import::{
    Adapter, BUILT_IN_MODELS, DEMO, Layout, Presence, Qwen3Tts, Release, SPEECH_MODELS,
    TINY_SPEECH, acestep,
};
use acestep_model::speech::qwen3_tts::{Files as _, ModelType};
use acestep_music::{ModelInfo, Plan, Request, plan::Task};
use acestep_speech::{Voices, qwen3_tts::KeptVoice};
use serde_json::{Map, Value, json};

use crate::{
    catalog::{Catalog, Checked, Family, Model, Voice},
    error::of,
    job::{JobError, Kind},
    request::{
        DecodeRequest, EncodeRequest, SongRequest, SpeechRequest, UnderstandRequest, format,
    },
};

/// The models and voices of this machine.
#[derive(Debug)]
pub struct Installed {
    layout: Layout,
    voices: Option<Voices>,
    /// The music model of requests that name none.
    model: String,
    /// The speech model of requests that name none.
    speech_model: String,
}

impl Installed {
    /// The catalog of `layout`. Without a choice, the default model of songs is the first that is
    /// installed, else the demo; that of speech is the first that is installed, else the tiny one.
    pub fn new(
        layout: Layout,
        voices: Option<Voices>,
        model: Option<String>,
        speech_model: Option<String>,
    ) -> Self {
        let first = |of: &[Release]| {
            of.iter().find(|of| layout.presence(of) == Presence::Whole).map(|of| of.name.to_owned())
        };
        let built_in = || BUILT_IN_MODELS.iter().find(|model| model.name == DEMO);
        let model = model.or_else(|| first(&acestep::MODELS)).unwrap_or_else(|| {
            built_in().or(BUILT_IN_MODELS.first()).map_or(DEMO, |model| model.name).to_owned()
        });
        let speech_model = speech_model
            .or_else(|| first(&SPEECH_MODELS))
            .unwrap_or_else(|| TINY_SPEECH.to_owned());
        Self { layout, voices, model, speech_model }
    }

    /// The places of the models.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The folder of kept voices.
    pub fn kept_voices(&self) -> Option<&Voices> {
        self.voices.as_ref()
    }

    /// The music model of requests that name none.
    pub fn default_model(&self) -> &str {
        &self.model
    }

    /// The speech model of requests that name none.
    pub fn default_speech_model(&self) -> &str {
        &self.speech_model
    }

    fn present<'a>(&'a self, of: &'a [Release]) -> impl Iterator<Item = &'a Release> {
        of.iter().filter(|release| self.layout.presence(release) == Presence::Whole)
    }

    /// Names and descriptions of the models of a family.
    fn names(&self, family: Family) -> Vec<(String, String)> {
        let of = |release: &Release| (release.name.to_owned(), release.about.to_owned());
        let inside = || {
            let all = BUILT_IN_MODELS.iter();
            all.map(|model| (model.name.to_owned(), model.about.to_owned()))
        };
        match family {
            Family::Music => {
                let configured = (self.model.clone(), "the configured model".to_owned());
                let mut names: Vec<_> =
                    self.present(&acestep::MODELS).map(of).chain(inside()).collect();
                // A model that was chosen by its path or by another name.
                if !names.iter().any(|(name, _)| *name == self.model) {
                    names.insert(0, configured);
                }
                names
            }
            Family::Language => {
                self.present(&acestep::LANGUAGE_MODELS).map(of).chain(inside()).collect()
            }
            Family::Speech => {
                let tiny = (TINY_SPEECH.to_owned(), acestep_import::tiny_speech().2.to_owned());
                let mut names: Vec<_> = self.present(&SPEECH_MODELS).map(of).collect();
                names.push(tiny);
                if !names.iter().any(|(name, _)| *name == self.speech_model) {
                    let about = "the configured model".to_owned();
                    names.insert(0, (self.speech_model.clone(), about));
                }
                names
            }
        }
    }

    /// Names of the models that a job can have.
    fn runnable(&self) -> impl Iterator<Item = String> {
        let families = [Family::Music, Family::Speech].into_iter();
        families.flat_map(|family| self.names(family)).map(|(name, _)| name)
    }

    /// Refuses a model that is not in the list. Names are never paths.
    fn require(&self, family: Family, field: &str, name: &str) -> Result<(), JobError> {
        let names = self.names(family);
        if names.iter().any(|(known, _)| known == name) {
            return Ok(());
        }
        Err(missing(name, &names).param(field))
    }

    /// Returns the family of a model of songs or of speech.
    ///
    /// # Errors
    /// If it is not here.
    pub fn family(&self, name: &str) -> Result<Family, JobError> {
        let mut all = Vec::new();
        for family in [Family::Speech, Family::Music] {
            let names = self.names(family);
            if names.iter().any(|(known, _)| known == name) {
                return Ok(family);
            }
            all.extend(names);
        }
        Err(missing(name, &all))
    }

    /// Returns the kept voices that a model made.
    pub(crate) fn voices_of(&self, model: &str) -> Vec<String> {
        let Some(voices) = &self.voices else { return Vec::new() };
        let mut names = self.kept_names();
        names.retain(|name| KeptVoice::of(voices, name).is_ok_and(|voice| voice.model == model));
        names
    }

    fn song(&self, kind: Kind, object: &Map<String, Value>) -> Result<Checked, JobError> {
        let object = without_mode(kind, object);
        let SongRequest { request, notices, .. } = SongRequest::read(&object)?;
        let name = request.compute.model.clone().unwrap_or_else(|| self.model.clone());
        self.require(Family::Music, "model", &name)?;
        if let Some(language) = &request.language.lm_model {
            self.require(Family::Language, "lm_model", language)?;
        }
        for (adapter, _) in request.compute.adapters().map_err(|error| of(&error))? {
            self.check_adapter(&adapter)?;
        }
        if kind == Kind::Generate {
            format(request.output.audio_format.as_deref())?;
        }
        let folder = acestep_import::open(&name, &self.layout)
            .map_err(|error| of(&acestep_engine::Error::checkpoint(error)))?;
        let info = ModelInfo::new(folder.name(), folder.is_turbo(), folder.configs());
        // Songs that follow a file are planned when it is read.
        if request.source.files().next().is_none() && kind == Kind::Generate {
            // The worker's plan has the notices: a language model may decide what is open here.
            Plan::resolve(&request, &info).map_err(|error| of(&error))?;
        }
        let notices = notices.into_iter().map(|notice| notice.0).collect();
        Ok(Checked { model: Some(self.common_name(&name)), notices })
    }

    fn speech(&self, object: &Map<String, Value>) -> Result<Checked, JobError> {
        let SpeechRequest { request, model, reference, audio_format, .. } =
            SpeechRequest::read(object)?;
        format(audio_format.as_deref())?;
        let has_voice = reference.is_some();
        let name = model.unwrap_or_else(|| self.speech_model.clone());
        self.require(Family::Speech, "model", &name)?;
        let folder = Qwen3Tts::find(Some(&name), &self.layout)
            .map_err(|error| of(&acestep_engine::Error::checkpoint(error)))?;
        let kept = request.voice.as_ref().filter(|_| self.is_base(&folder)).is_some();
        if let (true, Some(voice)) = (kept, &request.voice)
            && !self.kept_names().iter().any(|name| name == voice)
        {
            let message = format!("no kept voice is called `{voice}`");
            let hint = "`acestep voice make` keeps one, and `acestep voice list` names them";
            return Err(JobError::new("voice_not_found", message).param("voice").hint(hint));
        }
        let plain = if kept || has_voice {
            acestep_speech::qwen3_tts::Request { voice: None, ..request }
        } else {
            request
        };
        acestep_speech::qwen3_tts::check_request(&plain, kept || has_voice, &folder)
            .map_err(|error| of(&error))?;
        Ok(Checked { model: Some(self.common_name(&name)), notices: Vec::new() })
    }

    /// Checks the model of a request that is about a sound.
    fn of_sound(&self, model: Option<String>, notices: Vec<Notice>) -> Result<Checked, JobError> {
        let name = model.unwrap_or_else(|| self.model.clone());
        self.require(Family::Music, "model", &name)?;
        let notices = notices.into_iter().map(|notice| notice.0).collect();
        Ok(Checked { model: Some(self.common_name(&name)), notices })
    }

    fn is_base(&self, model: &Qwen3Tts) -> bool {
        model.config().tts_model_type == ModelType::Base
    }

    fn kept_names(&self) -> Vec<String> {
        self.voices.as_ref().and_then(|voices| voices.names().ok()).unwrap_or_default()
    }
}

impl Catalog for Installed {
    fn models(&self) -> Vec<Model> {
        let mut models = Vec::new();
        for (id, about) in self.names(Family::Music) {
            let supports = Task::ALL.iter().map(|task| task.name().to_owned()).collect();
            let defaults = self.defaults(&id);
            let (family, is_default) = (Family::Music, id == self.model);
            models.push(Model { id, family, is_default, about, supports, defaults });
        }
        for (id, about) in self.names(Family::Language) {
            let (family, is_default, defaults) = (Family::Language, false, json!({}));
            models.push(Model { id, family, is_default, about, supports: vec![], defaults });
        }
        for (id, about) in self.names(Family::Speech) {
            let folder = Qwen3Tts::find(Some(&id), &self.layout).ok();
            let languages = folder
                .iter()
                .flat_map(|folder| folder.config().talker_config.codec_language_id.keys().cloned());
            let supports = std::iter::once("auto".to_owned()).chain(languages).collect();
            let (family, is_default) = (Family::Speech, id == self.speech_model);
            models.push(Model { id, family, is_default, about, supports, defaults: json!({}) });
        }
        models
    }

    fn voices(&self) -> Vec<Voice> {
        let mut voices = Vec::new();
        for (model, _) in self.names(Family::Speech) {
            let Ok(folder) = Qwen3Tts::find(Some(&model), &self.layout) else { continue };
            let speakers = folder.config().talker_config.spk_id.keys();
            let preset =
                |id: &String| Voice { id: id.clone(), model: model.clone(), is_kept: false };
            voices.extend(speakers.map(preset));
        }
        let kept = self.voices.as_ref();
        for id in self.kept_names() {
            if let Some(Ok(kept)) = kept.map(|voices| KeptVoice::of(voices, &id)) {
                voices.push(Voice { id, model: kept.model, is_kept: true });
            }
        }
        voices
    }

    fn check(&self, kind: Kind, request: &Map<String, Value>) -> Result<Checked, JobError> {
        match kind {
            Kind::Generate | Kind::Compose => self.song(kind, request),
            Kind::Speak => self.speech(request),
            Kind::Understand => {
                let read = UnderstandRequest::read(request)?;
                if let Some(language) = &read.request.language.lm_model {
                    self.require(Family::Language, "lm_model", language)?;
                }
                self.of_sound(read.model, read.notices)
            }
            Kind::Encode => self.of_sound(EncodeRequest::read(request)?.model, Vec::new()),
            Kind::Decode => {
                let read = DecodeRequest::read(request)?;
                self.of_sound(read.model, read.notices)
            }
        }
    }

    fn check_adapter(&self, name: &str) -> Result<(), JobError> {
        let names = Adapter::names(&self.layout);
        let plain = name.strip_suffix(".safetensors").unwrap_or(name);
        if names.iter().any(|known| known == plain) {
            return Ok(());
        }
        let hint = match nearest(plain, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "adapters are in the folder `adapters` of a models directory of the server; a \
                     request names them without a path"
                .to_owned(),
        };
        let error = JobError::new("adapter_not_found", format!("no adapter is called `{name}`"));
        Err(error.param("adapter").hint(hint))
    }
}

/// The error of a model that is not among `names`.
fn missing(name: &str, names: &[(String, String)]) -> JobError {
    let message = format!("the model `{name}` is not here");
    let hint = match nearest(name, names.iter().map(|(known, _)| known.as_str())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "here are {}; `acestep model pull NAME` brings others",
            names.iter().map(|(known, _)| known.as_str()).collect::<Vec<_>>().join(", ")
        ),
    };
    JobError::new("model_not_found", message).hint(hint)
}

/// Returns the fields that are the song's: a composition has a mode too.
fn without_mode(kind: Kind, object: &Map<String, Value>) -> Map<String, Value> {
    let mut object = object.clone();
    if kind == Kind::Compose {
        object.remove("mode");
    }
    object
}

impl Installed {
    /// Returns the settings that a model takes where a request has none, by the request's keys.
    fn defaults(&self, model: &str) -> Value {
        let Ok(folder) = acestep_import::open(model, &self.layout) else { return json!({}) };
        let info = ModelInfo::new(folder.name(), folder.is_turbo(), folder.configs());
        let request = Request::default().with(|request| {
            request.words.caption = Some("-".to_owned());
        });
        let Ok((plan, _)) = Plan::resolve(&request, &info) else { return json!({}) };
        let Ok(Value::Object(decided)) = serde_json::to_value(plan.to_request(&request)) else {
            return json!({});
        };
        let is_default =
            |key: &str| !matches!(key, "caption" | "lyrics" | "audio_codes" | "timesteps" | "seed");
        let defaults = decided.into_iter().filter(|(key, _)| is_default(key));
        Value::Object(defaults.collect())
    }
}
