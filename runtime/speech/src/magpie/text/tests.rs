//! Goldens of `tests/goldens/magpie/logic`: NeMo's own tokenizers on tiny dictionaries.

use serde_json::Value;

use super::{
    charsets,
    config::{TokenizerConfig, Version},
    japanese,
    language::tokenizer_of,
    punctuation::punctuation,
    tokenizer::{Kind, Tokenizer},
    *,
};
use crate::magpie::golden::logic as golden;

fn tokenizers(model: &str) -> Tokenizers {
    let file = golden(&format!("text_{model}.json"));
    let config: TextConfig = serde_json::from_value(file["config"].clone()).expect("settings");
    let artefact = |name: &str| match file["artefacts"][name].as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(MagpieError::bad_setting(name.to_owned(), "it is absent".to_owned())),
    };
    Tokenizers::read(&config, &artefact).expect("tokenizers")
}

fn strings(value: &Value) -> Vec<String> {
    serde_json::from_value(value.clone()).expect("strings")
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[test]
fn the_vocabulary_of_a_file_is_rebuilt_from_its_dictionaries() {
    for model in ["s1", "s2"] {
        let (own, tokens) = (tokenizers(model), golden("tokens.json"));
        let expected = &tokens["models"][model];
        let subs = list(&expected["sub_tokenizers"]);
        assert_eq!(own.tokens().count(), subs.len());
        for ((name, offset, tokens), expected) in own.tokens().zip(subs) {
            assert_eq!(name, text(&expected["name"]));
            assert_eq!(u64::from(offset), expected["offset"], "{name}");
            if let Some(tokens) = tokens {
                assert_eq!(tokens, strings(&expected["tokens"]), "{name}");
            }
        }
        assert_eq!(u64::from(own.end()), expected["eos_id"]);
        assert_eq!(own.rows() as u64, expected["vocab_size"].as_u64().expect("a size") + 2);
        let error = own.check_rows(1).expect_err("another size");
        assert!(error.to_string().contains("english_phoneme 79, "), "{error}");
    }
}

/// A table with the words of the texts, as pypinyin 0.55 has them.
const PINYIN: &str = "你好: nǐ hǎo\n今天: jīn tiān\n天气: tiān qì\n一个: yí gè\n银行: yín háng\n女人: nǚ rén\n\
    很: hěn\n好: hǎo\n我: wǒ\n去: qù\n了: le\n买: mǎi\n的: de\n人: rén\n行: xíng\n中: zhōng\n文: wén\n";

#[test]
fn every_text_gives_the_ids_of_the_reference() {
    let pinyin = Pinyin::read(PINYIN).expect("a table");
    let mut count = 0;
    for model in ["s1", "s2"] {
        let (own, tokens) = (tokenizers(model), golden("tokens.json"));
        for case in list(&tokens["models"][model]["cases"]) {
            let (language, given) = (text(&case["language"]), text(&case["text"]));
            if language == "ja" {
                continue;
            }
            let made = own.encode(language, given, Some(&pinyin)).expect(given);
            let ids = if case["ids"].is_null() { Vec::new() } else { list(&case["ids"]).clone() };
            let made: Vec<Value> = made.ids.into_iter().map(Value::from).collect();
            assert_eq!(made, ids, "{language} {given:?}");
            count += 1;
        }
    }
    assert_eq!(count, 83);
}

#[test]
fn words_phonemes_and_pinyin_are_those_of_the_reference() {
    let pinyin = Pinyin::read(PINYIN).expect("a table");
    let (own, tokens) = (tokenizers("s2"), golden("tokens.json"));
    let mut counts = [0; 3];
    for case in list(&tokens["models"]["s2"]["cases"]) {
        let (given, language) = (text(&case["text"]), text(&case["language"]));
        let named = own.of_language(language).expect("a tokenizer");
        let Tokenizer::Symbols { kind, list } = &named.tokenizer else { continue };
        match &**kind {
            Kind::Ipa(ipa) if !case["g2p"].is_null() => {
                assert_eq!(ipa.symbols(given).expect(given), strings(&case["g2p"]), "{given:?}");
                counts[0] += 1;
            }
            Kind::Mandarin(mandarin) => {
                let words = pinyin.words(&given.to_uppercase());
                assert_eq!(words, strings(&case["words"]), "{given:?}");
                let items: Vec<_> = words.iter().flat_map(|word| pinyin.items(word)).collect();
                assert_eq!(items, strings(&case["pinyin"]), "{given:?}");
                assert_eq!(mandarin.of_items(items).0, strings(&case["g2p"]), "{given:?}");
                counts[1] += 1;
            }
            Kind::Japanese => {
                let words: Vec<japanese::Word> =
                    serde_json::from_value(case["njd"].clone()).expect("words");
                let marks = punctuation(Some("ja-JP")).expect("marks");
                let symbols = japanese::kana(&words, &marks);
                assert_eq!(symbols, strings(&case["g2p"]), "{given:?}");
                let ids = list.encode(symbols).ids.into_iter().map(|id| id + named.offset);
                let ids: Vec<Value> = ids.map(Value::from).collect();
                assert_eq!(Value::from(ids), case["ids"], "{given:?}");
                counts[2] += 1;
            }
            Kind::Ipa(_) | Kind::Characters => {}
        }
    }
    assert_eq!(counts, [28, 5, 5]);
}

#[test]
fn symbols_that_are_left_out_are_said() {
    let own = tokenizers("s1");
    let dropped = |text| own.encode("en", text, None).expect("ids").dropped;
    assert_eq!(dropped("hello 2 worlds, 2024 …\n"), ["2", "0", "4", "…", "\n"]);
    assert!(dropped("Hello, world.").is_empty());
    let pinyin = Pinyin::read("龘: dá").expect("a table");
    let encoded = own.encode("zh", "龘好", Some(&pinyin)).expect("ids");
    // The dictionary has no `da2`-less syllable of the second one, which the table does not know.
    assert_eq!(encoded.dropped, ["好"]);
}

#[test]
fn a_language_that_cannot_be_read_is_named() {
    let own = tokenizers("s2");
    for (language, words) in [
        ("tlh", "does not speak `tlh`"),
        ("zh", "`zh` need a table of pinyin"),
        ("ja", "`ja` need an analyser"),
    ] {
        let error = own.check(language, None).expect_err(language);
        assert!(error.to_string().contains(words), "{error}");
    }
    let languages = own.languages().join(" ");
    assert_eq!(languages, "en es de zh ja pt-BR hi ar-AE ar-SA ar-MSA fr it vi ko");
    assert_eq!(tokenizers("s1").languages().join(" "), "en de es fr it vi zh");
}

#[test]
fn the_tokenizer_of_a_language_is_the_reference_s_or_none() {
    for case in list(&golden("tokens.json")["tokenizer_for_language"]) {
        let available = strings(&case["available"]);
        let names: Vec<_> = available.iter().map(String::as_str).collect();
        let language = text(&case["language"]);
        match tokenizer_of(language, &names) {
            Some(name) => assert_eq!(name, case["chosen"], "{language} of {names:?}"),
            // The reference takes English or the first one.
            None => {
                let fallback =
                    ["english_phoneme", "english"].iter().find(|name| names.contains(name));
                let first = fallback.copied().unwrap_or(names[0]);
                assert_eq!(first, case["chosen"], "{language} of {names:?}");
            }
        }
    }
}

#[test]
fn charsets_and_punctuation_are_those_of_the_reference() {
    let tokens = golden("tokens.json");
    for (class, key, versions) in
        [("HindiCharsTokenizer", "hindi", [1, 2]), ("ArabicCharsTokenizer", "arabic", [1, 2])]
    {
        for version in versions {
            let value = serde_json::json!({
                "_target_": class, "charset_version": version, "punct_version": version,
            });
            let config =
                TokenizerConfig::read(key, &value, &Version::read(None)).expect("settings");
            let own = charsets::tokens(&config).expect("tokens");
            assert_eq!(own, strings(&tokens["charsets"][format!("{key}_v{version}")]));
        }
    }
    for (locale, marks) in tokens["punctuation"].as_object().expect("an object") {
        let locale = Some(&**locale).filter(|locale| *locale != "None");
        assert_eq!(punctuation(locale).expect("marks"), strings(marks), "{locale:?}");
    }
    assert!(punctuation(Some("xx-XX")).is_err());
}

#[test]
fn settings_that_are_absent_follow_the_version_of_the_file() {
    for case in list(&golden("tokens.json")["versioned_defaults"]) {
        let mut value = serde_json::json!({ "_target_": case["tokenizer"] });
        if let Some(locale) = case["locale"].as_str() {
            value["locale"] = locale.into();
        }
        let version = Version::read(case["nemo_version"].as_str());
        let own = TokenizerConfig::read("a", &value, &version).expect("settings");
        let filled = &case["filled"];
        let number = |key: &str| filled[key].as_u64().map(|n| n as u32);
        assert_eq!(own.charset_version, number("charset_version"), "{case}");
        if !filled["punct_version"].is_null() {
            assert_eq!(own.punct_version, number("punct_version"), "{case}");
        }
        assert_eq!(own.locale_specific_punct, filled["locale_specific_punct"].as_bool(), "{case}");
    }
}
