//! Archives that differ from the released ones: tokenizers that cannot be read, several dictionaries, French
//! phonemes.

use serde_json::{Map, Value, json};

use super::*;

/// The settings of a tokenizer whose dictionary has one word, `a`: four ids, and `a` has the first.
fn small() -> Value {
    json!({ "_target_": "IPATokenizer", "punct": false, "g2p": { "phoneme_dict": "d" } })
}

/// Four ids are known of each tokenizer that can be read.
#[test]
fn a_tokenizer_that_cannot_be_read_refuses_its_own_language_alone() {
    let of = |names: &[(&str, Value)], rows: usize| {
        let tokenizers: Map<_, _> =
            names.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let config = json!({
            "text_tokenizers": tokenizers,
            "language_to_tokenizer_mapping": { "en": "a", "ja": "b", "de": "c", "ko": "d", "fr": "e" },
        });
        written(config, &[("d", "a b\n"), ("v", "x\ny")]).and_then(|own| own.fitted(rows))
    };
    let ids = |own: &Tokenizers, language: &str| {
        own.encode(language, "a", Tools::default()).map(|encoded| encoded.ids)
    };
    let strange = json!({ "_target_": "T5Tokenizer" });
    let one = [("a", small()), ("b", strange.clone()), ("c", small())];
    let own = of(&one, 2 + 8 + 5).expect("tokenizers");
    assert_eq!((own.end(), own.languages().join(" ")), (14, "en de".to_owned()));
    assert_eq!(ids(&own, "en").expect("ids"), [0]);
    assert_eq!(ids(&own, "de").expect("ids"), [4 + 5]);
    let says = "texts in `ja` cannot be read: the model's setting `text_tokenizers.b._target_` cannot \
                be used: tokenizers of the class `T5Tokenizer` are not supported";
    assert_eq!(ids(&own, "ja").expect_err("a class").to_string(), says);
    for error in [own.phonemes("ja", "a"), own.words("ja", &[])] {
        assert_eq!(error.expect_err("a class").to_string(), says);
    }
    // 10 rows leave nothing for the tokenizer that cannot be read.
    assert!(of(&one, 9).is_err() && of(&one, 10).is_err() && of(&one[..1], 7).is_err());
    // The places of the ids between two of them are not known.
    let two = [&one[..], &[("d", strange), ("e", small())]].concat();
    let own = of(&two, 2 + 12 + 30).expect("tokenizers");
    assert_eq!(own.languages().join(" "), "en fr");
    assert_eq!(ids(&own, "fr").expect("ids"), [8 + 30]);
    let error = ids(&own, "de").expect_err("unknown ids").to_string();
    assert!(error.contains("`de`") && error.contains("text_tokenizers.b._target_"), "{error}");
    // A GGUF file tells the number of ids.
    let listed = json!({ "_target_": "T5Tokenizer", "vocabulary": "v" });
    let three = [("a", small()), ("b", listed), ("c", small())];
    assert_eq!(ids(&of(&three, 2 + 8 + 2).expect("tokenizers"), "de").expect("ids"), [4 + 2]);
    assert!(of(&three, 13).is_err());
}

/// `_parse_phoneme_dict` merges the files: a word that is in both has two pronunciations.
#[test]
fn dictionaries_and_heteronyms_may_be_lists() {
    let of = |ignores: bool, text: &str| {
        let config = json!({ "text_tokenizers": { "english": {
            "_target_": "IPATokenizer", "g2p": {
                "phoneme_dict": ["nemo:d", "e"], "heteronyms": ["read", "tear"],
                "ignore_ambiguous_words": ignores, "use_chars": true, "grapheme_prefix": "#",
            },
        } } });
        let files = [("d", "hello x\nread y"), ("e", "world z\nhello v\n")];
        of_text(config, &files, "en", text)
    };
    assert_eq!(of(false, "hello world read"), "x z #R#E#A#D");
    assert_eq!(of(true, "hello world"), "#H#E#L#L#O z");
    let error = written(
        json!({ "text_tokenizers": { "english": {
            "_target_": "IPATokenizer", "g2p": { "phoneme_dict": 5 },
        } } }),
        &[],
    );
    let error = error.expect("tokenizers").check("en", Tools::default()).expect_err("a number");
    assert!(error.to_string().contains("neither a text nor a list of texts"), "{error}");
}

/// The words are those of `IpaG2p`, in lower or upper case: it does not know `Qu'`.
#[test]
fn a_french_word_behind_an_elided_one_is_looked_up_alone() {
    let of = |locale: &str, case: &str, text: &str| {
        let config = json!({
            "text_tokenizers": { "french": {
                "_target_": "IPATokenizer", "punct": false, "locale": locale,
                "g2p": { "phoneme_dict": "d", "locale": locale, "grapheme_case": case },
            } },
        });
        let d = "ami a\nhomme om\nil il\nl'oncle u\nque k\njusque ʒysk\nfils f\nfils(2) s\n";
        of_text(config, &[("d", d)], "fr", text)
    };
    for (text, says) in [
        ("l'ami", "la"),
        ("L’HOMME", "lom"),
        ("qu'il", "kil"),
        ("jusqu'ami", "ʒyska"),
        // A word of the dictionary, one with two pronunciations, no elided word: letters are no tokens here.
        ("l'oncle", "u"),
        ("l'fils", ""),
        ("z'ami", ""),
    ] {
        assert_eq!(of("fr-FR", "upper", text), says, "{text}");
    }
    assert_eq!(of("de-DE", "upper", "l'ami"), "");
    for (text, says) in [("L'ami", "la"), ("QU'il", "kil"), ("Qu'il", "uil")] {
        assert_eq!(of("fr-FR", "mixed", text), says, "{text}");
    }
}
