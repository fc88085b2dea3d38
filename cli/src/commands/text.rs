//! Texts from the command line, files and standard input; the request they form; text output.

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use acestep_engine::{
    Action, Error, Notice,
    audio::tags::{self, Found},
    files::{Existing, check_target, write_whole},
    texts::{self, NotText, unix_lines},
};
use acestep_music::{Request, lyrics::sung};
use acestep_session::song::absolute;
use anyhow::{Context, Result};

use crate::{
    args::{generate::Words, values::put},
    error::CliError,
    interrupt, settings,
};

/// Users of standard input; only one is allowed.
#[derive(Debug, Default)]
pub(crate) struct Stdin {
    users: Vec<&'static str>,
}

impl Stdin {
    /// Notes that `user` reads it.
    pub(crate) fn takes(&mut self, user: &'static str) {
        self.users.push(user);
    }

    /// Refuses a second reader.
    pub(crate) fn check(&self) -> Result<()> {
        if let [first, second, ..] = self.users[..] {
            let message = format!("`{first}` and `{second}` both read standard input");
            return Err(CliError::usage(message).hint("put one of them into a file").into());
        }
        Ok(())
    }
}

/// The request from a file, if there is one, with the typed values over it.
pub(crate) struct Typed {
    pub(crate) request: Request,
    pub(crate) notices: Vec<Notice>,
}

impl Typed {
    /// Reads the request file and the texts that `words` names.
    pub(crate) fn read(words: &Words, stdin: &mut Stdin) -> Result<Self> {
        let (mut request, mut notices) = match &words.request[..] {
            [] => settings::request()?,
            [path] => from_file(path, stdin)?,
            [_, _, ..] => {
                let message = "`--request` is given several times, which only generate takes";
                return Err(CliError::usage(message).hint("run it once for each file").into());
            }
        };
        if let Some(value) = &words.lyrics {
            request.words.lyrics = Some(text_or_file("--lyrics", value, stdin)?);
        }
        // Typed lyrics clear the file's `instrumental`; a typed --instrumental clears its lyrics.
        match (words.lyrics.is_some(), words.instrumental) {
            (true, false) => request.words.instrumental = None,
            (false, true) => request.words.lyrics = None,
            _ => (),
        }
        if words.instrumental {
            request.words.instrumental = Some(true);
        }
        let caption = words.positional_caption.as_ref().or(words.caption.as_ref());
        put(&mut request.words.caption, caption.map(|caption| unix_lines(caption)).as_ref());
        words.put_over(&mut request);
        if let Some(lyrics) = &mut request.words.lyrics {
            let (text, left_out) = sung(lyrics);
            *lyrics = text;
            notices.extend(left_out);
        }
        Ok(Self { request, notices })
    }
}

fn from_file(path: &Path, stdin: &mut Stdin) -> Result<(Request, Vec<Notice>)> {
    let (bytes, found) = if path == Path::new("-") {
        stdin.users.push("--request -");
        let bytes = read_stdin()?;
        let found = tags::request_of(&bytes);
        (bytes, found)
    } else if path.is_file() {
        // A song can be larger than the limit for requests: read only its tags.
        match tags::request_in(path)? {
            Found::NoSound => (read_file(path)?, Found::NoSound),
            found => (Vec::new(), found),
        }
    } else {
        // A pipe can be read only once.
        let bytes = read_file(path)?;
        let found = tags::request_of(&bytes);
        (bytes, found)
    };
    let bytes = match found {
        Found::Request(text) if !text.is_empty() => text.into_bytes(),
        Found::Request(_) | Found::None => {
            let message = format!("the song `{}` has no request in its tags", path.display());
            return Err(CliError::new(message)
                .hint("only songs that this program made from a request have one")
                .into());
        }
        Found::NoSound => bytes,
    };
    let text = utf8(bytes, &format!("the request `{}`", path.display()))?;
    let context = || format!("the request `{}` cannot be used", path.display());
    let (mut request, notices) = Request::from_json(&text).with_context(context)?;
    beside(&mut request, path);
    Ok((request, notices))
}

/// Resolves the file names of a request relative to the request's folder, to absolute paths.
fn beside(request: &mut Request, file: &Path) {
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

/// Returns a typed text, or the text of a file: `@FILE`, `@-`. `@@` starts a text with `@`.
pub(crate) fn text_or_file(flag: &'static str, value: &str, stdin: &mut Stdin) -> Result<String> {
    let Some(name) = value.strip_prefix('@') else { return Ok(unix_lines(value)) };
    match name {
        "" => Err(CliError::usage(format!("`{flag} @` names no file"))
            .hint(format!("write {flag} @FILE, or @- for standard input"))
            .into()),
        "-" => {
            stdin.users.push(flag);
            if stdin.users.len() > 1 {
                // Standard input is already read; [`Stdin::check`] reports both readers.
                return Ok(String::new());
            }
            utf8(read_stdin()?, &format!("`{flag} @-`"))
        }
        _ if name.starts_with('@') => Ok(unix_lines(name)),
        _ => utf8(read_file(&PathBuf::from(name))?, &format!("`{name}`")),
    }
}

/// As [`text_or_file`], for speech: the line break that ends a file or standard input is not a part of the
/// text. So `echo` gives the text that is typed.
pub(crate) fn spoken_or_file(flag: &'static str, value: &str, stdin: &mut Stdin) -> Result<String> {
    let text = text_or_file(flag, value, stdin)?;
    let is_typed = !value.starts_with('@') || value.starts_with("@@");
    // Lines end with one character after reading.
    Ok(match text.strip_suffix('\n') {
        Some(text) if !is_typed => text.to_owned(),
        _ => text,
    })
}

/// Maximum size of a text file; it also stops the reading of `/dev/zero`.
const MOST_BYTES: u64 = 16 << 20;

pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>> {
    let failed = |source| Error::File { action: Action::Read, path: path.to_owned(), source };
    let file = fs::File::open(path).map_err(failed)?;
    let bytes = read_most(file).map_err(failed)?;
    bytes.ok_or_else(|| too_large(&format!("`{}`", path.display())))
}

/// Reads standard input and keeps it. A command that runs again after a download gets the same
/// bytes.
fn read_stdin() -> Result<Vec<u8>> {
    static READ: Mutex<Option<Vec<u8>>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = &*read {
        return Ok(bytes.clone());
    }
    let bytes = read_most(std::io::stdin().lock()).context("cannot read standard input")?;
    let bytes = bytes.ok_or_else(|| too_large("standard input"))?;
    *read = Some(bytes.clone());
    Ok(bytes)
}

/// Reads everything, or returns `None` if it is more than [`MOST_BYTES`].
fn read_most(from: impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= MOST_BYTES).then_some(bytes))
}

fn too_large(what: &str) -> anyhow::Error {
    CliError::new(format!("{what} is larger than {} MiB", MOST_BYTES >> 20))
        .hint("check the path: no text or request is that long")
        .into()
}

/// Writes `text` to a file, which appears complete or not at all.
pub(crate) fn write_text(path: &Path, text: &str, existing: Existing) -> Result<(), Error> {
    write_bytes(path, text.as_bytes(), existing)
}

/// Writes `bytes` to a file, which appears complete or not at all.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), Error> {
    interrupt::whole(|| write_whole(path, existing, |file| file.write_all(bytes)))
}

/// True if nothing has this name, not even a broken link.
pub(crate) fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err()
}

/// Refuses a folder that could not be created in its nearest existing parent.
pub(crate) fn check_new_folder(folder: &Path) -> Result<(), Error> {
    let absent = |path: &&Path| !path.as_os_str().is_empty() && is_absent(path);
    let first = folder.ancestors().take_while(absent).last();
    first.map_or(Ok(()), |path| check_target(path, Existing::Replace))
}

/// Decodes bytes as text: see [`texts::decode`].
pub(crate) fn utf8(bytes: Vec<u8>, what: &str) -> Result<String> {
    texts::decode(&bytes).map_err(|NotText { line }| {
        CliError::new(format!("{what} is not UTF-8 text: line {line} has a byte that is none"))
            .hint("save it as UTF-8")
            .into()
    })
}
