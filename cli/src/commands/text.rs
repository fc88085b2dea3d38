//! Texts from the command line, files and standard input; the request they form; text output.

use std::{
    io::{self, Write},
    path::Path,
    sync::{Mutex, PoisonError},
};

use acestep_engine::{
    Error, Notice,
    files::{Existing, write_whole},
    texts::unix_lines,
};
use acestep_music::{Request, lyrics::cleaned};
use acestep_session::texts;
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
            [] => settings::loaded().request()?,
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
        if words.instrumental && words.lyrics.is_none() {
            request.words.lyrics = None;
        }
        if words.instrumental || words.lyrics.is_some() {
            request.words.instrumental = words.instrumental.then_some(true);
        }
        let caption = words.positional_caption.as_ref().or(words.caption.as_ref());
        if let Some(caption) = caption.filter(|caption| is_name_of_file(caption)) {
            let message = format!("the caption `{caption}` is not read from a file");
            let file = caption.trim_start_matches('@');
            let hint = format!("a song is --src-audio \"{file}\", a text is \"$(cat '{file}')\"");
            return Err(CliError::usage(message).hint(hint).into());
        }
        put(&mut request.words.caption, caption.map(|caption| unix_lines(caption)).as_ref());
        words.put_over(&mut request);
        if let Some(lyrics) = &mut request.words.lyrics {
            let (text, left_out) = cleaned(lyrics);
            *lyrics = text;
            notices.extend(left_out);
        }
        Ok(Self { request, notices })
    }
}

fn from_file(path: &Path, stdin: &mut Stdin) -> Result<(Request, Vec<Notice>)> {
    let text = if path == Path::new("-") {
        stdin.takes("--request -");
        texts::request_of(&read_stdin()?, path)?
    } else {
        texts::read_request(path)?
    };
    let context = || format!("the request `{}` cannot be used", path.display());
    let (mut request, notices) = Request::from_json(&text).with_context(context)?;
    texts::place_beside(&mut request, path);
    Ok((request, notices))
}

/// True for `@` and a file or a word like a path, and without `@` for a file with an extension.
fn is_name_of_file(text: &str) -> bool {
    let Some(name) = text.strip_prefix('@') else {
        return Path::new(text).extension().is_some() && Path::new(text).is_file();
    };
    let looks_like_one = name.contains(['.', '/', '\\']) && !name.contains(char::is_whitespace);
    looks_like_one || Path::new(name).is_file()
}

/// Returns a typed text, or the text of a file: `@FILE`, `@-`. `@@` starts a text with `@`.
pub(crate) fn text_or_file(flag: &'static str, value: &str, stdin: &mut Stdin) -> Result<String> {
    let Some(name) = value.strip_prefix('@') else {
        if is_name_of_file(value) {
            let message = format!("`{flag}` is only the name `{value}`, not the text of that file");
            return Err(CliError::usage(message).hint(format!("write \"@{value}\"")).into());
        }
        return Ok(unix_lines(value));
    };
    match name {
        "" => Err(CliError::usage(format!("`{flag} @` names no file"))
            .hint(format!("write {flag} @FILE, or @- for standard input"))
            .into()),
        "-" => {
            stdin.takes(flag);
            if stdin.users.len() > 1 {
                // Standard input is already read; [`Stdin::check`] reports both readers.
                return Ok(String::new());
            }
            Ok(texts::text_of(&read_stdin()?, "standard input")?)
        }
        _ if name.starts_with('@') => Ok(unix_lines(name)),
        _ => Ok(texts::read_text(Path::new(name))?),
    }
}

/// As [`text_or_file`], for speech: the line break that ends a file or standard input is not a part of the
/// text. So `echo` gives the text that is typed.
pub(crate) fn spoken_or_file(flag: &'static str, value: &str, stdin: &mut Stdin) -> Result<String> {
    let mut text = text_or_file(flag, value, stdin)?;
    // Lines end with one character after reading.
    if value.starts_with('@') && !value.starts_with("@@") && text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Reads standard input and keeps it. A command that runs again after a download gets the same
/// bytes.
fn read_stdin() -> Result<Vec<u8>> {
    static READ: Mutex<Option<Vec<u8>>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = &*read {
        return Ok(bytes.clone());
    }
    let bytes = texts::read_all(io::stdin().lock(), "standard input");
    let bytes = bytes.context("cannot read standard input")??;
    *read = Some(bytes.clone());
    Ok(bytes)
}

/// Writes `bytes` to a file, which appears complete or not at all.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), Error> {
    interrupt::whole(|| write_whole(path, existing, |file| file.write_all(bytes)))
}
