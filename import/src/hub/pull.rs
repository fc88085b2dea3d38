//! All files of some models: planned, fetched, checked, pinned.

use std::{collections::BTreeMap, fs, io, path::Path, thread, time::Duration};

use super::{
    Hub, HubError, Piece, Pin, Pins, Remote, RemoteFile,
    pins::PinnedFile,
    remote::{Failure, Listing},
};
use crate::KnownModel;

/// The branch that is pulled unless another is named.
const MAIN: &str = "main";
/// How often one file is tried before nothing more of it comes.
const ATTEMPTS: u32 = 5;
/// The first pause between two attempts; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(500);
/// What an attempt has to receive to count as the first.
const PROGRESS: u64 = 1 << 20;

/// What is to be fetched.
#[derive(Debug)]
pub struct Pull {
    /// By directory.
    pub wanted: Vec<Wanted>,
    /// The companions that are here already, by name, and stay as they are.
    pub kept: Vec<&'static str>,
}

/// The files of one directory at one commit.
#[derive(Debug)]
pub struct Wanted {
    /// The directory.
    pub piece: Piece,
    /// The commit.
    pub revision: String,
    /// What it holds that is read.
    pub files: Vec<RemoteFile>,
    /// Whether that is the newest of the branch that everybody takes.
    is_main: bool,
}

/// What happens while files are fetched.
#[derive(Debug)]
pub enum Event<'a> {
    /// A file is begun, of which some bytes are here.
    Begun {
        /// Its path in the repository.
        file: &'a RemoteFile,
        /// Bytes that an earlier run received.
        here: u64,
    },
    /// So many bytes more were received.
    Received(u64),
    /// It is tried again.
    Again {
        /// The file.
        file: &'a RemoteFile,
        /// Why.
        why: String,
    },
    /// A file is here, and is now compared with its checksum.
    Checking(&'a RemoteFile),
    /// So many bytes more were compared.
    Compared(u64),
    /// A file was here, but damaged: it is fetched anew.
    WasDamaged(&'a RemoteFile),
    /// A file is here and whole.
    Whole {
        /// The file.
        file: &'a RemoteFile,
        /// Whether it was fetched now.
        fetched: bool,
    },
}

impl Pull {
    /// Asks the hub what `models` are made of. `revision` is that of the models themselves; what
    /// they share is of the main branch, and left as it is if `is_here` says that it is here.
    ///
    /// # Errors
    /// Those of the connection; [`HubError::NotFound`] for a repository without the directory.
    pub fn plan(
        remote: &Remote,
        models: &[&KnownModel],
        revision: Option<&str>,
        is_here: &dyn Fn(&Piece) -> bool,
    ) -> Result<Self, HubError> {
        let mut pull = Self { wanted: vec![], kept: vec![] };
        // A repository is asked once for all its directories, so that they are of one commit.
        let mut repositories: BTreeMap<(&str, &str), Vec<Piece>> = BTreeMap::new();
        for model in models {
            let own = model.piece();
            for piece in model.pieces() {
                let is_companion = piece != own;
                if is_companion && piece.repo != own.repo && is_here(&piece) {
                    if !pull.kept.contains(&piece.directory) {
                        pull.kept.push(piece.directory);
                    }
                    continue;
                }
                let of_model = piece.repo == own.repo;
                let revision = revision.filter(|_| of_model).unwrap_or(MAIN);
                let pieces = repositories.entry((piece.repo, revision)).or_default();
                if !pieces.contains(&piece) {
                    pieces.push(piece);
                }
            }
        }
        for ((repo, revision), pieces) in repositories {
            let is_read = |path: &str| pieces.iter().any(|piece| piece.name_of(path).is_some());
            let Listing { commit, files } = remote.list(repo, revision, is_read)?;
            for piece in pieces {
                let of_piece = |file: &&RemoteFile| piece.name_of(&file.path).is_some();
                let files: Vec<_> = files.iter().filter(of_piece).cloned().collect();
                let has = |ending: &str| files.iter().any(|file| file.path.ends_with(ending));
                if !has("config.json") || !has(".safetensors") {
                    let what = format!("model `{}` at `{revision}`", piece.directory);
                    return Err(HubError::NotFound { repo: repo.to_owned(), what });
                }
                let (revision, is_main) = (commit.clone(), revision == MAIN);
                pull.wanted.push(Wanted { piece, revision, files, is_main });
            }
        }
        // The models in the order in which they were asked for.
        let order: Vec<_> = models.iter().flat_map(|model| model.pieces()).collect();
        pull.wanted.sort_by_key(|wanted| order.iter().position(|piece| *piece == wanted.piece));
        Ok(pull)
    }

    /// Bytes of all files.
    pub fn size(&self) -> u64 {
        self.wanted.iter().map(Wanted::size).sum()
    }

    /// Bytes that are not in the cache yet.
    pub fn missing(&self, hub: &Hub) -> u64 {
        self.wanted.iter().map(|wanted| wanted.missing(hub)).sum()
    }

    /// Fetches what is missing, checks everything, and pins it. What was received before an error
    /// or a kill is kept, and the next run goes on there.
    ///
    /// # Errors
    /// Those of the connection and of the disk; [`HubError::Damaged`].
    pub fn run(
        &self,
        hub: &Hub,
        remote: &Remote,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), HubError> {
        // What cannot be read is told before hours of fetching.
        let mut pins = Pins::read(&hub.models_dir)?;
        for wanted in &self.wanted {
            for file in &wanted.files {
                wanted.file(file, hub, remote, watch)?;
            }
            wanted.refer(hub)?;
            pins.put(&wanted.piece, wanted.pin());
            pins.write(&hub.models_dir)?;
        }
        Ok(())
    }
}

impl Wanted {
    /// Bytes of its files.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// Bytes of it that are not in the cache yet.
    pub fn missing(&self, hub: &Hub) -> u64 {
        let repo = self.piece.repo;
        let here = |file: &RemoteFile| match length(&hub.blob(repo, &file.checksum)) {
            Some(here) if here == file.size => here,
            _ => length(&hub.part(repo, &file.checksum)).unwrap_or(0).min(file.size),
        };
        self.files.iter().map(|file| file.size - here(file)).sum()
    }

    /// Makes sure that `file` is here and whole, and named in the commit.
    fn file(
        &self,
        file: &RemoteFile,
        hub: &Hub,
        remote: &Remote,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), HubError> {
        let repo = self.piece.repo;
        let blob = hub.blob(repo, &file.checksum);
        let link = hub.snapshot(repo, &self.revision).join(&file.path);
        // A name that leads nowhere would stand in the way of a new one.
        if link.symlink_metadata().is_ok() && !link.exists() {
            on(&link, fs::remove_file(&link))?;
        }
        let part = hub.part(repo, &file.checksum);
        if blob.is_file() {
            if is_whole(file, &blob, watch)? {
                on(&link, name(&link, &blob))?;
                watch(Event::Whole { file, fetched: false });
                return Ok(());
            }
            watch(Event::WasDamaged(file));
            on(&blob, fs::remove_file(&blob))?;
            discard(&link);
        }
        match length(&part) {
            // Killed between the last byte and its new name.
            Some(here) if here == file.size => {
                on(&blob, fs::rename(&part, &blob))?;
                on(&link, name(&link, &blob))?;
            }
            Some(here) if here > file.size => {
                on(&part, fs::remove_file(&part))?;
                self.receive(file, hub, remote, watch)?;
            }
            _ => self.receive(file, hub, remote, watch)?,
        }
        if !is_whole(file, &blob, watch)? {
            discard(&blob);
            discard(&link);
            return Err(HubError::Damaged {
                repo: repo.to_owned(),
                file: file.path.clone(),
                expected: file.checksum.to_string(),
            });
        }
        watch(Event::Whole { file, fetched: true });
        Ok(())
    }

    /// Fetches `file`, as often as it takes and makes sense.
    fn receive(
        &self,
        file: &RemoteFile,
        hub: &Hub,
        remote: &Remote,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), HubError> {
        let repo = self.piece.repo;
        let part = hub.part(repo, &file.checksum);
        let (mut attempt, mut pause) = (1, PAUSE);
        loop {
            let here = length(&part).unwrap_or(0);
            watch(Event::Begun { file, here });
            // The first that is told of is what was here before.
            let mut is_first = here > 0;
            let mut received = |bytes| {
                if !std::mem::take(&mut is_first) && bytes > 0 {
                    watch(Event::Received(bytes));
                }
            };
            let failure = match remote.fetch(repo, &self.revision, &file.path, &mut received) {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            let why = match failure {
                Failure::Final(error) => return Err(error),
                Failure::Disk(source) => return Err(HubError::Disk { path: part, source }),
                Failure::Passing(why) => why,
            };
            if length(&part).unwrap_or(0) >= here + PROGRESS {
                (attempt, pause) = (0, PAUSE);
            }
            if attempt >= ATTEMPTS {
                let file = file.path.clone();
                return Err(HubError::Broken { file, attempts: attempt, source: why });
            }
            watch(Event::Again { file, why: why.to_string() });
            thread::sleep(pause);
            (attempt, pause) = (attempt + 1, pause * 2);
        }
    }

    /// Leaves the references as all programs expect them.
    fn refer(&self, hub: &Hub) -> Result<(), HubError> {
        let refs = hub.repository(self.piece.repo).join("refs");
        // hf-hub writes one of the commit's own name.
        discard(&refs.join(&self.revision));
        if self.is_main {
            let main = refs.join(MAIN);
            on(&main, fs::create_dir_all(&refs).and_then(|()| fs::write(&main, &self.revision)))?;
        }
        Ok(())
    }

    fn pin(&self) -> Pin {
        let file = |file: &RemoteFile| {
            let name = self.piece.name_of(&file.path)?.to_owned();
            Some((name, PinnedFile { size: file.size, checksum: file.checksum.clone() }))
        };
        Pin {
            repo: self.piece.repo.to_owned(),
            revision: self.revision.clone(),
            files: self.files.iter().filter_map(file).collect(),
        }
    }
}

/// Whether the file at `blob` is what was published.
fn is_whole(
    file: &RemoteFile,
    blob: &Path,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<bool, HubError> {
    if length(blob) != Some(file.size) {
        return Ok(false);
    }
    watch(Event::Checking(file));
    let matches = file.checksum.matches(blob, &mut |bytes| {
        watch(Event::Compared(bytes));
        Ok(())
    });
    on(blob, matches)
}

/// The length of a file, if it is one.
fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|file| file.len())
}

/// Gives `blob` the name `link`, by a path that holds wherever the cache is.
pub(super) fn name(link: &Path, blob: &Path) -> io::Result<()> {
    if link.exists() {
        return Ok(());
    }
    let Some(directory) = link.parent() else { return Ok(()) };
    fs::create_dir_all(directory)?;
    #[cfg(unix)]
    {
        // Both lie below the repository's directory.
        let above = directory.ancestors().take_while(|above| !blob.starts_with(above)).count();
        let mut target = std::path::PathBuf::from_iter(std::iter::repeat_n("..", above));
        target.extend(blob.components().skip(directory.components().count() - above));
        std::os::unix::fs::symlink(target, link)
    }
    #[cfg(not(unix))]
    fs::hard_link(blob, link).or_else(|_| fs::copy(blob, link).map(drop))
}

/// Deletes what may not be there, and is of no use.
fn discard(path: &Path) {
    drop(fs::remove_file(path));
}

/// An error of the disk with its place.
pub(super) fn on<T>(path: &Path, result: io::Result<T>) -> Result<T, HubError> {
    result.map_err(|source| HubError::Disk { path: path.to_owned(), source })
}
