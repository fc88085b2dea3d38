//! A folder of songs with their texts.
//!
//! ```text
//! song.flac                 the song
//! song.json                 caption, lyrics, bpm, keyscale, timesignature, language: all optional
//! song.caption.txt          the caption, if `song.json` has none
//! song.lyrics.txt, song.txt the lyrics, likewise
//! ```
//!
//! Source: upstream, `LoRA_Training_Tutorial.md`.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use acestep_engine::{Notice, texts};
use acestep_music::{
    prompt::{INSTRUMENTAL, Metas, duration_text},
    request::words::too_long,
};

use super::sidecar::{self, SongText};
use crate::Error;

/// A song of the folder; its sound is not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetSong {
    /// The sound file.
    pub audio: PathBuf,
    /// Description of the sound.
    pub caption: String,
    /// The sung text.
    pub lyrics: String,
    /// The language of the lyrics.
    pub language: String,
    /// Tempo, key and metre, if known; the length comes from the file.
    pub metas: Metas,
}

impl DatasetSong {
    /// The metadata of a song that lasts `seconds`.
    pub fn metas_of(&self, seconds: f64) -> Metas {
        Metas { duration: Some(duration_text(seconds)), ..self.metas.clone() }
    }
}

/// Extensions of sound files.
const SOUNDS: [&str; 9] = ["wav", "flac", "mp3", "ogg", "opus", "m4a", "aac", "aiff", "aif"];

/// Extensions of texts that belong to a song.
const TEXTS: [&str; 3] = ["caption.txt", "lyrics.txt", "json"];

/// The largest size of a text file in bytes; lyrics have a few thousand.
const LONGEST: u64 = 1 << 20;

/// Reads the songs of a folder, sorted by name. `tag` is put before every caption; it is the word
/// that activates the adapter later. `caption` is used for songs without one. Each notice names its
/// file.
///
/// # Errors
/// [`Error::Read`]; [`Error::Dataset`] if there is no song, a song has no caption, or a file beside
/// a song is unusable.
pub fn read(
    folder: &Path,
    tag: Option<&str>,
    caption: Option<&str>,
) -> Result<(Vec<DatasetSong>, Vec<Notice>), Error> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    let (mut sounds, mut texts, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(|of| of.to_str()).unwrap_or_default();
        // macOS stores metadata of `a.wav` on other file systems in `._a.wav`.
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        if SOUNDS.contains(&extension.to_ascii_lowercase().as_str()) {
            // A link may lead nowhere.
            let failed = |source| Error::Read { path: path.clone(), source };
            if path.metadata().map_err(failed)?.is_file() {
                sounds.push(path);
            }
        } else if TEXTS.iter().any(|of| name.ends_with(&format!(".{of}"))) {
            texts.push(path);
        } else if extension.eq_ignore_ascii_case("csv") {
            tables.push(Notice(format!(
                "`{name}` is not read: write the tempo, key and caption of a song into the JSON \
                 beside it"
            )));
        }
    }
    sounds.sort();
    texts.sort();
    if sounds.is_empty() {
        let reason = format!("no song is in it: looked for .{}", SOUNDS.join(", ."));
        return Err(Error::Dataset { path: folder.to_owned(), reason });
    }
    let known: HashSet<_> =
        sounds.iter().flat_map(|sound| TEXTS.map(|of| sound.with_extension(of))).collect();
    texts.retain(|text| !known.contains(text));
    let (mut entries, mut notices) = (Vec::new(), Vec::from_iter(lonely(&texts)));
    notices.append(&mut tables);
    for audio in sounds {
        let (entry, said) = of_song(audio, tag, caption)?;
        entries.push(entry);
        notices.extend(said);
    }
    let mute: Vec<String> = entries
        .iter()
        .filter(|entry| entry.caption.is_empty())
        .map(|entry| entry.audio.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    match mute.first() {
        None => Ok((entries, notices)),
        Some(first) => {
            let (more, is) = match mute.len() - 1 {
                0 => (String::new(), "is"),
                1 => (" and 1 more song".to_owned(), "are"),
                others => (format!(" and {others} more songs"), "are"),
            };
            let stem = Path::new(first).with_extension("caption.txt");
            let reason = format!(
                "nothing says what `{first}`{more} {is} like: write it into `{}`, or give all of them \
                 one caption",
                stem.display()
            );
            Err(Error::Dataset { path: folder.to_owned(), reason })
        }
    }
}

/// Returns a notice about texts without a song: a name is misspelled, or the song is of another format.
fn lonely(texts: &[PathBuf]) -> Option<Notice> {
    let (first, others) = texts.split_first()?;
    let first = first.file_name()?.to_string_lossy();
    let more = match others.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(Notice(format!(
        "no song belongs to `{first}`{more}: a song has the same name and ends in .{}",
        SOUNDS.join(", .")
    )))
}

/// Reads the texts of one song.
fn of_song(
    audio: PathBuf,
    tag: Option<&str>,
    other: Option<&str>,
) -> Result<(DatasetSong, Vec<Notice>), Error> {
    let json = audio.with_extension("json");
    let SongText { request, metadata, mut notices } = match text(&json)? {
        None => SongText::default(),
        Some(text) => sidecar::read(&json, &text)?,
    };
    let field = |text: Option<String>| {
        text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let beside = |extension: &str| -> Result<Option<String>, Error> {
        Ok(field(text(&audio.with_extension(extension))?))
    };
    let caption = match field(request.words.caption) {
        Some(caption) => caption,
        None => beside("caption.txt")?.or(other.map(str::to_owned)).unwrap_or_default(),
    };
    let lyrics = match (field(request.words.lyrics), request.words.instrumental) {
        (Some(lyrics), _) => lyrics,
        (None, Some(true)) => INSTRUMENTAL.to_owned(),
        (None, _) => match beside("lyrics.txt")? {
            Some(lyrics) => lyrics,
            None => beside("txt")?.unwrap_or_else(|| INSTRUMENTAL.to_owned()),
        },
    };
    let (lyrics, left_out) = acestep_music::lyrics::cleaned(&lyrics);
    let caption = match tag {
        Some(tag) if !caption.is_empty() => format!("{tag}, {caption}"),
        _ => caption,
    };
    let name = audio.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let said = left_out.into_iter().chain(too_long(&caption, &lyrics));
    notices.extend(said.map(|notice| Notice(format!("`{name}`: {}", notice.0))));
    let metas = Metas {
        bpm: metadata.bpm,
        timesignature: metadata.timesignature,
        keyscale: metadata.keyscale,
        duration: None,
    };
    let language = metadata.vocal_language.unwrap_or("unknown").to_owned();
    Ok((DatasetSong { audio, caption, lyrics, language, metas }, notices))
}

pub(super) fn bad(path: &Path, reason: &str) -> Error {
    Error::Dataset { path: path.to_owned(), reason: reason.to_owned() }
}

/// The text of a file, if the file exists.
fn text(path: &Path) -> Result<Option<String>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(source)),
        // A pipe or a device may have no end.
        Ok(found) if !found.is_file() => return Err(bad(path, "not a regular file")),
        Ok(found) if found.len() > LONGEST => return Err(bad(path, "too long for a text")),
        Ok(_) => {}
    }
    let bytes = fs::read(path).map_err(failed)?;
    match texts::decode(&bytes) {
        Ok(text) => Ok(Some(text)),
        Err(not_text) => Err(bad(path, &format!("its text is not UTF-8: {not_text}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("a file");
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
            [
                ("a.json", r#"{"caption": "rain\r\nsnow", "lyrics": "[Verse]\r\nla"}"#),
                ("a.wav", ""),
            ],
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
        assert!(
            mute.contains("what `a.wav` and 1 more song are like: write it into `a.caption.txt`")
        );
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
            ("Key_BPM.csv", "File,BPM"),
            ("caption.txt", ""),
            ("d.wave", ""),
            ("d.caption.txt", "calm"),
        ]);
        let (entries, notices) = read(folder.path(), Some("zy"), None).expect("a song");
        assert_eq!((entries.len(), entries[0].lyrics.as_str()), (1, "la"));
        let [lonely, table, times, cut] = notices.as_slice() else { panic!("{notices:?}") };
        assert!(lonely.0.starts_with("no song belongs to `d.caption.txt` and 2 m"), "{lonely:?}");
        assert!(table.0.starts_with("`Key_BPM.csv` is not read: write"), "{table:?}");
        assert!(times.0.starts_with("`a.b.aif`: the lyrics' time stamps"), "{times:?}");
        assert!(cut.0.starts_with("`a.b.aif`: the caption of 513 characters"), "{cut:?}");
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
}
