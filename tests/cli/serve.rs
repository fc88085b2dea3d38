//! `serve`, `work` and `jobs`: the real program with the tiny models, killed where it hurts.

use std::process::Command;

use serde_json::{Value, json};

use crate::{
    Dir,
    running::{signal, wait_until},
    server::{Server, id, parsed},
};

/// Kills the worker that runs a job; its name is among its arguments.
fn kill_worker(job: &Value) {
    let name = job["worker"].as_str().expect("a worker");
    let listed = Command::new("ps").args(["-A", "-ww", "-o", "pid=,args="]).output();
    let listed = String::from_utf8(listed.expect("ps runs").stdout).expect("UTF-8");
    // The name is unique, and the server does not have it in its own arguments.
    let line = listed.lines().find(|line| line.contains(name)).expect("the worker runs");
    let process = line.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number");
    signal("-KILL", process);
}

fn song(seconds: u32) -> Value {
    json!({ "request": { "caption": "rain", "duration": seconds, "seed": 4, "thinking": false } })
}

/// The state of a job and the number of its attempts, as `jobs show` tells them.
fn shown(dir: &Dir, job: &Value) -> (Value, Value) {
    let args = ["jobs", "show", &id(job), "--data-dir", "data", "--json"];
    let shown = parsed(&dir.run(&args).succeeded().stdout);
    (shown["state"].clone(), shown["attempts"].clone())
}

#[test]
fn a_song_of_the_server_is_the_song_of_the_command_line() {
    let dir = Dir::new();
    let server = Server::start(&dir, &[]);
    dir.tiny(&["rain", "--seed", "4", "--no-thinking", "-o", "own.wav"]).succeeded();
    for attempt in ["first", "with networks in memory"] {
        let job = server.submit("?wait=500", &song(1));
        assert_eq!(job["state"], "done", "{attempt}: {job:#}");
        assert_eq!(job["resolved"]["seed"], 4);
        dir.write("served.wav", server.get(&format!("/v1/jobs/{}/tracks/1", id(&job))));
        assert!(dir.sound("served.wav") == dir.sound("own.wav"), "{attempt}");
    }
    let request = server.submit("?wait=500", &song(1))["outputs"].clone();
    let name = |output: &Value| output["name"].as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = request.as_array().expect("outputs").iter().map(name).collect();
    assert_eq!(names, ["1.wav", "1.peaks.json", "1.request.json"]);
}

/// With every setting of the command line. The tiles change the numbers, so they are obeyed.
#[test]
fn latents_of_the_server_are_those_of_the_command_line() {
    let dir = Dir::new();
    dir.tiny(&["rain", "--seed", "7", "-o", "a.wav"]).succeeded();
    let encode = ["codec", "encode", "a.wav", "--model", "tiny", "--sample", "--seed", "3"];
    let tiles = ["--vae-chunk", "16", "--vae-overlap", "1"];
    let to = ["--format", "nac8", "-o", "a.nac8"];
    dir.run(&[&encode[..], &tiles, &to].concat()).succeeded();
    let decode = ["codec", "decode", "a.nac8", "--model", "tiny", "-o", "d.wav"];
    dir.run(&[&decode[..], &tiles].concat()).succeeded();
    let server = Server::start(&dir, &[]);
    let send = |kind: &str, more: Value, name: &str| {
        let mut request = json!({ "model": "tiny", "vae_chunk": 16, "vae_overlap": 1 });
        request.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        let job = server.submit("?wait=500", &json!({ "kind": kind, "request": request }));
        assert_eq!(job["state"], "done", "{job:#}");
        server.get(&format!("/v1/jobs/{}/outputs/{name}", id(&job)))
    };
    let file = |name: &str| id(&server.form("/v1/files", &[], (name, &dir.read(name))));
    let request = json!({ "audio": file("a.wav"), "sample": true, "seed": 3, "format": "nac8" });
    assert!(send("encode", request, "1.nac8") == dir.read("a.nac8"));
    dir.run(&["codec", "encode", "a.wav", "--model", "tiny", "-o", "b.vae"]).succeeded();
    assert!(send("encode", json!({ "audio": file("a.wav") }), "1.vae") != dir.read("b.vae"));

    let request = json!({ "src_latents": file("a.nac8"), "audio_format": "wav" });
    let sound = send("decode", request, "1.wav");
    dir.run(&["codec", "decode", "a.nac8", "--model", "tiny", "-o", "c.wav"]).succeeded();
    assert!(sound == dir.read("d.wav") && sound != dir.read("c.wav"));
}

/// Without a change of the loudness the finished song has the samples of its preview.
#[test]
fn a_song_is_heard_tile_by_tile_and_replaced_by_its_file() {
    let dir = Dir::new();
    let server = Server::start(&dir, &[]);
    let mut job = song(4);
    job["request"]["vae_chunk"] = 48.into();
    job["request"]["vae_overlap"] = 16.into();
    job["request"]["enable_normalization"] = false.into();
    // Without it the random network is far above full scale.
    job["request"]["latent_rescale"] = 0.02.into();
    let job = server.submit("", &job);
    let streamed = server.get(&format!("/v1/jobs/{}/audio?format=pcm", id(&job)));
    let job = server.until(&id(&job), "done");
    let file = server.get(&format!("/v1/jobs/{}/tracks/1.wav", id(&job)));
    assert_eq!(streamed.len(), 4 * 48_000 * 4, "four seconds, stereo");
    // Tags follow the samples.
    assert!(file[44..][..streamed.len()] == streamed, "the file has the samples of its preview");
    // It is there until the worker begins another song: then only the file is.
    let preview = format!("/v1/jobs/{}/audio", id(&job));
    assert_eq!(server.get(&preview).len(), 44 + streamed.len());
    assert_eq!(server.submit("?wait=500", &song(1))["state"], "done");
    let refused: Value = server.json(&preview);
    assert_eq!(refused["error"]["code"], "no_sound", "{refused:#}");
}

#[test]
fn speech_is_heard_while_it_is_made_and_is_that_of_the_file() {
    let dir = Dir::new();
    let server = Server::start(&dir, &[]);
    let speech = json!({
        "kind": "speak",
        "request": { "text": "Hello there.", "voice": "ryan", "seed": 4, "max_new_tokens": 8 },
    });
    let job = server.submit("", &speech);
    let streamed = server.get(&format!("/v1/jobs/{}/audio?format=pcm", id(&job)));
    let job = server.until(&id(&job), "done");
    let file = server.get(&format!("/v1/jobs/{}/tracks/1.wav", id(&job)));
    assert!(streamed == file[44..], "{} and {} bytes", streamed.len(), file.len());
    let short = ["--model", "tiny-speech", "--max-new-tokens", "8", "--seed", "4", "-o", "a.wav"];
    dir.run(&[&["speak", "Hello there.", "--voice", "ryan"], &short[..]].concat()).succeeded();
    assert!(dir.read("a.wav")[44..] == file[44..], "the command line speaks otherwise");
}

/// The second speech with a kept voice takes its state from memory; a voice that is made again is read.
#[test]
fn a_kept_voice_is_read_once_and_speaks_the_same() {
    let dir = Dir::new();
    let model = crate::speak::base();
    let run = |args: &[&str]| dir.run_at_home(args);
    dir.tiny(&["rain", "-o", "me.wav"]).succeeded();
    let make = ["voice", "make", "me", "--reference", "me.wav", "--model", &model];
    run(&[&make[..], &["--transcript", "the rain"]].concat()).succeeded();
    let speak = ["speak", "fine", "--model", &model, "--max-new-tokens", "6", "--seed", "4"];
    run(&[&speak[..], &["--voice", "me", "-o", "own.wav"]].concat()).succeeded();
    let place = ["serve", "--port", "0", "--data-dir", "data", "--model", "tiny"];
    let warm = ["--speech-model", &model, "--warm", &model, "-v"];
    let mut command = dir.command(&[&place[..], &warm].concat());
    command.env("XDG_DATA_HOME", dir.path("home"));
    let mut server = Server::run(command);
    // The warm-up has read the voice, and its one text was spoken without help of the memory.
    let start = server.log_until(&["the model is warm"]);
    assert!(!start.contains("the state of the voice is in memory"), "{start}");
    let job = json!({
        "kind": "speak",
        "request": { "text": "fine", "voice": "me", "seed": 4, "max_new_tokens": 6 },
    });
    let spoken = |server: &Server| {
        let job = server.submit("?wait=500", &job);
        assert_eq!(job["state"], "done", "{job:#}");
        server.get(&format!("/v1/jobs/{}/tracks/1", id(&job)))
    };
    let own = dir.read("own.wav");
    for time in ["first", "second"] {
        assert!(spoken(&server) == own, "{time}");
        server.log_until(&["the state of the voice is in memory"]);
    }
    run(&[&make[..], &["--force"]].concat()).succeeded();
    assert!(spoken(&server) != own, "a voice without its words is another one");
    assert!(!server.log().contains("in memory"), "the voice that was made again is read");
}

#[test]
fn a_warm_server_is_ready_after_its_model_was_tried() {
    let dir = Dir::new();
    let refused = ["serve", "--port", "0", "--data-dir", "data", "--warm", "tiny-speach"];
    dir.run(&refused)
        .failed(2)
        .says("`--warm tiny-speach` names no model that is here")
        .says("tiny-speech");
    for flag in ["--model", "--speech-model"] {
        let refused = ["serve", "--port", "0", "--data-dir", "data", flag, "nope"];
        dir.run(&refused).failed(1).says("a model of requests that name none").says("`nope`");
    }
    for model in ["tiny", "tiny-speech"] {
        let mut server = Server::start(&dir, &["--warm", model]);
        let log = server.log_until(&["the model is warm", model]);
        assert!(!log.contains("failed"), "{log}");
        wait_until("it is ready", || server.json("/v1/server")["ready"] == true);
        assert_eq!(server.json("/v1/jobs")["jobs"], json!([]), "nobody asked for the warm-up");
    }
}

#[test]
fn a_job_whose_worker_is_killed_runs_once_more_and_then_fails() {
    let dir = Dir::new();
    let server = Server::start(&dir, &[]);
    let job = server.submit("", &song(600));
    for attempt in 1..=2 {
        let again = || server.until(&id(&job), "running")["attempts"] == attempt;
        wait_until("the lease has ended", again);
        kill_worker(&server.json(&format!("/v1/jobs/{}", id(&job))));
    }
    let failed = server.until(&id(&job), "failed");
    assert_eq!(failed["error"]["code"], "worker_lost");
    // The server's worker came back, and other jobs run.
    assert_eq!(server.submit("?wait=500", &song(1))["state"], "done");
}

#[test]
fn jobs_survive_a_killed_server() {
    let dir = Dir::new();
    // The lease of its job is short; of leases after that no busy machine ends one.
    let server = Server::start(&dir, &["--lease", "4"]);
    let first = server.submit("", &song(600));
    let second = server.submit("", &song(1));
    let running = server.until(&id(&first), "running");
    server.program.signal("-KILL");
    kill_worker(&running);
    drop(server);
    let jobs = dir.run(&["jobs", "list", "--data-dir", "data"]).succeeded();
    assert!(jobs.text().contains(&format!("{} generate   queued", id(&second))), "{}", jobs.text());
    dir.run(&["jobs", "cancel", &id(&first), "--data-dir", "data"]).succeeded();
    let server = Server::start(&dir, &[]);
    server.until(&id(&first), "cancelled");
    let done = server.until(&id(&second), "done");
    assert_eq!(done["attempts"], 1);
    let shown = dir.run(&["jobs", "show", &id(&second), "--data-dir", "data"]).succeeded();
    assert!(shown.text().contains("1.wav"), "{}", shown.text());
    for (verb, says) in
        [("retry", "is done and cannot run again"), ("cancel", "cannot be cancelled")]
    {
        let run = dir.run(&["jobs", verb, &id(&second), "--data-dir", "data", "-q"]);
        run.failed(1).says(says).says("hint: only a job that ");
    }
    dir.run(&["jobs", "retry", &id(&first), "--data-dir", "data"]).succeeded();
    server.until(&id(&first), "running");
    dir.run(&["jobs", "list", "--data-dir", "data", "--limit", "0"]).failed(2);
    let list = dir.run(&["jobs", "list", "--data-dir", "data", "--json"]).succeeded();
    let list = parsed(&list.stdout);
    let states: Vec<&Value> =
        list["jobs"].as_array().expect("jobs").iter().map(|job| &job["state"]).collect();
    assert_eq!(states, ["done", "running"], "newest first");
}

#[test]
fn a_server_that_is_interrupted_lets_its_job_end() {
    let dir = Dir::new();
    let server = Server::start(&dir, &["--drain", "600"]);
    let job = server.submit("", &song(2));
    server.until(&id(&job), "running");
    let log = server.log();
    assert!(log.contains("the server has ended"), "{log}");
    assert_eq!(shown(&dir, &job), (json!("done"), json!(1)));
}

/// The words of a request are nowhere in the log, and each line about a job has its id.
#[test]
fn the_log_names_jobs_and_tells_nothing_that_clients_ask_for() {
    let dir = Dir::new();
    let server = Server::start(&dir, &["--log-format", "json", "-vv"]);
    let word = "quetzalcoatl";
    let song = json!({ "request": {
        "caption": word, "lyrics": word, "duration": 1, "seed": 4, "thinking": false } });
    let song = server.submit("?wait=500", &song);
    assert_eq!(song["state"], "done", "{song:#}");
    let speech =
        server.submit("?wait=500", &json!({ "kind": "speak", "request": { "text": word } }));
    assert_eq!(speech["state"], "done", "{speech:#}");
    let wrong = server.submit("", &json!({ "request": { "caption": word, "captoin": word } }));
    assert!(wrong["error"].is_object(), "{wrong:#}");
    let log = server.log();
    assert!(!log.contains(word), "{log}");
    assert!(log.contains("a running job has 60 s to end; press"), "{log}");
    let read = |line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}"));
    let lines = log.lines().map(read);
    let lines: Vec<Value> = lines.filter(|line| line["span"]["name"] == "job").collect();
    for job in [&song, &speech] {
        let of_job = lines.iter().filter(|line| line["span"]["id"] == job["id"]);
        let said: Vec<&Value> = of_job.map(|line| &line["fields"]["message"]).collect();
        assert!(said.first() == Some(&&json!("begins")) && said.contains(&&json!("done")), "{log}");
    }
}

#[test]
fn a_server_that_is_interrupted_gives_its_job_back() {
    let dir = Dir::new();
    let server = Server::start(&dir, &["--drain", "0"]);
    let job = server.submit("", &song(600));
    server.until(&id(&job), "running");
    server.program.interrupt();
    let (code, said) = server.program.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("jobs that wait stay in the queue"), "{said}");
    assert_eq!(shown(&dir, &job), (json!("queued"), json!(1)));
}

#[test]
fn a_server_of_a_network_needs_a_key_and_a_free_port() {
    let dir = Dir::new();
    let open = ["serve", "--host", "0.0.0.0", "--data-dir", "data"];
    dir.run(&open).failed(2).says("no key is set").says("or pass `--open`");
    let short = ["serve", "--api-key", "abc", "--data-dir", "data"];
    dir.run(&short).failed(2).says("is too short");
    let split = ["serve", "--api-key", "12345678;9", "--data-dir", "data"];
    dir.run(&split).failed(2).says("semicolons");
    let server = Server::start(&dir, &["--no-worker"]);
    let port = server.url.rsplit(':').next().expect("a port").to_owned();
    let again = ["serve", "--port", &port, "--data-dir", "data"];
    dir.run(&again).failed(1).says("cannot listen on").says("another `--port`");
    let check = dir.run(&["serve", "--check", "--data-dir", "data"]).succeeded();
    assert!(check.text().contains("worker      on auto in auto"), "{}", check.text());
    let named = ["serve", "--check", "--data-dir", "data", "--host"];
    let local = dir.run(&[&named[..], &["localhost"]].concat()).succeeded();
    assert!(local.text().contains("http://127.0.0.1:8001"), "{}", local.text());
    let unknown = dir.run(&[&named[..], &[".."]].concat()).failed(2);
    unknown.says("the host `..` has no address").says("as `--host`");
    dir.run(&["jobs", "list", "--data-dir", "none"]).failed(1).says("has no queue");
    let work = ["work", "--model", "tiny", "--data-dir", "none"];
    dir.run(&work).failed(1).says("`none` has no queue").says("--data-dir");
    dir.run(&["jobs", "show", "xyz"]).failed(2).says("that is no id");
    std::fs::create_dir(dir.path("odd")).expect("a folder");
    dir.write("odd/jobs.sqlite", "no database".repeat(1000));
    let odd = dir.run(&["jobs", "list", "--data-dir", "odd"]).failed(1);
    odd.says("jobs.sqlite").says("move it away").says("as `--data-dir`");
    let missing = ["serve", "--api-keys", "missing", "--data-dir", "data"];
    dir.run(&missing).failed(1).says("cannot read `missing`: ").says("NAME=KEY");
}
