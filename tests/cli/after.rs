//! Outputs beside the song: LRC, WebVTT, scores, pictures.

use serde_json::{Value, json};

use crate::{
    Dir, Run,
    server::{Server, id},
};

const SONG: [&str; 3] = ["rain", "--lyrics", "[Verse]\nIt rains\non the roof"];

/// Adds a seed and an output name, so that nothing is random.
fn named<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&SONG[..], &["--seed", "7", "-o", "song.wav"], args].concat()
}

fn is_png(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x89PNG\r\n\x1a\n")
}

#[test]
fn lrc_vtt_and_a_picture_stand_beside_the_song() {
    let dir = Dir::new();
    let run = dir.tiny(&named(&["--lrc", "--plot", "--output-vtt", "words.vtt"])).succeeded();
    assert_eq!(dir.files(), ["song.lrc", "song.png", "song.wav", "words.vtt"]);
    assert_eq!(run.text(), "song.wav\nsong.lrc\nwords.vtt\nsong.png\n");
    let lrc = dir.text("song.lrc");
    let lines: Vec<(&str, &str)> = lrc.lines().map(|line| line.split_at(10)).collect();
    let texts: Vec<&str> = lines.iter().map(|(_, text)| *text).collect();
    assert_eq!(texts, ["[Verse]", "It rains", "on the roof"]);
    assert_eq!(lines[0].0, "[00:00.00]");
    let vtt = dir.text("words.vtt");
    // All lines are within one second, so they are one cue.
    let whole = "WEBVTT\n\n1\n00:00:00.000 --> 00:00:01.000\n[Verse]\nIt rains\non the roof\n";
    assert_eq!(vtt, whole);
    assert!(is_png(&dir.read("song.png")));

    // The sound is the same without these outputs, and existing files are kept.
    let other = Dir::new();
    other.tiny(&named(&[])).succeeded();
    assert_eq!(other.read("song.wav"), dir.read("song.wav"));
    std::fs::remove_file(dir.path("song.wav")).expect("removed");
    dir.tiny(&named(&["--lrc"])).failed(1).says("song.lrc");
    assert!(!dir.path("song.wav").exists());
}

#[test]
fn a_server_has_the_same_lines_and_a_picture() {
    let dir = Dir::new();
    dir.tiny(&named(&["--lrc", "--plot", "--output-vtt", "words.vtt"])).succeeded();
    let server = Server::start(&dir, &[]);
    let request = json!({
        "caption": SONG[0], "lyrics": SONG[2], "seed": 7, "thinking": false, "duration": 1,
        "lrc": true, "vtt": true, "plot": true,
    });
    let job = server.submit("?wait=500", &json!({ "request": request }));
    assert_eq!(job["state"], "done", "{job:#}");
    let sent = |name: &str| server.get(&format!("/v1/jobs/{}/outputs/{name}", id(&job)));
    for (name, own) in [("1.lrc", "song.lrc"), ("1.vtt", "words.vtt")] {
        assert!(sent(name) == dir.read(own), "{name}");
    }
    // Its title is the caption; on the command line, the name of the file.
    assert!(is_png(&sent("1.png")));
}

#[test]
fn each_song_of_a_batch_has_its_own_files_and_a_place_in_the_ranking() {
    let dir = Dir::new();
    let args = ["--seed", "7,9", "-o", "song.wav", "--output-lrc", "{seed}.lrc", "--score"];
    let run = dir.tiny(&[&SONG[..], &args].concat()).succeeded();
    assert_eq!(dir.files(), ["7.lrc", "9.lrc", "song_1.wav", "song_2.wav"]);
    let run = run.says("the song has no audio codes");
    let table: Vec<&str> = run.stderr.lines().rev().take(3).collect();
    assert!(table[2].trim_start().starts_with("score  caption  lyrics"), "{}", run.stderr);
    let words = |line: &str| {
        line.split_whitespace().nth(4).expect("a column").parse::<f64>().expect("a score")
    };
    assert!(words(table[1]) >= words(table[0]), "{}", run.stderr);

    let json = dir.tiny(&[&SONG[..], &args, &["--force", "--json"]].concat()).succeeded().json();
    let of = |index: usize, pointer: &str| json["outputs"][index].pointer(pointer).cloned();
    for (index, seed) in [7, 9].into_iter().enumerate() {
        assert_eq!(of(index, "/lrc"), Some(Value::from(format!("{seed}.lrc"))));
        assert_eq!(of(index, "/lines/1/text"), Some("It rains".into()));
        assert_eq!(of(index, "/scores/language_model"), Some(Value::Null));
        let score = of(index, "/scores/words/score").and_then(|score| score.as_f64());
        assert!((0.0..=1.0).contains(&score.expect("a score")));
        assert!(of(index, "/scores/words_in_outline/coverage").is_some());
    }
    let ranking = json["ranking"].as_array().expect("a list");
    let scores: Vec<f64> = ranking.iter().filter_map(|song| song["score"].as_f64()).collect();
    assert!(scores.len() == 2 && scores[0] >= scores[1], "{ranking:?}");
}

#[test]
fn a_song_of_audio_codes_is_judged_by_the_language_model_too() {
    let dir = Dir::new();
    let codes = ["--audio-codes", "3,500,17,17,80", "--bpm", "120", "--score", "--json"];
    let judged = |scale: &[&str]| {
        let args = [&named(&codes)[..], &["--force"], scale].concat();
        let run = dir.run(&[&["generate", "--model", "tiny"], &args[..]].concat());
        run.succeeded().json()["outputs"][0]["scores"]["language_model"].clone()
    };
    let score = judged(&[]);
    let number = |score: &Value, key: &str| score[key].as_f64().expect("a number");
    let bpm = score["metadata"]["bpm"].as_f64().expect("a number");
    assert_eq!(score["metadata"].as_object().map(serde_json::Map::len), Some(1));
    let (caption, lyrics) = (number(&score, "caption"), number(&score, "lyrics"));
    let total = 0.5 * caption + 0.3 * lyrics + 0.2 * bpm;
    assert!((number(&score, "score") - total).abs() < 1e-9, "{score}");
    // A larger scale moves every score towards 0.5.
    let wide = judged(&["--score-scale", "5"]);
    assert!((number(&wide, "caption") - 0.5).abs() < (caption - 0.5).abs(), "{wide}");
    let run = dir.tiny(&named(&["--force", "--score", "--score-scale", "0"]));
    run.failed(2).says("--score-scale");
}

#[test]
fn what_has_no_place_or_no_words_is_said() {
    let dir = Dir::new();
    let piped = [&SONG[..], &["--seed", "7", "-o", "-"]].concat();
    dir.tiny(&[&piped[..], &["--lrc"]].concat()).failed(2).says("--output-lrc");
    dir.tiny(&[&piped[..], &["--plot"]].concat()).failed(2).says("--output-plot");
    dir.tiny(&named(&["--output-plot", "{name}.jpg"]))
        .failed(2)
        .says("`--output-plot song.jpg` is no name of a PNG file")
        .says("name it `song.png`");
    for other in ["song.wav", "./song.wav"] {
        dir.tiny(&named(&["--output-lrc", other])).failed(2).says("written twice");
    }
    dir.tiny(&[&piped[..], &["--output-lrc", "song.lrc"]].concat()).succeeded();
    assert_eq!(dir.files(), ["song.lrc"]);
    let instrumental = ["rain", "--instrumental", "--seed", "7", "-o", "b.wav", "--lrc"];
    dir.tiny(&instrumental).succeeded().says("no words");
    assert_eq!(dir.files(), ["b.wav", "song.lrc"]);
}

#[test]
fn a_model_that_does_not_say_where_it_looks_is_refused_before_any_work() {
    let dir = Dir::new();
    let folder = dir.checkpoint();
    let path = folder.join("config.json");
    let text = std::fs::read_to_string(&path).expect("a file");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config.as_object_mut().expect("an object").remove("lyric_alignment_layers_config");
    std::fs::write(&path, config.to_string()).expect("written");
    let model = folder.to_str().expect("UTF-8");
    let with = |args: &[&str]| {
        let song = ["generate", "--model", model, "--no-thinking", "--duration", "1"];
        dir.run(&[&song[..], &named(args)].concat())
    };
    with(&["--lrc"]).failed(1).says("`lyric_alignment_layers_config`");
    with(&["--score"]).succeeded().says("its words are not scored");
}

#[test]
fn any_sound_file_can_be_drawn() {
    let dir = Dir::new();
    dir.tiny(&named(&["--lrc"])).succeeded();
    let run = dir.run(&["plot", "song.wav"]).succeeded();
    assert_eq!(run.text(), "song.png\n");
    let plain = dir.read("song.png");
    assert!(is_png(&plain));
    dir.run(&["plot", "song.wav"]).failed(1).says("--force");
    dir.run(&["plot", "song.wav", "--lrc", "song.lrc", "-o", "words.png"]).succeeded();
    // The picture has an extra panel for the lyrics.
    let tall = |png: &[u8]| u32::from_be_bytes(png[20..24].try_into().expect("four bytes"));
    assert!(tall(&dir.read("words.png")) > tall(&plain));
    dir.write("none.lrc", "no times here");
    dir.run(&["plot", "song.wav", "--lrc", "none.lrc", "-o", "x.png"])
        .failed(1)
        .says("has no line with a time");
    dir.run(&["plot", "absent.wav"]).failed(1).says("cannot read `absent.wav`");
    dir.run(&["plot", "."]).failed(1).says("cannot read `.`");
}

#[test]
fn a_song_is_shown_in_letters_too() {
    let dir = Dir::new();
    dir.tiny(&["rain", "--seed", "1", "-o", "a.wav"]).succeeded();
    let run = dir.run(&["plot", "a.wav", "--show"]).succeeded();
    assert!(run.text().starts_with("        0:01 · 48 kHz · stereo\n"), "{}", run.text());
    // No colours in a pipe, and no file without a name.
    assert!(!run.text().contains('\x1b') && dir.files() == ["a.wav"]);
    assert_eq!(run.text().lines().count(), 15);
    let shown = |variables: [(&str, &str); 2]| {
        let mut command = dir.command(&["plot", "a.wav", "--show", "--color", "always"]);
        Run::of(command.env_remove("COLORTERM").envs(variables)).succeeded()
    };
    // The number of colours depends on the terminal.
    let any = shown([("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]);
    assert!(any.text().contains("\x1b[38;2;"), "{}", any.text());
    let palette = shown([("TERM", "xterm-256color"), ("COLORTERM", "")]);
    assert!(palette.text().contains("\x1b[38;5;") && !palette.text().contains("38;2;"));
    let both = ["plot", "a.wav", "--show", "-o", "a.png"];
    assert!(dir.run(&both).succeeded().text().ends_with("a.png\n") && dir.path("a.png").exists());
    dir.run(&["plot", "none.wav", "--show"]).failed(1).says("none.wav");
    let titled = dir.run(&["plot", "a.wav", "--show", "--title", "rain"]).succeeded();
    titled.says("the terminal shows neither lines nor a title");
}

/// This build cannot play sound. A file that is not audio is reported first.
#[test]
fn a_build_that_plays_nothing_says_what_does() {
    let dir = Dir::new();
    dir.write("a.txt", "no song");
    dir.run(&["play", "a.txt"]).failed(1).says("cannot listen to `a.txt`");
    dir.tiny(&["rain", "--seed", "1", "-o", "a.wav"]).succeeded();
    dir.run(&["play", "a.wav"]).failed(1).says("--features play").says("\"a.wav\"`");
    dir.run(&["play"]).failed(2).says("<SONG>");
}
