//! Names of several outputs: numbers and seeds.

use std::path::{Path, PathBuf, is_separator};

use acestep_engine::Error;

use super::OutputError;

/// A path for each song.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SongPaths {
    /// The paths.
    pub paths: Vec<PathBuf>,
    /// True if `_1`, `_2` were added.
    pub are_numbered: bool,
}

/// Fills in `{seed}` and `{index}` (from 1) for `count` songs; several without either are numbered.
/// `seeds` are those of the songs, if they have an effect.
///
/// # Errors
/// [`OutputError::Placeholder`]; [`OutputError::NoSeed`].
pub fn names(template: &Path, count: usize, seeds: Option<&[u64]>) -> Result<SongPaths, Error> {
    let all_numbered = || SongPaths { paths: numbered(template, count), are_numbered: count > 1 };
    let Some(text) = template.to_str() else {
        // A path that is not UTF-8 is taken without placeholders.
        return Ok(all_numbered());
    };
    check_placeholders(text)?;
    if !text.contains("{seed}") && !text.contains("{index}") {
        return Ok(all_numbered());
    }
    if text.contains("{seed}") && seeds.is_none() {
        return Err(OutputError::NoSeed(text.to_owned()).into());
    }
    let fill = |i: usize| {
        let text = text.replace("{index}", &(i + 1).to_string());
        let seed = seeds.map_or_else(String::new, |seeds| seeds[i].to_string());
        PathBuf::from(text.replace("{seed}", &seed))
    };
    Ok(SongPaths { paths: (0..count).map(fill).collect(), are_numbered: false })
}

fn check_placeholders(text: &str) -> Result<(), OutputError> {
    for rest in text.split('{').skip(1) {
        let Some((name, _)) = rest.split_once('}') else { continue };
        if !["seed", "index"].contains(&name) {
            let (template, name) = (text.to_owned(), name.to_owned());
            return Err(OutputError::Placeholder { template, name });
        }
    }
    Ok(())
}

/// Returns `codes.txt` for one song, and `codes_1.txt`, `codes_2.txt` for several.
pub fn numbered(template: &Path, songs: usize) -> Vec<PathBuf> {
    if songs == 1 {
        return vec![template.to_owned()];
    }
    let number = |i: usize| {
        let mut name = template.file_stem().unwrap_or_default().to_owned();
        name.push(format!("_{i}"));
        if let Some(extension) = template.extension() {
            name.push(".");
            name.push(extension);
        }
        let path = template.with_file_name(name);
        // A name like a folder's stays one, and is refused later.
        if template.to_string_lossy().ends_with(is_separator) { path.join("") } else { path }
    };
    (1..=songs).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(template: &str, seeds: &[u64]) -> Vec<String> {
        let names = names(Path::new(template), seeds.len(), Some(seeds)).expect("names");
        names.paths.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn several_songs_are_numbered_before_the_extension() {
        assert_eq!(paths("a.b/c.d.wav", &[7, 8]), ["a.b/c.d_1.wav", "a.b/c.d_2.wav"]);
        assert_eq!(paths("song", &[7, 8]), ["song_1", "song_2"]);
        assert!(paths("new/", &[7, 8]).iter().all(|path| path.ends_with(is_separator)));
    }

    #[test]
    fn a_seed_that_decides_nothing_is_in_no_name() {
        let output = |template: &str, songs| {
            names(Path::new(template), songs, None).map(|names| names.paths)
        };
        assert_eq!(output("{index}.wav", 2).expect("names"), ["1.wav", "2.wav"].map(PathBuf::from));
        assert!(output("{seed}.wav", 1).is_err());
    }
}
