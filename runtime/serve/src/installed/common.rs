//! Names of models that all machines of a queue understand. The same model may lie at another place on each.

use std::path::Path;

use acestep_import::{Release, acestep};
use acestep_music::Request;
use acestep_session::speech;
use serde_json::Value;

use super::Installed;
use crate::{job::Job, store::ModelFilter};

impl Installed {
    /// Returns the name that every machine gives a model, wherever it lies there: the short name of a
    /// released one, else the name of its directory or file.
    pub(crate) fn common_name(&self, name: &str) -> String {
        let is_own = |release: &&Release| [release.name, release.directory].contains(&name);
        let stem = acestep_import::name_of(Path::new(name));
        let is_at = |release: &&Release| release.directory == stem;
        let released = || acestep::MODELS.iter().chain(speech::releases());
        match released().find(is_own).or_else(|| released().find(is_at)) {
            Some(release) => release.name.to_owned(),
            None if name.contains(['/', '\\']) => stem,
            None => name.to_owned(),
        }
    }

    /// Returns the models that this machine can load, by their common names.
    pub(crate) fn has(&self) -> ModelFilter {
        let names: Vec<String> = self.runnable().map(|name| self.common_name(&name)).collect();
        let layout = self.layout.clone();
        // A directory among the models needs no entry in the list.
        ModelFilter::new(move |name| {
            names.iter().any(|own| own == name) || layout.resolve(name).is_ok()
        })
    }

    /// Returns a job whose request names its model as this machine knows it. The server may have it at
    /// another place, and another model for requests that name none.
    pub(crate) fn with_own_name(&self, job: &Job) -> Job {
        let mut job = job.clone();
        if let (Some(common), Value::Object(request)) = (&job.model, &mut job.request) {
            let own = self.runnable().find(|own| self.common_name(own) == *common);
            // Under another name of the field it would be a second model.
            request.retain(|key, _| Request::name_of(key) != Some("model"));
            request.insert("model".to_owned(), own.unwrap_or_else(|| common.clone()).into());
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use acestep_import::Layout;
    use serde_json::json;

    use super::*;
    use crate::job::{Kind, NewJob, now};

    #[test]
    fn a_model_has_one_name_and_each_machine_finds_it_at_its_own_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| {
            let place = folder.path().join("elsewhere").join(name);
            fs::create_dir_all(&place).expect("a folder");
            place.display().to_string()
        };
        let (turbo, own) = (at("acestep-v15-turbo"), at("my-model.v2"));
        let with =
            |model: &str| Installed::new(Layout::new([]), None, Some(model.to_owned()), None);
        let server = with("turbo");
        for (name, common) in [
            ("turbo", "turbo"),
            ("acestep-v15-turbo", "turbo"),
            (&turbo, "turbo"),
            (&own, "my-model.v2"),
            ("my-model.v2", "my-model.v2"),
            ("tiny", "tiny"),
            ("tiny-speech", "tiny-speech"),
        ] {
            assert_eq!(server.common_name(name), common, "{name}");
        }
        let job = |model: &str| {
            let new = NewJob::new(Kind::Generate, Some(model.to_owned()), json!({}), "o");
            new.stored(uuid::Uuid::now_v7(), now())
        };
        for (worker, model, place) in [
            (&turbo, "turbo", &turbo),
            (&"acestep-v15-turbo".to_owned(), "turbo", &"acestep-v15-turbo".to_owned()),
            (&own, "my-model.v2", &own),
            (&own, "tiny", &"tiny".to_owned()),
        ] {
            let worker = with(worker);
            assert!(worker.has().asked()(Some(model)), "{model}");
            assert_eq!(worker.with_own_name(&job(model)).request["model"], **place);
        }
        let sent = json!({ "synth_model": "acestep-v15-turbo", "caption": "x" });
        let asked = with("turbo").with_own_name(&Job { request: sent, ..job("turbo") });
        assert_eq!(asked.request, json!({ "model": "turbo", "caption": "x" }));
        assert!(!with(&own).has().asked()(Some("turbo")));
    }
}
