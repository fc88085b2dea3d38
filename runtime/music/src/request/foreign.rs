//! Reader of request files: one table of keys, values in every known spelling.
//!
//! A key is ours ([`Request`]), another program's, or unknown (an error with the nearest key).
//! Another program's key has no effect or is unsupported (an error if it would change the sound).
//! Other programs' values for "automatic" (-1, 0, `""`, `N/A`) become "not set".

use std::collections::HashMap;

use acestep_engine::{Error, Notice, error::shortened};
use serde_json::{Map, Value, json};

use super::{
    Request,
    keys::{ACESTEP_CPP, DECIDED, Kind, Meaning, NESTED, theirs},
    once::{self, differ},
    topic::Key,
    values::{as_f64, count, flag, text, wrong},
};

/// See [`Request::from_object`].
pub(super) fn read(object: Map<String, Value>) -> Result<(Request, Vec<Notice>), Error> {
    let mut reader = Reader::default();
    // Nested metadata first, so that the request's own keys take precedence.
    for name in NESTED {
        for (key, value) in object.iter().filter(|(key, _)| snake_case(key) == *name) {
            if let Some(inner) = nested(key, value)? {
                reader.keys(&inner)?;
            }
        }
    }
    let mut decided = Reader::default();
    decided.keys(&decisions(&object))?;
    let is_own = |key: &str| !NESTED.contains(&snake_case(key).as_str());
    let own = object.into_iter().filter(|(key, _)| is_own(key)).collect();
    reader.keys(&own)?;
    reader.fill(decided.ours);
    reader.finish()
}

/// Returns the `cot_` values under our names. `cot_caption: true` is a switch, and `unknown` open.
fn decisions(object: &Map<String, Value>) -> Map<String, Value> {
    let decision = |(key, value): (&String, &Value)| {
        let name = snake_case(key).strip_prefix("cot_")?.to_owned();
        let is_value = !value.is_boolean() && value != "unknown";
        (is_value && DECIDED.contains(&name.as_str())).then(|| (name, value.clone()))
    };
    object.iter().filter_map(decision).collect()
}

/// See [`Request::knows`].
pub(super) fn knows(written: &str) -> bool {
    let key = snake_case(written);
    Request::all_keys().any(|own| own.is(&key))
        || key == "lm_batch_size"
        || theirs().any(|(name, _)| name == key)
}

/// Reads an object within the request: a JSON object, or JSON text as upstream's forms send it.
fn nested(key: &str, value: &Value) -> Result<Option<Map<String, Value>>, Error> {
    match value {
        Value::Object(inner) => Ok(Some(inner.clone())),
        Value::Null => Ok(None),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::String(text) => match once::object(text) {
            Err(Error::RequestSyntax(_)) => {
                Err(wrong(key, value, "it must be an object, or JSON text of one"))
            }
            read => read.map(Some),
        },
        other => Err(wrong(key, other, "it must be an object")),
    }
}

#[derive(Default)]
struct Reader {
    /// Our keys with parsed values.
    ours: Map<String, Value>,
    /// Songs per text; becomes a factor of the batch size.
    texts: Option<i64>,
    /// A wish, and its key.
    wish: Option<(String, String)>,
    /// The `lm_mode` of a switch.
    mode: Option<&'static str>,
    /// True if there is a key that only acestep.cpp writes.
    is_acestep_cpp: bool,
    notices: Vec<Notice>,
}

impl Reader {
    fn keys(&mut self, object: &Map<String, Value>) -> Result<(), Error> {
        // Upstream always writes the strengths, even if unused, and null for "model default".
        let left_open = object.get("dcw_enabled") == Some(&Value::Null);
        let dcw_off = left_open || object.get("dcw_enabled") == Some(&Value::Bool(false));
        if left_open && object.get("dcw_scaler").and_then(as_f64).is_some_and(|x| x != 0.0) {
            let text = "the request leaves DCW open, which upstream has on for turbo; here it is off \
                        unless `dcw_enabled: true` is given";
            self.notices.push(Notice(text.into()));
        }
        // Wishes of one object mean the same; of several objects the last one with a wish counts.
        let before = self.wish.take();
        // Original spelling and value of each of our keys.
        let mut said: HashMap<&str, (&str, &Value, Option<Value>)> = HashMap::new();
        for (written, value) in object {
            let key = snake_case(written);
            self.is_acestep_cpp |= ACESTEP_CPP.contains(&key.as_str());
            let ours = Request::all_keys().find(|own| own.is(&key));
            if dcw_off && key.starts_with("dcw_") && key != "dcw_enabled" {
                // Ignore settings of a feature that is switched off.
            } else if let Some(&Key { name, kind, .. }) = ours {
                let read = self.ours(name, written, kind, value)?;
                if let Some((other, first, known)) = said.get(name)
                    && read.is_some()
                    && known.is_some()
                    && *known != read
                {
                    return Err(differ([other, written], [first, value]));
                }
                if read.is_some() || !said.contains_key(name) {
                    said.insert(name, (written, value, read));
                }
            } else if key == "lm_batch_size" {
                self.texts = count(written, value)?;
            } else if let Some((_, meaning)) = theirs().find(|(name, _)| *name == key) {
                self.theirs(written, meaning, value)?;
            } else {
                return Err(Error::UnknownKey { near: similar(&key), key: written.clone() });
            }
        }
        self.wish = self.wish.take().or(before);
        Ok(())
    }

    fn ours(
        &mut self,
        name: &str,
        written: &str,
        kind: Kind,
        value: &Value,
    ) -> Result<Option<Value>, Error> {
        let read = if value.is_null() { None } else { kind.read(written, value)? };
        let read = match (written, read) {
            // An older spelling of this program.
            ("solver", Some(solver)) if solver == "ode" => Some("euler".into()),
            // Upstream's default, which its files always contain; `use_adg` replaces it.
            ("guidance_mode" | "guidance_variant", Some(mode)) if mode == "apg_classic" => None,
            // acestep.cpp drops the last value and always ends at 0.
            ("custom_timesteps", Some(Value::Array(mut times))) => {
                if let Some(last) = times.last_mut() {
                    *last = json!(0.0);
                }
                Some(Value::Array(times))
            }
            (_, read) => read,
        };
        if let Some(read) = &read {
            let is_whole = matches!(kind, Kind::Count | Kind::Whole);
            if is_whole && as_f64(value).is_some_and(|x| x.fract() != 0.0) {
                let value = shortened(&value.to_string());
                self.notices.push(Notice(format!(
                    "`{written}: {value}` is no whole number: it counts as {read}"
                )));
            }
            self.ours.insert(name.to_owned(), read.clone());
        }
        Ok(read)
    }

    fn theirs(&mut self, written: &str, meaning: Meaning, value: &Value) -> Result<(), Error> {
        if is_off(value) {
            return Ok(());
        }
        match meaning {
            Meaning::Nothing => (),
            Meaning::Wish => {
                if let Some(wish) = text(written, value)?.filter(|wish| !wish.trim().is_empty()) {
                    if let Some((key, other)) = &self.wish
                        && *other != wish
                    {
                        return Err(differ([key, written], [&json!(other), value]));
                    }
                    self.wish = Some((written.to_owned(), wish));
                }
            }
            Meaning::Mode(mode) => {
                // Upstream gives `inspire` precedence.
                if flag(written, value)? == Some(true) && self.mode != Some("inspire") {
                    self.mode = Some(mode);
                }
            }
            Meaning::Unbuilt => self.notices.push(Notice(format!(
                "the request's `{written}` has no effect: upstream has not built it either"
            ))),
            Meaning::Chosen(option) => self.notices.push(Notice(format!(
                "the request's `{written}` {} is not read; choose with {option}",
                shortened(&value.to_string())
            ))),
            Meaning::Sound => {
                let value = shortened(&value.to_string());
                return Err(Error::NotInThisVersion(format!("the request's `{written}` {value}")));
            }
        }
        Ok(())
    }

    /// Fills what the request leaves open with what upstream's language model chose for its song.
    fn fill(&mut self, decided: Map<String, Value>) {
        let mut names = Vec::new();
        for (key, value) in decided {
            if !self.ours.contains_key(&key) {
                names.push(format!("`cot_{key}`"));
                self.ours.insert(key, value);
            }
        }
        if !names.is_empty() {
            self.notices.push(Notice(format!(
                "{} of the request: what upstream's language model chose stays",
                names.join(", ")
            )));
        }
    }

    fn finish(mut self) -> Result<(Request, Vec<Notice>), Error> {
        if let Some(texts) = self.texts.filter(|&texts| texts > 1) {
            let songs = self.ours.get("batch_size").and_then(Value::as_i64).unwrap_or(1);
            self.ours.insert("batch_size".into(), songs.saturating_mul(texts).into());
        }
        let has_caption = self.ours.get("caption").is_some_and(|caption| caption != "");
        match self.wish {
            Some((key, _)) if has_caption => self.notices.push(Notice(format!(
                "the request's `{key}` is not read: there is a caption already"
            ))),
            Some((_, wish)) => {
                self.ours.insert("caption".into(), wish.into());
                self.mode = Some("inspire");
            }
            None => (),
        }
        if let Some(mode) = self.mode {
            self.ours.entry("lm_mode").or_insert(mode.into());
        }
        let set = |key: &str| self.ours.contains_key(key);
        let thinks = self.ours.get("thinking") != Some(&Value::Bool(false));
        if self.is_acestep_cpp && thinks && !set("audio_codes") && !set("lm_prompt_style") {
            let text = "the request is one of acestep.cpp, whose language model reads another \
                        prompt: unless you give `lm_prompt_style: acestep.cpp`, it is read with \
                        this program's";
            self.notices.push(Notice(text.into()));
        }
        // acestep.cpp always writes a scale.
        if !self.ours.contains_key("adapter") {
            self.ours.remove("adapter_scale");
        }
        let request = serde_json::from_value(Value::Object(self.ours))
            .map_err(|e| Error::RequestSyntax(e.to_string()))?;
        Ok((request, self.notices))
    }
}

/// True for values that mean "off" in a key of another program.
fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty() || text.eq_ignore_ascii_case("false"),
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Converts `keyScale` to `key_scale`, because upstream's server accepts both.
pub fn snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 2);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Returns the known key that is most similar to `key`, if any.
fn similar(key: &str) -> Option<String> {
    let ours = Request::all_keys().flat_map(|key| key.others.iter().chain([&key.name]).copied());
    acestep_engine::nearest(key, ours.chain(theirs().map(|(name, _)| name))).map(str::to_owned)
}
