//! Files that appear whole or not at all: written beside their place, then renamed into it.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use crate::Error;

/// Writes `path` through `fill`; an interrupted or failed write leaves nothing behind.
///
/// An existing file is replaced only if `replace`. Permissions are those of any new file
/// (`0o666` less the umask), not the private ones of a temporary file.
///
/// # Errors
/// [`Error::IsDirectory`], [`Error::AlreadyExists`], [`Error::File`], or what `fill` says.
pub fn write_whole(
    path: &Path,
    replace: bool,
    fill: impl FnOnce(&mut BufWriter<&mut File>) -> Result<(), Error>,
) -> Result<(), Error> {
    check_target(path, replace)?;
    let file_error = |action, source| Error::File { action, path: path.to_owned(), source };

    let mut builder = tempfile::Builder::new();
    builder.prefix(".acestep-").suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut part =
        builder.tempfile_in(folder_of(path)).map_err(|e| file_error("create", nameless(&e)))?;
    let mut writer = BufWriter::new(part.as_file_mut());
    fill(&mut writer)?;
    writer.flush().map_err(|e| file_error("write", e))?;
    drop(writer);
    // Without this a full disk may be noticed only after the rename.
    part.as_file().sync_all().map_err(|e| file_error("write", e))?;

    let renamed = if replace { part.persist(path) } else { part.persist_noclobber(path) };
    match renamed {
        Ok(_) => Ok(()),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::AlreadyExists { path: path.to_owned() })
        }
        Err(e) => Err(file_error("write", e.error)),
    }
}

/// Says before any work is done whether `path` could be written.
///
/// # Errors
/// As [`write_whole`], as far as can be known without writing.
pub fn check_target(path: &Path, replace: bool) -> Result<(), Error> {
    if path.is_dir() {
        return Err(Error::IsDirectory { path: path.to_owned() });
    }
    if !replace && path.symlink_metadata().is_ok() {
        return Err(Error::AlreadyExists { path: path.to_owned() });
    }
    let file_error = |source| Error::File { action: "create", path: path.to_owned(), source };
    if path.file_name().is_none() {
        return Err(file_error(io::Error::new(io::ErrorKind::InvalidInput, "no file name")));
    }
    let folder = folder_of(path);
    if !folder.metadata().map_err(file_error)?.is_dir() {
        return Err(file_error(io::ErrorKind::NotADirectory.into()));
    }
    // The permission bits say nothing about read-only mounts or rights of root: only trying does.
    tempfile::Builder::new()
        .prefix(".acestep-")
        .tempfile_in(folder)
        .map_err(|e| file_error(nameless(&e)))?;
    Ok(())
}

/// The same error without the name of the temporary file, which means nothing to a reader.
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

    fn bytes(text: &'static [u8]) -> impl FnOnce(&mut BufWriter<&mut File>) -> Result<(), Error> {
        move |w| {
            w.write_all(text).expect("writes to a buffer");
            Ok(())
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_existing_file_is_replaced_only_on_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        write_whole(&path, false, bytes(b"one")).expect("the first write");
        assert!(matches!(
            write_whole(&path, false, bytes(b"two")),
            Err(Error::AlreadyExists { .. })
        ));
        assert_eq!(std::fs::read(&path).expect("readable"), b"one");
        write_whole(&path, true, bytes(b"two")).expect("a replacement");
        assert_eq!(std::fs::read(&path).expect("readable"), b"two");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let result = write_whole(&folder.path().join("a"), false, |w| {
            w.write_all(&[0; 100_000]).expect("writes");
            Err(Error::Cancelled)
        });
        assert!(matches!(result, Err(Error::Cancelled)));
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_directory_as_output_names_it_and_says_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = write_whole(folder.path(), true, bytes(b"x")).expect_err("a directory");
        assert_eq!(
            error.to_string(),
            format!("cannot write `{}`: it is a directory", folder.path().display())
        );
        assert!(error.hint().expect("a hint").ends_with("song.wav`"));
    }

    #[test]
    fn a_missing_folder_is_told_before_any_work() {
        let error =
            check_target(Path::new("/nonexistent/folder/a.wav"), false).expect_err("missing");
        assert_eq!(error.to_string(), "cannot create `/nonexistent/folder/a.wav`");
        assert_eq!(error.hint().as_deref(), Some("check the path; its folder must exist"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_of_ours_has_the_permissions_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        write_whole(&ours, false, bytes(b"x")).expect("written");
        std::fs::write(&plain, b"x").expect("written");
        let mode = |p: &Path| p.metadata().expect("exists").permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }

    #[test]
    fn a_full_disk_has_a_hint() {
        let source = io::Error::from(io::ErrorKind::StorageFull);
        let error = Error::File { action: "write", path: "/tmp/a.wav".into(), source };
        assert_eq!(
            error.hint().as_deref(),
            Some("free some space, or choose another disk with --output")
        );
    }
}
