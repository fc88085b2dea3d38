//! Settings that a file leaves out, with the defaults of NeMo 3.0.0's classes: `IPATokenizer`, `IpaG2p`,
//! `ChinesePhonemesTokenizer`, `ChineseG2p`, `JapanesePhonemeTokenizer`, `JapaneseKatakanaAccentG2p`.

use serde_json::{Value, json};

use super::*;

/// The tokens of the only tokenizer, whose dictionary is `d`; or the error.
fn tokens(tokenizer: Value, d: &str) -> Result<Vec<String>, MagpieError> {
    let own = json!({
        "text_tokenizers": { "own": tokenizer }, "language_to_tokenizer_mapping": { "en": "own" },
    });
    let own = written(own, &[("d", d)])?;
    let (_, _, tokens) = own.tokens().next().expect("a tokenizer");
    match tokens {
        Some(tokens) => Ok(tokens.to_vec()),
        None => Err(own.check("en", Tools::default()).expect_err("a tokenizer that is not read")),
    }
}

/// Asserts that a tokenizer is refused, and that the error names the setting.
#[track_caller]
fn assert_refused(tokenizer: Value, setting: &str, value: &str) {
    let error = tokens(tokenizer, "a\tb\n").expect_err(setting).to_string();
    let says = format!("the model's setting `text_tokenizers.own.{setting}` cannot be used: ");
    let (language, why) = error.split_once(&says).expect(&error);
    assert_eq!(language, "texts in `en` cannot be read: ");
    assert!(why.contains(value), "{why}");
}

/// The tokenizer of Mandarin with these settings of its conversion, without marks.
fn mandarin(g2p: Value) -> Value {
    let mut own = json!({
        "_target_": "ChinesePhonemesTokenizer", "punct": false,
        "g2p": { "phoneme_dict": "d", "word_segmenter": "jieba" },
    });
    for (key, value) in g2p.as_object().expect("settings") {
        own["g2p"][key] = value.clone();
    }
    own
}

#[test]
fn mandarin_has_phonemes_in_upper_case_behind_a_mark_and_letters_in_lower_case() {
    let of = |g2p: Value| tokens(mandarin(g2p), "Ni\tn i3x\n").expect("tokens").join("");
    let letters: String = ('a'..='z').collect();
    let upper: String = ('A'..='Z').collect();
    let tones = "#1#2#3#4#5";
    assert_eq!(of(json!({})), format!(" #I3X#N{tones}{letters}'<pad><oov>"));
    let set = json!({ "phoneme_case": "lower", "phoneme_prefix": "+", "tone_prefix": "/" });
    assert_eq!(of(set), format!(" +i3x+n/1/2/3/4/5{letters}'<pad><oov>"));
    // A null is an empty prefix.
    let empty = json!({
        "phoneme_case": "mixed", "phoneme_prefix": null, "tone_prefix": null,
        "ascii_letter_prefix": "_", "ascii_letter_case": "mixed",
    });
    let marked: String = format!("{upper}{letters}").chars().map(|c| format!("_{c}")).collect();
    assert_eq!(of(empty), format!(" i3xn12345{marked}'<pad><oov>"));
    assert_eq!(
        of(json!({ "ascii_letter_case": "upper" })),
        format!(" #I3X#N{tones}{upper}'<pad><oov>")
    );
}

#[test]
fn a_chinese_text_has_the_case_of_the_letters() {
    let pinyin = Pinyin::read("你: nǐ").expect("a table");
    for (case, says) in [("lower", "#N #3 a b"), ("upper", "#N #3 A B"), ("mixed", "#N #3 a B")] {
        let own = json!({ "text_tokenizers": {
            "mandarin_phoneme": mandarin(json!({ "ascii_letter_case": case })),
        } });
        let own = written(own, &[("d", "ni\tn\n")]).expect("tokenizers");
        let made = own.encode("zh", "你aB", with(&pinyin)).expect("ids");
        assert_eq!(symbols(&own, made.ids).join(" "), says, "{case}");
    }
}

#[test]
fn settings_of_mandarin_that_are_not_supported_are_refused_by_their_keys() {
    for (key, value, says) in [
        ("word_segmenter", json!("pkuseg"), "pkuseg"),
        ("word_segmenter", json!(null), "null"),
        ("phoneme_case", json!("title"), "title"),
        ("ascii_letter_case", json!("title"), "title"),
        ("_target_", json!("nemo.JapaneseG2p"), "JapaneseG2p"),
    ] {
        assert_refused(mandarin(json!({ key: value })), &format!("g2p.{key}"), says);
    }
    let mut absent = mandarin(json!({}));
    absent["g2p"].as_object_mut().expect("settings").remove("word_segmenter");
    assert_refused(absent, "g2p.word_segmenter", "null");
}

/// Letters of lower case have as many tokens as those of upper case: the number of ids shows nothing.
#[test]
fn japanese_letters_are_in_lower_case_unless_the_file_says_otherwise() {
    let of = |g2p: Value| json!({ "_target_": "JapanesePhonemeTokenizer", "g2p": g2p });
    let [lower, upper]: [String; 2] = [('a'..='z').collect(), ('A'..='Z').collect()];
    for (g2p, letters) in [
        (json!({}), &lower),
        (json!({ "ascii_letter_case": "lower" }), &lower),
        (json!({ "ascii_letter_case": "upper" }), &upper),
        (json!({ "ascii_letter_case": "mixed" }), &format!("{upper}{lower}")),
    ] {
        let own = tokens(of(g2p), "").expect("tokens").concat();
        assert!(own.contains(&format!("ヶー{letters}'!")), "{own}");
    }
    assert_refused(of(json!({ "ascii_letter_case": "title" })), "g2p.ascii_letter_case", "title");
    let upper = json!({ "ascii_letter_case": "upper" });
    let mut other = upper.clone();
    other["_target_"] = json!("nemo.collections.tts.g2p.models.ja_jp_ipa.JapaneseG2p");
    assert_refused(of(other), "g2p._target_", "`JapaneseG2p`");
    assert_refused(json!({ "_target_": "JapanesePhonemeTokenizer" }), "g2p", "none");
    // The tokens of the reference have no prefix, whatever the setting.
    let mut marked = upper.clone();
    marked["ascii_letter_prefix"] = json!("#");
    let own = tokens(of(upper), "").expect("tokens");
    assert_eq!(tokens(of(marked), "").expect("tokens"), own);
    assert!(own.contains(&"A".to_owned()) && own.contains(&"'".to_owned()));
}

/// `JapanesePhonemeTokenizer` reads lower case before the case of the file. The words of OpenJTalk are those of
/// `words.json`.
#[test]
fn a_japanese_text_has_the_case_of_the_letters() {
    let analyser = OpenJTalk::read(&dictionary()).expect("a dictionary");
    let tools = Tools { open_jtalk: Some(&analyser), ..Tools::default() };
    let of = |case: &str| {
        let own = json!({ "text_tokenizers": { "japanese": {
            "_target_": "JapanesePhonemeTokenizer", "g2p": { "ascii_letter_case": case },
        } } });
        let own = written(own, &[]).expect("tokenizers");
        let made = own.encode("ja", "OpenAIの3つのモデル", tools).expect("ids");
        assert!(made.dropped.is_empty(), "{:?}", made.dropped);
        symbols(&own, made.ids).concat()
    };
    let upper = of("upper");
    let kana = upper.strip_prefix("OPENAI").expect(&upper);
    assert!(kana.ends_with("1モ0デ0ル"), "{kana}");
    for case in ["lower", "mixed"] {
        assert_eq!(of(case), format!("openai{kana}"), "{case}");
    }
    // A GGUF file has a list of tokens, which counts.
    let own = json!({ "text_tokenizers": { "japanese": {
        "_target_": "JapanesePhonemeTokenizer", "vocabulary": "v", "g2p": {},
    } } });
    let own = written(own, &[("v", " \na\nア")]).expect("tokenizers");
    let letter = json!({
        "string": "ａ", "pos": "フィラー", "pos_group1": "*", "pron": "エー", "acc": 0, "mora_size": 2,
        "chain_flag": 0,
    });
    let letter: JapaneseWord = serde_json::from_value(letter).expect("a word");
    assert_eq!(own.words("ja", &[letter]).expect("ids").ids, [1]);
}

#[test]
fn phonemes_of_words_have_an_apostrophe_only_if_the_file_says_so() {
    let of = |more: Value| {
        let mut own = json!({
            "_target_": "IPATokenizer", "punct": false, "g2p": { "phoneme_dict": "d" },
        });
        own.as_object_mut().expect("settings").extend(more.as_object().cloned().expect("more"));
        own
    };
    let own = |more| tokens(of(more), "a b\n").expect("tokens");
    assert_eq!(own(json!({})), ["b", " ", "<pad>", "<oov>"]);
    assert_eq!(own(json!({ "apostrophe": true })), ["'", "b", " ", "<pad>", "<oov>"]);
    let arabic = json!({ "_target_": "ArabicCharsTokenizer", "punct": false });
    assert!(tokens(arabic, "").expect("tokens").contains(&"'".to_owned()));
    assert_refused(of(json!({ "locale": "es-ES" })), "g2p.locale", "`en-US`, but `locale`");
    assert_refused(of(json!({ "locale": null })), "g2p.locale", "`null`");
}

/// Keys that would change the tokens, and that no released file has.
#[test]
fn other_vocabularies_are_refused() {
    for key in ["chars", "fixed_vocab", "non_default_punct_list", "silence", "add_blank_at"] {
        let own = |value: Value| json!({ "_target_": "ArabicCharsTokenizer", key: value });
        let error = tokens(own(json!("x")), "").expect_err(key).to_string();
        assert!(error.contains(&format!("`{key}` is not supported")), "{error}");
        assert!(tokens(own(Value::Null), "").is_ok());
    }
}
