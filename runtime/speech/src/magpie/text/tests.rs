//! Goldens of `tests/goldens/magpie/logic`: NeMo's own tokenizers on tiny dictionaries.

mod archives;
mod defaults;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    charsets,
    config::{TokenizerConfig, Version},
    japanese,
    open_jtalk::FILES,
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
        None => Err(MagpieError::bad_setting(name, "it is absent")),
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
        let error = own.fitted(1).expect_err("another size");
        assert!(error.to_string().contains("english_phoneme 79, "), "{error}");
    }
}

/// A table with the words of the texts, as pypinyin 0.55 has them.
const PINYIN: &str = "你好: nǐ hǎo\n今天: jīn tiān\n天气: tiān qì\n一个: yí gè\n银行: yín háng\n女人: nǚ rén\n\
    很: hěn\n好: hǎo\n我: wǒ\n去: qù\n了: le\n买: mǎi\n的: de\n人: rén\n行: xíng\n中: zhōng\n文: wén\n";

fn with(pinyin: &Pinyin) -> Tools<'_> {
    Tools { pinyin: Some(pinyin), ..Tools::default() }
}

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
            let made = own.encode(language, given, with(&pinyin)).expect(given);
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
        let Tokenizer::Symbols { kind, .. } = &named.tokenizer else { continue };
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
            Kind::Japanese(case_of_letters) => {
                let words: Vec<japanese::JapaneseWord> =
                    serde_json::from_value(case["njd"].clone()).expect("words");
                let marks = punctuation(Some("ja-JP")).expect("marks");
                let symbols = japanese::kana(&words, &marks, *case_of_letters);
                assert_eq!(symbols, strings(&case["g2p"]), "{given:?}");
                let ids = own.words("ja", &words).expect("words").ids;
                assert_eq!(serde_json::json!(ids), case["ids"], "{given:?}");
                assert!(own.words("en", &words).is_err());
                counts[2] += 1;
            }
            Kind::Ipa(_) | Kind::Characters => {}
        }
    }
    assert_eq!(counts, [28, 5, 5]);
}

/// The directory of a small dictionary: all words of OpenJTalk's that occur in the texts of `words.json`.
fn dictionary() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens/magpie/open_jtalk/naist-jdic")
}

#[test]
fn words_of_japanese_are_those_of_open_jtalk() {
    let analyser = OpenJTalk::read(&dictionary()).expect("a dictionary");
    let cases = std::fs::read(dictionary().with_file_name("words.json")).expect("cases");
    let cases: Vec<Value> = serde_json::from_slice(&cases).expect("JSON");
    for case in &cases {
        let given = text(&case["text"]);
        let mut expected: Vec<JapaneseWord> =
            serde_json::from_value(case["words"].clone()).expect("words");
        // No word is before the first: OpenJTalk has 0 or -1 for it, jpreprocess always -1.
        let mut words = analyser.words(&given.to_uppercase()).expect("words");
        for first in [&mut words[0], &mut expected[0]] {
            first.chain_flag = first.chain_flag.max(0);
        }
        assert_eq!(words, expected, "{given}");
    }
    assert_eq!(cases.len(), 9);
    assert_eq!(analyser.words("").expect("words"), []);
}

#[test]
fn japanese_texts_give_the_ids_of_the_reference() {
    let analyser = OpenJTalk::read(&dictionary()).expect("a dictionary");
    let tools = Tools { open_jtalk: Some(&analyser), ..Tools::default() };
    let (own, tokens) = (tokenizers("s2"), golden("tokens.json"));
    let cases = list(&tokens["models"]["s2"]["cases"]).iter();
    let (mut same, mut others) = (0, Vec::new());
    for case in cases.filter(|case| case["language"] == "ja") {
        let given = text(&case["text"]);
        let made = own.encode("ja", given, tools).expect(given);
        match serde_json::json!(made.ids) == case["ids"] {
            true => same += 1,
            false => others.push(given),
        }
    }
    // The reference ran with pyopenjtalk-plus. It gives the first `の` of this text an accent, OpenJTalk none.
    assert_eq!((same, &others[..]), (4, &["OpenAIの3つのモデル"][..]));
}

#[test]
fn a_damaged_dictionary_of_japanese_is_refused() {
    for file in FILES {
        let whole = std::fs::read(dictionary().join(file)).expect(file);
        for damaged in [None, Some(&whole[..0]), Some(&whole[..whole.len() / 2])] {
            let place = tempfile::tempdir().expect("a directory");
            for other in FILES.iter().filter(|other| **other != file) {
                std::fs::copy(dictionary().join(other), place.path().join(other)).expect(other);
            }
            if let Some(bytes) = damaged {
                std::fs::write(place.path().join(file), bytes).expect(file);
            }
            let error = OpenJTalk::read(place.path()).expect_err(file);
            assert!(matches!(error, MagpieError::Dictionary { .. }), "{file}: {error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}

#[test]
fn symbols_that_are_left_out_are_said() {
    let own = tokenizers("s1");
    let dropped = |text| own.encode("en", text, Tools::default()).expect("ids").dropped;
    assert_eq!(dropped("hello 2 worlds, 2024 …\n"), ["2", "0", "4", "…", "\n"]);
    assert!(dropped("Hello, world. | h  ə | ||").is_empty());
    let pinyin = Pinyin::read("龘: dá").expect("a table");
    let encoded = own.encode("zh", "龘好", with(&pinyin)).expect("ids");
    // The dictionary has no `da2`-less syllable of the second one, which the table does not know.
    assert_eq!(encoded.dropped, ["好"]);
}

#[test]
fn a_language_that_cannot_be_read_is_named() {
    let own = tokenizers("s2");
    for (language, words) in [
        ("tlh", "does not speak `tlh`"),
        ("zh", "`zh` need a table of pinyin"),
        ("ja", "`ja` need a dictionary"),
    ] {
        let error = own.check(language, Tools::default()).expect_err(language);
        assert!(error.to_string().contains(words), "{error}");
    }
    let languages = own.languages().join(" ");
    assert_eq!(languages, "en es de zh ja pt-BR hi ar-AE ar-SA ar-MSA fr it vi ko");
    assert_eq!(tokenizers("s1").languages().join(" "), "en de es fr it vi zh");
}

/// The first file has a table of languages, the second none.
#[test]
fn the_case_of_a_language_does_not_matter() {
    for (model, given, own, text) in [
        ("s2", "pt-br", "pt-BR", "olá mundo"),
        ("s2", "EN", "en", "hello"),
        ("s1", "ES", "es", "hola"),
    ] {
        let tokenizers = tokenizers(model);
        assert_eq!(tokenizers.spelling(given), own);
        let ids = |language: &str| tokenizers.encode(language, text, Tools::default());
        assert_eq!(ids(given).expect(given), ids(own).expect(own));
    }
    assert_eq!(tokenizers("s1").spelling("pt-br"), "pt-br");
    assert_eq!(tokenizers("s1").spelling("German"), "de");
    assert_eq!(tokenizers("s2").spelling("ja-JP"), "ja");
    assert!(tokenizers("s1").encode("pt-br", "olá", Tools::default()).is_err());
}

#[test]
fn the_tokenizer_of_a_language_is_the_reference_s_or_none() {
    let mapping = Mapping::read(None).expect("a table");
    for case in list(&golden("tokens.json")["tokenizer_for_language"]) {
        let available = strings(&case["available"]);
        let names: Vec<_> = available.iter().map(String::as_str).collect();
        let language = text(&case["language"]);
        match mapping.tokenizer_of(language, &names) {
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

/// Reads tokenizers from settings and files that a test writes.
fn written(config: Value, files: &[(&str, &str)]) -> Result<Tokenizers, MagpieError> {
    let config: TextConfig = serde_json::from_value(config).expect("settings");
    let artefact = |name: &str| {
        let file = files.iter().find(|(own, _)| *own == name);
        Ok(file.unwrap_or_else(|| panic!("no file {name}")).1.to_owned())
    };
    Tokenizers::read(&config, &artefact)
}

/// Returns the symbols of ids of the first of the tokenizers.
fn symbols(own: &Tokenizers, ids: Vec<u32>) -> Vec<&str> {
    let (_, _, tokens) = own.tokens().next().expect("a tokenizer");
    let tokens = tokens.expect("a list");
    ids.into_iter().map(|id| &*tokens[id as usize]).collect()
}

/// Returns the symbols of a text by the first of the tokenizers that a test writes.
fn of_text(config: Value, files: &[(&str, &str)], language: &str, text: &str) -> String {
    let own = written(config, files).expect("tokenizers");
    let ids = own.encode(language, text, Tools::default()).expect("ids").ids;
    symbols(&own, ids).concat()
}

/// `IpaG2p` has `ignore_ambiguous_words: bool = True`, and a null is not true. The words are spelled
/// then, also the stem of a word with `s`; one pronunciation in capitals does not help.
#[test]
fn a_word_with_several_pronunciations_is_spelled_unless_the_file_says_otherwise() {
    let dictionary = "read xy\nread(2) z\nseat t\nsea s\ntea v\nTea(2) w\n";
    let ids = |ignore: Option<Value>, case: &str, text: &str| {
        let mut g2p = serde_json::json!({
            "phoneme_dict": "d", "use_chars": true, "grapheme_case": case, "grapheme_prefix": "#",
        });
        if let Some(ignore) = ignore {
            g2p["ignore_ambiguous_words"] = ignore;
        }
        let config = serde_json::json!({
            "text_tokenizers": { "english_phoneme": { "_target_": "IPATokenizer", "g2p": g2p } },
        });
        of_text(config, &[("d", dictionary)], "en", text)
    };
    assert_eq!(ids(None, "upper", "read seat"), "#R#E#A#D t");
    assert_eq!(ids(Some(true.into()), "upper", "reads seats"), "#R#E#A#D#S ts");
    for no in [Value::Bool(false), Value::Null] {
        assert_eq!(ids(Some(no.clone()), "upper", "read seat"), "xy t");
        assert_eq!(ids(Some(no), "upper", "read's"), "xyz");
    }
    // `Tea` is another word than `tea` in a dictionary of mixed case, and the last one in capitals.
    assert_eq!(ids(None, "mixed", "read tea"), "#r#e#a#d v");
}

#[test]
fn phonemes_are_the_tokens_of_the_language() {
    let own = tokenizers("s2");
    let same = |language: &str, phonemes: &str, text: &str| {
        let made = own.phonemes(language, phonemes).expect(phonemes);
        assert!(made.dropped.is_empty(), "{:?}", made.dropped);
        let pinyin = Pinyin::read(PINYIN).expect("a table");
        assert_eq!(made, own.encode(language, text, with(&pinyin)).expect(text));
    };
    same("en", "həˈɫoʊ ˈwɝɫd", "hello world");
    for pinyin in ["ni3 hao3", "Ni3hao3", "ni#3hao3"] {
        same("zh", pinyin, "你好");
    }
    same("zh", "nü3ren2, ni3 hao3 ， wo3 A B", "女人,你好，我A B");
    // 6 is no tone, so these are phonemes.
    assert_eq!(own.phonemes("zh", "ni3 xyz1 hao6").expect("ids").dropped, ["h", "6", "xyz1"]);
    // A word that is not in the dictionary has letters behind a mark of one token.
    same("de", "#b#a#k", "bak");
    let made = own.phonemes("ja", "1キョ0ー0ワ、1テ").expect("kana");
    let of = own.of_language("ja").expect("a tokenizer");
    let Tokenizer::Symbols { list, .. } = &of.tokenizer else { panic!("no list") };
    let symbols = ["1", "キ", "ョ", "0", "ー", "0", "ワ", "、", "1", "テ"].map(str::to_owned);
    let ids: Vec<u32> = list.encode(symbols).ids.into_iter().map(|id| id + of.offset).collect();
    assert_eq!((made.ids, made.dropped), (ids, vec![]));
    assert_eq!(own.phonemes("en", "h∂<pad>").expect("ids").dropped, ["∂", "<", ">"]);
    for (language, units) in [("fr", "bytes"), ("ar-AE", "letters")] {
        let error = own.phonemes(language, "a").expect_err(language);
        assert!(error.to_string().contains(units), "{error}");
    }
    assert!(own.phonemes("tlh", "a").is_err());
}

/// A GGUF file: a list of tokens, a dictionary that was read before, a part that is absent.
#[test]
fn a_vocabulary_in_the_file_counts_and_not_the_dictionary() {
    let config = |size: u32| {
        serde_json::json!({
            "text_tokenizers": {
                "english_phoneme": {
                    "_target_": "IPATokenizer", "vocabulary": "nemo:v",
                    "g2p": { "parsed_phoneme_dict": "d" },
                },
                "others": { "_target_": "absent", "size": size },
            },
            "language_to_tokenizer_mapping": { "en": ["english_phoneme"], "xx": ["others"] },
        })
    };
    let files = [("v", "q\na\nb\n \n<pad>\n<oov>"), ("d", "POLISH\ta b\npolish\tq\n")];
    let own = written(config(10), &files).expect("tokenizers");
    assert_eq!((own.rows(), own.end()), (18, 17));
    assert_eq!(
        own.encode("en", "polish polish", Tools::default()).expect("ids").ids,
        [1, 2, 3, 1, 2]
    );
    let error = own.encode("xx", "polish", Tools::default()).expect_err("an absent tokenizer");
    assert!(error.to_string().contains("does not speak `xx`"), "{error}");
    let mandarin = |dictionary: &str| {
        let tokens = " \nh\nni\n#1\n#2\n#3\n#4\n#5\n";
        let letters: Vec<_> = ('A'..='Z').map(String::from).collect();
        let marks = "，。？！；：、‘’“”（）【】「」《》,.!?-:;/\"()[]{}";
        let marks: Vec<_> = marks.chars().map(String::from).collect();
        let tokens =
            format!("{tokens}{}\n'\n{}\n<pad>\n<oov>", letters.join("\n"), marks.join("\n"));
        let config = serde_json::json!({
            "text_tokenizers": { "mandarin_phoneme": {
                "_target_": "ChinesePhonemesTokenizer", "vocabulary": "v",
                "g2p": {
                    "parsed_phoneme_dict": "d", "tone_prefix": "#", "ascii_letter_case": "upper",
                    "word_segmenter": "jieba",
                },
            } },
        });
        let own = written(config, &[("v", &tokens), ("d", dictionary)]).expect("tokenizers");
        let pinyin = Pinyin::read("你: nǐ").expect("a table");
        let of_text = own.encode("zh", "你", with(&pinyin));
        [of_text, own.phonemes("zh", "ni3"), own.phonemes("zh", "hni#3")]
            .map(|encoded| encoded.map(|encoded| encoded.ids))
    };
    for ids in mandarin("ni\th ni\n") {
        assert_eq!(ids.expect("ids"), [1, 2, 5]);
    }
    // One port keeps the first phoneme of each syllable.
    let [text, pinyin, phonemes] = mandarin("ni\th\n");
    for error in [text, pinyin].map(|ids| ids.expect_err("syllables that are cut").to_string()) {
        assert!(error.contains("a whole dictionary of syllables"), "{error}");
    }
    assert_eq!(phonemes.expect("ids"), [1, 2, 5]);
}
