//! A folder of songs with their texts, also in folders within it.
//!
//! ```text
//! song.flac                 the song
//! song.json                 caption, lyrics, bpm, keyscale, timesignature, language: all optional
//! song.caption.txt          the caption, if `song.json` has none
//! song.lyrics.txt, song.txt the lyrics, likewise
//! key_bpm.csv               tempo, key and caption, for songs without them; see `table`
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
    plan::SongMetadata,
    prompt::{INSTRUMENTAL, Metas, duration_text},
    request::words::too_long,
};

use super::{
    dataset_file,
    sidecar::{self, SongText},
    table::Rows,
    twins::twins,
};
use crate::Error;

/// A song of the data set; its sound is not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetSong {
    /// The sound file.
    pub audio: PathBuf,
    /// Its path within the data set.
    pub name: String,
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
    /// Creates a song from its texts, and adds notices about them.
    pub(super) fn of(
        audio: PathBuf,
        name: String,
        [caption, lyrics]: [String; 2],
        metadata: SongMetadata,
        notices: &mut Vec<Notice>,
    ) -> Self {
        let (lyrics, left_out) = acestep_music::lyrics::cleaned(&lyrics);
        let said = left_out.into_iter().chain(too_long(&caption, &lyrics));
        notices.extend(said.map(|notice| Notice(format!("`{name}`: {}", notice.0))));
        let metas = Metas {
            bpm: metadata.bpm,
            timesignature: metadata.timesignature,
            keyscale: metadata.keyscale,
            duration: None,
        };
        let language = metadata.vocal_language.unwrap_or("unknown").to_owned();
        Self { audio, name, caption, lyrics, language, metas }
    }

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

/// The largest size in bytes of a file about many songs.
pub(super) const LARGEST: u64 = 1 << 26;

/// Reads the songs of a folder, sorted by name, or of a JSON file of upstream's dataset builder.
/// `tag` is put before every caption; it is the word that activates the adapter later. `caption` is
/// used for songs without one. Each notice names its file.
///
/// # Errors
/// [`Error::Read`]; [`Error::Dataset`] if there is no song, a song has no caption, or a file about
/// songs is unusable.
pub fn read(
    songs: &Path,
    tag: Option<&str>,
    caption: Option<&str>,
) -> Result<(Vec<DatasetSong>, Vec<Notice>), Error> {
    let is_json = songs.extension().is_some_and(|of| of.eq_ignore_ascii_case("json"));
    match is_json && songs.is_file() {
        true => dataset_file::read(songs, tag, caption),
        false => read_folder(songs, tag, caption),
    }
}

/// Finds the files of a folder and of the folders within it, except hidden ones.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // macOS stores metadata of `a.wav` on other file systems in `._a.wav`.
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        // Links are not followed, because they can form a circle.
        match entry.file_type().map_err(failed)?.is_dir() {
            true => find(&entry.path(), found)?,
            false => found.push(entry.path()),
        }
    }
    Ok(())
}

fn read_folder(
    folder: &Path,
    tag: Option<&str>,
    caption: Option<&str>,
) -> Result<(Vec<DatasetSong>, Vec<Notice>), Error> {
    let (mut found, mut sounds, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut rows, mut rejected) = (Rows::default(), Vec::new());
    find(folder, &mut found)?;
    found.sort();
    for path in found {
        let name = path.to_string_lossy().into_owned();
        let extension = path.extension().and_then(|of| of.to_str()).unwrap_or_default();
        if SOUNDS.contains(&extension.to_ascii_lowercase().as_str()) {
            // A link may lead nowhere.
            let failed = |source| Error::Read { path: path.clone(), source };
            if path.metadata().map_err(failed)?.is_file() {
                sounds.push(path);
            }
        } else if TEXTS.iter().any(|of| name.ends_with(&format!(".{of}"))) {
            texts.push(path);
        // As in upstream, only the outer folder has tables.
        } else if extension.eq_ignore_ascii_case("csv") && path.parent() == Some(folder) {
            rows.add(&path, &mut rejected)?;
        }
    }
    if sounds.is_empty() {
        let reason = format!("no song is in it: looked for .{}", SOUNDS.join(", ."));
        return Err(Error::Dataset { path: folder.to_owned(), reason });
    }
    let known: HashSet<_> =
        sounds.iter().flat_map(|sound| TEXTS.map(|of| sound.with_extension(of))).collect();
    texts.retain(|text| !known.contains(text));
    let (mut entries, mut notices) = (Vec::new(), Vec::from_iter(lonely(&texts)));
    notices.append(&mut rejected);
    for audio in sounds {
        let name = name_of(audio.strip_prefix(folder).unwrap_or(&audio));
        let last = audio.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let row = rows.of([&name, &last])?;
        entries.push(of_song(audio, name, row, tag, caption, &mut notices)?);
    }
    notices.extend(rows.lonely());
    notices.extend(twins(&entries));
    match mute(&entries) {
        None => Ok((entries, notices)),
        Some((first, all)) => {
            let stem = Path::new(&first).with_extension("caption.txt");
            let reason = format!(
                "{all}: write it into `{}`, or give all of them one caption",
                stem.display()
            );
            Err(Error::Dataset { path: folder.to_owned(), reason })
        }
    }
}

/// Returns the name of a song by its path in the data set; of an absolute path, only the last part.
pub(super) fn name_of(path: &Path) -> String {
    let last = Path::new(path.file_name().unwrap_or_default());
    let path = if path.has_root() { last } else { path };
    path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Returns the first song without a caption, and the beginning of a message about all of them.
pub(super) fn mute(entries: &[DatasetSong]) -> Option<(String, String)> {
    let mut mute = entries.iter().filter(|entry| entry.caption.is_empty());
    let first = &mute.next()?.name;
    let (more, is) = match mute.count() {
        0 => (String::new(), "is"),
        1 => (" and 1 more song".to_owned(), "are"),
        others => (format!(" and {others} more songs"), "are"),
    };
    Some((first.clone(), format!("nothing says what `{first}`{more} {is} like")))
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

/// Returns a text without the space around it, if anything is left.
pub(super) fn field(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Reads the texts of one song; `row` is its row in a CSV file.
fn of_song(
    audio: PathBuf,
    name: String,
    row: SongText,
    tag: Option<&str>,
    other: Option<&str>,
    notices: &mut Vec<Notice>,
) -> Result<DatasetSong, Error> {
    let json = audio.with_extension("json");
    let SongText { request, metadata, notices: said } = match text(&json, LONGEST)? {
        None => SongText::default(),
        Some(text) => sidecar::read(&json, &text)?,
    };
    notices.extend(said);
    notices.extend(row.notices);
    let beside = |extension: &str| -> Result<Option<String>, Error> {
        Ok(field(text(&audio.with_extension(extension), LONGEST)?))
    };
    let caption = match field(request.words.caption) {
        Some(caption) => caption,
        None => beside("caption.txt")?
            .or(field(row.request.words.caption))
            .or(other.map(str::to_owned))
            .unwrap_or_default(),
    };
    let lyrics = match (field(request.words.lyrics), request.words.instrumental) {
        (Some(lyrics), _) => lyrics,
        (None, Some(true)) => INSTRUMENTAL.to_owned(),
        (None, _) => match beside("lyrics.txt")? {
            Some(lyrics) => lyrics,
            None => beside("txt")?.unwrap_or_else(|| INSTRUMENTAL.to_owned()),
        },
    };
    let caption = match tag {
        Some(tag) if !caption.is_empty() => format!("{tag}, {caption}"),
        _ => caption,
    };
    let metadata = SongMetadata {
        bpm: metadata.bpm.or(row.metadata.bpm),
        keyscale: metadata.keyscale.or(row.metadata.keyscale),
        ..metadata
    };
    Ok(DatasetSong::of(audio, name, [caption, lyrics], metadata, notices))
}

pub(super) fn bad(path: &Path, reason: &str) -> Error {
    Error::Dataset { path: path.to_owned(), reason: reason.to_owned() }
}

/// The text of a file of at most `most` bytes, if the file exists.
pub(super) fn text(path: &Path, most: u64) -> Result<Option<String>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(source)),
        // A pipe or a device may have no end.
        Ok(found) if !found.is_file() => return Err(bad(path, "not a regular file")),
        Ok(found) if found.len() > most => return Err(bad(path, "too long for a text")),
        Ok(_) => {}
    }
    let bytes = fs::read(path).map_err(failed)?;
    match texts::decode(&bytes) {
        Ok(text) => Ok(Some(text)),
        Err(not_text) => Err(bad(path, &format!("its text is not UTF-8: {not_text}"))),
    }
}

#[cfg(test)]
mod tests;
