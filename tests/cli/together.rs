//! Many requests in one run.

use serde_json::Value;

use crate::{DRAWS, Dir};

fn requests(dir: &Dir) {
    dir.write("a.json", r#"{"caption": "rain", "duration": 1, "seed": 7, "batch_size": 2}"#);
    dir.write("b.json", r#"{"caption": "sun", "duration": 2, "seed": 7}"#);
    dir.write("c.json", r#"{"caption": "rain", "duration": 1, "seed": 9, "lyrics": "la"}"#);
}

#[test]
fn songs_made_together_are_those_made_alone() {
    let dir = Dir::new();
    requests(&dir);
    let model = ["generate", "--model", "tiny"];
    let three = ["--request", "a.json", "--request", "b.json", "--request", "c.json", "--json"];
    let run = dir.run(&[&model[..], &three, &["-o", "{name}-all.wav"]].concat()).succeeded();
    let objects = run.json();
    let names = |object: &Value| -> Vec<String> {
        let outputs = object["outputs"].as_array().expect("a list");
        outputs.iter().map(|o| o["path"].as_str().expect("a path").to_owned()).collect()
    };
    let all: Vec<_> = objects.as_array().expect("one for each").iter().map(names).collect();
    assert_eq!(all, [vec!["a-all_1.wav", "a-all_2.wav"], vec!["b-all.wav"], vec!["c-all.wav"]]);
    assert_eq!(objects[1]["outputs"][0]["seconds"], 2.0);

    // Each request alone makes the same songs.
    for name in ["a", "b", "c"] {
        let request = format!("{name}.json");
        let output = format!("{name}.wav");
        dir.run(&[&model[..], &["--request", &request, "-o", &output]].concat()).succeeded();
    }
    for (one, other) in
        [("a_1.wav", "a-all_1.wav"), ("a_2.wav", "a-all_2.wav"), ("c.wav", "c-all.wav")]
    {
        assert_eq!(dir.read(one), dir.read(other), "{one}");
    }
    assert_eq!(dir.read("b.wav"), dir.read("b-all.wav"));
}

#[test]
fn a_language_model_plans_all_requests_in_one_go() {
    let dir = Dir::new();
    requests(&dir);
    let model = ["generate", "--model", "tiny", "--thinking", "--request", "b.json"];
    let more = ["--request", "c.json", "--save-request", "-o", "{name}-song.wav"];
    let run = dir.run(&[&model[..], &more, &DRAWS].concat()).succeeded();
    assert_eq!(run.text(), "b-song.wav\nb-song.json\nc-song.wav\nc-song.json\n");
    assert!(dir.json("c-song.json")["audio_codes"].is_string());
}

#[test]
fn what_is_for_one_request_is_refused_with_several() {
    let dir = Dir::new();
    requests(&dir);
    let two = ["generate", "--model", "tiny", "--request", "a.json", "--request", "b.json"];
    dir.run(&[&two[..], &["-o", "x.wav", "--batch-size", "1"]].concat())
        .failed(2)
        .says("`x.wav` would be written twice")
        .says("hint: put {name} into the name of each output");
    std::fs::create_dir(dir.path("deep")).expect("a folder");
    dir.write("deep/a.json", r#"{"caption": "sun", "duration": 1}"#);
    let same = ["generate", "--model", "tiny", "--request", "a.json", "--request", "deep/a.json"];
    dir.run(&[&same[..], &["-o", "{name}.wav", "--batch-size", "1"]].concat())
        .failed(2)
        .says("hint: two requests have one name: rename a file, or run it once for each");
    dir.run(&[&two[..], &["-o", "-"]].concat())
        .failed(2)
        .says("`--output -` is for one request, but there are 2");
    dir.run(&[&two[..], &["--save-request", "--force"]].concat())
        .failed(2)
        .says("`a.json` is a request, and would be replaced");
    dir.run(&[&two[..], &["--lyrics", "@-"]].concat())
        .failed(2)
        .says("`@-` is for one request, but there are 2");
    dir.write("d.json", r#"{"caption": "x", "bpm": 7}"#);
    dir.run(&["generate", "--model", "tiny", "--request", "a.json", "--request", "d.json"])
        .failed(1)
        .says("in `d.json`")
        .says("`--bpm 7` is out of range");
    dir.run(&["plan", "--model", "tiny", "--request", "a.json", "--request", "b.json"])
        .failed(2)
        .says("`--request` is given several times");
    assert_eq!(dir.files(), ["a.json", "b.json", "c.json", "d.json", "deep"]);
}

/// Notices and times belong to the request, not to the run.
#[test]
fn what_is_said_of_one_request_stands_at_no_other() {
    let dir = Dir::new();
    requests(&dir);
    dir.write("d.json", r#"{"caption": "x", "duration": 1, "seed": 1, "lufs": -5}"#);
    let two = ["--request", "b.json", "--request", "d.json", "--json"];
    let run = dir.run(&[&["generate", "--model", "tiny"], &two[..]].concat()).succeeded();
    let objects = run.json();
    let said = |i: usize| objects[i]["notices"].to_string().contains("LUFS");
    assert_eq!([said(0), said(1)], [false, true], "{objects:#}");
    let time = |i: usize, stage: &str| objects[i]["elapsed"][stage].as_f64().expect("seconds");
    // The first song is written before the second is decoded.
    assert!(time(0, "total") < time(1, "total"));
    let stages = |i: usize| -> f64 {
        let stages = objects[i]["elapsed"].as_object().expect("an object");
        stages.iter().filter(|(key, _)| *key != "total").filter_map(|(_, s)| s.as_f64()).sum()
    };
    assert!(stages(0) + stages(1) <= time(1, "total"), "{objects:#}");
}

/// Scores do not depend on the number of requests that share the language model.
#[test]
fn songs_of_several_requests_are_judged_as_each_alone() {
    let dir = Dir::new();
    let coded = |seed: u64, codes: &str| {
        let lyrics = "[Verse]\nla";
        serde_json::json!({
            "caption": "rain", "lyrics": lyrics, "seed": seed, "bpm": 90, "audio_codes": codes,
        })
    };
    dir.write("a.json", coded(7, "3,500,17,17,80").to_string());
    dir.write("b.json", coded(8, "1,2,3,4,5").to_string());
    let model = ["generate", "--model", "tiny", "--score", "--json"];
    let both = dir
        .run(&[&model[..], &["--request", "a.json", "--request", "b.json"]].concat())
        .succeeded()
        .json();
    let scores = |object: &Value| object["outputs"][0]["scores"]["language_model"].clone();
    for (i, name) in ["a", "b"].into_iter().enumerate() {
        let request = format!("{name}.json");
        let output = format!("{name}-alone.wav");
        let alone = ["--request", &request, "-o", &output];
        let alone = dir.run(&[&model[..], &alone].concat()).succeeded().json();
        assert!(scores(&alone)["caption"].is_number(), "{alone:#}");
        assert_eq!(scores(&both[i]), scores(&alone), "{name}");
    }
}

#[cfg(unix)]
fn bash(dir: &Dir, script: &str) -> crate::Run {
    let mut command = std::process::Command::new("bash");
    crate::Run::of(command.args(["-c", script]).current_dir(dir.path(".")))
}

/// The picture exceeds the file size limit; the song does not.
#[cfg(unix)]
#[test]
fn what_fails_after_the_song_is_written_is_said_beside_it() {
    let dir = Dir::new();
    requests(&dir);
    let run = |requests: &str| {
        let program = env!("CARGO_BIN_EXE_acestep");
        let flags = format!("--model tiny --plot --json --force --batch-size 1 {requests}");
        let script = format!("trap '' XFSZ; ulimit -f 250; exec '{program}' generate {flags}");
        let run = bash(&dir, &script);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        (run.json(), run.stderr)
    };
    let (object, said) = run("--request c.json -o a.wav --lrc --save-request");
    assert!(said.contains("cannot write `a.png`") && !said.contains("no words"), "{said}");
    let output = &object["outputs"][0];
    assert_eq!([&output["lrc"], &object["request"]], ["a.lrc", "a.json"]);
    assert_eq!(output.get("plot"), None);
    assert_eq!(object["outputs"][0]["path"], "a.wav");
    assert!(object["error"][0].as_str().is_some_and(|why| why.contains("a.png")), "{object:#}");
    assert!(dir.path("a.wav").exists() && !dir.path("a.png").exists());
    requests(&dir);

    let (objects, said) = run("--request a.json --request c.json");
    let sentence = "the song `a.wav` is written, but not all that was wanted of it";
    assert!(said.contains(sentence), "{said}");
    assert_eq!(objects[1]["outputs"][0]["path"], "c.wav");
    assert!(objects[1]["error"].is_array());
}

/// A reader of the file names may close the pipe early.
#[cfg(unix)]
#[test]
fn a_reader_that_goes_stops_no_song() {
    let dir = Dir::new();
    requests(&dir);
    let program = env!("CARGO_BIN_EXE_acestep");
    let flags = "--model tiny --request a.json --request b.json --request c.json --lrc";
    let script = format!("'{program}' generate {flags} | head -1; exit ${{PIPESTATUS[0]}}");
    let run = bash(&dir, &script);
    assert_eq!((run.code, run.text()), (Some(0), "a_1.wav\n"), "{}", run.stderr);
    assert!(dir.path("b.wav").exists() && dir.path("c.lrc").exists());
}
