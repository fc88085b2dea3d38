//! The catalog of a machine: names that it knows, and nothing else.

use std::fs;

use acestep_import::Layout;
use acestep_serve::{catalog::Catalog as _, installed::Installed, job::Kind};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A catalog of the models inside the program and one adapter.
fn installed() -> (Installed, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let adapters = folder.path().join("adapters");
    fs::create_dir_all(adapters.join("jazz")).expect("a folder");
    fs::write(adapters.join("rock.safetensors"), b"").expect("written");
    let layout = Layout::new([folder.path().to_owned()]);
    (Installed::new(layout, None, None, None), folder)
}

/// Returns the code of the refusal; an empty one for a request that is taken.
fn code(installed: &Installed, kind: Kind, request: &Value) -> String {
    let request = request.as_object().expect("an object");
    installed.check(kind, request).err().map(|error| error.code).unwrap_or_default()
}

#[test]
fn an_adapter_is_a_name_and_never_a_path() {
    let (installed, folder) = installed();
    let refused = |adapter: Value| {
        let request = json!({ "caption": "x", "adapter": adapter });
        code(&installed, Kind::Generate, &request)
    };
    for known in [json!("rock"), json!("rock.safetensors"), json!(["rock", "jazz"])] {
        assert_eq!(refused(known.clone()), "", "{known}");
    }
    let place = folder.path().join("adapters/rock.safetensors");
    for other in [
        json!("/etc/passwd"),
        json!("../adapters/rock"),
        json!("."),
        json!("Cargo.toml"),
        json!(["rock", "/dev/zero"]),
        json!(place),
    ] {
        let refused = refused(other.clone());
        assert!(["adapter_not_found", "bad_value"].contains(&&*refused), "{other}: {refused}");
    }
    assert_eq!(installed.adapters(), ["jazz", "rock"]);
    assert!(installed.check_adapter("rock").is_ok());
    assert!(installed.check_adapter("/etc/passwd").is_err());
}

#[test]
fn a_model_is_a_name_and_never_a_path() {
    let (installed, folder) = installed();
    for (kind, key, words) in
        [(Kind::Generate, "model", "caption"), (Kind::Compose, "lm_model", "caption")]
    {
        for other in ["/etc", "../adapters", ".", &folder.path().display().to_string()] {
            let request = json!({ words: "x", key: other });
            assert_eq!(code(&installed, kind, &request), "model_not_found", "{key} {other}");
        }
    }
    let speech = json!({ "text": "x", "model": "/etc" });
    assert_eq!(code(&installed, Kind::Speak, &speech), "model_not_found");
}

/// A machine without models says what stands in their place.
#[test]
fn models_that_are_missing_are_told_with_their_command() {
    let (installed, _folder) = installed();
    let missing = installed.missing();
    let commands: Vec<&str> = missing.iter().map(|one| one.command.as_str()).collect();
    let wanted = ["acestep model pull turbo", "acestep model pull qwen3-tts-0.6b-custom"];
    assert_eq!(commands, wanted, "{missing:?}");
    assert!(missing[0].text.contains("`demo`"), "{missing:?}");
    // The model inside the program has a language model, a released one has none here.
    assert!(installed.has_language(None) && !installed.has_language(Some("turbo")));
    assert_eq!([None, Some("turbo")].map(|of| installed.song_rate(of)), [Some(48_000), None]);
}

#[test]
fn a_request_about_a_sound_is_refused_before_it_waits() {
    let (installed, _folder) = installed();
    let understand = |request| code(&installed, Kind::Understand, &request);
    assert_eq!(understand(json!({ "audio": "id" })), "");
    assert_eq!(understand(json!({ "src_latents": "id", "codes_only": true })), "");
    assert_eq!(understand(json!({ "audio": "id", "codes_only": "yes" })), "bad_value");
    assert_eq!(understand(json!({ "audio_codes": "1,2", "lm_temperature": 0.5 })), "");
    assert_eq!(understand(json!({})), "conflict");
    assert_eq!(understand(json!({ "audio": "id", "src_latents": "id" })), "conflict");
    assert_eq!(understand(json!({ "audio": "id", "lm_model": "/etc" })), "model_not_found");
    // Two names of one field.
    assert_eq!(understand(json!({ "audio": "id", "src_audio": "id" })), "");
    assert_eq!(understand(json!({ "audio": "id", "src_audio": "other" })), "repeated_key");
    assert_eq!(understand(json!({ "audio": "id", "dit_model": "/etc" })), "model_not_found");
    let two = json!({ "audio": "id", "model": "tiny", "dit_model": "demo" });
    assert_eq!(understand(two), "repeated_key");
    assert_eq!(understand(json!({ "audio": "id", "lm_temprature": 1 })), "unknown_key");
    let encode = |request| code(&installed, Kind::Encode, &request);
    assert_eq!(
        (encode(json!({ "audio": "id" })), encode(json!({}))),
        ("".into(), "missing".into())
    );
    let decode = |request| code(&installed, Kind::Decode, &request);
    assert_eq!(decode(json!({ "src_latents": "id", "audio_format": "flac" })), "");
    assert_eq!(decode(json!({ "src_latents": "id", "audio_format": "aac" })), "bad_value");
    assert_eq!(decode(json!({})), "missing");
    let song = json!({ "caption": "x", "audio_format": "aac" });
    assert_eq!(code(&installed, Kind::Generate, &song), "bad_value");
}
