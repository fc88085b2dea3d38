//! The layers of the settings, each over the one before: defaults, the file, the environment,
//! flags.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use acestep_engine::{Notice, nearest};
use acestep_music::{Request, request::Takes};
use anyhow::{Context, Result};
use serde_json::{Map, Value as Json};

use super::{
    config_file, home,
    keys::{KEYS, Key, Kind, OF_OTHERS, PREFIX, flag, variable},
    ours, set,
};
use crate::cli_error::CliError;

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The built-in default.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value<T = String> {
    pub(crate) text: T,
    pub(crate) origin: Origin,
}

/// All settings that were given.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// The file that was read, or the path that was tried.
    pub(crate) file: Option<PathBuf>,
    values: BTreeMap<&'static str, Value>,
    /// The defaults of every request.
    request: BTreeMap<&'static str, Value<Json>>,
    /// Notes about variables that look like settings but are unknown, with suggestions.
    pub(crate) unknown_variables: Vec<String>,
}

/// Flags that concern the settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    /// File of the settings.
    pub(crate) config: Option<PathBuf>,
    /// True if no file is read.
    pub(crate) no_config: bool,
    /// Typed settings: key, value, flag.
    pub(crate) said: Vec<(&'static str, String, &'static str)>,
}

impl Loaded {
    /// Reads the file that `flags` name (else the user's file), the environment and the flags.
    pub(crate) fn read(flags: Flags) -> Result<Self> {
        let mut loaded = Self::default();
        if !flags.no_config {
            let is_named = flags.config.is_some() || set("ACESTEP_CONFIG").is_some();
            loaded.file = flags.config.or_else(config_file);
            if let Some(path) = loaded.file.clone() {
                loaded.take_file(&path, is_named)?;
            }
        }
        loaded.take_environment()?;
        for (name, text, flag) in flags.said {
            loaded.put(name, text, Origin::Flag(flag));
        }
        Ok(loaded)
    }

    /// Returns the value of key `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Returns the defaults for flags of `command`; for the global flags if `command` is empty.
    pub(crate) fn defaults_of(&self, command: &str) -> impl Iterator<Item = (&'static str, &str)> {
        let of = move |key: &&Key| key.commands.contains(&command);
        KEYS.iter().filter(of).filter_map(|key| Some((key.name, &*self.get(key.name)?.text)))
    }

    /// True if a flag has another default than the built-in one.
    pub(crate) fn changes_defaults(&self) -> bool {
        KEYS.iter().any(|key| !key.commands.is_empty() && self.values.contains_key(key.name))
    }

    /// Returns the defaults of requests.
    pub(crate) fn of_requests(&self) -> impl Iterator<Item = (&'static str, &Value<Json>)> {
        self.request.iter().map(|(name, value)| (*name, value))
    }

    /// Builds the request that every request without a file starts from.
    pub(crate) fn request(&self) -> Result<(Request, Vec<Notice>)> {
        if self.request.is_empty() {
            return Ok((Request::default(), vec![]));
        }
        let object: Map<_, _> = self
            .request
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.text.clone()))
            .collect();
        Request::from_json(&Json::Object(object).to_string())
            .with_context(|| format!("the defaults of requests cannot be used ({})", self.who()))
    }

    /// Returns the sources of the defaults of requests.
    fn who(&self) -> String {
        let mut all: Vec<_> = self.request.values().map(|value| value.origin.to_string()).collect();
        all.dedup();
        all.join(", ")
    }

    fn put(&mut self, name: &'static str, text: String, origin: Origin) {
        self.values.insert(name, Value { text, origin });
    }

    fn take_file(&mut self, path: &Path, is_named: bool) -> Result<()> {
        let named = || format!("the configuration `{}` cannot be used", path.display());
        let content = match fs::read_to_string(path) {
            Ok(content) => content,
            // The user's file is optional.
            Err(error) if !is_named && is_absent(&error) => return Ok(()),
            Err(error) => {
                let hint = "name another with --config, or leave it out with --no-config";
                return Err(CliError::new(named()).because(error).hint(hint).into());
            }
        };
        let refuse = |reason: String| {
            let hint = "mend it there, or leave the file out with --no-config; \
                        `acestep config init` writes one with every key";
            CliError::new(named()).because(Reason(reason)).hint(hint)
        };
        let table: toml::Table =
            content.parse().map_err(|error: toml::de::Error| refuse(shown(&error, &content)))?;
        for (name, value) in table {
            if name == "request" {
                let toml::Value::Table(request) = value else {
                    return Err(refuse("`request` is no table: write `[request]`".into()).into());
                };
                for (name, value) in request {
                    let key = request_key(&name).map_err(&refuse)?;
                    let text = json(value).ok_or_else(|| {
                        refuse(format!("`{name}` is a value that no request has"))
                    })?;
                    let text = match OF_FILES.contains(&key) {
                        true => placed(path, text),
                        false => text,
                    };
                    let origin = Origin::File(path.to_owned());
                    self.request.insert(key, Value { text, origin });
                }
                continue;
            }
            let key =
                KEYS.iter().find(|key| key.name == name).ok_or_else(|| refuse(unknown(&name)))?;
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Boolean(flag) if key.kind == Kind::Flag => flag.to_string(),
                toml::Value::Integer(number) if matches!(key.kind, Kind::Flag | Kind::Count) => {
                    number.to_string()
                }
                other => {
                    let wanted = if key.kind == Kind::Flag { "true or false" } else { "a text" };
                    let reason = format!("`{name}` is {other}: it is {wanted}");
                    return Err(refuse(reason).into());
                }
            };
            let text = key
                .read(&text)
                .map_err(|reason| refuse(format!("`{name}` is `{text}`: {reason}")))?;
            let text = if key.kind == Kind::Path { from(path, &text) } else { text };
            self.put(key.name, text, Origin::File(path.to_owned()));
        }
        Ok(())
    }

    fn take_environment(&mut self) -> Result<(), CliError> {
        let value = |name: &str| {
            let value = set(name)?;
            Some(value.into_string().map_err(|_| {
                CliError::usage(format!("the variable {name} is not UTF-8")).hint("set it again")
            }))
        };
        for key in &KEYS {
            let variable = variable(key.name);
            let Some(text) = value(&variable) else { continue };
            let text = text?;
            let text = key.read(&text).map_err(|reason| {
                let message = format!("the variable {variable} is `{text}`: {reason}");
                CliError::usage(message).hint("set it to another value, or unset it")
            })?;
            self.put(key.name, text, Origin::Variable(variable));
        }
        for name in request_keys() {
            let variable = variable(name);
            let Some(text) = value(&variable) else { continue };
            let text = text?;
            let text = match Request::takes(name) {
                Takes::Text => Json::String(text),
                Takes::Flag => flag(&text).map_or(Json::String(text), Json::Bool),
                // `120` and `[1, 2]` are read as JSON; the rest stays text, which a request
                // refuses.
                Takes::Numbers => serde_json::from_str(&text)
                    .ok()
                    .filter(|value: &Json| !value.is_null())
                    .unwrap_or(Json::String(text)),
            };
            self.request.insert(name, Value { text, origin: Origin::Variable(variable) });
        }
        self.unknown_variables = unknown_variables();
        Ok(())
    }
}

/// Variables of upstream that do not exist here, with the note for each.
const OF_UPSTREAM: [(&str, &str); 6] = [
    ("ACESTEP_CONFIG_PATH", "did you mean ACESTEP_MODEL?"),
    ("ACESTEP_DOWNLOAD_SOURCE", "there is none here"),
    ("ACESTEP_INIT_LLM", "did you mean ACESTEP_THINKING?"),
    ("ACESTEP_LM_BACKEND", "there is none here"),
    ("ACESTEP_LM_MODEL_PATH", "did you mean ACESTEP_LM_MODEL?"),
    ("ACESTEP_VAE_DECODE_CHUNK_SIZE", "did you mean ACESTEP_VAE_CHUNK?"),
];

/// Returns notes about unknown variables with our prefix, so that a typing error is not silent.
fn unknown_variables() -> Vec<String> {
    let settings = KEYS.iter().map(|key| key.name);
    let known: Vec<_> = settings.chain(request_keys()).map(variable).collect();
    let mut found: Vec<_> = ours()
        .filter(|name| !OF_OTHERS.contains(&&**name) && !known.contains(name))
        .map(|name| {
            if let Some((_, instead)) = OF_UPSTREAM.iter().find(|(theirs, _)| *theirs == name) {
                return format!("the variable {name} sets nothing: {instead}");
            }
            // Compare names without the prefix, which would make all of them similar.
            let own = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
            let near: Vec<_> = known.iter().map(|name| own(name)).collect();
            let near = nearest(&own(&name), near.iter().map(String::as_str));
            let meant =
                near.map_or(String::new(), |near| format!(": did you mean {PREFIX}{near}?"));
            format!("the variable {name} sets nothing{meant}")
        })
        .collect();
    found.sort();
    found
}

/// Reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Reason(String);

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Formats the error and its line number in one line.
fn shown(error: &toml::de::Error, content: &str) -> String {
    let line = error.span().map(|span| content[..span.start].matches('\n').count() + 1);
    let place = line.map_or(String::new(), |line| format!("line {line}: "));
    format!("{place}{}", error.message())
}

/// Returns the keys of `[request]`: the keys of a request without the models, which are top-level.
fn request_keys() -> impl Iterator<Item = &'static str> {
    Request::known_keys().filter(|name| KEYS.iter().all(|key| key.name != *name))
}

fn request_key(name: &str) -> Result<&'static str, String> {
    request_keys().find(|key| *key == name).ok_or_else(|| {
        match KEYS.iter().any(|key| key.name == name) {
            true => format!("`{name}` stands in `[request]`, but is a key of its own, above it"),
            false => format!("`[request]` has {}", unknown_in(name, request_keys())),
        }
    })
}

fn unknown(name: &str) -> String {
    if request_keys().any(|key| key == name) {
        return format!("`{name}` is a key of requests: it stands below `[request]`");
    }
    format!("it has {}", unknown_in(name, KEYS.iter().map(|key| key.name)))
}

/// Returns a text such as ``an unknown key `modle`: did you mean `model`?``
fn unknown_in(name: &str, keys: impl Iterator<Item = &'static str>) -> String {
    let nearest = nearest(name, keys);
    let meant = nearest.map_or(String::new(), |key| format!(": did you mean `{key}`?"));
    format!("an unknown key `{name}`{meant}")
}

/// Resolves a path that the file at `file` contains.
fn from(file: &Path, text: &str) -> String {
    let path = match (Path::new(text).strip_prefix("~"), home()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => file.parent().unwrap_or(Path::new("")).join(text),
    };
    std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned()
}

/// Request keys whose values are files.
const OF_FILES: [&str; 4] = ["src_audio", "src_latents", "reference_audio", "ref_latents"];

/// Resolves one path or several that the file at `file` contains.
fn placed(file: &Path, value: Json) -> Json {
    match value {
        Json::String(text) => from(file, &text).into(),
        Json::Array(values) => values.into_iter().map(|value| placed(file, value)).collect(),
        other => other,
    }
}

/// Converts a value to JSON; `None` for a table, a time or a float that is not finite.
fn json(value: toml::Value) -> Option<Json> {
    Some(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) if number.is_finite() => number.into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Array(values) => {
            values.into_iter().map(json).collect::<Option<Vec<_>>>()?.into()
        }
        toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> Result<Loaded> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), content)?;
        let mut loaded = Loaded::default();
        loaded.take_file(file.path(), true)?;
        Ok(loaded)
    }

    #[test]
    fn a_file_of_a_request_stands_beside_the_configuration() {
        let loaded = read("[request]\nsrc_audio = 'a.wav'\nseed = [1, 2]\n").expect("a file");
        let (request, _) = loaded.request().expect("a request");
        assert!(Path::new(&request.source.src_audio.expect("a path")).is_absolute());
        assert_eq!(request.noise.seed, Some(vec![1, 2]));
    }

    #[test]
    fn what_a_file_may_not_hold_is_told_with_the_way_out() {
        for (content, reason) in [
            ("modle = 'base'", "it has an unknown key `modle`: did you mean `model`?"),
            ("bpm = 90", "`bpm` is a key of requests: it stands below `[request]`"),
            ("[request]\nmodel = 'x'", "is a key of its own, above it"),
            ("[request]\nbpn = 90", "`[request]` has an unknown key `bpn`: did you mean `bpm`?"),
            ("[request]\nbpm = 1979-05-27", "`bpm` is a value that no request has"),
            ("request = 1", "`request` is no table"),
            ("device = 'gpu'", "`device` is `gpu`: "),
            ("dtype = 'int4'", "`dtype` is `int4`: "),
            ("color = 'blue'", "`color` is `blue`: it is one of auto, always, never"),
            ("keep_loaded = 'perhaps'", "it is true or false"),
            ("model = ''", "it is empty"),
            ("model = 1", "`model` is 1: it is a text"),
            ("models_dir = ['a']", "it is a text"),
            ("[request]\nduration = nan", "`duration` is a value that no request has"),
            ("\nmodel = base", "line 2: "),
        ] {
            let error = read(content).expect_err(content);
            let causes = crate::error::causes(&error).join("\n");
            assert!(causes.contains(reason), "{content}: {causes}");
        }
    }

    #[test]
    fn every_key_has_its_flag() {
        let command = <crate::command_line::Cli as clap::CommandFactory>::command();
        for key in &KEYS {
            for name in key.commands {
                let command = match *name {
                    "" => &command,
                    name => command.find_subcommand(name).expect("a command"),
                };
                let has = |command: &clap::Command| {
                    command.get_arguments().any(|arg| arg.get_id() == key.name)
                };
                let below = || command.get_subcommands().any(has);
                // Only the program itself and `generate` must have every flag.
                let is_ok = has(command) || below() || !["", "generate"].contains(name);
                assert!(is_ok, "{name} {}", key.name);
            }
        }
    }
}
