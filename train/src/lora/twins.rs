//! Songs of a folder that share their texts: `a.mp3` beside `a.wav`.

use std::{collections::BTreeMap, path::PathBuf};

use acestep_engine::Notice;

use super::DatasetSong;

/// Notices about songs whose names differ only in their extension. They use the same text files,
/// and are often the same song.
pub(super) fn twins(entries: &[DatasetSong]) -> Vec<Notice> {
    let mut names: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for entry in entries {
        let name = entry.audio.file_name().unwrap_or_default().to_string_lossy();
        names.entry(entry.audio.with_extension("")).or_default().push(format!("`{name}`"));
    }
    let shared = names.into_values().filter(|names| names.len() > 1);
    let text = |names: Vec<String>| {
        Notice(format!(
            "{} have the same texts, and all are used: if they are one song, keep one of them",
            names.join(" and ")
        ))
    };
    shared.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn songs_of_one_name_are_said() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a.wav", "a.mp3", "b.wav", "a.b.wav", "a.caption.txt"] {
            std::fs::write(folder.path().join(name), "x").expect("a file");
        }
        let (entries, _) = super::super::read(folder.path(), None, Some("rain")).expect("songs");
        let said: Vec<String> = twins(&entries).into_iter().map(|notice| notice.0).collect();
        let text = "`a.mp3` and `a.wav` have the same texts, and all are used: if they are one \
                    song, keep one of them";
        assert_eq!(said, [text]);
    }
}
