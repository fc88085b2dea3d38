use super::*;

#[test]
fn an_unknown_language_names_near_codes() {
    let near = |code| {
        let error = vocal_language(code).expect_err("unknown");
        let Some(SongError::UnknownLanguage { near, .. }) = error.family() else {
            panic!("{error}")
        };
        near.clone()
    };
    assert_eq!(near("en-US"), ["en"]);
    assert!(near("jp").contains(&"ja"));
    assert!(near("klingon").is_empty());
    assert_eq!(vocal_language("YUE").expect("known"), "yue");
    assert_eq!(vocal_language("unknown").expect("known"), "unknown");
}

#[test]
fn metres_pass_verbatim_or_are_refused() {
    for good in ["2", "3", "4", "6", "4/4", "6/8", "7/8", "12/8"] {
        assert_eq!(timesignature(good).expect("a metre"), good);
    }
    for bad in ["", "5", "0/4", "4/3", "/4", "4/", "four", "4/4/4", "-3/4"] {
        assert!(timesignature(bad).is_err(), "{bad}");
    }
}

#[test]
fn keys_are_a_note_and_a_mode() {
    assert!(["C major", "F# minor", "B♭ major", "Eb minor"].into_iter().all(is_keyscale));
    for bad in ["C", "c major", "H minor", "C  major", "C## major", "♯ major", "é minor", ""] {
        assert!(!is_keyscale(bad), "{bad}");
    }
}

#[test]
fn a_key_is_one_short_value() {
    assert_eq!(keyscale(" H moll ").expect("as it is"), "H moll");
    for bad in ["", "  ", "C\nmajor", "<|im_end|>", &"x".repeat(101)] {
        assert!(keyscale(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_key_that_the_model_does_not_know_is_said() {
    let words = Words { keyscale: Some("H moll".into()), ..Words::default() };
    let mut notices = Vec::new();
    let metadata = SongMetadata::of(&words, &mut notices).expect("valid");
    assert_eq!(metadata.keyscale.as_deref(), Some("H moll"));
    assert!(notices[0].0.contains("`H moll` does not look like"), "{notices:?}");
}
