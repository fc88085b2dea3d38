//! Download of one file: it continues after the received part, takes no more than the announced
//! size, and locks out other runs.
//!
//! hf-hub's own transfer takes paths on the disk from the server's answer and appends everything
//! that arrives. It also has no timeout, and sends the token to every redirect: see ADR 0011.

use std::{
    error::Error,
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use super::{HubError, Remote, RemoteFile, disk::is_of_another, remote::is_passing};

/// Reason why one attempt at a file failed.
pub(super) enum Failure {
    /// Another attempt may succeed.
    Passing(Box<dyn Error + Send + Sync>),
    /// The disk refused.
    Disk(io::Error),
    /// Another attempt would fail too.
    Final(HubError),
}

impl Remote {
    /// Downloads the missing rest of `file`, a file of `repo` at `commit`, into `part`.
    pub(super) fn fetch(
        &self,
        repo: &str,
        commit: &str,
        file: &RemoteFile,
        part: &Path,
        received: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let mut out = open(part, file)?;
        let here = out.seek(SeekFrom::End(0)).map_err(Failure::Disk)?;
        if here == file.size {
            return Ok(());
        }
        let url = self.url(repo, commit, &file.path);
        let ask = || {
            // A range of compressed content is not a range of the file.
            let range = format!("bytes={here}-");
            let request = self.agent.get(&url).header("Range", range);
            let request = request.header("Accept-Encoding", "identity");
            match self.token() {
                Some(token) => request.header("Authorization", format!("Bearer {token}")).call(),
                None => request.call(),
            }
        };
        let answer = match ask() {
            Err(ureq::Error::StatusCode(401 | 403 | 404)) if self.sends_token() => ask(),
            answer => answer,
        };
        let answer = answer.map_err(|error| match is_passing(&error) {
            true => Failure::Passing(Box::new(error)),
            false => {
                let what = format!("file `{}` at this commit", file.path);
                Failure::Final(self.refused(error, repo, what))
            }
        })?;
        let range = answer.headers().get("Content-Range").and_then(|range| range.to_str().ok());
        let begins = range.and_then(|range| range.strip_prefix("bytes ")?.split('-').next());
        let continues = begins.and_then(|begin| begin.parse().ok()) == Some(here);
        if !continues {
            // The server does not support ranges and sends the whole file.
            out.set_len(0).and_then(|()| out.rewind()).map_err(Failure::Disk)?;
        }
        let here = if continues { here } else { 0 };
        let body = answer.into_body().into_reader();
        self.write(body, file, here, &mut out, received)
    }

    fn write(
        &self,
        mut body: impl Read,
        file: &RemoteFile,
        mut here: u64,
        out: &mut File,
        received: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) if here == file.size => return Ok(()),
                Ok(0) => {
                    let text = "the connection ended early";
                    return Err(Failure::Passing(text.into()));
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::Passing(Box::new(error))),
            };
            here += count as u64;
            if here > file.size {
                // The content cannot be the published file.
                out.set_len(0).map_err(Failure::Disk)?;
                let reason = format!("it sends more of `{}` than it announced", file.path);
                let endpoint = self.endpoint().to_owned();
                return Err(Failure::Final(HubError::NoHub { endpoint, reason }));
            }
            out.write_all(&buffer[..count]).map_err(Failure::Disk)?;
            received(count as u64);
        }
    }
}

/// Opens and locks the part of `file`.
fn open(part: &Path, file: &RemoteFile) -> Result<File, Failure> {
    let open = || {
        part.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        // Windows neither locks nor cuts a file that is opened to append.
        OpenOptions::new().create(true).truncate(false).write(true).open(part)
    };
    let out = open().map_err(Failure::Disk)?;
    match is_of_another(out.try_lock()) {
        false => Ok(out),
        true => Err(Failure::Final(HubError::Locked { file: file.path.clone() })),
    }
}
