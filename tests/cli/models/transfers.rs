//! Transfers that break, are damaged, find no room, or are refused.

#[cfg(unix)]
use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{User, WEIGHTS};
use crate::hub::{Fault, Hub, MAIN};
#[cfg(unix)]
use crate::{
    Run,
    running::{Running, wait_until},
};

#[test]
fn a_program_is_told_how_far_a_transfer_is() {
    let user = User::with_turbo();
    let told = |args: &[&str]| {
        let run = user.run(&[&["model"], args, &["--progress", "json"]].concat()).succeeded();
        let lines: Vec<Value> =
            run.stderr.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        lines.into_iter().filter(|line| line["event"] == "transfer").collect::<Vec<_>>()
    };
    let pulled = told(&["pull", "turbo"]);
    let done: Vec<_> = pulled.iter().map(|event| event["done_bytes"].as_u64()).collect();
    assert!(done.is_sorted() && done.len() >= 2 && done[0] > Some(0), "{done:?}");
    // The verified bytes are counted for each model.
    let verified = told(&["verify"]);
    let last = |model: &str| verified.iter().rfind(|event| event["file"] == model).expect("events");
    for last in [pulled.last().expect("events"), last("turbo"), last("vae")] {
        assert_eq!(last["done_bytes"], last["total_bytes"], "{last}");
        assert_eq!(last["left_s"], 0.0, "{last}");
    }
    // Everything is here: nothing is transferred.
    assert_eq!(told(&["pull", "turbo"]), [Value::Null; 0]);
}

#[test]
fn a_transfer_that_breaks_goes_on_where_it_stopped() {
    let user = User::with_turbo();
    user.hub.fails(WEIGHTS, Fault::Cut(1000), 1);
    user.hub.fails(WEIGHTS, Fault::Status(503), 1);
    let run = user.pull().succeeded();
    assert!(run.stderr.contains("broke off and is tried again"), "{}", run.stderr);
    let asked: Vec<_> = user.hub.asked().into_iter().filter(|(path, _)| path == WEIGHTS).collect();
    assert_eq!(asked.iter().map(|(_, from)| *from).collect::<Vec<_>>(), [0, 1000, 1000]);
    user.verify().succeeded();
}

#[test]
fn a_transfer_that_never_works_ends_and_can_be_taken_up_later() {
    let user = User::with_turbo();
    user.hub.fails(WEIGHTS, Fault::Cut(1000), 5);
    let run = user.pull().failed(1);
    run.says("broke off 5 times").says("hint: run it again: it goes on where it stopped");
    assert_eq!(user.parts(), [5000]);
    // A partly downloaded model counts as missing.
    user.run(&["generate", "a", "--no-thinking"]).failed(1).says("model pull turbo");
    user.hub.asked();
    user.pull().succeeded().says("goes on at 5.00 kB");
    assert!(user.hub.asked().contains(&(WEIGHTS.to_owned(), 5000)));
    assert!(user.parts().is_empty());
}

/// A program of Windows gets no signal from another one.
#[cfg(unix)]
#[test]
fn ctrl_c_stops_a_transfer_at_once_and_keeps_what_came() {
    let user = User::with_turbo();
    user.hub.fails(WEIGHTS, Fault::Stall(3000), 1);
    let start = Instant::now();
    let pull = Running::start(&mut user.command(&["model", "pull", "turbo"]), Stdio::null());
    wait_until("it has begun", || user.cache("blobs").is_dir() && user.parts() == [3000]);
    pull.interrupt();
    let (code, said) = pull.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(start.elapsed() < Duration::from_secs(50), "it waited for the server");
    assert_eq!(user.parts(), [3000]);
    user.pull().succeeded();
}

#[test]
fn what_was_damaged_on_its_way_is_thrown_away() {
    let user = User::with_turbo();
    user.hub.fails(WEIGHTS, Fault::Flip, 1);
    let run = user.pull().failed(1);
    run.says("was damaged on its way: its checksum is not sha256:").says("thrown away");
    user.run(&["generate", "a", "--no-thinking"]).failed(1).says("model pull turbo");
    user.pull().succeeded();
    user.verify().succeeded();
}

#[test]
fn what_is_damaged_on_the_disk_is_found_and_fetched_anew() {
    let user = User::with_turbo();
    user.pull().succeeded();
    let snapshot = user.cache("snapshots").join("a".repeat(40));
    let path = snapshot.join(WEIGHTS).canonicalize().expect("a file");
    let mut bytes = std::fs::read(&path).expect("a file");
    bytes[5000] ^= 1;
    std::fs::write(&path, bytes).expect("a file");
    std::fs::remove_file(snapshot.join("vae/config.json")).expect("a file");
    let run = user.verify();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.text().contains("DAMAGED  turbo"), "{}", run.text());
    assert!(run.text().contains(WEIGHTS) && run.text().contains("vae/config.json"));
    let list = user.run(&["model", "list"]).succeeded();
    for text in ["lacks vae\n", "lacks config.json\n"] {
        assert!(list.text().contains(text), "{}", list.text());
    }
    user.hub.asked();
    user.pull().succeeded().says("is damaged: it is downloaded again");
    assert_eq!(user.hub.asked(), [(WEIGHTS.to_owned(), 0)]);
    user.verify().succeeded();
}

#[test]
fn room_is_looked_for_before_anything_is_fetched() {
    let user = User::with_turbo();
    user.hub.fails(WEIGHTS, Fault::Claims(1 << 60), usize::MAX);
    for args in [&["model", "pull", "turbo"][..], &["model", "pull", "turbo", "--dry-run"]] {
        user.run(args).failed(1).says("do not fit").says("free some space");
    }
    assert_eq!(user.hub.asked(), []);
}

/// A limit on the file size simulates a full disk.
#[cfg(unix)]
#[test]
fn a_disk_that_becomes_full_keeps_what_came() {
    let user = User::with_turbo();
    // In blocks of 512 or 1024 bytes: only the weights are larger than the limit.
    let script = "trap '' XFSZ; ulimit -f 60; exec \"$0\" model pull turbo";
    let mut shell = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_acestep");
    shell.args(["-c", script, program]);
    crate::take_environment(&mut shell, &user.command(&["model"]));
    let run = Run::of(&mut shell).failed(1);
    run.says("cannot write to or read from").says("what was received is kept");
    assert_eq!(user.parts().len(), 1);
    user.pull().succeeded().says("goes on at");
}

#[test]
fn a_server_that_refuses_is_told_with_its_remedy() {
    let user = User::with_turbo();
    let pull = ["model", "pull", "turbo"];
    user.run(&["model", "pull", "base"])
        .failed(1)
        .says("`ACE-Step/acestep-v15-base` has no revision");
    user.run(&["model", "pull", "lm-1.7b"]).failed(1).says("has no model `acestep-5Hz-lm-1.7B`");
    user.hub.fails(MAIN, Fault::Page, 1);
    user.run(&pull).failed(1).says("is not a hub that can be used");
    user.hub.fails(MAIN, Fault::Status(500), 1);
    user.hub.fails(MAIN, Fault::Status(429), 2);
    user.run(&pull).failed(1).says("answered 429").says("asked too often");
    user.hub.fails(WEIGHTS, Fault::Status(404), 1);
    user.run(&pull).failed(1).says(&format!("has no file `{WEIGHTS}`"));
    let elsewhere = |address: &str| user.run_with(&pull, "HF_ENDPOINT", address).failed(1);
    elsewhere("http://127.0.0.1:1")
        .says("`http://127.0.0.1:1` cannot be reached")
        .says("HTTPS_PROXY");
    elsewhere("huggingface.co").says("does not begin with https://");

    user.hub.wants("secret");
    user.run(&pull).failed(1).says("the server answered 401").says("give a token");
    let run = user.run_with(&pull, "HF_TOKEN", "old").failed(1);
    run.says("the server answered 401").says("was sent: take one that may read it");
    user.run_with(&pull, "HF_TOKEN", "secret").succeeded();
    std::fs::write(user.dir.path("hf/token"), "secret\n").expect("a file");
    user.run(&pull).succeeded().says("all of it is here");
    assert_eq!(user.hub.strays(), [""; 0]);
}

#[test]
fn no_server_is_asked_where_none_may_be() {
    let user = User::with_turbo();
    let pull = ["model", "pull", "turbo"];
    user.run(&[&pull[..], &["--offline"]].concat()).failed(2).says("which --offline forbids");
    for variable in ["HF_HUB_OFFLINE", "ACESTEP_OFFLINE"] {
        user.run_with(&pull, variable, "1").failed(2).says(&format!("leave {variable} out"));
    }
}

#[test]
fn a_server_without_ranges_and_one_without_measure_do_no_harm() {
    let user = User::with_turbo();
    user.hub.fails(WEIGHTS, Fault::Cut(1000), 1);
    user.hub.fails(WEIGHTS, Fault::Whole, 1);
    user.pull().succeeded();
    user.verify().succeeded();
    user.run(&["model", "remove", "turbo", "--yes"]).succeeded();
    user.hub.fails(WEIGHTS, Fault::More, 1);
    user.pull().failed(1).says("more of").says("than it announced");
    user.pull().succeeded();
}

/// The token is sent to the hub, but not to its redirects, and only if it is required.
#[test]
fn a_token_is_sent_only_where_it_is_wanted() {
    let user = User::with_turbo();
    user.run_with(&["model", "pull", "turbo"], "HF_TOKEN", "secret").succeeded();
    assert_eq!(user.hub.strays(), [""; 0]);
    // A repository that everybody may list but not everybody may fetch.
    let hub = Hub::with_turbo();
    hub.wants("secret");
    hub.fails("", Fault::Gated, usize::MAX);
    let user = User::of(hub);
    user.pull().failed(1).says("answered 401").says("give a token");
    user.run_with(&["model", "pull", "turbo"], "HF_TOKEN", "secret").succeeded();
}

#[test]
fn a_model_without_links_still_works_after_a_pull_that_failed() {
    let user = User::with_turbo();
    user.pull().succeeded();
    user.without_links();
    // The last file of the pull cannot be had.
    user.hub.file(MAIN, "vae/zzz.json", "{}");
    user.hub.fails("vae/zzz.json", Fault::Status(404), 1);
    user.pull().failed(1);
    let song = ["generate", "a", "--no-thinking", "--duration", "1", "--offline", "-o", "a.wav"];
    user.run(&song).succeeded();
    user.pull().succeeded();
}

#[test]
fn what_others_have_begun_stays_and_the_line_says_whose_downloads_go() {
    let user = User::with_turbo();
    user.begin(WEIGHTS);
    std::fs::write(user.cache("blobs/1f.incomplete"), "theirs").expect("a file");
    let run = user.run(&["model", "remove", "vae", "--yes"]).succeeded();
    run.says("all unfinished downloads of ACE-Step/Ace-Step1.5, in ");
    assert_eq!(user.parts(), [0; 0]);
    assert_eq!(crate::names(&user.cache("blobs")), ["1f.incomplete"]);
    user.run(&["model", "remove", "vae", "--yes"]).failed(1).says("`vae` is not in");
}
