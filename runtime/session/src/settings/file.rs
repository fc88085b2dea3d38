//! Settings of a file in TOML.

use std::{io, path::Path};

use acestep_engine::{files, nearest, texts::decode};
use serde_json::Value as Json;
use toml::de::DeTable;

use super::{
    FileProblem, SetBy, Settings, SettingsError, Value,
    keys::{KEYS, ValueType, request_keys},
    placed,
};

/// Request keys whose values are files.
const OF_FILES: [&str; 4] = ["src_audio", "src_latents", "reference_audio", "ref_latents"];

impl Settings {
    /// Reads the file at `path`, which may be absent unless the user named it.
    pub(super) fn take_file(
        &mut self,
        path: &Path,
        is_named: bool,
        home: Option<&Path>,
    ) -> Result<(), SettingsError> {
        let text = |bytes: Vec<u8>| decode(&bytes).map_err(io::Error::other);
        let content = match files::read(path).and_then(text) {
            Ok(content) => content,
            // The user's file is optional.
            Err(error) if !is_named && is_absent(&error) => return Ok(()),
            Err(source) => return Err(SettingsError::Unread { path: path.to_owned(), source }),
        };
        let place = |text: &str| placed(path, home, text);
        self.take_content(&content, &SetBy::File(path.to_owned()), &place)
            .map_err(|why| SettingsError::Wrong { path: path.to_owned(), source: FileProblem(why) })
    }

    /// Reads the content of a file; `place` resolves a path in it.
    fn take_content(
        &mut self,
        content: &str,
        origin: &SetBy,
        place: &dyn Fn(&str) -> String,
    ) -> Result<(), String> {
        let wrong = |error: toml::de::Error| shown(&error, content);
        let table: toml::Table = content.parse().map_err(wrong)?;
        for (name, value) in table {
            let at = |why| placed_at(line_of(content, false, &name), why);
            if name != "request" {
                let (key, text) = setting(&name, value, place).map_err(at)?;
                self.put(key, text, origin.clone());
                continue;
            }
            let toml::Value::Table(request) = value else {
                return Err(at("`request` is no table: write `[request]`".to_owned()));
            };
            for (name, value) in request {
                let line = line_of(content, true, &name);
                let at = |why| placed_at(line, why);
                let key = request_key(&name).map_err(at)?;
                let unusable = || at(format!("`{name}` is a value that no request has"));
                let text = json(value).ok_or_else(unusable)?;
                let is_file = OF_FILES.contains(&key);
                let text = if is_file { placed_all(text, place) } else { text };
                self.request.insert(key, Value { text, origin: origin.clone(), line });
            }
        }
        Ok(())
    }
}

/// Returns the key that is called `name`, and its value in normal form.
fn setting(
    name: &str,
    value: toml::Value,
    place: &dyn Fn(&str) -> String,
) -> Result<(&'static str, String), String> {
    let key = KEYS.iter().find(|key| key.name == name).ok_or_else(|| unknown(name))?;
    let text = match value {
        toml::Value::String(text) => text,
        toml::Value::Boolean(flag) if key.kind == ValueType::Flag => flag.to_string(),
        toml::Value::Integer(number) if key.kind == ValueType::Flag => number.to_string(),
        number if key.kind == ValueType::Count => number.to_string(),
        other => {
            let wanted = if key.kind == ValueType::Flag { "true or false" } else { "a text" };
            return Err(format!("`{name}` is {other}: it is {wanted}"));
        }
    };
    let read = key.read(&text).map_err(|why| format!("`{name}` is `{text}`: {why}"))?;
    Ok((key.name, if key.kind == ValueType::Path { place(&read) } else { read }))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Formats the error and its line number in one line.
fn shown(error: &toml::de::Error, content: &str) -> String {
    let line = error.span().map(|span| line_at(content, span.start));
    placed_at(line, error.message().to_owned())
}

/// Returns the line of the byte at `start`, from 1.
fn line_at(content: &str, start: usize) -> usize {
    content[..start].matches('\n').count() + 1
}

/// Returns the line of the key `name`, below `[request]` if it is one of a request.
fn line_of(content: &str, of_request: bool, name: &str) -> Option<usize> {
    let root = DeTable::parse(content).ok()?.into_inner();
    let table = if of_request { root.get("request")?.get_ref().as_table()? } else { &root };
    let (key, _) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    Some(line_at(content, key.span().start))
}

/// Puts the line, if it is known, before the reason.
pub(super) fn placed_at(line: Option<usize>, why: String) -> String {
    match line {
        Some(line) => format!("line {line}: {why}"),
        None => why,
    }
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
    unknown_in(name, KEYS.iter().map(|key| key.name).chain(["request"]))
}

/// Returns a text such as ``an unknown key `modle`: did you mean `model`?``
fn unknown_in(name: &str, keys: impl Iterator<Item = &'static str>) -> String {
    let nearest = nearest(name, keys);
    let meant = nearest.map_or(String::new(), |key| format!(": did you mean `{key}`?"));
    format!("an unknown key `{name}`{meant}")
}

/// Resolves one path or several.
fn placed_all(value: Json, place: &dyn Fn(&str) -> String) -> Json {
    match value {
        Json::String(text) => place(&text).into(),
        Json::Array(values) => values.into_iter().map(|value| placed_all(value, place)).collect(),
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

    fn read(content: impl AsRef<[u8]>) -> Result<Settings, SettingsError> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), content).expect("written");
        let mut settings = Settings::default();
        settings.take_file(file.path(), true, None)?;
        Ok(settings)
    }

    #[test]
    fn a_file_is_read_as_powershell_writes_it() {
        let text = "\u{feff}model = 'base'\r\n".encode_utf16().flat_map(u16::to_le_bytes);
        let settings = read(text.collect::<Vec<_>>()).expect("a file");
        assert_eq!(settings.get("model").expect("it is set").text, "base");
    }

    #[test]
    fn a_file_of_a_request_stands_beside_the_configuration() {
        let settings = read("[request]\nsrc_audio = 'a.wav'\nseed = [1, 2]\n").expect("a file");
        let (request, _) = settings.request().expect("a request");
        assert!(Path::new(&request.source.src_audio.expect("a path")).is_absolute());
        assert_eq!(request.noise.seed, Some(vec![1, 2]));
    }

    #[test]
    fn what_a_file_may_not_hold_is_told_with_the_way_out() {
        for (content, reason) in [
            ("modle = 'base'", "line 1: an unknown key `modle`: did you mean `model`?"),
            ("\n[reqest]", "line 2: an unknown key `reqest`: did you mean `request`?"),
            ("threads = 2.5", "`threads` is `2.5`: it is a whole number from 1 to 1024"),
            ("bpm = 90", "`bpm` is a key of requests: it stands below `[request]`"),
            ("[request]\nmodel = 'x'", "is a key of its own, above it"),
            ("[request]\nbpn = 9", "line 2: `[request]` has an unknown key `bpn`: did you mean `b"),
            ("[request]\nbpm = 1979-05-27", "`bpm` is a value that no request has"),
            ("request = 1", "`request` is no table"),
            ("device = 'gpu'", "`device` is `gpu`: expected auto, cpu"),
            ("dtype = 'int4'", "`dtype` is `int4`: expected auto, f32"),
            ("color = 'blue'", "`color` is `blue`: it is one of auto, always, never"),
            ("keep_loaded = 'perhaps'", "it is true or false"),
            ("model = ''", "it is empty"),
            ("model = 1", "`model` is 1: it is a text"),
            ("models_dir = ['a']", "it is a text"),
            ("[request]\nduration = nan", "`duration` is a value that no request has"),
            ("\nmodel = base", "line 2: "),
        ] {
            let Err(SettingsError::Wrong { source, .. }) = read(content) else {
                panic!("{content}")
            };
            assert!(source.to_string().contains(reason), "{content}: {source}");
        }
    }
}
