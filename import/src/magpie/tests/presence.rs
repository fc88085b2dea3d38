//! A model that counts as installed is one that can be opened.

use std::fs;

use super::{
    CODEC_YAML, Layout, Magpie, YAML, archive, checkpoint, codec_tensors, gguf, model_tensors,
};
use crate::{Presence, Release};

const MODEL: &str = "magpie_tts_multilingual_357m";
const CODEC: &str = "nemo-nano-codec-22khz-1.89kbps-21.5fps";

#[test]
fn a_model_is_whole_if_its_codec_is_in_its_file_beside_it_or_in_its_own_directory() {
    let release = Release::named("magpie").expect("a release");
    let whole = gguf::whole();
    let [of_model, of_codec] = gguf::pair();
    let folder = tempfile::tempdir().expect("a folder");
    let written = |name: &str, yaml: &str, tensors| {
        let path = folder.path().join(name);
        archive(&path, yaml, &checkpoint(&tensors));
        fs::read(path).expect("an archive")
    };
    let model = written("model", YAML, model_tensors());
    let codec = written("codec", CODEC_YAML, codec_tensors());
    let partial = |lacked: &str| Presence::Partial(vec![lacked.to_owned()]);
    let archives = ("magpie.nemo", &model);
    let of_archive = "nemo-nano-codec-x.nemo";
    type File<'a> = (&'a str, &'a str, &'a [u8]);
    let cases: [(&[File<'_>], Presence); 8] = [
        (&[], Presence::Absent),
        (&[(MODEL, "notes.txt", b"x")], partial("*.nemo")),
        (&[(MODEL, archives.0, archives.1)], partial("nanocodec")),
        (&[(MODEL, "model.gguf", &of_model)], partial("nanocodec")),
        (&[(MODEL, "whole.gguf", &whole)], Presence::Whole),
        (&[(MODEL, archives.0, archives.1), (MODEL, of_archive, &codec)], Presence::Whole),
        (&[(MODEL, "model.gguf", &of_model), (MODEL, "codec.gguf", &of_codec)], Presence::Whole),
        (&[(MODEL, archives.0, archives.1), (CODEC, of_archive, &codec)], Presence::Whole),
    ];
    for (files, presence) in cases {
        let place = tempfile::tempdir().expect("a folder");
        for (directory, name, bytes) in files {
            fs::create_dir_all(place.path().join(directory)).expect("a folder");
            fs::write(place.path().join(directory).join(name), bytes).expect("a file");
        }
        let layout = Layout::new([place.path().to_owned()]);
        let names: Vec<_> = files.iter().map(|(directory, name, _)| (directory, name)).collect();
        assert_eq!(layout.presence(release), presence, "{names:?}");
        let opened = Magpie::find(Some("magpie"), None, &layout);
        assert_eq!(opened.is_ok(), presence == Presence::Whole, "{names:?}: {opened:?}");
    }
}

/// An own directory among the models.
#[test]
fn a_model_in_a_directory_of_another_name_is_found_among_the_models() {
    let place = tempfile::tempdir().expect("a folder");
    let own = place.path().join("my voices");
    fs::create_dir(&own).expect("a folder");
    fs::write(own.join("whole.gguf"), gguf::whole()).expect("a file");
    let layout = Layout::new([place.path().to_owned()]);
    let found = layout.place_called("my voices").expect("a place");
    assert!(Magpie::is_at(&found) && found == own, "{}", found.display());
    let magpie = Magpie::find(Some("my voices"), None, &layout).expect("a model");
    assert_eq!(magpie.path(), own.join("whole.gguf"));
    assert_eq!(layout.place_called("other"), None);
}

/// The alias of a release is no directory of it, so the path comes first, as for other names.
#[test]
fn an_own_model_under_the_alias_of_a_release_comes_before_the_release() {
    let place = tempfile::tempdir().expect("a folder");
    let [own, released] = ["magpie", MODEL].map(|name| place.path().join(name));
    for directory in [&own, &released] {
        fs::create_dir(directory).expect("a folder");
        fs::write(directory.join("whole.gguf"), gguf::whole()).expect("a file");
    }
    let layout = Layout::new([place.path().to_owned()]);
    let found = |name: &str| layout.resolve_magpie(Some(name)).expect("a model");
    assert_eq!(found("magpie"), own);
    for name in ["magpie-357m", MODEL] {
        assert_eq!(found(name), released);
    }
    let opened = Magpie::find(Some("magpie"), None, &layout).expect("a model");
    assert_eq!(opened.path(), own.join("whole.gguf"));

    // A directory with something else is none.
    fs::rename(own.join("whole.gguf"), own.join("notes.txt")).expect("renamed");
    assert_eq!(found("magpie"), released);
    fs::remove_dir_all(&own).expect("removed");
    assert_eq!(found("magpie"), released);
}
