//! Settings of the environment: every key is also a variable.

use std::{collections::BTreeMap, ffi::OsString};

use acestep_engine::nearest;
use acestep_music::{Request, request::Takes};
use serde_json::Value as Json;

use super::{
    SetBy, Settings, SettingsError, Value,
    keys::{KEYS, PREFIX, flag, request_keys, variable},
};

/// Variables with the prefix of the settings that are not settings. They name the configuration,
/// hold a secret of the server, serve our tests and scripts, or are passed from the build by `cargo run`.
const OF_OTHERS: [&str; 8] = [
    "ACESTEP_API_KEY",
    "ACESTEP_CONFIG",
    "ACESTEP_COMMIT",
    "ACESTEP_CUDA_PATH",
    "ACESTEP_MEASURE",
    "ACESTEP_QUEUE",
    "ACESTEP_REQUIRE_NVRTC",
    "ACESTEP_TARGET",
];

/// Variables of upstream that do not exist here, with the note for each.
const OF_UPSTREAM: [(&str, &str); 6] = [
    ("ACESTEP_CONFIG_PATH", "did you mean ACESTEP_MODEL?"),
    ("ACESTEP_DOWNLOAD_SOURCE", "there is none here"),
    ("ACESTEP_INIT_LLM", "did you mean ACESTEP_THINKING?"),
    ("ACESTEP_LM_BACKEND", "there is none here"),
    ("ACESTEP_LM_MODEL_PATH", "did you mean ACESTEP_LM_MODEL?"),
    ("ACESTEP_VAE_DECODE_CHUNK_SIZE", "did you mean ACESTEP_VAE_CHUNK?"),
];

impl Settings {
    /// Reads the variables of all keys, and of the keys of a request.
    pub(super) fn take_environment(
        &mut self,
        variables: &BTreeMap<String, OsString>,
    ) -> Result<(), SettingsError> {
        let value = |name: &str| {
            let value = variables.get(name)?;
            Some(value.to_str().ok_or_else(|| SettingsError::NotText(name.to_owned())))
        };
        for key in &KEYS {
            let name = variable(key.name);
            let Some(text) = value(&name) else { continue };
            let text = text?;
            match key.read(text) {
                Ok(text) => self.put(key.name, text, SetBy::Variable(name)),
                Err(why) => {
                    let value = text.to_owned();
                    return Err(SettingsError::Variable { name, value, why });
                }
            }
        }
        for key in request_keys() {
            let name = variable(key);
            let Some(text) = value(&name) else { continue };
            let text = as_json(key, text?);
            let origin = SetBy::Variable(name);
            self.request.insert(key, Value { text, origin, line: None });
        }
        self.unknown_variables = unknown(variables);
        Ok(())
    }
}

/// Returns the value of a request's `key` that the variable's `text` means.
fn as_json(key: &str, text: &str) -> Json {
    let unread = || Json::String(text.to_owned());
    match Request::takes(key) {
        Takes::Text => unread(),
        Takes::Flag => flag(text).map_or_else(unread, Json::Bool),
        // `120` and `[1, 2]` are read as JSON; the rest stays text, which a request refuses.
        Takes::Numbers => {
            let read = serde_json::from_str(text).ok();
            read.filter(|value: &Json| !value.is_null()).unwrap_or_else(unread)
        }
    }
}

/// Returns notes about unknown variables with our prefix, so that a typing error is not silent.
fn unknown(variables: &BTreeMap<String, OsString>) -> Vec<String> {
    let settings = KEYS.iter().map(|key| key.name);
    let known: Vec<_> = settings.chain(request_keys()).map(variable).collect();
    let is_unknown = |name: &&String| {
        name.starts_with(PREFIX) && !OF_OTHERS.contains(&name.as_str()) && !known.contains(name)
    };
    let note = |name: &String| {
        if let Some((_, instead)) = OF_UPSTREAM.iter().find(|(theirs, _)| theirs == name) {
            return format!("the variable {name} sets nothing: {instead}");
        }
        // Compare names without the prefix, which would make all of them similar.
        let own = known.iter().filter_map(|name| name.strip_prefix(PREFIX));
        let near = nearest(name.strip_prefix(PREFIX).unwrap_or(name), own);
        let meant = near.map_or(String::new(), |near| format!(": did you mean {PREFIX}{near}?"));
        format!("the variable {name} sets nothing{meant}")
    };
    variables.keys().filter(is_unknown).map(note).collect()
}
