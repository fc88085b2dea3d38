//! Many requests in one run.

use serde_json::Value;

use crate::{DRAWS, Place};

fn requests(place: &Place) {
    place.write("a.json", r#"{"caption": "rain", "duration": 1, "seed": 7, "batch_size": 2}"#);
    place.write("b.json", r#"{"caption": "sun", "duration": 2, "seed": 7}"#);
    place.write("c.json", r#"{"caption": "rain", "duration": 1, "seed": 9, "lyrics": "la"}"#);
}

#[test]
fn songs_made_together_are_those_made_alone() {
    let place = Place::new();
    requests(&place);
    let model = ["generate", "--model", "tiny"];
    let three = ["--request", "a.json", "--request", "b.json", "--request", "c.json", "--json"];
    let run = place.run(&[&model[..], &three, &["-o", "{name}-all.wav"]].concat()).succeeded();
    let objects = run.json();
    let names = |object: &Value| -> Vec<String> {
        let outputs = object["outputs"].as_array().expect("a list");
        outputs.iter().map(|o| o["path"].as_str().expect("a path").to_owned()).collect()
    };
    let all: Vec<_> = objects.as_array().expect("one for each").iter().map(names).collect();
    assert_eq!(all, [vec!["a-all_1.wav", "a-all_2.wav"], vec!["b-all.wav"], vec!["c-all.wav"]]);
    assert_eq!(objects[1]["outputs"][0]["seconds"], 2.0);

    // Without --output songs are called as their requests.
    for name in ["a", "b", "c"] {
        let request = format!("{name}.json");
        let output = format!("{name}.wav");
        place.run(&[&model[..], &["--request", &request, "-o", &output]].concat()).succeeded();
    }
    for (one, other) in
        [("a_1.wav", "a-all_1.wav"), ("a_2.wav", "a-all_2.wav"), ("c.wav", "c-all.wav")]
    {
        assert_eq!(place.read(one), place.read(other), "{one}");
    }
    assert_eq!(place.read("b.wav"), place.read("b-all.wav"));
}

#[test]
fn a_language_model_plans_all_requests_in_one_go() {
    let place = Place::new();
    requests(&place);
    let model = ["generate", "--model", "tiny", "--thinking", "--request", "b.json"];
    let more = ["--request", "c.json", "--save-request", "-o", "{name}-song.wav"];
    let run = place.run(&[&model[..], &more, &DRAWS].concat()).succeeded();
    assert_eq!(run.text(), "b-song.wav\nb-song.json\nc-song.wav\nc-song.json\n");
    assert!(place.json("c-song.json")["audio_codes"].is_string());
}

#[test]
fn what_is_for_one_request_is_refused_with_several() {
    let place = Place::new();
    requests(&place);
    let two = ["generate", "--model", "tiny", "--request", "a.json", "--request", "b.json"];
    place
        .run(&[&two[..], &["-o", "x.wav", "--batch-size", "1"]].concat())
        .failed(2)
        .says("`x.wav` would be written twice")
        .says("hint: put {name} into --output");
    place
        .run(&[&two[..], &["-o", "-"]].concat())
        .failed(2)
        .says("`--output -` is for one request, but there are 2");
    place
        .run(&[&two[..], &["--save-request", "--force"]].concat())
        .failed(2)
        .says("`a.json` is a request, and would be replaced");
    place
        .run(&[&two[..], &["--lyrics", "@-"]].concat())
        .failed(2)
        .says("`@-` is for one request, but there are 2");
    place.write("d.json", r#"{"caption": "x", "bpm": 7}"#);
    place
        .run(&["generate", "--model", "tiny", "--request", "a.json", "--request", "d.json"])
        .failed(1)
        .says("in `d.json`")
        .says("`--bpm 7` is out of range");
    place
        .run(&["plan", "--model", "tiny", "--request", "a.json", "--request", "b.json"])
        .failed(2)
        .says("`--request` is given several times");
    assert_eq!(place.files(), ["a.json", "b.json", "c.json", "d.json"]);
}
