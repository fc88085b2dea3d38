//! The catalog of this machine: models inside the program, in the models directories and in the hub's
//! cache; kept voices.

mod common;
mod of_speech;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use acestep_engine::{Notice, nearest};
use acestep_import::{Adapter, BUILT_IN_MODELS, DEMO, Layout, Presence, Release, acestep};
use acestep_music::{ModelInfo, Plan, Request, align::attention_maps, plan::Task};
use acestep_session::speech::{self, SpeechModel};
use acestep_speech::Voices;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::{
    catalog::{Catalog, Checked, Family, Missing, Model, Speech, Voice},
    error::of,
    job::{JobError, Kind},
    request::{
        ComposeRequest, DecodeRequest, EncodeRequest, SongRequest, UnderstandRequest, format,
    },
};

/// Time that the facts about a music model are right. All of its headers are read for them, which
/// takes milliseconds: a crowd of clients would wait for as many readings.
const RECENT: Duration = Duration::from_secs(2);

/// Facts about a music model: those that a plan needs, and the reason why lines of its songs get no times.
type Facts = (ModelInfo, Option<JobError>);

/// The models and voices of this machine.
pub struct Installed {
    layout: Layout,
    voices: Option<Voices>,
    model: String,
    speech_model: String,
    /// Models of speech that were opened, by their names: their vocabularies are read once.
    opened: Mutex<Vec<(String, Arc<dyn SpeechModel>)>>,
    /// Facts about music models, by their names, with the time of the reading.
    infos: Mutex<HashMap<String, (Instant, Facts)>>,
}

impl Installed {
    /// The catalog of `layout`. Without a choice, the default model of songs is the first that is
    /// installed, else the demo; the speech model is the first that is installed, else the tiny one.
    pub fn new(
        layout: Layout,
        voices: Option<Voices>,
        model: Option<String>,
        speech_model: Option<String>,
    ) -> Self {
        let is_whole = |of: &&Release| layout.presence(of) == Presence::Whole;
        let name = |of: &Release| of.name.to_owned();
        let built_in = || BUILT_IN_MODELS.iter().find(|model| model.name == DEMO);
        let model = model
            .or_else(|| acestep::MODELS.iter().find(is_whole).map(name))
            .unwrap_or_else(|| {
                built_in().or(BUILT_IN_MODELS.first()).map_or(DEMO, |model| model.name).to_owned()
            });
        let speech_model = speech_model
            .or_else(|| speech::releases().find(is_whole).map(name))
            .unwrap_or_else(|| speech::built_in().0.to_owned());
        Self {
            layout,
            voices,
            model,
            speech_model,
            opened: Mutex::default(),
            infos: Mutex::default(),
        }
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

    /// Names and descriptions of the models of a family.
    fn names(&self, family: Family) -> Vec<(String, String)> {
        let built_in: Vec<_> =
            BUILT_IN_MODELS.iter().map(|model| (model.name, model.about)).collect();
        let (releases, inside, configured): (Vec<&Release>, _, _) = match family {
            Family::Music => (acestep::MODELS.iter().collect(), built_in, Some(&self.model)),
            Family::Language => (acestep::LANGUAGE_MODELS.iter().collect(), built_in, None),
            Family::Speech => {
                let inside = vec![speech::built_in()];
                (speech::releases().collect(), inside, Some(&self.speech_model))
            }
        };
        let here = releases.iter().filter(|of| self.layout.presence(of) == Presence::Whole);
        let names = here.map(|release| (release.name, release.about)).chain(inside);
        let names = names.map(|(name, about)| (name.to_owned(), about.to_owned()));
        let mut names: Vec<_> = names.collect();
        // A model that was chosen by its path or by another name.
        if let Some(own) = configured.filter(|own| !names.iter().any(|(name, _)| name == *own)) {
            names.insert(0, (own.clone(), "the configured model".to_owned()));
        }
        names
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

    /// Refuses default models that are not here or cannot be used.
    ///
    /// # Errors
    /// If one of them cannot be opened; the message may have places of this machine.
    pub fn check_defaults(&self) -> Result<(), acestep_engine::Error> {
        self.info(&self.model)?;
        self.opened(&self.speech_model)?;
        Ok(())
    }

    fn song(&self, kind: Kind, object: &Map<String, Value>) -> Result<Checked, JobError> {
        let read = match kind {
            Kind::Compose => ComposeRequest::read(object.clone())?.song,
            _ => SongRequest::read(object.clone())?,
        };
        let SongRequest { request, notices, noise, conditioning, lrc, vtt, .. } = read;
        let mut files = request.source.files().chain(&noise).chain(&conditioning);
        let follows_file = files.next().is_some();
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
        let (info, no_lines) = self.facts(&name).map_err(|error| of(&error))?;
        let wanted = [("lrc", lrc == Some(true)), ("vtt", vtt)];
        let wanted = wanted.into_iter().find(|(_, is_wanted)| *is_wanted);
        if let (Kind::Generate, Some((field, _)), Some(error)) = (kind, wanted, no_lines) {
            return Err(JobError { code: "bad_value".to_owned(), ..error }.param(field));
        }
        // Songs that follow a file are planned when it is read.
        if !follows_file && kind == Kind::Generate {
            // The worker's plan has the notices: a language model may decide what is open here.
            Plan::resolve(&request, &info).map_err(|error| of(&error))?;
        }
        let notices = notices.into_iter().map(|notice| notice.0).collect();
        Ok(Checked { model: Some(self.common_name(&name)), notices })
    }

    /// Returns the facts about a music model that a plan needs.
    fn info(&self, name: &str) -> Result<ModelInfo, acestep_engine::Error> {
        Ok(self.facts(name)?.0)
    }

    fn facts(&self, name: &str) -> Result<Facts, acestep_engine::Error> {
        let mut infos = self.infos.lock();
        infos.retain(|_, (read, _)| read.elapsed() < RECENT);
        if let Some((_, facts)) = infos.get(name) {
            return Ok(facts.clone());
        }
        let folder = acestep_import::open(name, &self.layout);
        let folder = folder.map_err(acestep_engine::Error::checkpoint)?;
        let info = ModelInfo::new(folder.name(), folder.is_turbo(), folder.configs());
        let no_lines = attention_maps::heads(&folder.configs().dit).err();
        let facts = (info, no_lines.map(|error| of(&error)));
        infos.insert(name.to_owned(), (Instant::now(), facts.clone()));
        Ok(facts)
    }

    /// Checks the model of a request that is about a sound.
    fn of_sound(&self, model: Option<String>, notices: Vec<Notice>) -> Result<Checked, JobError> {
        let name = model.unwrap_or_else(|| self.model.clone());
        self.require(Family::Music, "model", &name)?;
        let notices = notices.into_iter().map(|notice| notice.0).collect();
        Ok(Checked { model: Some(self.common_name(&name)), notices })
    }
}

impl Catalog for Installed {
    fn adapters(&self) -> Vec<String> {
        Adapter::names(&self.layout)
    }

    fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        let mut lack = |text: String, command: &str| {
            missing.push(Missing { text, command: command.to_owned() });
        };
        if acestep_import::built_in(&self.model).is_some() {
            let text =
                format!("songs are made with `{}`, the model inside the program", self.model);
            lack(text, "acestep model pull turbo");
        }
        if self.speech_model == speech::built_in().0 {
            let text = "no speech model is here, so speech is noise".to_owned();
            lack(text, "acestep model pull qwen3-tts-0.6b-custom");
        }
        missing
    }

    fn models(&self) -> Vec<Model> {
        let families = [Family::Music, Family::Language, Family::Speech].into_iter();
        let named = |family| self.names(family).into_iter().map(move |name| (family, name));
        families.flat_map(named).map(|(family, name)| self.described(family, name)).collect()
    }

    fn voices(&self) -> Vec<Voice> {
        self.all_voices()
    }

    fn model_of_voice(&self, name: &str) -> Option<String> {
        let kept = speech::read_kept(self.voices.as_ref()?, name).ok()?;
        let name = self.common_name(&kept.model);
        // A model that is served by its path has another name here: the default model may be the one.
        self.require(Family::Speech, "model", &name).ok()?;
        Some(name)
    }

    fn remove_voice(&self, name: &str) -> Result<(), JobError> {
        let removed = self.voices_or_error()?.remove(name);
        removed.map_err(|error| of(&error))
    }

    fn has_language(&self, model: Option<&str>) -> bool {
        // A model inside the program has its own.
        acestep_import::built_in(model.unwrap_or(&self.model)).is_some()
            || self.layout.resolve_language_model(None).is_ok()
    }

    fn song_rate(&self, model: Option<&str>) -> Option<u32> {
        let name = model.unwrap_or(&self.model);
        self.require(Family::Music, "model", name).ok()?;
        Some(self.info(name).ok()?.sample_rate)
    }

    fn speech(&self, name: Option<&str>) -> Option<(String, Speech)> {
        let name = name.unwrap_or(&self.speech_model);
        self.require(Family::Speech, "model", name).ok()?;
        Some((name.to_owned(), of_speech::facts(&*self.opened(name).ok()?)))
    }

    fn check(&self, kind: Kind, request: &Map<String, Value>) -> Result<Checked, JobError> {
        match kind {
            Kind::Generate | Kind::Compose => self.song(kind, request),
            Kind::Speak => self.check_speech(request),
            Kind::Voice => self.check_voice(request),
            Kind::Understand => {
                let read = UnderstandRequest::read(request.clone())?;
                if let Some(language) = &read.request.language.lm_model {
                    self.require(Family::Language, "lm_model", language)?;
                }
                self.of_sound(read.model, read.notices)
            }
            Kind::Encode => self.of_sound(EncodeRequest::read(request.clone())?.model, Vec::new()),
            Kind::Decode => {
                let read = DecodeRequest::read(request.clone())?;
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

impl Installed {
    fn described(&self, family: Family, (id, about): (String, String)) -> Model {
        let (mut supports, mut defaults, mut speech) = (Vec::new(), json!({}), None);
        let is_default = match family {
            Family::Music => {
                supports = Task::ALL.iter().map(|task| task.name().to_owned()).collect();
                defaults = self.defaults(&id);
                id == self.model
            }
            Family::Language => false,
            Family::Speech => {
                if let Ok(opened) = self.opened(&id) {
                    supports = opened.languages();
                    speech = Some(of_speech::facts(&*opened));
                }
                id == self.speech_model
            }
        };
        Model { id, family, is_default, about, supports, defaults, speech }
    }

    /// Returns the settings that a model takes where a request has none, by the request's keys.
    fn defaults(&self, model: &str) -> Value {
        let Ok(info) = self.info(model) else { return json!({}) };
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
