//! Data sets of upstream's dataset builder.

use std::fs;

use super::*;

/// Reads a data set with the sound files `a.wav` and `sub/b.wav` beside it.
fn data_set(
    json: &str,
    tag: Option<&str>,
    caption: Option<&str>,
) -> Result<(Vec<DatasetSong>, Vec<String>), String> {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("sub")).expect("a folder");
    for name in ["a.wav", "sub/b.wav", "a.caption.txt"] {
        fs::write(folder.path().join(name), "x").expect("a file");
    }
    let file = folder.path().join("set.json");
    fs::write(&file, json).expect("a file");
    match super::super::read(&file, tag, caption) {
        Ok((songs, notices)) => Ok((songs, notices.into_iter().map(|of| of.0).collect())),
        Err(error) => Err(error.to_string()),
    }
}

/// A song without a tag has the tag of the data set; texts beside its file are not read.
#[test]
fn a_whole_data_set_is_read() {
    let json = r#"{
      "metadata": {"name": "mine", "custom_tag": "zyx", "tag_position": "append",
        "created_at": "2026", "num_samples": 3, "all_instrumental": false, "genre_ratio": 0},
      "samples": [
        {"id": "0a", "audio_path": "sub/b.wav", "filename": "b.wav", "caption": "calm",
         "genre": "folk", "lyrics": "[Verse]\nla", "raw_lyrics": "la", "bpm": 92,
         "keyscale": "F# minor", "timesignature": "3", "duration": 61, "language": "en",
         "is_instrumental": false, "custom_tag": "own", "labeled": true},
        {"audio_path": "a.wav", "caption": "loud", "lyrics": "", "is_instrumental": true},
        {"audio_path": "gone.wav", "caption": "", "labeled": false}
      ]}"#;
    let (songs, notices) = data_set(json, None, None).expect("two songs");
    let [b, a] = songs.as_slice() else { panic!("{songs:?}") };
    assert_eq!((b.name.as_str(), a.name.as_str()), ("sub/b.wav", "a.wav"));
    assert_eq!((b.caption.as_str(), b.lyrics.as_str()), ("calm, own", "[Verse]\nla"));
    assert_eq!(
        b.metas_of(61.4).to_text(),
        "- bpm: 92\n- timesignature: 3\n- keyscale: F# minor\n- duration: 61 seconds\n"
    );
    assert_eq!((b.language.as_str(), a.language.as_str()), ("en", "unknown"));
    assert_eq!((a.caption.as_str(), a.lyrics.as_str()), ("loud, zyx", INSTRUMENTAL));
    assert_eq!(notices, ["1 of the 3 songs are not labeled, and left out"]);
}

#[test]
fn tag_and_genre_make_the_text_as_in_upstream() {
    let song = r#""caption": "calm", "genre": "folk""#;
    let by_genre = format!(r#"{song}, "prompt_override": "genre""#);
    let by_caption = format!(r#"{song}, "custom_tag": "own", "prompt_override": "caption""#);
    for (settings, song, tag, text) in [
        ("", song, None, "calm"),
        (r#""custom_tag": "zyx""#, song, None, "zyx, calm"),
        (r#""custom_tag": "zyx""#, song, Some("new"), "new, calm"),
        (r#""custom_tag": "zyx", "tag_position": "replace""#, song, None, "zyx"),
        (r#""custom_tag": "zyx", "tag_position": "append""#, &*by_genre, None, "folk, zyx"),
        (r#""genre_ratio": 100"#, song, None, "folk"),
        (r#""genre_ratio": 100"#, &*by_caption, None, "own, calm"),
        (r#""custom_tag": "zyx""#, r#""genre": "folk""#, None, "zyx"),
    ] {
        let json = format!(
            r#"{{"metadata": {{{settings}}}, "samples": [{{"audio_path": "a.wav", {song}}}]}}"#
        );
        let (songs, _) = data_set(&json, tag, None).expect(&json);
        assert_eq!(songs[0].caption, text, "{json}");
    }
    let list = r#"[{"filename": "a.wav", "caption": "calm"}, {"audio_path": "sub/b.wav"}]"#;
    let (songs, _) = data_set(list, None, Some("any")).expect("a list");
    assert_eq!([&*songs[0].caption, &*songs[1].caption], ["calm", "any"]);
}

/// From Python: `random.seed(42)`, `random.shuffle(list(range(n)))`.
#[test]
fn songs_with_their_genre_are_drawn_as_in_upstream() {
    assert_eq!(genre_indices(4, 50.0), HashSet::from([1, 2]));
    assert_eq!(genre_indices(10, 30.0), HashSet::from([2, 3, 7]));
}

#[test]
fn a_data_set_that_cannot_be_used_says_why() {
    for (json, why) in [
        ("{", "set.json`: no JSON: EOF"),
        (r#"{"caption": "calm"}"#, "it is no data set of upstream's dataset builder: unknown"),
        (r#"{"samples": [], "metadata": {"tag_position": "left"}}"#, "unknown variant `left`"),
        (r#"{"samples": [], "metadata": {"genre_ratio": 101}}"#, "`genre_ratio` is 101, but"),
        ("5", "invalid type: integer `5`, expected an object with `samples`, or a list of songs"),
        (r#"["a.wav"]"#, "song 1: invalid type: string \"a.wav\", expected an object"),
        ("[]", "it has no song that is labeled"),
        (r#"[{"caption": "calm"}]"#, "song 1: `audio_path` is missing"),
        (r#"[{"audio_path": "a.wav", "bpm": "fast"}]"#, "song 1, `a.wav`: `bpm` is \"fast\""),
        (r#"[{"audio_path": "a.wav", "labeled": 1}]"#, "song 1: invalid type: integer `1`"),
        (r#"[{"audio_path": "a.wav"}]"#, "says what `a.wav` is like: write its `caption`"),
        (
            r#"[{"audio_path": "a.wav"}, {"audio_path": "c.wav"}, {"filename": "d.wav"}]"#,
            "2 of the 3 sound files are not there, such as `",
        ),
    ] {
        let refused = data_set(json, None, None).expect_err(json);
        assert!(refused.contains(why), "{json}: {refused}");
    }
}
