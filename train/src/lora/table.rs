//! CSV files of tempos, keys and captions, such as `key_bpm.csv`.
//!
//! `File` has the names of songs. `BPM`, `Key` and `Caption` are used, other columns are not.
//!
//! Source: upstream `dataset_builder_modules/csv_metadata.py`.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::{Path, PathBuf},
};

use acestep_engine::Notice;
use csv::{ReaderBuilder, Trim};
use serde_json::{Map, Value};

use super::{
    dataset::{LARGEST, bad, text},
    sidecar::{self, SongText},
};
use crate::Error;

const DELIMITERS: [u8; 3] = *b",;\t";

/// Columns, with their keys in a request.
const COLUMNS: [(&str, &str); 3] = [("bpm", "bpm"), ("key", "keyscale"), ("caption", "caption")];

/// A row with values.
#[derive(Debug)]
struct Row {
    table: PathBuf,
    values: Map<String, Value>,
    is_used: bool,
}

/// Rows of all tables of a folder, by the song that they name.
#[derive(Debug, Default)]
pub(super) struct Rows(BTreeMap<String, Row>);

impl Rows {
    /// Adds the rows of a table.
    ///
    /// # Errors
    /// [`Error::Read`]; [`Error::Dataset`] for a broken table, or a second row of a song with other
    /// values.
    pub(super) fn add(&mut self, path: &Path, notices: &mut Vec<Notice>) -> Result<(), Error> {
        let text = text(path, LARGEST)?.unwrap_or_default();
        let opened = DELIMITERS.into_iter().find_map(|delimiter| {
            let mut reader = ReaderBuilder::new()
                .delimiter(delimiter)
                .trim(Trim::All)
                .from_reader(text.as_bytes());
            let headings = reader.headers().ok()?;
            let column = |name: &str| headings.iter().position(|of| of.eq_ignore_ascii_case(name));
            let (file, others) = (column("file")?, COLUMNS.map(|(name, key)| (column(name), key)));
            Some((reader, file, others))
        });
        let Some((mut reader, file, others)) = opened else {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            notices.push(Notice(format!("`{name}` is not read: it has no column `File`")));
            return Ok(());
        };
        for row in reader.records() {
            let row = row.map_err(|error| bad(path, &format!("no CSV: {error}")))?;
            let value = |(column, key): (Option<usize>, &str)| {
                let value = row.get(column?).filter(|value| !value.is_empty())?;
                Some((key.to_owned(), Value::from(value)))
            };
            let values: Map<String, Value> = others.into_iter().filter_map(value).collect();
            let song = row.get(file).unwrap_or_default();
            if song.is_empty() || values.is_empty() {
                continue;
            }
            match self.0.entry(song.to_owned()) {
                Entry::Vacant(place) => {
                    place.insert(Row { table: path.to_owned(), values, is_used: false });
                }
                Entry::Occupied(first) if first.get().values == values => {}
                Entry::Occupied(_) => {
                    return Err(bad(path, &format!("a second row of `{song}` has other values")));
                }
            }
        }
        Ok(())
    }

    /// Reads the row of a song that has one of `names`, if there is a row.
    ///
    /// # Errors
    /// [`Error::Dataset`] that names the table, the song and the value.
    pub(super) fn of(&mut self, names: [&str; 2]) -> Result<SongText, Error> {
        for name in names {
            if let Some(row) = self.0.get_mut(name) {
                row.is_used = true;
                let mut text = sidecar::of_object(row.values.clone())
                    .map_err(|why| bad(&row.table, &format!("the row of `{name}`: {why}")))?;
                text.say_of(name);
                return Ok(text);
            }
        }
        Ok(SongText::default())
    }

    /// Returns a notice about rows of songs that are not there.
    pub(super) fn lonely(&self) -> Option<Notice> {
        let mut lonely = self.0.iter().filter(|(_, row)| !row.is_used).map(|(song, _)| song);
        let first = lonely.next()?;
        let more = match lonely.count() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        Some(Notice(format!("CSV files name songs that are not there: `{first}`{more}")))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The rows of one table, or the refusal.
    fn rows(table: &str) -> Result<(Rows, Vec<Notice>), String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key_bpm.csv");
        fs::write(&path, table).expect("a file");
        let (mut rows, mut notices) = (Rows::default(), Vec::new());
        rows.add(&path, &mut notices).map_err(|error| error.to_string())?;
        Ok((rows, notices))
    }

    #[test]
    fn tempo_key_and_caption_are_read_with_any_delimiter() {
        for table in [
            "File,Artist,BPM,Key,Caption\na.wav,\"X, Y\",92.0,F# minor,\"calm, slow\"\n",
            "\u{feff}bpm;key;FILE;caption\r\n92;F# minor; a.wav ;calm, slow\r\n;;;",
        ] {
            let (mut rows, notices) = rows(table).expect(table);
            let song = rows.of(["x/a.wav", "a.wav"]).expect("a row");
            assert_eq!((notices.len(), song.notices.len()), (0, 0), "{table}");
            assert_eq!(rows.of(["c.wav", "c.wav"]).expect("no row").metadata.bpm, None);
            let (key, caption) = (song.metadata.keyscale, song.request.words.caption);
            assert_eq!((song.metadata.bpm, key.as_deref()), (Some(92), Some("F# minor")));
            assert_eq!(caption.as_deref(), Some("calm, slow"), "{table}");
        }
    }

    #[test]
    fn a_table_that_cannot_be_used_is_named() {
        let (mut fast, _) = rows("File,BPM\na.wav,fast\n").expect("a row");
        let refused = fast.of(["a.wav", "a.wav"]).expect_err("a text").to_string();
        assert!(refused.contains("key_bpm.csv`: the row of `a.wav`: `bpm` is \"fast\", but"));
        let refused = rows("File,BPM\na.wav,90\na.wav,91\n").expect_err("two tempos");
        assert!(refused.ends_with("a second row of `a.wav` has other values"), "{refused}");
    }
}
