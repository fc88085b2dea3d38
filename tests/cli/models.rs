//! `acestep model`: from a hub to a song and back.

mod transfers;

use std::{collections::BTreeSet, ffi::OsStr, fs, process::Command};

use super::{
    Dir, Run,
    hub::{Fault, Hub, MAIN},
};

const WEIGHTS: &str = "acestep-v15-turbo/model.safetensors";

/// A user, and the hub of the models.
pub(crate) struct User {
    pub(crate) dir: Dir,
    pub(crate) hub: Hub,
}

impl User {
    pub(crate) fn of(hub: Hub) -> Self {
        Self { dir: Dir::new(), hub }
    }

    pub(crate) fn with_turbo() -> Self {
        Self::of(Hub::with_turbo())
    }

    pub(crate) fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = self.dir.command(args);
        command
            .env("HF_ENDPOINT", &self.hub.address)
            .env("HF_HOME", self.dir.path("hf"))
            .env("XDG_DATA_HOME", self.dir.path("data"))
            .env("ACESTEP_MODELS_DIR", self.dir.path("models"));
        command
    }

    pub(crate) fn run(&self, args: &[impl AsRef<OsStr>]) -> Run {
        Run::of(&mut self.command(args))
    }

    /// Runs with a variable of the environment.
    fn run_with(&self, args: &[&str], name: &str, value: &str) -> Run {
        Run::of(self.command(args).env(name, value))
    }

    fn pull(&self) -> Run {
        self.run(&["model", "pull", "turbo"])
    }

    /// Pulls until 1000 bytes of `file` are here and the server has no more. (A connection that breaks is tried
    /// again, with growing pauses.)
    fn begin(&self, file: &str) {
        self.hub.fails(file, Fault::Cut(1000), 1);
        self.hub.fails(file, Fault::Status(404), 1);
        self.pull().failed(1);
        assert_eq!(self.parts(), [1000]);
    }

    fn verify(&self) -> Run {
        self.run(&["model", "verify"])
    }

    /// Returns the snapshot of the first commit, after each link in it is replaced by a file, as Python's
    /// program stores them on systems without links.
    fn without_links(&self) -> std::path::PathBuf {
        let snapshot = self.cache("snapshots").join("a".repeat(40));
        for directory in ["acestep-v15-turbo", "vae", "Qwen3-Embedding-0.6B"] {
            for name in super::names(&snapshot.join(directory)) {
                let path = snapshot.join(directory).join(name);
                let content = fs::read(&path).expect("a file");
                fs::remove_file(&path).expect("a link");
                fs::write(&path, content).expect("a file");
            }
        }
        fs::remove_dir_all(self.cache("blobs")).expect("blobs");
        snapshot
    }

    fn cache(&self, below: &str) -> std::path::PathBuf {
        self.dir.path("hf/hub/models--ACE-Step--Ace-Step1.5").join(below)
    }

    /// Returns the lengths of partly downloaded files.
    fn parts(&self) -> Vec<u64> {
        let blobs = self.cache("blobs");
        let names = super::names(&blobs).into_iter().filter(|name| name.ends_with(".part"));
        names.map(|name| blobs.join(name).metadata().expect("a file").len()).collect()
    }
}

#[test]
fn from_nothing_to_a_song_and_back() {
    let user = User::with_turbo();
    let list = || user.run(&["model", "list", "--json"]).succeeded().json();
    let is_here = |name: &str| {
        let list = list();
        let models = list["models"].as_array().expect("models");
        models.iter().find(|model| model["name"] == name).expect("it")["here"] == true
    };
    assert!(!is_here("turbo") && !is_here("vae"));
    user.run(&["model", "show", "turbo"]).succeeded();

    let run = user.pull().succeeded().says("to fetch");
    let path = std::path::PathBuf::from(run.text().trim_end());
    assert!(path.ends_with(format!("snapshots/{}/acestep-v15-turbo", "a".repeat(40))), "{path:?}");
    // Code and documentation are not fetched.
    assert!(
        user.hub.asked().iter().all(|(path, _)| !path.ends_with(".py") && !path.ends_with(".md"))
    );
    assert!(!path.join("modeling.py").exists() && path.join("model.safetensors").is_file());
    let main = fs::read_to_string(user.cache("refs/main")).expect("a reference");
    assert_eq!(
        (main, super::names(&user.cache("refs"))),
        ("a".repeat(40), vec!["main".to_owned()])
    );
    assert!(is_here("turbo") && is_here("vae") && is_here("text-encoder") && !is_here("base"));

    // Without a server, as on every later day.
    let song = ["generate", "a", "--no-thinking", "--duration", "1", "--offline", "-o", "a.wav"];
    user.run(&song).succeeded();
    assert!(user.dir.sound("a.wav").iter().any(|&sample| sample != 0));

    let show = user.run(&["model", "show", "turbo", "--json"]).succeeded().json();
    assert_eq!((&show["revision"], &show["pulled"]), (&"a".repeat(40).into(), &true.into()));
    let text = user.run(&["model", "show", "turbo"]).succeeded();
    assert!(text.text().contains("aaaa, pulled") && text.text().contains("model.safetensors"));
    // The names that the other commands accept.
    assert!(text.text().contains("needs    vae, text-encoder\n"), "{}", text.text());
    assert_eq!(show["needs"], serde_json::json!(["vae", "text-encoder"]));

    // Nothing is fetched twice.
    user.pull().succeeded().says("all of it is here already");
    assert_eq!(user.hub.asked(), []);
    let verified = user.run(&["model", "verify", "--offline"]).succeeded();
    assert_eq!(verified.text().matches("all as they were published").count(), 3);

    user.run(&["model", "remove", "turbo"]).failed(2).says("pass --yes");
    let removed = user.run(&["model", "remove", "turbo", "--yes"]).succeeded();
    // Dependencies that no other model needs are removed too.
    assert!(removed.stderr.contains("text-encoder") && removed.stderr.contains("are free again"));
    assert!(!is_here("turbo") && !is_here("vae") && !user.cache("").exists());
}

/// Each repository has an archive and no `config.json`.
#[test]
fn an_archive_is_pulled_with_its_codec() {
    let hub = Hub::new();
    let names = ["magpie_tts_multilingual_357m", "nemo-nano-codec-22khz-1.89kbps-21.5fps"];
    let files = names.map(|name| format!("{name}.nemo"));
    for (name, file) in names.iter().zip(&files) {
        let archive = super::goldens("checkpoints_magpie").join(name).join(file);
        let repo = format!("nvidia/{name}");
        hub.file(&repo, file, fs::read(archive).expect("a golden"));
        hub.file(&repo, "README.md", "# A model");
    }
    let user = User::of(hub);
    user.run(&["model", "pull", "magpie-357m"]).succeeded();
    let asked: BTreeSet<String> = user.hub.asked().into_iter().map(|(path, _)| path).collect();
    assert_eq!(asked, BTreeSet::from(files));
    let list = user.run(&["model", "list"]).succeeded();
    let is_here = |name: &str| {
        let line = list.text().lines().find(|line| line.starts_with(name)).expect(name);
        line.contains("  yes ")
    };
    assert!(is_here("magpie-357m ") && is_here("nanocodec "), "{}", list.text());
    let verified = user.run(&["model", "verify", "--offline"]).succeeded();
    assert_eq!(verified.text().matches("all as they were published").count(), 2);
    let speak = ["speak", "The old dog.", "--model", "magpie-357m", "--max-decoder-steps", "4"];
    user.run(&[&speak[..], &["--offline", "-o", "a.wav"]].concat()).succeeded();
}

#[test]
fn a_command_pulls_what_it_lacks_if_it_may() {
    let user = User::with_turbo();
    let song = ["generate", "--lyrics", "@-", "--no-thinking", "--duration", "1", "-o", "a.wav"];
    // Without a terminal, the program cannot ask.
    user.run(&song).failed(1).says("hint: run `acestep model pull turbo`");
    user.run(&[&song[..], &["--yes", "--offline"]].concat()).failed(2).says("cannot be used with");
    let run = user.run(&[&song[..], &["--offline"]].concat()).failed(1);
    run.says("hint: run `acestep model pull turbo` without --offline, which forbids downloads");
    let run = user.run_with(&song, "HF_HUB_OFFLINE", "1").failed(1);
    run.says("model pull turbo` without HF_HUB_OFFLINE");
    assert_eq!(user.hub.asked(), []);

    // The standard input survives the download.
    let flags = ["--yes", "--save-request"];
    let mut command = user.command(&[&song[..], &flags].concat());
    let run = Run::with_stdin(&mut command, b"[Verse]\nla la").succeeded();
    run.says("every file is as it was");
    assert_eq!(user.dir.json("a.json")["lyrics"], "[Verse]\nla la");
}

#[test]
fn what_is_built_in_is_listed_and_needs_no_pull() {
    let user = User::with_turbo();
    let list = user.run(&["model", "list", "--json"]).succeeded().json();
    let bytes = |name: &str| {
        let models = list["built_in"].as_array().expect("models");
        let model = models.iter().find(|model| model["name"] == name).expect("it");
        model["bytes"].as_u64().expect("bytes")
    };
    // 1.2 million weights in f32 and a tokenizer; 10 million weights in bf16.
    assert!((4_000_000..8_000_000).contains(&bytes("tiny")), "{list}");
    assert!((15_000_000..=20_000_000).contains(&bytes("demo")), "{list}");
    let text = user.run(&["model", "list"]).succeeded();
    for about in ["built in learned from music", "built in random weights"] {
        assert!(text.text().contains(about), "{}", text.text());
    }
    for name in ["tiny", "demo", "tiny-speech"] {
        let command = if name == "tiny-speech" { "speak" } else { "generate" };
        let run = user.run(&["model", "pull", name]).failed(2);
        run.says("part of the program")
            .says(&format!("`acestep {command} --model {name}` uses it"));
        let show = user.run(&["model", "show", name]).succeeded();
        assert!(show.text().contains("here     a part of the program, "), "{}", show.text());
    }
    for (verb, says) in [("remove", "there is nothing to delete"), ("verify", "nothing to compare")]
    {
        user.run(&["model", verb, "tiny-speech"]).failed(2).says(says);
    }
    assert_eq!(user.hub.asked(), []);
}

/// As with a shared cache and an ordinary user; the permissions do not apply to root.
#[cfg(unix)]
#[test]
fn a_cache_that_may_only_be_read_is_used_as_it_is() {
    let user = User::with_turbo();
    user.pull().succeeded();
    let allow = |what: &str| {
        let status = Command::new("chmod").args(["-R", what]).arg(user.dir.path("hf")).status();
        assert!(status.expect("chmod runs").success());
    };
    allow("a-w");
    let pull = user.pull();
    let list = user.run(&["model", "list"]);
    let song = ["generate", "a", "--no-thinking", "--duration", "1", "-o", "a.wav"];
    let song = user.run(&[&song[..], &["--model", "turbo"]].concat());
    let verify = user.verify();
    user.hub.commit("b");
    user.hub.file(MAIN, WEIGHTS, "other");
    let newer = user.pull();
    allow("u+w");
    pull.succeeded().says("all of it is here already");
    assert!(list.succeeded().text().contains("yes"));
    song.succeeded();
    verify.succeeded();
    if newer.code != Some(0) {
        newer
            .failed(1)
            .says("cannot write to or read from")
            .says("a directory of your own with HF_HOME");
    }
}

#[test]
fn names_that_are_none_are_told_with_the_nearest() {
    let user = User::of(Hub::new());
    user.run(&["model", "pull", "trubo"]).failed(2).says("did you mean `turbo`?");
    user.run(&["model", "pull", "zzz"]).failed(2).says("it is one of turbo, base");
    user.run(&["model", "pull"]).failed(2).says("<NAME>");
    user.run(&["model", "pull", "turbo", "base", "--revision", "x"])
        .failed(2)
        .says("once for each");
    user.run(&["model", "show", "zzz"]).failed(2).says("no model is called");
    user.verify().failed(1).says("no model is on this machine");
    user.run(&["model", "verify", "4b"]).failed(1).says("model pull lm-4b");
    user.run(&["model", "remove", "turbo", "--yes"]).failed(1).says("`turbo` is not in");
}

/// Upstream may change a branch, but a song does not change until the model is pulled again.
#[test]
fn what_was_pulled_stays_until_it_is_pulled_again() {
    let user = User::with_turbo();
    user.pull().succeeded();
    let revision = || {
        let show = user.run(&["model", "show", "turbo", "--json"]).succeeded().json();
        show["revision"].as_str().expect("a commit").to_owned()
    };
    let newer = user.hub.commit("b");
    user.hub.file(MAIN, "acestep-v15-turbo/README.json", "{\"new\": true}");
    // Another program fetches a part of it.
    fs::write(user.cache("refs/main"), &newer).expect("a file");
    let of_other = user.cache("snapshots").join(&newer).join("acestep-v15-turbo");
    fs::create_dir_all(&of_other).expect("a folder");
    fs::write(of_other.join("config.json"), "{}").expect("a file");
    assert_eq!(revision(), "a".repeat(40));
    user.hub.asked();
    fs::remove_file(of_other.join("config.json")).expect("a file");
    user.pull().succeeded();
    // Only the changed file is fetched.
    assert_eq!(user.hub.asked(), [("acestep-v15-turbo/README.json".to_owned(), 0)]);
    assert_eq!(revision(), newer);
    user.run(&["model", "pull", "turbo", "--revision", "v1"]).succeeded();
    user.verify().succeeded();
    // Another program deletes that version.
    fs::remove_dir_all(user.cache("snapshots").join(&newer)).expect("a folder");
    user.verify()
        .succeeded()
        .says("another version of turbo, vae, text-encoder is used")
        .says("model pull turbo vae text-encoder`");
    assert_eq!(revision(), "a".repeat(40));
    user.pull().succeeded();
    assert!(!user.verify().succeeded().stderr.contains("another version"));
}

#[test]
fn what_lies_among_the_models_is_not_fetched_and_not_deleted() {
    let hub = Hub::with_turbo();
    hub.publish("ACE-Step/acestep-v15-base", "", "acestep-v15-base");
    let user = User::of(hub);
    fs::create_dir(user.dir.path("models")).expect("a folder");
    for directory in ["vae", "Qwen3-Embedding-0.6B"] {
        user.dir.copy(directory);
        let to = user.dir.path("models").join(directory);
        fs::rename(user.dir.path(directory), to).expect("a folder");
    }
    user.run(&["model", "pull", "base"]).succeeded().says("stays as it is");
    assert!(user.hub.asked().iter().all(|(path, _)| !path.contains('/')));
    let song = ["generate", "a", "--model", "base", "--no-thinking", "--inference-steps", "1"];
    user.run(&[&song[..], &["--duration", "1", "-o", "a.wav"]].concat()).succeeded();
    user.run(&["model", "remove", "vae", "--yes"]).failed(1).says("delete it by hand");
    // The checksums come from the hub; without it they are not known.
    let verify = user.run(&["model", "verify", "vae"]).succeeded();
    assert!(verify.text().starts_with("ok "), "{}", verify.text());
    let verify = user.run(&["model", "verify", "vae", "--offline"]).succeeded();
    assert!(verify.text().starts_with("unknown "), "{}", verify.text());
    user.dir.write("models/vae/more.safetensors", "cut");
    let run = user.run(&["model", "verify", "vae", "--offline"]);
    assert!(run.code == Some(1) && run.text().starts_with("DAMAGED "), "{}", run.text());
    user.dir.write("models/vae/config.json", "{}");
    let run = user.run(&["model", "verify", "vae"]);
    assert!(run.code == Some(1) && run.text().starts_with("DAMAGED "), "{}", run.text());
}

/// A complete or partial download is not a leftover of another model.
#[test]
fn taking_one_model_away_leaves_what_is_begun_of_another() {
    let hub = Hub::with_turbo();
    hub.publish(MAIN, "acestep-5Hz-lm-1.7B/", "acestep-5Hz-lm-0.6B");
    let user = User::of(hub);
    user.run(&["model", "pull", "lm-1.7b"]).succeeded();
    user.begin("vae/diffusion_pytorch_model.safetensors");
    user.run(&["model", "remove", "lm-1.7b", "--yes"]).succeeded();
    user.hub.asked();
    user.pull().succeeded();
    assert!(!user.hub.asked().iter().any(|(path, _)| path == WEIGHTS), "it is fetched twice");
}

#[test]
fn of_half_an_update_nothing_is_used() {
    let user = User::with_turbo();
    let song = ["generate", "a", "--no-thinking", "--duration", "1", "--offline", "--seed", "1"];
    let song = |name| user.run(&[&song[..], &["-o", name]].concat()).succeeded();
    user.pull().succeeded();
    song("a.wav");
    user.hub.commit("b");
    user.hub.file(MAIN, "acestep-v15-turbo/more.json", "{}");
    user.hub.file(MAIN, "vae/more.json", "{\"a\": 1}");
    user.hub.fails("vae/more.json", Fault::Status(404), 1);
    user.pull().failed(1);
    song("b.wav");
    assert_eq!(user.dir.sound("a.wav"), user.dir.sound("b.wav"));
    let show = user.run(&["model", "show", "turbo", "--json"]).succeeded().json();
    assert_eq!(show["revision"], "a".repeat(40));
    user.pull().succeeded();
    song("c.wav");
}

#[test]
fn files_without_links_are_taken_over_and_mended() {
    let user = User::with_turbo();
    user.pull().succeeded();
    let snapshot = user.without_links();
    fs::write(snapshot.join("vae/config.json"), "{}").expect("a file");
    user.hub.asked();
    user.pull().succeeded();
    assert_eq!(user.hub.asked(), [("vae/config.json".to_owned(), 0)]);
    user.verify().succeeded();
    user.run(&["model", "remove", "turbo", "--yes"]).succeeded();
    assert!(!user.cache("").exists());
}

#[test]
fn what_another_program_fetched_at_another_commit_stays_in_sight() {
    let hub = Hub::with_turbo();
    hub.publish(MAIN, "acestep-5Hz-lm-1.7B/", "acestep-5Hz-lm-0.6B");
    let user = User::of(hub);
    user.run(&["model", "pull", "lm-1.7b"]).succeeded();
    // Without its pins, this program treats the files as another program's.
    fs::remove_file(user.dir.path("data/acestep/pulled.json")).expect("pins");
    user.hub.commit("b");
    user.pull().succeeded();
    let show = user.run(&["model", "show", "lm-1.7b", "--json"]).succeeded().json();
    assert_eq!((&show["here"], &show["pulled"]), (&true.into(), &false.into()));
    assert_eq!(show["revision"], "a".repeat(40));
    fs::write(user.dir.path("data/acestep/pulled.json"), "[").expect("a file");
    user.run(&["model", "list"]).succeeded().says("the list of pulled models cannot be read");
}

#[test]
fn what_other_models_need_is_not_taken_from_them() {
    let user = User::with_turbo();
    user.pull().succeeded();
    let own = user.dir.copy("acestep-v15-turbo");
    fs::create_dir(user.dir.path("models")).expect("a folder");
    fs::rename(own, user.dir.path("models/my-own")).expect("a folder");
    let song = ["generate", "a", "--model", "my-own", "--no-thinking", "--duration", "1"];
    user.run(&[&song[..], &["-o", "a.wav"]].concat()).succeeded();
    user.run(&["model", "remove", "turbo", "--yes"]).succeeded();
    user.run(&[&song[..], &["-o", "b.wav"]].concat()).succeeded();
    // A model that is already in the models directory is not fetched again.
    let to = user.dir.path("models/acestep-v15-turbo");
    fs::rename(user.dir.path("models/my-own"), to).expect("a folder");
    user.hub.asked();
    user.pull().succeeded().says("stays as it is in ");
    assert_eq!(user.hub.asked(), []);
}

#[test]
fn what_was_begun_and_given_up_can_be_taken_away() {
    let user = User::with_turbo();
    user.begin(WEIGHTS);
    user.run(&["model", "remove", "turbo", "--yes"]).succeeded();
    assert!(!user.cache("").exists());
}
