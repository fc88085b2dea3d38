//! Texts and requests that a user gives as files, whose size is limited.

use std::{
    io::{self, BufRead, Read},
    iter,
    path::Path,
    sync::Arc,
};

use acestep_engine::{
    Action, Error,
    audio::tags::{self, RequestTag},
    files,
    texts::{NotText, decode},
};
use acestep_music::{Request, lm::constrain::genres::GenreVocabulary};

use crate::{SessionError, song::absolute};

/// Maximum size of a text; it also stops the reading of `/dev/zero`.
const MOST_BYTES: u64 = 16 << 20;

/// Returns the text of the file at `path`: see [`acestep_engine::texts::decode`].
///
/// # Errors
/// [`Error::File`]; [`SessionError::TooLarge`]; [`SessionError::NotText`].
pub fn read_text(path: &Path) -> Result<String, Error> {
    text_of(&read_file(path)?, &format!("`{}`", path.display()))
}

/// Reads the genres in the file at `path`, one per line; empty lines and `# comments` are skipped.
///
/// # Errors
/// As [`read_text`]; [`SessionError::NoGenre`].
pub fn read_genres(path: &Path) -> Result<Arc<GenreVocabulary>, Error> {
    let genres = GenreVocabulary::parse(&read_text(path)?);
    if genres.is_empty() {
        return Err(SessionError::NoGenre { path: path.to_owned() }.into());
    }
    Ok(Arc::new(genres))
}

/// Returns the text of the request in the file at `path`, or in the tags of the song there.
///
/// # Errors
/// As [`read_text`]; [`SessionError::NoRequest`].
pub fn read_request(path: &Path) -> Result<String, Error> {
    // A pipe can be read only once. A song can be larger than the limit: only its tags are read.
    match path.is_file() {
        true => match tags::request_in(path)? {
            RequestTag::NoSound => of_request(&read_file(path)?, path),
            found => in_tags(found, path),
        },
        false => request_of(&read_file(path)?, path),
    }
}

/// As [`read_request`], of the content of a file or a song.
///
/// # Errors
/// [`SessionError::NotText`]; [`SessionError::NoRequest`].
pub fn request_of(bytes: &[u8], path: &Path) -> Result<String, Error> {
    match tags::request_of(bytes) {
        RequestTag::NoSound => of_request(bytes, path),
        found => in_tags(found, path),
    }
}

fn in_tags(found: RequestTag, path: &Path) -> Result<String, Error> {
    match found {
        RequestTag::Request(text) if !text.is_empty() => of_request(text.as_bytes(), path),
        RequestTag::Request(_) | RequestTag::None | RequestTag::NoSound => {
            Err(SessionError::NoRequest { path: path.to_owned() }.into())
        }
    }
}

fn of_request(bytes: &[u8], path: &Path) -> Result<String, Error> {
    text_of(bytes, &format!("the request `{}`", path.display()))
}

/// Resolves the file names of a request relative to the folder of its `file`, to absolute paths.
pub fn place_beside(request: &mut Request, file: &Path) {
    let folder = file.parent().unwrap_or(Path::new(""));
    for name in request.source.files_mut() {
        // An absolute path stays as it is.
        if let Some(path) = folder.join(&*name).to_str() {
            *name = absolute(path);
        }
    }
    // An adapter can also be the name of an installed one.
    for name in request.compute.adapter.iter_mut().flatten() {
        let beside = folder.join(&*name);
        if let Some(path) = beside.to_str().filter(|_| beside.exists()) {
            *name = absolute(path);
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    let file = files::open(path).map_err(unread(path))?;
    read_all(file, &format!("`{}`", path.display())).map_err(unread(path))?
}

/// Returns the error of a file that cannot be read, by its cause.
pub(crate) fn unread(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::File { action: Action::Read, path: path.to_owned(), source }
}

/// Reads all of `from`, which a message calls `what`.
///
/// # Errors
/// Those of `from`. Inside, [`SessionError::TooLarge`].
pub fn read_all(from: impl Read, what: &str) -> io::Result<Result<Vec<u8>, Error>> {
    let mut bytes = Vec::new();
    from.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(match bytes.len() as u64 <= MOST_BYTES {
        true => Ok(bytes),
        false => {
            let (what, most) = (what.to_owned(), MOST_BYTES >> 20);
            Err(SessionError::TooLarge { what, most }.into())
        }
    })
}

/// Returns the lines of `from`, which a message calls `what`, while they arrive; each with its line break.
///
/// # Errors
/// Inside, [`Error::File`]; [`SessionError::TooLarge`]; [`SessionError::NotText`] for all but UTF-8.
pub fn lines(mut from: impl BufRead, what: &str) -> impl Iterator<Item = Result<String, Error>> {
    let mut number = 0;
    iter::from_fn(move || {
        let mut bytes = Vec::new();
        number += 1;
        match from.by_ref().take(MOST_BYTES + 1).read_until(b'\n', &mut bytes) {
            Ok(0) => None,
            Ok(_) => Some(line(bytes, number, what)),
            Err(source) => Some(Err(unread(Path::new(what))(source))),
        }
    })
}

fn line(bytes: Vec<u8>, line: usize, what: &str) -> Result<String, Error> {
    if bytes.len() as u64 > MOST_BYTES {
        let (what, most) = (format!("line {line} of {what}"), MOST_BYTES >> 20);
        return Err(SessionError::TooLarge { what, most }.into());
    }
    let not_text = |_| SessionError::NotText { what: what.to_owned(), line };
    let mut text = String::from_utf8(bytes).map_err(not_text)?;
    // As `decode` does.
    if line == 1 && text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

/// Decodes `bytes`, which a message calls `what`.
///
/// # Errors
/// [`SessionError::NotText`].
pub fn text_of(bytes: &[u8], what: &str) -> Result<String, Error> {
    let what = what.to_owned();
    decode(bytes).map_err(|NotText { line }| SessionError::NotText { what, line }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_arrive_lose_the_first_mark_and_name_the_byte_that_is_no_text() {
        let of = |bytes: &[u8]| -> Vec<String> {
            let text = |line: Result<String, Error>| line.unwrap_or_else(|error| error.to_string());
            lines(bytes, "it").map(text).collect()
        };
        assert_eq!(of("\u{feff}a\r\n\n\u{feff}b".as_bytes()), ["a\r\n", "\n", "\u{feff}b"]);
        let why = "it is not UTF-8 text: line 2 has a byte that is none";
        assert_eq!(of(b"a\n\xe9t\xe9\nb"), ["a\n", why, "b"]);
        let long = of(&vec![b'a'; (MOST_BYTES + 1) as usize]);
        assert_eq!(long, ["line 1 of it is larger than 16 MiB"]);
    }
}
