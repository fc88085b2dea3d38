//! Files that appear whole or not at all: written to a temporary file beside the target, then
//! renamed. Files that are read, and pipes in their place.

use std::{
    borrow::Cow,
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use tempfile::{NamedTempFile, PersistError};

use crate::{Action, Error};

/// The longest wait for a program that writes to a pipe with a name.
const PATIENCE: Duration = Duration::from_secs(10);

/// The largest file that is read whole. The limit also stops the reading of `/dev/zero`.
const MOST_BYTES: u64 = 1 << 30;

/// Opens a file to read it. A pipe with a name waits for a program that writes to it, but not for ever.
///
/// # Errors
/// The errors of [`File::open`]; [`io::ErrorKind::TimedOut`] for a pipe that nothing writes to.
pub fn open(path: &Path) -> io::Result<File> {
    open_within(path, PATIENCE)
}

/// Refuses a file that is not there. Before the work for it such a check costs nothing.
///
/// # Errors
/// [`Error::File`].
pub fn check_source(path: &Path) -> Result<(), Error> {
    let absent = |source| Error::File { action: Action::Read, path: path.to_owned(), source };
    path.metadata().map(drop).map_err(absent)
}

/// Reads a whole file, as [`open`] opens it.
///
/// # Errors
/// The errors of [`open`] and of reading; [`io::ErrorKind::FileTooLarge`] for more than 1 GiB.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_within(path, MOST_BYTES)
}

fn read_within(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 <= most {
        true => Ok(bytes),
        false => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

fn open_within(path: &Path, patience: Duration) -> io::Result<File> {
    if !is_pipe(path) {
        return File::open(path);
    }
    let (opened, wait) = mpsc::channel();
    let path = path.to_owned();
    // Without a writer this thread waits until the program ends.
    thread::spawn(move || opened.send(File::open(path)));
    let silent = |_| io::Error::new(io::ErrorKind::TimedOut, "nothing writes to this pipe");
    wait.recv_timeout(patience).map_err(silent)?
}

#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.metadata().is_ok_and(|found| found.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_: &Path) -> bool {
    false
}

/// Treatment of an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Keep it and return an error.
    Keep,
    /// Replace it.
    Replace,
}

/// Writes `path` through `fill`; an interrupted or failed write leaves nothing behind.
///
/// A symbolic link stays, and its target is written. Permissions are those of any new file (`0o666`
/// less the umask), not the private ones of a temporary file.
///
/// # Errors
/// [`Error::IsDirectory`], [`Error::NotAFile`], [`Error::AlreadyExists`], [`Error::File`], the
/// error of `fill` as such a one, or [`Error::Elsewhere`] if another file took the name meanwhile.
pub fn write_whole(
    path: &Path,
    existing: Existing,
    fill: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> Result<(), Error> {
    let mut part = PartialFile::begin(path, existing)?;
    let mut writer = BufWriter::new(part.file.as_file_mut());
    let filled = fill(&mut writer).and_then(|()| writer.flush());
    drop(writer);
    filled.map_err(|error| part.failed(error))?;
    part.finish()
}

/// A file that is written piece by piece, as by [`write_whole`]. Without [`Self::finish`] it leaves nothing
/// behind.
#[derive(Debug)]
pub struct PartialFile {
    file: NamedTempFile,
    path: PathBuf,
    target: PathBuf,
    existing: Existing,
}

impl PartialFile {
    /// Begins the file `path`.
    ///
    /// # Errors
    /// The errors of [`check_target`].
    pub fn begin(path: &Path, existing: Existing) -> Result<Self, Error> {
        check_target(path, existing)?;
        let target = followed(path)?.into_owned();
        let mut builder = tempfile::Builder::new();
        builder.prefix(".acestep-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let path = path.to_owned();
        match builder.tempfile_in(folder_of(&target)) {
            Ok(file) => Ok(Self { file, path, target, existing }),
            Err(error) => {
                let source = nameless(&error);
                Err(Error::File { action: Action::Create, path, source })
            }
        }
    }

    /// The place of the unfinished file.
    pub fn place(&self) -> &Path {
        self.file.path()
    }

    /// Opens the file a second time.
    pub(crate) fn open(&self) -> io::Result<File> {
        self.file.as_file().try_clone()
    }

    /// Creates an empty file on the same disk that has no name.
    pub(crate) fn spare(&self) -> io::Result<File> {
        tempfile::tempfile_in(folder_of(&self.target))
    }

    /// Returns the error of a write that failed.
    pub(crate) fn failed(&self, source: io::Error) -> Error {
        Error::File { action: Action::Write, path: self.path.clone(), source }
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The errors of [`write_whole`].
    pub fn finish(self) -> Result<(), Error> {
        // Without this, a full disk may be noticed only after the rename.
        self.file.as_file().sync_all().map_err(|error| self.failed(error))?;
        let Self { file, path, target, existing } = self;
        let renamed = match existing {
            Existing::Replace => file.persist(&target),
            Existing::Keep => file.persist_noclobber(&target),
        };
        let Err(PersistError { error: source, file }) = renamed else { return Ok(()) };
        let cause = match source.kind() {
            io::ErrorKind::AlreadyExists => Error::AlreadyExists { path },
            _ => Error::File { action: Action::Write, path, source },
        };
        // The file may be minutes of work, so it is kept under another name.
        Err(match keep(file, &target) {
            Some(kept) => Error::Elsewhere { kept, cause: Box::new(cause) },
            None => cause,
        })
    }
}

/// Keeps a finished file that could not be renamed: beside the target as `song-2.wav`, or else in
/// the folder of temporary files.
fn keep(mut part: NamedTempFile, target: &Path) -> Option<PathBuf> {
    let stem = target.file_stem()?.to_string_lossy().into_owned();
    let extension = target.extension().map(|of| format!(".{}", of.to_string_lossy()));
    let extension = extension.unwrap_or_default();
    for number in 2..100 {
        let path = target.with_file_name(format!("{stem}-{number}{extension}"));
        match part.persist_noclobber(&path) {
            Ok(_) => return Some(path),
            Err(PersistError { error, file }) => {
                part = file;
                if error.kind() != io::ErrorKind::AlreadyExists {
                    break;
                }
            }
        }
    }
    let mut copy =
        tempfile::Builder::new().prefix("acestep-").suffix(&extension).tempfile().ok()?;
    io::copy(&mut part.reopen().ok()?, copy.as_file_mut()).ok()?;
    copy.keep().ok().map(|(_, path)| path)
}

/// Checks, before any work is done, that `path` can be written.
///
/// # Errors
/// The errors of [`write_whole`], as far as they are known without writing.
pub fn check_target(path: &Path, existing: Existing) -> Result<(), Error> {
    match path.metadata() {
        Ok(found) if found.is_dir() => return Err(Error::IsDirectory { path: path.to_owned() }),
        Ok(found) if !found.is_file() => return Err(Error::NotAFile { path: path.to_owned() }),
        _ => (),
    }
    if existing == Existing::Keep && path.symlink_metadata().is_ok() {
        return Err(Error::AlreadyExists { path: path.to_owned() });
    }
    let path = &*followed(path)?;
    let file_error = |source| Error::File { action: Action::Create, path: path.to_owned(), source };
    if path.file_name().is_none() {
        return Err(file_error(io::Error::new(io::ErrorKind::InvalidInput, "no file name")));
    }
    // `Path` ignores the separator of `new/`, but the system does not, at the end of the work.
    if path.to_string_lossy().ends_with(std::path::is_separator) {
        let source = io::Error::new(io::ErrorKind::IsADirectory, "this is the name of a folder");
        return Err(file_error(source));
    }
    // A name may be too long for the file system.
    if let Err(source) = path.symlink_metadata()
        && source.kind() == io::ErrorKind::InvalidFilename
    {
        return Err(file_error(source));
    }
    try_name(path).map_err(file_error)?;
    let folder = folder_of(path);
    if !folder.metadata().map_err(file_error)?.is_dir() {
        return Err(file_error(io::ErrorKind::NotADirectory.into()));
    }
    // Permission bits do not show read-only mounts or the rights of root, so a file is created.
    tempfile::Builder::new()
        .prefix(".acestep-")
        .tempfile_in(folder)
        .map_err(|e| file_error(nameless(&e)))?;
    Ok(())
}

/// Characters that FAT, exFAT and NTFS reject in a name.
const REFUSED_BY_SOME: [char; 8] = ['"', '*', ':', '<', '>', '?', '\\', '|'];

/// True for a name that Windows does not give to a file: of a device, or of a stream of another file,
/// which it creates.
fn is_lost_on_windows(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let is_port =
        |of: &str| stem.strip_prefix(of).is_some_and(|n| matches!(n.as_bytes(), [b'1'..=b'9']));
    name.contains(':')
        || ["aux", "con", "nul", "prn"].contains(&&*stem)
        || is_port("com")
        || is_port("lpt")
}

/// Creates and removes an empty file if some file systems reject its name, because only a try shows
/// if this one does. Other names are not tried.
fn try_name(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if cfg!(windows) && is_lost_on_windows(&name) {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    let is_refused_by_some =
        name.contains(|c: char| REFUSED_BY_SOME.contains(&c) || c.is_control());
    if !is_refused_by_some || path.symlink_metadata().is_ok() {
        return Ok(());
    }
    match File::create_new(path) {
        Ok(_) => fs::remove_file(path),
        // Another run created it first, so the name is valid.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // The folder is missing or not writable, which `check_target` reports later.
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Ok(()),
        Err(error) => Err(error),
    }
}

/// Resolves `path` if it is a symbolic link.
fn followed(path: &Path) -> Result<Cow<'_, Path>, Error> {
    if !path.is_symlink() {
        return Ok(path.into());
    }
    let error = |source| Error::File { action: Action::Create, path: path.to_owned(), source };
    Ok(fs::canonicalize(path).map_err(error)?.into())
}

/// Returns the error without the name of the temporary file, which the user does not know.
fn nameless(error: &io::Error) -> io::Error {
    error.kind().into()
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static [u8]) -> impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()> {
        move |w| w.write_all(text)
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .expect("a folder")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_waits_for_its_writer_but_not_for_ever() {
        let folder = tempfile::tempdir().expect("a folder");
        let [pipe, other] = ["pipe", "other"].map(|name| folder.path().join(name));
        let made = std::process::Command::new("mkfifo").args([&pipe, &other]).status();
        assert!(made.expect("a Unix").success());
        let error = open_within(&pipe, Duration::from_millis(50)).expect_err("no writer");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let error = Error::File { action: Action::Read, path: pipe, source: error };
        assert!(error.hint().expect("a hint").contains("writes to it"), "{error}");
        // Another pipe: the reader that gave up still waits at the first one.
        let own = other.clone();
        let writer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            fs::write(own, "late")
        });
        assert_eq!(read(&other).expect("a text"), b"late");
        writer.join().expect("no panic").expect("written");
        let file = folder.path().join("file");
        fs::write(&file, "text").expect("written");
        assert_eq!(read(&file).expect("a text"), b"text");
        assert_eq!(read_within(&file, 4).expect("a text"), b"text");
        for path in [&*file, Path::new("/dev/zero")] {
            let error = read_within(path, 3).expect_err("too large");
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        }
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let result = write_whole(&folder.path().join("a"), Existing::Keep, |w| {
            w.write_all(&[0; 100_000]).expect("writes");
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(matches!(result, Err(Error::File { action: Action::Write, .. })));
        assert!(names(folder.path()).is_empty());
    }

    /// Linux file systems accept these names; exFAT returns `InvalidInput`.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_other_systems_refuse_is_tried_and_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a:b.wav", "what?.wav", "<x>|*.wav", "a\\b.wav", "a\nb.wav"] {
            check_target(&folder.path().join(name), Existing::Keep).expect("a name of Linux");
        }
        assert!(names(folder.path()).is_empty());
        let error = try_name(&folder.path().join("a:\0.wav")).expect_err("a name of no system");
        let error = Error::File { action: Action::Create, path: "a".into(), source: error };
        assert!(error.hint().expect("a hint").contains("choose another name"), "{error}");
    }

    #[test]
    fn names_of_devices_and_streams_are_none_of_files_on_windows() {
        for name in ["a:b.wav", "NUL", "nul.wav", "Con .tar.gz", "com1.wav", "LPT9"] {
            assert!(is_lost_on_windows(name), "{name}");
        }
        for name in ["song.wav", "nul_1.wav", "console.wav", "com.wav", "com0", "lpt10", ".nul"] {
            assert!(!is_lost_on_windows(name), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_of_ours_has_the_permissions_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        write_whole(&ours, Existing::Keep, bytes(b"x")).expect("written");
        fs::write(&plain, b"x").expect("written");
        let mode = |p: &Path| p.metadata().expect("exists").permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_its_target_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let (link, target) = (folder.path().join("link"), folder.path().join("deep/target"));
        fs::create_dir(folder.path().join("deep")).expect("a folder");
        fs::write(&target, b"old").expect("written");
        std::os::unix::fs::symlink("deep/target", &link).expect("a link");
        let kept = write_whole(&link, Existing::Keep, bytes(b"new"));
        assert!(matches!(kept, Err(Error::AlreadyExists { .. })));
        write_whole(&link, Existing::Replace, bytes(b"new")).expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).expect("readable"), b"new");
        assert_eq!(names(&folder.path().join("deep")), ["target"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_and_a_socket_are_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        for path in [Path::new("/dev/null"), &socket] {
            for existing in [Existing::Keep, Existing::Replace] {
                let error = check_target(path, existing).expect_err("no file");
                assert!(matches!(error, Error::NotAFile { .. }), "{error}");
                assert!(error.hint().expect("a hint").contains("name a file"));
            }
        }
    }

    #[test]
    fn a_name_that_ends_like_a_folder_is_refused_before_any_work() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new/");
        let error = check_target(&path, Existing::Keep).expect_err("a folder's name");
        assert_eq!(error.hint().as_deref(), Some("name a file in it"));
    }

    /// Another run takes the names while this one works.
    #[test]
    fn a_file_whose_name_is_taken_meanwhile_is_kept_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let taken = |w: &mut BufWriter<&mut File>| {
            fs::write(path("a.wav"), "another's").expect("a file");
            fs::write(path("a-2.wav"), "another's").expect("a file");
            w.write_all(b"mine")
        };
        let error = write_whole(&path("a.wav"), Existing::Keep, taken).expect_err("taken");
        let Error::Elsewhere { kept, cause } = error else { panic!("{error}") };
        assert_eq!(kept, path("a-3.wav"));
        assert!(matches!(*cause, Error::AlreadyExists { .. }));
        assert_eq!(fs::read(kept).expect("kept"), b"mine");
        assert_eq!(fs::read(path("a.wav")).expect("another's"), b"another's");
        assert_eq!(names(folder.path()), ["a-2.wav", "a-3.wav", "a.wav"]);
    }
}
