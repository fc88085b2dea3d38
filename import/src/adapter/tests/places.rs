//! Directories and names.

use std::fs;

use super::*;

#[test]
fn a_directory_of_peft_has_its_alpha_in_its_settings() {
    let file = File::lora(&format!("base_model.model.{Q}"), 64, 0.3);
    let folder = file.write_peft("{}");
    let settings = folder.join("adapter_config.json");
    let (a, b) = file.a_b();
    for (text, scale) in [
        (r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8}"#, 2.0),
        (r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": true}"#, 4.0),
        (r#"{"r": 4, "lora_alpha": 8, "alpha_pattern": {"self_attn.q_proj": 2}}"#, 0.5),
    ] {
        fs::write(&settings, text).expect("written");
        // The directory, its parent as ACE-Step's training writes it, and the file in it.
        for path in [&folder, file.folder.path(), &folder.join("adapter_model.safetensors")] {
            let found = weights(vec![(Adapter::open(path).expect("an adapter"), 1.0)]);
            assert_only(&found, Q, &with_lora(&own(Q), &a, &b, 4, scale));
        }
    }
    // Renamed, with only its settings beside it.
    let renamed = file.folder.path().join("renamed");
    fs::create_dir(&renamed).expect("a folder");
    fs::write(renamed.join("voice.safetensors"), file.bytes()).expect("written");
    let text = r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8}"#;
    fs::write(renamed.join("adapter_config.json"), text).expect("written");
    let voice = Adapter::open(&renamed.join("voice.safetensors")).expect("an adapter");
    assert_only(&weights(vec![(voice, 1.0)]), Q, &with_lora(&own(Q), &a, &b, 4, 2.0));
    fs::write(&settings, r#"{"r": 4, "lora_alpha": 8, "use_dora": true}"#).expect("written");
    let error = message(Adapter::open(&folder));
    assert_ends(&error, "`use_dora` is true, but no module has the magnitudes of DoRA");
    fs::write(&settings, r#"{"r": 8, "lora_alpha": 8}"#).expect("written");
    let error = message(Adapter::open(&folder));
    assert_contains(&error, "its rank is 4, but the settings say 8");
    fs::write(&settings, r#"{"peft_type": "LOHA", "r": 4, "alpha": 8}"#).expect("written");
    let error = message(Adapter::open(&folder));
    assert_ends(&error, "`peft_type` is LOHA, but its tensors are those of LoRA");
    fs::remove_file(settings).expect("gone");
    let error = message(Adapter::open(&folder));
    assert_ends(
        &error,
        "adapter_config.json, which says how strongly it works, is missing, and so is the alpha \
             of its modules",
    );
    let empty = tempfile::tempdir().expect("a folder");
    let error = message(Adapter::open(empty.path()));
    assert_ends(
        &error,
        "holds no adapter: there is no adapter_config.json and no .safetensors file",
    );
}

/// Writes `file` to `path` in its folder and returns the full path.
fn put(file: &File, path: &str) -> PathBuf {
    let path = file.folder.path().join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(&path, file.bytes()).expect("written");
    path
}

#[test]
fn a_directory_of_peft_without_settings_may_have_its_alphas_in_its_tensors() {
    let file = File::lora(Q, 64, 0.3).with(&format!("{Q}.alpha"), alpha(2.0));
    let path = put(&file, "voice/adapter_model.safetensors");
    let (a, b) = file.a_b();
    let voice = Adapter::open(path.parent().expect("it")).expect("an adapter");
    assert_only(&weights(vec![(voice, 1.0)]), Q, &with_lora(&own(Q), &a, &b, 4, 0.5));
    // One of the two modules has no alpha.
    let half = file.and_lora(K, 32, 0.1);
    let path = put(&half, "voice/adapter_model.safetensors");
    let error = message(Adapter::open(path.parent().expect("it")));
    assert_ends(&error, "is missing, and so is the alpha of its modules");
}

#[test]
fn the_only_file_of_a_directory_is_found_and_so_is_what_training_puts_in_it() {
    for (path, called) in [
        ("one/style.safetensors", "style"),
        ("lokr/adapter/lokr_weights.safetensors", "lokr"),
        ("last/final/lokr_weights.safetensors", "last"),
        ("both/final/adapter/lokr_weights.safetensors", "both"),
        ("file/adapter/any.safetensors", "any"),
    ] {
        let file = File::lora(Q, 64, 0.3);
        let path_of_file = put(&file, path);
        let outer = file.folder.path().join(path.split('/').next().expect("a part"));
        // macOS leaves such files behind.
        fs::write(outer.join("._style.safetensors"), "x").expect("written");
        let adapter = Adapter::open(&outer).expect(path);
        assert_eq!((adapter.path(), adapter.name().as_str()), (&*path_of_file, called), "{path}");
    }
    let file = File::lora(Q, 64, 0.3);
    put(&file, "two/b.safetensors");
    let outer = put(&file, "two/a.safetensors");
    let error = message(Adapter::open(outer.parent().expect("it")));
    assert_ends(
        &error,
        "there are several .safetensors files, `a.safetensors`, `b.safetensors`: name one of them",
    );
}
