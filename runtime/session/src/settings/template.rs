//! A file that explains every key.

use std::fmt::Write as _;

use super::{
    KEYS, ValueType,
    keys::{SettingKey, variable},
};

/// Returns all keys as comments, each with its default, its variable and an example.
pub fn explained() -> String {
    let mut text = String::new();
    for key in &KEYS {
        let SettingKey { name, default, about, .. } = key;
        let (variable, example) = (variable(name), example(key));
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n# {name}: {about}\n# [default: {default}] [env: {variable}]\n# {name} = {example}\n"
        );
    }
    text
}

fn example(key: &SettingKey) -> String {
    match (key.kind, key.name) {
        (ValueType::Flag, _) => key.default.to_owned(),
        (ValueType::Count, _) => "4".to_owned(),
        (ValueType::Path, _) => "\"~/somewhere\"".to_owned(),
        (_, "lm_model") => "\"lm-0.6b\"".to_owned(),
        _ => format!("\"{}\"", key.default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_can_be_read() {
        let text = explained();
        let lines = text.lines().filter_map(|line| line.strip_prefix("# "));
        let lines: Vec<_> = lines.filter(|line| line.contains(" = ")).collect();
        let table: toml::Table = lines.join("\n").parse().expect("TOML");
        assert_eq!(table.len(), KEYS.len(), "{text}");
        for key in &KEYS {
            let value = &table[key.name];
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert!(key.read(&value).is_ok(), "{} = {value}", key.name);
        }
    }
}
