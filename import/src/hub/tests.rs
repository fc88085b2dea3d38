//! Files found in a cache and removed from it. The tests of the program cover the hub itself.

use std::fs;

use super::{pins::PinnedFile, *};
use crate::{
    Layout,
    acestep::{COMPANIONS, MODELS},
    testing::{gguf, tar},
};

const REPO: &str = "ACE-Step/Ace-Step1.5";

/// A cache and a models directory.
struct TestCache {
    directory: tempfile::TempDir,
}

impl TestCache {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    fn hub(&self) -> Hub {
        Hub::new(self.directory.path().join("hub"), self.directory.path().join("data"))
    }

    /// Writes a file of the cache with its name in a commit.
    fn file(&self, repo: &str, commit: &str, path: &str, content: &str) {
        let hub = self.hub();
        let blob = hub.repository(repo).join("blobs").join(checksum(content).name());
        let link = hub.snapshot(repo, commit).join(path);
        for path in [&blob, &link] {
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        }
        fs::write(&blob, content).expect("a file");
        disk::name(&link, &blob).expect("a link");
    }

    fn main(&self, repo: &str, commit: &str) {
        let refs = self.hub().repository(repo).join("refs");
        fs::create_dir_all(&refs).expect("a directory");
        fs::write(refs.join("main"), commit).expect("a file");
    }

    fn pin(&self, release: &Release, commit: &str, files: &[(&str, &str)]) {
        let file = |(name, content): &(&str, &str)| {
            let (size, checksum) = (content.len() as u64, checksum(content));
            ((*name).to_owned(), PinnedFile { size, checksum })
        };
        let files = files.iter().map(file).collect();
        let pin = Pin { repo: release.repo.into(), revision: commit.into(), files };
        Pins::change(&self.hub(), |pins| pins.put(release, pin)).expect("pins");
    }
}

/// Returns Git's checksum of a short content. Only `verify` depends on its value.
fn checksum(content: &str) -> Checksum {
    use sha1::{Digest, Sha1};
    let digest = Sha1::digest(format!("blob {}\0{content}", content.len()));
    let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Checksum::from_name(&name).expect("a checksum")
}

#[test]
fn what_was_pulled_is_used_whatever_another_program_fetches_after_it() {
    let (place, [vae, _]) = (TestCache::new(), COMPANIONS);
    let (hub, vae) = (place.hub(), vae);
    assert_eq!((hub.find(&vae), hub.state(&vae)), (None, CacheState::Absent));

    // Fetched by another program: complete once it has configuration and weights.
    place.file(REPO, "aaa", "vae/config.json", "{}");
    place.main(REPO, "aaa");
    assert_eq!(hub.find(&vae), None);
    place.file(REPO, "aaa", "vae/model.safetensors", "weights");
    let path = hub.snapshot(REPO, "aaa").join("vae");
    let theirs = InstalledModel { path: path.clone(), revision: "aaa".into(), pinned: false };
    assert_eq!(hub.find(&vae), Some(theirs));

    // Pulled by this program.
    place.pin(&vae, "aaa", &[("config.json", "{}"), ("model.safetensors", "weights")]);
    let ours = InstalledModel { path, revision: "aaa".into(), pinned: true };
    assert_eq!(hub.state(&vae), CacheState::Whole(ours.clone()));
    place.file(REPO, "bbb", "vae/config.json", "{} ");
    place.file(REPO, "bbb", "vae/model.safetensors", "others");
    place.main(REPO, "bbb");
    assert_eq!(hub.find(&vae), Some(ours.clone()));

    fs::remove_file(ours.path.join("config.json")).expect("a file");
    assert_eq!(hub.state(&vae), CacheState::Broken(ours, vec!["config.json".into()]));

    // Another program deletes the commit.
    let layout = Layout::new([]).with_hub(hub.clone());
    assert_eq!(layout.displaced().expect("pins"), [&vae; 0]);
    fs::remove_dir_all(hub.snapshot(REPO, "aaa")).expect("a directory");
    assert_eq!(hub.find(&vae).expect("another commit").revision, "bbb");
    assert_eq!(layout.displaced().expect("pins"), [&vae]);
}

#[test]
fn pins_that_change_at_the_same_time_are_all_kept() {
    let place = &TestCache::new();
    let pin = |release| (0..20).for_each(|_| place.pin(release, "aaa", &[]));
    std::thread::scope(|scope| {
        for release in &MODELS {
            scope.spawn(move || pin(release));
        }
    });
    let pins = Pins::read(&place.hub()).expect("pins");
    assert!(MODELS.iter().all(|release| pins.of(release).is_some()));
}

#[test]
fn a_model_of_the_cache_is_found_by_its_short_name_with_what_it_shares() {
    let place = TestCache::new();
    let base = &MODELS[1];
    for (repo, prefix) in [(base.repo, ""), (REPO, "vae/"), (REPO, "Qwen3-Embedding-0.6B/")] {
        place.file(repo, "aaa", &format!("{prefix}config.json"), r#"{"model_type":"acestep"}"#);
        place.file(repo, "aaa", &format!("{prefix}model.safetensors"), "weights");
        place.main(repo, "aaa");
    }
    let layout = Layout::new([]).with_hub(place.hub());
    assert!(layout.has(base) && !layout.has(&MODELS[0]));
    let paths = layout.resolve("base").expect("a model");
    let main = place.hub().snapshot(REPO, "aaa");
    assert_eq!(paths.name, "base");
    assert_eq!(paths.dit, place.hub().snapshot(base.repo, "aaa"));
    assert_eq!(
        (paths.vae, paths.text_encoder),
        (main.join("vae"), main.join("Qwen3-Embedding-0.6B"))
    );
    let error = layout.resolve("turbo").expect_err("absent");
    let text = error.to_string().replace('\\', "/");
    assert!(text.ends_with("/snapshots/*/acestep-v15-turbo"), "{error}");
    assert_eq!(
        error.hint().as_deref(),
        Some("fetch `acestep-v15-turbo` of `ACE-Step/Ace-Step1.5` from the hub")
    );
}

#[test]
fn a_directory_is_called_as_its_repository_where_it_is_all_of_it() {
    let hub = TestCache::new().hub();
    let name = |repo, below| name_of_snapshot(&hub.snapshot(repo, "aaa").join(below));
    assert_eq!(name("ACE-Step/acestep-v15-base", "").as_deref(), Some("acestep-v15-base"));
    assert_eq!(name(REPO, "vae"), None);
    assert_eq!(name_of_snapshot(Path::new("/")), None);
}

#[test]
fn files_that_no_other_name_leads_to_go_with_a_directory() {
    let (place, [vae, text]) = (TestCache::new(), COMPANIONS);
    let (hub, vae, text) = (place.hub(), vae, text);
    for commit in ["aaa", "bbb"] {
        place.file(REPO, commit, "vae/config.json", "{}");
        place.file(REPO, commit, "vae/model.safetensors", commit);
        place.file(REPO, commit, "Qwen3-Embedding-0.6B/config.json", "{}");
    }
    place.pin(&vae, "aaa", &[("config.json", "{}")]);
    place.pin(&text, "aaa", &[("config.json", "{}")]);
    let removed = hub.remove(&vae).expect("removes");
    // The other directory uses the same configuration.
    assert_eq!(removed, Removed { files: 4, bytes: 6 });
    assert_eq!(hub.state(&vae), CacheState::Absent);
    let CacheState::Whole(found) = hub.state(&text) else { panic!("the other is gone") };
    assert_eq!(fs::read_to_string(found.path.join("config.json")).expect("a file"), "{}");
    assert_eq!(hub.remove(&text).expect("removes"), Removed { files: 2, bytes: 2 });
    assert!(!hub.repository(REPO).exists());
    assert_eq!(Pins::read(&hub).expect("pins"), Pins::default());
    assert_eq!(hub.remove(&text).expect("nothing"), Removed::default());
}

/// Another program may be fetching at this moment.
#[test]
fn what_is_begun_goes_with_an_absent_directory_but_not_what_others_have_begun() {
    let (place, [vae, text]) = (TestCache::new(), COMPANIONS);
    let hub = place.hub();
    place.file(REPO, "aaa", "Qwen3-Embedding-0.6B/config.json", "{}");
    let blobs = hub.repository(REPO).join("blobs");
    for (name, content) in [("a.part", "abc"), ("b", "abcd"), ("c.1f.incomplete", "abcde")] {
        fs::write(blobs.join(name), content).expect("a file");
    }
    assert_eq!(hub.unfinished(&vae).expect("bytes"), 7);
    // Its own names lead to what is deleted.
    assert_eq!(hub.unfinished(&text).expect("bytes"), 0);
    assert_eq!(hub.remove(&vae).expect("removes"), Removed { files: 0, bytes: 7 });
    let is_here = |name: &str| blobs.join(name).exists();
    assert_eq!(["a.part", "b", "c.1f.incomplete"].map(is_here), [false, false, true]);
    assert!(blobs.join(checksum("{}").name()).exists());
    hub.remove(&text).expect("removes");
    assert!(is_here("c.1f.incomplete"));
}

/// Systems without symbolic links use a second name of the file.
#[test]
fn files_with_two_names_lose_both_unless_another_directory_was_pulled_with_them() {
    let (place, [vae, text]) = (TestCache::new(), COMPANIONS);
    let (hub, vae, text) = (place.hub(), vae, text);
    for (path, content) in [
        ("vae/config.json", "{}"),
        ("vae/model.safetensors", "weights"),
        ("Qwen3-Embedding-0.6B/config.json", "{}"),
    ] {
        place.file(REPO, "aaa", path, content);
        let link = hub.snapshot(REPO, "aaa").join(path);
        fs::remove_file(&link).expect("a link");
        fs::hard_link(hub.blob(REPO, &checksum(content)), &link).expect("a second name");
    }
    place.pin(&vae, "aaa", &[("config.json", "{}"), ("model.safetensors", "weights")]);
    place.pin(&text, "aaa", &[("config.json", "{}")]);
    hub.remove(&vae).expect("removes");
    let is_here = |content| hub.blob(REPO, &checksum(content)).is_file();
    assert_eq!((is_here("weights"), is_here("{}")), (false, true));
    hub.remove(&text).expect("removes");
    assert!(!hub.repository(REPO).exists());
}

#[test]
fn every_file_is_compared_with_what_was_published() {
    let (place, [vae, _]) = (TestCache::new(), COMPANIONS);
    let (hub, vae) = (place.hub(), vae);
    for (name, content) in [("config.json", "{}"), ("model.safetensors", "weights")] {
        place.file(REPO, "aaa", &format!("vae/{name}"), content);
    }
    place.main(REPO, "aaa");
    let outcome = || {
        let verified = hub.verify(&vae, &mut |_| Ok(())).expect("verifies");
        verified.iter().map(|file| (file.checksum.is_some(), file.is_whole)).collect::<Vec<_>>()
    };
    assert_eq!(outcome(), [(true, true), (true, true)]);
    place.pin(&vae, "aaa", &[("config.json", "{}"), ("model.safetensors", "weights")]);
    assert_eq!(outcome(), [(true, true), (true, true)]);
    let found = hub.find(&vae).expect("here").path;
    fs::write(found.join("model.safetensors"), "weightz").expect("a file");
    fs::remove_file(found.join("config.json")).expect("a file");
    assert_eq!(outcome(), [(true, false), (true, false)]);
}

/// Headers of no tensor; and headers that speak of 4 bytes more than there are.
#[test]
fn without_a_checksum_a_file_is_compared_with_its_own_content() {
    let place = TestCache::new();
    let directory = place.directory.path();
    let safetensors = |header: &str, data: &[u8]| {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
    };
    let cut = r#"{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}"#;
    // One tensor of 8 bytes, if `kind` is 24.
    let tensor = |kind, data| gguf::file(&[], &[gguf::tensor("a", &[8], kind, 0)], data);
    let archive = |copies: usize| tar(&vec![("model_config.yaml", &b"a: 1\n"[..]); copies]);
    let files = [
        ("a.safetensors", safetensors("{}", &[]), true),
        ("b.safetensors", safetensors(cut, &[0; 4]), false),
        ("c.json", b"{}".to_vec(), true),
        ("d.json", b"{".to_vec(), false),
        ("e.gguf", gguf::file(&[], &[], 0), true),
        ("f.gguf", tensor(24, 8), true),
        ("g.gguf", tensor(24, 4), false),
        ("h.gguf", tensor(99, 8), true),
        ("i.gguf", b"GGUF\x03".to_vec(), false),
        ("j.gguf", b"<html>".to_vec(), false),
        ("k.nemo", archive(1), true),
        ("l.nemo", archive(1)[..514].to_vec(), false),
        // The last of two files of one name counts.
        ("m.nemo", archive(2), true),
        ("m.vae.q8", vec![1], true),
        ("speech_tokenizer/n.json", b"{".to_vec(), false),
    ];
    fs::create_dir(directory.join("speech_tokenizer")).expect("a directory");
    for (name, content, _) in &files {
        fs::write(directory.join(name), content).expect("a file");
    }
    let verified = Published(vec![]).verify(directory, &mut |_| Ok(())).expect("verifies");
    for (file, (name, _, is_whole)) in verified.iter().zip(&files) {
        assert!(file.path.ends_with(name) && file.is_whole == *is_whole, "{name}");
    }
    assert_eq!(verified.len(), files.len());
    let listed = crate::model_files(directory).expect("files");
    assert_eq!((listed.len(), &listed[14]), (15, &("speech_tokenizer/n.json".into(), 1)));
}

#[test]
fn what_was_pulled_has_to_be_told_by_a_file_that_can_be_read() {
    let place = TestCache::new();
    let data = place.hub().data;
    fs::create_dir_all(&data).expect("a directory");
    fs::write(data.join("pulled.json"), "[").expect("a file");
    let error = Pins::read(&place.hub()).expect_err("no pins");
    assert!(error.to_string().contains("does not say what was pulled"), "{error}");
}

#[test]
fn only_what_is_read_is_fetched() {
    let (turbo, base) = (MODELS[0], MODELS[1]);
    for (path, of_turbo, of_base) in [
        ("acestep-v15-turbo/config.json", Some("config.json"), None),
        ("acestep-v15-turbo/silence_latent.pt", Some("silence_latent.pt"), None),
        ("acestep-v15-turbo/modeling.py", None, None),
        ("acestep-v15-turbo/../../x.json", None, None),
        ("vae/config.json", None, None),
        ("model-00001-of-00002.safetensors", None, Some("model-00001-of-00002.safetensors")),
        ("model.safetensors.index.json", None, Some("model.safetensors.index.json")),
        ("merges.txt", None, Some("merges.txt")),
        ("README.md", None, None),
        ("pytorch_model.bin", None, None),
        ("optimizer.pt", None, None),
        ("..\\x.json", None, None),
        ("C:x.json", None, None),
        ("a b.json", None, None),
        ("a%2f.json", None, None),
    ] {
        assert_eq!((turbo.name_of(path), base.name_of(path)), (of_turbo, of_base), "{path}");
    }
}

#[test]
fn a_place_that_may_not_be_written_to_has_the_remedy_for_that_place() {
    let denied = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let path = std::path::PathBuf::from("x");
    let hint = |error: HubError| error.hint().expect("a remedy");
    let cache = hint(HubError::Disk { path: path.clone(), source: denied() });
    assert!(cache.contains("HF_HOME") && !cache.contains("XDG"), "{cache}");
    let full = std::io::ErrorKind::StorageFull.into();
    let full = hint(HubError::Data { path: path.clone(), source: full });
    assert!(full.starts_with("free some space, or name another disk with XDG_DATA"), "{full}");
    let data = hint(HubError::Data { path, source: denied() });
    assert!(data.contains("XDG_DATA_HOME") && !data.contains("HF_HOME"), "{data}");
    // A file at the path of the data directory.
    let place = TestCache::new();
    fs::write(place.directory.path().join("data"), "").expect("a file");
    let hub = place.hub();
    assert!(matches!(Pins::change(&hub, |_| ()), Err(HubError::Data { .. })));
    assert!(matches!(hub.lock(REPO), Err(HubError::Data { .. })));
}
