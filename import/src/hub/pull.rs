//! All files of some models: planned, fetched, checked, pinned at once.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Hub, HubError, Piece, Pins, Remote, RemoteFile, Wanted,
    remote::Listing,
    wanted::{MAIN, total},
};
use crate::KnownModel;

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
