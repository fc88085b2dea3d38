use super::*;

fn conditioning() -> Conditioning {
    let array = |shape: [usize; 3], first: f32| {
        let n: usize = shape.iter().product();
        Array3::new(shape, (0..n).map(|i| first + i as f32).collect())
    };
    Conditioning {
        encoder_hidden_states: array([1, 3, 4], 0.5),
        context_latents: array([1, 2, 4], -1.0),
        initial_noise: array([1, 2, 2], 100.0),
    }
}

fn saved() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    conditioning().save(folder.path(), Existing::Keep).expect("saved");
    folder
}

#[test]
fn a_bin_is_three_int32_and_then_the_values() {
    let folder = saved();
    let bytes = std::fs::read(folder.path().join("initial_noise.bin")).expect("readable");
    assert_eq!(bytes.len(), 12 + 16);
    assert_eq!(bytes[..12], [1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(bytes[16..20], 101f32.to_le_bytes());
}

#[test]
fn what_was_saved_is_loaded_from_either_form() {
    let folder = saved();
    assert_eq!(Conditioning::load(folder.path()).expect("both forms"), conditioning());
    let path = folder.path().join(SAFETENSORS);
    std::fs::rename(&path, folder.path().join("aside")).expect("moved");
    assert_eq!(Conditioning::load(folder.path()).expect("bins"), conditioning());
    std::fs::rename(folder.path().join("aside"), &path).expect("moved");
    for name in NAMES {
        std::fs::remove_file(folder.path().join(format!("{name}.bin"))).expect("removed");
    }
    assert_eq!(Conditioning::load(folder.path()).expect("safetensors"), conditioning());
}

#[test]
fn every_cut_and_every_longer_bin_is_refused() {
    let folder = saved();
    let path = folder.path().join("context_latents.bin");
    let whole = std::fs::read(&path).expect("readable");
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).expect("written");
        let error = Conditioning::load(folder.path()).expect_err("cut");
        assert!(
            matches!(error.family(), Some(SongError::Conditioning { .. })),
            "{length}: {error}"
        );
    }
    std::fs::write(&path, [&whole[..], &[0]].concat()).expect("written");
    let error = Conditioning::load(folder.path()).expect_err("too long").to_string();
    assert!(error.ends_with("shape [1, 2, 4] needs 32 bytes of values, but 33 follow"));
}

#[test]
fn shapes_that_are_negative_huge_or_zero_are_refused() {
    let folder = saved();
    let path = folder.path().join("context_latents.bin");
    for (length, message) in
        [(-1i32, "its shape has a length of -1"), (0, "its shape has a length of 0")]
    {
        let mut bytes = std::fs::read(&path).expect("readable");
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        std::fs::write(&path, bytes).expect("written");
        let error = Conditioning::load(folder.path()).expect_err("shape").to_string();
        assert!(error.ends_with(message), "{error}");
    }
    std::fs::write(&path, i32::MAX.to_le_bytes().repeat(3)).expect("written");
    let error = Conditioning::load(folder.path()).expect_err("huge").to_string();
    assert!(error.ends_with("bytes of values, but 0 follow"), "{error}");
}

#[test]
fn forms_that_disagree_are_refused() {
    let folder = saved();
    let mut other = conditioning();
    other.initial_noise.data[1] += 1.0;
    let bytes = other.to_safetensors().expect("bytes");
    std::fs::write(folder.path().join(SAFETENSORS), bytes).expect("written");
    let error = Conditioning::load(folder.path()).expect_err("disagreement").to_string();
    assert!(error.ends_with("it differs from the .bin files beside it: remove one form"));
}

#[test]
fn shapes_of_different_songs_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut mixed = conditioning();
    mixed.initial_noise = Array3::new([1, 3, 2], vec![0.0; 6]);
    mixed.save(folder.path(), Existing::Keep).expect("saved");
    let error = Conditioning::load(folder.path()).expect_err("mixed").to_string();
    assert!(error.contains("context_latents [1, 2, 4] [B, T, 2 C]"), "{error}");
}

#[test]
fn a_nan_and_a_missing_file_are_named() {
    let folder = saved();
    let mut broken = conditioning();
    broken.initial_noise.data[2] = f32::NAN;
    broken.save(folder.path(), Existing::Replace).expect("saved");
    let error = Conditioning::load(folder.path()).expect_err("NaN").to_string();
    assert!(error.ends_with("initial_noise.bin` cannot be used as conditioning: value 2 is NaN"));
    std::fs::remove_file(folder.path().join("initial_noise.bin")).expect("removed");
    let error = Conditioning::load(folder.path()).expect_err("missing").to_string();
    assert!(error.starts_with("cannot read") && error.ends_with("initial_noise.bin`"));
}

#[test]
fn saving_twice_needs_permission() {
    let folder = saved();
    let error = conditioning().save(folder.path(), Existing::Keep).expect_err("there already");
    assert!(matches!(error, Error::AlreadyExists { .. }));
}

#[test]
fn one_array_is_loaded_from_either_form() {
    let folder = saved();
    for file in ["initial_noise.bin", SAFETENSORS] {
        let array = load_array(&folder.path().join(file), "initial_noise").expect(file);
        assert_eq!(array, conditioning().initial_noise);
    }
}

#[test]
fn an_array_without_values_is_refused_in_either_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = TensorView::new(Dtype::F32, vec![1, 0, 4], &[]).expect("a view");
    let bytes = safetensors::serialize([("initial_noise", empty)], None).expect("bytes");
    let path = folder.path().join("empty.safetensors");
    std::fs::write(&path, bytes).expect("written");
    let error = load_array(&path, "initial_noise").expect_err("empty").to_string();
    assert!(error.ends_with("initial_noise is empty"), "{error}");
    let path = folder.path().join("empty.bin");
    std::fs::write(&path, [1i32, 0, 4].map(i32::to_le_bytes).concat()).expect("written");
    let error = load_array(&path, "initial_noise").expect_err("empty").to_string();
    assert!(error.ends_with("its shape has a length of 0"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_no_regular_file_or_larger_than_any_song_is_not_read() {
    let error = load_array(Path::new("/dev/zero"), "initial_noise").expect_err("a device");
    assert!(error.to_string().ends_with("it is not a regular file"), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sparse.safetensors");
    File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a file of holes");
    let error = load_array(&path, "initial_noise").expect_err("huge").to_string();
    assert!(error.contains("more than any song needs"), "{error}");
}
