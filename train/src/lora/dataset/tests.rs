//! Folders of songs and their texts.

use super::*;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }
    folder
}

#[test]
fn what_is_said_of_a_song_stands_in_files_beside_it() {
    let folder = folder(&[
        ("b.wav", ""),
        (
            "b.json",
            r#"{"caption": "calm", "bpm": "92", "keyscale": "F# minor", "timesignature": 3}"#,
        ),
        ("b.caption.txt", "not this"),
        ("b.lyrics.txt", "[Verse]\nla\n"),
        ("b.txt", "not this"),
        ("a.FLAC", ""),
        ("a.caption.txt", " loud \n"),
        ("notes.md", ""),
        ("._a.FLAC", ""),
    ]);
    let (entries, _) = read(folder.path(), Some("zyx"), Some("not this")).expect("two songs");
    let [a, b] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!((a.caption.as_str(), a.lyrics.as_str()), ("zyx, loud", INSTRUMENTAL));
    assert_eq!((b.caption.as_str(), b.lyrics.as_str()), ("zyx, calm", "[Verse]\nla"));
    assert_eq!(
        b.metas_of(12.7).to_text(),
        "- bpm: 92\n- timesignature: 3\n- keyscale: F# minor\n- duration: 12 seconds\n"
    );
    assert_eq!(a.language, "unknown");
}

#[test]
fn texts_from_windows_teach_what_those_from_unix_teach() {
    let unix = ("rain\nsnow", "[Verse]\nla");
    for files in [
        [("a.caption.txt", "\u{feff}rain\r\nsnow\r\n"), ("a.lyrics.txt", "[Verse]\r\nla\r\n")],
        [("a.json", r#"{"caption": "rain\r\nsnow", "lyrics": "[Verse]\r\nla"}"#), ("a.wav", "")],
    ] {
        let folder = folder(&[&files[..], &[("a.wav", "")]].concat());
        let (entries, _) = read(folder.path(), None, None).expect("a song");
        let found = (entries[0].caption.as_str(), entries[0].lyrics.as_str());
        assert_eq!(found, unix, "{files:?}");
    }
}

#[test]
fn a_folder_that_teaches_nothing_says_what_it_lacks() {
    let said = |files: &[(&str, &str)]| {
        read(folder(files).path(), None, None).expect_err("nothing to learn").to_string()
    };
    assert!(said(&[("a.txt", "la")]).contains("no song is in it: looked for .wav, .flac"));
    let mute = said(&[("a.wav", ""), ("b.wav", ""), ("c.wav", ""), ("c.caption.txt", "x")]);
    assert!(mute.contains("what `a.wav` and 1 more song are like: write it into `a.caption.txt`"));
    assert!(said(&[("a.wav", ""), ("a.json", "[1]")]).contains("a.json`: not an object"));
    assert!(said(&[("a.wav", ""), ("a.json", "{")]).contains("a.json`: not an object"));
}

#[test]
fn texts_that_are_not_learned_are_said_with_their_files() {
    let long = "x".repeat(509);
    let folder = folder(&[
        ("a.b.aif", ""),
        ("a.b.caption.txt", &long),
        ("a.b.txt", "[00:01.00]la"),
        ("z.lyrics.txt", "lo"),
        ("z.json", "{}"),
        ("Key_BPM.csv", "Name,BPM"),
        ("caption.txt", ""),
        ("d.wave", ""),
        ("d.caption.txt", "calm"),
    ]);
    let (entries, notices) = read(folder.path(), Some("zy"), None).expect("a song");
    assert_eq!((entries.len(), entries[0].lyrics.as_str()), (1, "la"));
    let [lonely, table, times, cut] = notices.as_slice() else { panic!("{notices:?}") };
    assert!(lonely.0.starts_with("no song belongs to `d.caption.txt` and 2 m"), "{lonely:?}");
    assert!(table.0.starts_with("`Key_BPM.csv` is not read: it has no column"), "{table:?}");
    assert!(times.0.starts_with("`a.b.aif`: the lyrics' time stamps"), "{times:?}");
    assert!(cut.0.starts_with("`a.b.aif`: the caption of 513 characters"), "{cut:?}");
}

#[test]
fn songs_in_folders_within_are_read_and_tables_fill_in_what_is_open() {
    let folder = folder(&[
        ("a.wav", ""),
        ("a.json", r#"{"bpm": 80}"#),
        ("deep/b.wav", ""),
        ("deep/b.caption.txt", "loud"),
        ("deep/a.wav", ""),
        ("deep/not.csv", "File,BPM\na.wav,200\n"),
        ("1.csv", "File,BPM,Key,Caption\na.wav,90,C major,calm\ndeep/a.wav,91,,\nb.wav,92,,low"),
        ("2.csv", "File;BPM\nd.wav;93\n"),
    ]);
    let (entries, notices) = read(folder.path(), Some("zyx"), Some("any")).expect("three songs");
    let found = entries.iter().map(|of| {
        let Metas { bpm, keyscale, .. } = &of.metas;
        (of.name.as_str(), of.caption.as_str(), *bpm, keyscale.as_deref())
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            ("a.wav", "zyx, calm", Some(80), Some("C major")),
            ("deep/a.wav", "zyx, any", Some(91), None),
            ("deep/b.wav", "zyx, loud", Some(92), None),
        ]
    );
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].0, "CSV files name songs that are not there: `d.wav`");
}

/// The state of a training has the names, so they do not depend on the way to the data set.
#[test]
fn a_song_has_one_name_from_anywhere() {
    let elsewhere = std::env::temp_dir().join("deep").join("a.wav");
    assert_eq!(name_of(&elsewhere), "a.wav");
    assert_eq!(name_of(&Path::new("deep").join("a.wav")), "deep/a.wav");
}

#[cfg(unix)]
#[test]
fn a_song_that_is_not_there_is_not_passed_over() {
    let folder = folder(&[("a.wav", "")]);
    std::os::unix::fs::symlink("nowhere", folder.path().join("b.wav")).expect("a link");
    let refused = read(folder.path(), None, Some("x")).expect_err("no file").to_string();
    assert!(refused.ends_with("b.wav`"), "{refused}");
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("a.json")).expect("a link");
    fs::remove_file(folder.path().join("b.wav")).expect("a link");
    let refused = read(folder.path(), None, Some("x")).expect_err("endless").to_string();
    assert!(refused.ends_with("a.json`: not a regular file"), "{refused}");
}
