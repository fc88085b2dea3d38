//! All files of some models: planned, fetched, checked, pinned.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
    thread,
    time::Duration,
};

use super::{
    Hub, HubError, Piece, Pin, Pins, Remote, RemoteFile, pins::PinnedFile, remote::Listing,
    transfer::Failure,
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
    /// What is here already, and stays as it is.
    pub kept: Vec<Piece>,
}

/// Whether a directory is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here {
    /// It is not, or not whole.
    No,
    /// In the cache.
    InCache,
    /// Put somewhere by hand, where it is found first.
    Elsewhere,
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
    /// they share is of the main branch. What `here` says is elsewhere is left there.
    ///
    /// # Errors
    /// Those of the connection; [`HubError::NotFound`] for a repository without the directory.
    pub fn plan(
        remote: &Remote,
        models: &[&KnownModel],
        revision: Option<&str>,
        here: &dyn Fn(&Piece) -> Here,
    ) -> Result<Self, HubError> {
        let mut pull = Self { wanted: vec![], kept: vec![] };
        // What was asked for by name is not what only comes along.
        let is_own = |piece: &Piece| {
            models.iter().any(|model| model.piece() == *piece)
                && matches!(here(piece), Here::InCache | Here::No)
        };
        // A repository is asked once for all its directories, so that they are of one commit.
        let mut repositories: BTreeMap<(&str, &str), Vec<Piece>> = BTreeMap::new();
        for model in models {
            let own = model.piece();
            for piece in model.pieces() {
                // One commit for all that is of one repository; and nothing for what lies elsewhere.
                let stays = match here(&piece) {
                    Here::Elsewhere => true,
                    Here::InCache => piece != own && piece.repo != own.repo,
                    Here::No => false,
                };
                if stays && !is_own(&piece) {
                    if !pull.kept.contains(&piece) {
                        pull.kept.push(piece);
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
        // What one model brings anew is not kept for another.
        pull.kept.retain(|piece| pull.wanted.iter().all(|wanted| wanted.piece != *piece));
        // The models in the order in which they were asked for.
        let order: Vec<_> = models.iter().flat_map(|model| model.pieces()).collect();
        pull.wanted.sort_by_key(|wanted| order.iter().position(|piece| *piece == wanted.piece));
        Ok(pull)
    }

    /// Bytes of all files.
    pub fn size(&self) -> u64 {
        total(self.wanted.iter().map(Wanted::size))
    }

    /// Bytes that are not in the cache yet.
    pub fn missing(&self, hub: &Hub) -> u64 {
        total(self.wanted.iter().map(|wanted| wanted.missing(hub)))
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
        // What cannot be read or written is told before hours of fetching.
        Pins::change(hub, |_| ())?;
        let repos: BTreeSet<_> = self.wanted.iter().map(|wanted| wanted.piece.repo).collect();
        let _locks = repos.into_iter().map(|repo| hub.lock(repo)).collect::<Result<Vec<_>, _>>()?;
        for wanted in &self.wanted {
            for file in &wanted.files {
                wanted.file(file, hub, remote, watch)?;
            }
        }
        // Nothing is used before all of it is here: of half an update nothing is.
        for wanted in &self.wanted {
            wanted.name(hub)?;
        }
        Pins::change(hub, |pins| {
            for wanted in &self.wanted {
                pins.put(&wanted.piece, wanted.pin(hub));
            }
        })
    }
}

/// A sum that a hub with nonsense for sizes does not make small.
fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

impl Wanted {
    /// Bytes of its files.
    pub fn size(&self) -> u64 {
        total(self.files.iter().map(|file| file.size))
    }

    /// Bytes of it that are not in the cache yet.
    pub fn missing(&self, hub: &Hub) -> u64 {
        let repo = self.piece.repo;
        let named = |file: &RemoteFile| hub.snapshot(repo, &self.revision).join(&file.path);
        let here = |file: &RemoteFile| match length(&hub.blob(repo, &file.checksum)) {
            Some(here) if here == file.size => here,
            // Of programs without links.
            None if length(&named(file)) == Some(file.size) => file.size,
            _ => length(&hub.part(repo, &file.checksum)).unwrap_or(0).min(file.size),
        };
        total(self.files.iter().map(|file| file.size - here(file)))
    }

    /// Makes sure that `file` is here and whole.
    fn file(
        &self,
        file: &RemoteFile,
        hub: &Hub,
        remote: &Remote,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), HubError> {
        let repo = self.piece.repo;
        let (blob, part) = (hub.blob(repo, &file.checksum), hub.part(repo, &file.checksum));
        let link = hub.snapshot(repo, &self.revision).join(&file.path);
        // Programs without links keep the file itself under its name.
        let is_file = |path: &Path| path.symlink_metadata().is_ok_and(|of| of.is_file());
        if !blob.exists() && is_file(&link) && is_whole(file, &link, watch)? {
            on(&blob, blob.parent().map_or(Ok(()), fs::create_dir_all))?;
            on(&link, fs::rename(&link, &blob))?;
        }
        if blob.is_file() {
            if is_whole(file, &blob, watch)? {
                watch(Event::Whole { file, fetched: false });
                return Ok(());
            }
            watch(Event::WasDamaged(file));
            on(&blob, fs::remove_file(&blob))?;
        }
        if length(&part).is_some_and(|here| here > file.size) {
            on(&part, fs::remove_file(&part))?;
        }
        self.receive(file, hub, remote, watch)?;
        if !is_whole(file, &part, watch)? {
            on(&part, fs::remove_file(&part))?;
            return Err(HubError::Damaged {
                repo: repo.to_owned(),
                file: file.path.clone(),
                expected: file.checksum.to_string(),
            });
        }
        on(&blob, fs::rename(&part, &blob))?;
        watch(Event::Whole { file, fetched: true });
        Ok(())
    }

    /// Names every file in its commit, and the commit as the newest, as all programs expect it.
    fn name(&self, hub: &Hub) -> Result<(), HubError> {
        let repo = self.piece.repo;
        for file in &self.files {
            let link = hub.snapshot(repo, &self.revision).join(&file.path);
            let blob = hub.blob(repo, &file.checksum);
            on(&link, name(&link, &blob))?;
        }
        let refs = hub.repository(repo).join("refs");
        let main = refs.join(MAIN);
        let is_said = fs::read_to_string(&main).is_ok_and(|main| main.trim() == self.revision);
        if self.is_main && !is_said {
            on(&main, fs::create_dir_all(&refs).and_then(|()| fs::write(&main, &self.revision)))?;
        }
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
            let mut received = |bytes| watch(Event::Received(bytes));
            let fetched = remote.fetch(repo, &self.revision, file, &part, &mut received);
            let Err(failure) = fetched else { return Ok(()) };
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

    fn pin(&self, hub: &Hub) -> Pin {
        let file = |file: &RemoteFile| {
            let name = self.piece.name_of(&file.path)?.to_owned();
            let checksum = file.checksum.clone();
            // What is here: a list may be wrong about a length.
            let size = length(&hub.blob(self.piece.repo, &checksum)).unwrap_or(file.size);
            Some((name, PinnedFile { size, checksum }))
        };
        Pin {
            repo: self.piece.repo.to_owned(),
            revision: self.revision.clone(),
            files: self.files.iter().filter_map(file).collect(),
        }
    }
}

/// Whether the file at `path` is what was published. Its checksum alone says it: a list may be wrong
/// about a length.
fn is_whole(
    file: &RemoteFile,
    path: &Path,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<bool, HubError> {
    watch(Event::Checking(file));
    let matches = file.checksum.matches(path, &mut |bytes| {
        watch(Event::Compared(bytes));
        Ok(())
    });
    on(path, matches)
}

/// The length of a file, if it is one.
fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|file| file.len())
}

/// Gives `blob` the name `link`, by a path that holds wherever the cache is; where there are no links,
/// by a second name of the file, or a copy.
pub(super) fn name(link: &Path, blob: &Path) -> io::Result<()> {
    // A name that leads nowhere would be worse than none.
    fs::metadata(blob)?;
    let leads = |path: &Path| path.canonicalize().ok();
    if leads(link).is_some_and(|target| Some(target) == leads(blob)) {
        return Ok(());
    }
    let Some(directory) = link.parent() else { return Ok(()) };
    fs::create_dir_all(directory)?;
    // Another file, or nothing any more.
    if link.symlink_metadata().is_ok() {
        fs::remove_file(link)?;
    }
    let second = || fs::hard_link(blob, link).or_else(|_| fs::copy(blob, link).map(drop));
    #[cfg(unix)]
    {
        // Both lie below the repository's directory.
        let above = directory.ancestors().take_while(|above| !blob.starts_with(above)).count();
        let mut target = std::path::PathBuf::from_iter(std::iter::repeat_n("..", above));
        target.extend(blob.components().skip(directory.components().count() - above));
        std::os::unix::fs::symlink(target, link).or_else(|_| second())
    }
    #[cfg(not(unix))]
    second()
}

/// An error of the disk with its place.
pub(super) fn on<T>(path: &Path, result: io::Result<T>) -> Result<T, HubError> {
    result.map_err(|source| HubError::Disk { path: path.to_owned(), source })
}
