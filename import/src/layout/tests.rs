use std::fs;

use super::*;
use crate::{
    ModelPaths,
    families::acestep::{TEXT_ENCODER, VAE},
};
use tempfile::TempDir;

/// Creates a models directory that contains `names`.
pub(super) fn models(names: &[&str]) -> TempDir {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    for name in names {
        fs::create_dir_all(temporary.path().join(name)).expect("a directory");
    }
    temporary
}

pub(super) fn layout(dirs: &[&TempDir]) -> Layout {
    Layout::new(dirs.iter().map(|dir| dir.path().to_owned()))
}

#[test]
fn short_names_directory_names_and_paths_lead_to_the_same_model() -> Result<(), Error> {
    let dir = models(&["acestep-v15-xl-turbo", VAE, TEXT_ENCODER]);
    let path = dir.path().join("acestep-v15-xl-turbo");
    let expected = ModelPaths {
        name: "xl-turbo".into(),
        dit: path.clone(),
        vae: dir.path().join(VAE),
        text_encoder: dir.path().join(TEXT_ENCODER),
        pieces: vec![dir.path().to_owned()],
    };
    let layout = layout(&[&dir]);
    assert_eq!(layout.resolve("xl-turbo")?, expected);
    assert_eq!(layout.resolve("acestep-v15-xl-turbo")?, expected);
    assert_eq!(layout.resolve(&path.to_string_lossy())?, expected);
    let expected = ModelPaths { pieces: Vec::new(), ..expected };
    assert_eq!(Layout::new([]).resolve(&format!("{}/", path.display()))?, expected);
    Ok(())
}

#[test]
fn an_own_directory_among_the_models_goes_by_its_name() -> Result<(), Error> {
    let dir = models(&["my-merge", VAE, TEXT_ENCODER]);
    assert_eq!(layout(&[&dir]).resolve("my-merge")?.name, "my-merge");
    Ok(())
}

#[test]
fn companions_are_taken_from_beside_the_model_before_the_models_directory() -> Result<(), Error> {
    let (own, shared) = (models(&["tuned", VAE]), models(&[VAE, TEXT_ENCODER]));
    let found = layout(&[&shared]).resolve(&own.path().join("tuned").to_string_lossy())?;
    assert_eq!(found.vae, own.path().join(VAE));
    assert_eq!(found.text_encoder, shared.path().join(TEXT_ENCODER));
    Ok(())
}

#[test]
fn an_absent_model_is_told_with_places_and_command() {
    let (first, second) = (models(&[]), models(&[]));
    let layout = layout(&[&first, &second]);
    let (one, two) = (first.path().display(), second.path().display());
    let error = layout.resolve("turbo").expect_err("absent");
    assert_eq!(
        error.to_string(),
        format!(
            "model `turbo` is not on this machine\n  looked for {one}/acestep-v15-turbo\n  looked for {two}/acestep-v15-turbo"
        )
    );
    assert_eq!(
        error.hint().as_deref(),
        Some("fetch `acestep-v15-turbo` of `ACE-Step/Ace-Step1.5` from the hub")
    );
    let error = layout.resolve("base").expect_err("absent");
    assert_eq!(
        error.hint().as_deref(),
        Some("fetch `acestep-v15-base` of `ACE-Step/acestep-v15-base` from the hub")
    );
    assert!(matches!(error, Error::Absent { known: Some(model), .. } if model.name == "base"));
}

#[test]
fn an_unknown_model_is_told_with_the_known_names() {
    let hint = Layout::new([]).resolve("trubo").expect_err("unknown").hint().expect("a hint");
    assert!(hint.contains("turbo, base, sft"), "{hint}");
    assert!(hint.ends_with("tiny"), "{hint}");
    let error = Layout::new([]).resolve_language_model(Some("lm-17b")).expect_err("unknown");
    let Error::Absent { unknown: Some(unknown), .. } = error else { panic!("{error}") };
    assert_eq!(unknown.name, "lm-17b");
    assert!(unknown.names.starts_with(&["lm-1.7b", "lm-0.6b", "lm-4b"]), "{unknown:?}");
}

#[test]
fn a_directory_that_is_no_model_is_told_before_what_a_model_needs() {
    let dir = models(&["empty"]);
    let error =
        layout(&[]).resolve(&dir.path().join("empty").to_string_lossy()).expect_err("empty");
    let holds = "holds neither config.json nor model_index.json, not a model";
    assert!(error.to_string().ends_with(holds), "{error}");
    assert!(error.hint().expect("a hint").contains("`acestep-v15-turbo/`"));
}

#[test]
fn an_absent_companion_is_told_with_its_command() {
    let dir = models(&["acestep-v15-turbo", TEXT_ENCODER]);
    let config = dir.path().join("acestep-v15-turbo").join("config.json");
    fs::write(config, "{}").expect("a file");
    let error = layout(&[&dir]).resolve("turbo").expect_err("no vae");
    assert!(error.to_string().starts_with("the audio autoencoder `vae` is not on this machine"));
    let hint = error.hint().expect("a hint");
    assert_eq!(hint, "fetch `vae` of `ACE-Step/Ace-Step1.5` from the hub");
}

#[test]
fn a_directory_of_models_is_not_a_model() {
    let dir = models(&["acestep-v15-turbo", VAE]);
    fs::write(dir.path().join(VAE).join("config.json"), "{}").expect("a file");
    let choice = dir.path().to_string_lossy();
    let error = layout(&[]).resolve(&choice).expect_err("a directory of models");
    assert!(
        error.to_string().ends_with("models, each in a directory of its own, not one model"),
        "{error}"
    );
}

#[test]
fn a_file_of_another_kind_is_not_a_model() {
    let dir = models(&[]);
    let path = dir.path().join("model.safetensors");
    fs::write(&path, b"").expect("a file");
    let error = layout(&[&dir]).resolve(&path.to_string_lossy()).expect_err("a file");
    assert!(error.to_string().ends_with("cannot be read: it is neither GGUF nor safetensors"));
}
