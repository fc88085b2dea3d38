//! The user's settings in layers, each over the one before: built-in defaults, a file, variables of
//! the environment, values that the program was told.
//!
//! | module | content |
//! |---|---|
//! | `keys` | the keys and their values |
//! | `file` | a file in TOML |
//! | `environment` | variables |
//! | `check` | the check of defaults of requests |
//! | `template` | a file that explains every key |
//! | `error` | settings that cannot be used |
//!
//! The keys below `[request]` are those of a request file: the defaults of every request that is made
//! without one.

mod check;
mod environment;
mod error;
mod file;
mod keys;
mod template;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use acestep_engine::{Error, Notice, error::shortened};
use acestep_music::Request;
use serde_json::{Map, Value as Json};

pub use error::{FileProblem, SettingsError};
pub use keys::{KEYS, SettingKey, ValueType, flag, threads, variable};
pub use template::explained;

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetBy {
    /// The built-in default.
    Default,
    /// The settings file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// The program's own input, such as a flag.
    Input(&'static str),
}

impl fmt::Display for SetBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Input(name) => f.write_str(name),
        }
    }
}

/// A value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value<T = String> {
    /// The value in its normal form.
    pub text: T,
    /// Its source.
    pub origin: SetBy,
    /// Its line in the file, from 1; only for defaults of requests.
    pub line: Option<usize>,
}

impl<T> Value<T> {
    /// Returns the source in words, with the line of a file.
    fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}, line {line}", self.origin),
            None => self.origin.to_string(),
        }
    }
}

/// The sources of settings.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file, if one is read.
    pub file: Option<PathBuf>,
    /// True if the user named the file; another one may be absent.
    pub is_named: bool,
    /// The user's home, which `~` means in the file.
    pub home: Option<PathBuf>,
    /// The variables of the environment that are not empty.
    pub variables: BTreeMap<String, OsString>,
    /// The program's own input: key, value, and the name of the source.
    pub given: Vec<(&'static str, String, &'static str)>,
}

/// All settings that were given.
#[derive(Debug, Default)]
pub struct Settings {
    /// The file that was read, or the path that was tried.
    pub file: Option<PathBuf>,
    values: BTreeMap<&'static str, Value>,
    /// The defaults of every request.
    request: BTreeMap<&'static str, Value<Json>>,
    /// Notes about variables that look like settings but are unknown, with suggestions.
    pub unknown_variables: Vec<String>,
    /// Set if a request began with the defaults.
    begun: OnceLock<()>,
}

impl Settings {
    /// Reads all sources.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn read(sources: Sources) -> Result<Self, Error> {
        let Sources { file, is_named, home, variables, given } = sources;
        let mut settings = Self::default();
        if let Some(path) = &file {
            settings.take_file(path, is_named, home.as_deref())?;
        }
        settings.file = file;
        settings.take_environment(&variables)?;
        for (name, text, source) in given {
            settings.put(name, text, SetBy::Input(source));
        }
        Ok(settings)
    }

    fn put(&mut self, name: &'static str, text: String, origin: SetBy) {
        self.values.insert(name, Value { text, origin, line: None });
    }

    /// Returns the value of key `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Returns the defaults of requests.
    pub fn of_requests(&self) -> impl Iterator<Item = (&'static str, &Value<Json>)> {
        self.request.iter().map(|(name, value)| (*name, value))
    }

    /// Builds the request that every request without a file starts from, with notices about it.
    ///
    /// # Errors
    /// The errors of [`Self::check_requests`] for a value of another type; [`SettingsError::Defaults`].
    pub fn request(&self) -> Result<(Request, Vec<Notice>), Error> {
        if self.request.is_empty() {
            return Ok((Request::default(), vec![]));
        }
        let object: Map<_, _> =
            self.of_requests().map(|(name, value)| (name.to_owned(), value.text.clone())).collect();
        // Only the first request sets it.
        let _ = self.begun.set(());
        Request::from_object(object).map_err(|error| {
            let of_one = self.check_requests().err();
            of_one.unwrap_or_else(|| {
                let origins = self.origins_of_requests();
                SettingsError::Defaults { origins, source: error.into() }.into()
            })
        })
    }

    /// Returns the source of the default of requests that `text` names as `` `key: value` ``; `None` if no
    /// request began with the defaults.
    pub fn origin_in(&self, text: &str) -> Option<String> {
        self.begun.get()?;
        let mut all = self.of_requests();
        let named = all.find(|(name, set)| {
            let value = match &set.text {
                Json::String(value) => shortened(value),
                value => value.as_f64().map_or(value.to_string(), |value| value.to_string()),
            };
            text.contains(&format!("`{name}: {value}`"))
        });
        named.map(|(_, set)| set.place())
    }

    /// Returns a notice about a models directory that was named and does not exist.
    ///
    /// # Errors
    /// [`SettingsError::NoFolder`].
    pub fn check_models_dir(&self) -> Result<Option<Notice>, Error> {
        let Some(Value { text, origin, .. }) = self.get("models_dir") else { return Ok(None) };
        let path = Path::new(text);
        if path.exists() && !path.is_dir() {
            let (path, origin) = (text.clone(), origin.clone());
            return Err(SettingsError::NoFolder { path, origin }.into());
        }
        let absent = || Notice(format!("the models directory `{text}` ({origin}) does not exist"));
        Ok((!path.exists()).then(absent))
    }

    /// Returns the sources of the defaults of requests, as a list in words.
    fn origins_of_requests(&self) -> String {
        let mut all: Vec<_> = self.request.values().map(|value| value.origin.to_string()).collect();
        all.dedup();
        all.join(", ")
    }
}

/// Resolves a path of the file at `file`: `~` is the home, and a relative path starts at the file's
/// directory.
fn placed(file: &Path, home: Option<&Path>, text: &str) -> String {
    let path = match (Path::new(text).strip_prefix("~"), home) {
        (Ok(below), Some(home)) => home.join(below),
        _ => file.parent().unwrap_or(Path::new("")).join(text),
    };
    std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned()
}
