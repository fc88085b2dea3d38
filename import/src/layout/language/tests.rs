use super::*;
use crate::layout::tests::{layout, models};

#[test]
fn every_spelling_of_a_released_model_leads_to_it() -> Result<(), Error> {
    let dir = models(&["acestep-5Hz-lm-0.6B", "acestep-5Hz-lm-1.7B", "acestep-5Hz-lm-4B"]);
    let layout = layout(&[&dir]);
    for (choices, name, directory) in [
        (["lm-0.6b", "0.6B", "acestep-5Hz-lm-0.6B"], "lm-0.6b", "acestep-5Hz-lm-0.6B"),
        (["lm-1.7b", "1.7b", "LM-1.7B"], "lm-1.7b", "acestep-5Hz-lm-1.7B"),
        (["lm-4b", "4b", "acestep-5hz-lm-4b"], "lm-4b", "acestep-5Hz-lm-4B"),
    ] {
        let path = dir.path().join(directory);
        for choice in choices.into_iter().chain([&*path.to_string_lossy()]) {
            let expected = LanguagePath { name: name.into(), path: path.clone() };
            assert_eq!(layout.resolve_language_model(Some(choice))?, expected, "{choice}");
        }
    }
    Ok(())
}

#[test]
fn an_own_directory_goes_by_its_name() -> Result<(), Error> {
    let dir = models(&["my-planner"]);
    let found = layout(&[&dir]).resolve_language_model(Some("my-planner"))?;
    assert_eq!(
        found,
        LanguagePath { name: "my-planner".into(), path: dir.path().join("my-planner") }
    );
    Ok(())
}

#[test]
fn without_a_choice_it_is_the_first_that_is_there() -> Result<(), Error> {
    for (first, second, expected) in [
        (&["acestep-5Hz-lm-4B"][..], &["acestep-5Hz-lm-1.7B"][..], "lm-1.7b"),
        (&["acestep-5Hz-lm-4B"], &["acestep-5Hz-lm-0.6B"], "lm-0.6b"),
        (&["my-planner"], &["acestep-5Hz-lm-4B"], "lm-4b"),
    ] {
        let (first, second) = (models(first), models(second));
        assert_eq!(layout(&[&first, &second]).resolve_language_model(None)?.name, expected);
    }
    Ok(())
}

#[test]
fn an_absent_model_is_told_with_places_and_command() {
    let dir = models(&["vae"]);
    let (layout, at) = (layout(&[&dir]), dir.path().display());

    let error = layout.resolve_language_model(None).expect_err("absent");
    assert_eq!(
        error.to_string(),
        format!(
            "the language model is not on this machine\n  looked for {at}/acestep-5Hz-lm-1.7B\n  looked for {at}/acestep-5Hz-lm-0.6B\n  looked for {at}/acestep-5Hz-lm-4B"
        )
    );
    assert_eq!(
        error.hint().as_deref(),
        Some("fetch `acestep-5Hz-lm-1.7B` of `ACE-Step/Ace-Step1.5` from the hub")
    );

    let error = layout.resolve_language_model(Some("lm-4b")).expect_err("absent");
    let says = format!(
        "language model `lm-4b` is not on this machine\n  looked for {at}/acestep-5Hz-lm-4B"
    );
    assert_eq!(error.to_string(), says);
    let hint = "fetch `acestep-5Hz-lm-4B` of `ACE-Step/acestep-5Hz-lm-4B` from the hub";
    assert_eq!(error.hint().as_deref(), Some(hint));
}

#[test]
fn a_file_of_another_kind_is_not_a_model() {
    let dir = models(&[]);
    let path = dir.path().join("acestep-5Hz-lm-4B-Q8_0.gguf");
    std::fs::write(&path, b"GGML").expect("a file");
    let choice = path.to_string_lossy();
    let error = layout(&[&dir]).resolve_language_model(Some(&choice)).expect_err("a file");
    assert!(error.to_string().ends_with("cannot be read: it is neither GGUF nor safetensors"));
}
