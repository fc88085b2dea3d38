//! The file of an adapter: its modules, each with what is added to its weight.
//!
//! Everything that can be said without a model is checked when it is opened: that each module is
//! whole and its shapes agree, and that every number is one.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;

use super::{
    AdapterError,
    key::{self, Key, Role},
    location::{self, Location},
    module::Module,
    settings::Settings,
};
use crate::{Directory, Error, Layout, Tensors, error::Names};

/// An adapter: changes for the weights of a diffusion transformer, whichever has them.
#[derive(Debug, Clone)]
pub struct Adapter {
    path: PathBuf,
    tensors: Arc<Tensors>,
    modules: Vec<Module>,
    /// Tensors that are no adapter's.
    spare: Vec<String>,
    unknown_settings: Vec<String>,
}

impl Adapter {
    /// Opens the adapter at `path`: a safetensors file, or a directory as PEFT writes it.
    ///
    /// # Errors
    /// [`Error::Adapter`] for what is absent, foreign, incomplete, contradictory or not built;
    /// those of a safetensors file that is cut or malformed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let Location { directory, file, settings } = location::locate(path)?;
        let tensors = Tensors::open_file(&directory, &file)?;
        let settings = match settings {
            Some((name, text)) => Settings::peft(&directory.path(name), &text)?,
            None => Settings::metadata(tensors.path(), &metadata(&directory, &file)?)?,
        };
        let path = tensors.path().to_owned();
        let mut groups = BTreeMap::<&str, BTreeMap<Role, String>>::new();
        let mut spare = Vec::new();
        for name in tensors.names() {
            match key::read(name) {
                Key::Of(module, role) => {
                    if role != Role::Alpha {
                        tensors.check_dtype(name)?;
                    }
                    let group = groups.entry(module).or_default();
                    if let Some(other) = group.insert(role, name.to_owned()) {
                        let reason = format!("`{other}` and `{name}` are the same");
                        let module = module.to_owned();
                        return Err(AdapterError::Broken { path, module, reason }.into());
                    }
                }
                Key::Refused(what) => {
                    let what = format!("{what} in `{name}`");
                    return Err(AdapterError::NotSupported { path, what }.into());
                }
                Key::Unknown => spare.push(name.to_owned()),
            }
        }
        if groups.is_empty() {
            let reason = foreign(&tensors);
            return Err(AdapterError::NotAnAdapter { path, reason }.into());
        }
        let modules = groups
            .into_iter()
            .map(|(name, group)| Module::new(name, &group, &tensors, &settings))
            .collect::<Result<Vec<_>, _>>()?;
        if settings.is_dora && !modules.iter().any(Module::has_lengths) {
            let reason = "`use_dora` is true, but no module has the lengths of DoRA".to_owned();
            return Err(AdapterError::BadSettings { path, reason }.into());
        }
        let this = Self {
            path,
            tensors: Arc::new(tensors),
            modules,
            spare,
            unknown_settings: settings.unknown,
        };
        this.check_values()?;
        Ok(this)
    }

    /// Opens the adapter that `name` names: a path, or a file or directory of `adapters/` in the models
    /// directory, whose `.safetensors` need not be written.
    ///
    /// # Errors
    /// As [`Adapter::open`].
    pub fn find(name: &str, layout: &Layout) -> Result<Self, Error> {
        Self::open(&location::find(name, layout)?)
    }

    /// What it is called: its file without the ending; of PEFT the directory.
    pub fn name(&self) -> String {
        let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let folder = |path: &Path| path.parent().and_then(Path::file_name).map(PathBuf::from);
        match stem(&self.path) {
            Some(name) if name == "adapter_model" => {
                folder(&self.path).map_or(name, |folder| folder.display().to_string())
            }
            name => name.unwrap_or_default(),
        }
    }

    /// The file of its tensors.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `LoRA`, `LoKr`, `LoHa`, several of them, and whether with DoRA.
    pub fn kind(&self) -> String {
        let kinds: BTreeSet<_> = self.modules.iter().map(|module| module.kind()).collect();
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(" and ");
        let with_lengths = self.modules.iter().filter(|module| module.has_lengths()).count();
        match with_lengths {
            0 => kinds,
            n if n == self.modules.len() => format!("{kinds} with DoRA"),
            n => format!("{kinds}, {n} with DoRA"),
        }
    }

    /// The smallest and the largest rank, of the modules that have one.
    pub fn ranks(&self) -> Option<(usize, usize)> {
        let ranks = || self.modules.iter().filter_map(|module| module.rank);
        ranks().min().zip(ranks().max())
    }

    /// The smallest and the largest alpha, of the modules that have one.
    pub fn alphas(&self) -> Option<(f64, f64)> {
        let alphas = || self.modules.iter().filter_map(|module| module.alpha);
        alphas().min_by(f64::total_cmp).zip(alphas().max_by(f64::total_cmp))
    }

    /// What the file calls its modules, and the sizes `[out, in]` of their weights.
    pub fn modules(&self) -> impl Iterator<Item = (&str, [usize; 2])> {
        self.modules.iter().map(|module| (module.name.as_str(), module.shape))
    }

    /// How many numbers its tensors have.
    pub fn parameters(&self) -> u64 {
        let size = |name: &str| self.tensors.shape(name).map_or(0, |s| s.iter().product::<usize>());
        self.tensors.names().map(|name| size(name) as u64).sum()
    }

    /// What is in the file or its settings and is not used, one sentence each.
    pub fn unused(&self) -> Vec<String> {
        let mut said = Vec::new();
        let name = self.path.display();
        if !self.spare.is_empty() {
            said.push(format!(
                "{} of the adapter `{name}`, no adapter's, left out: {}",
                counted(self.spare.len(), "tensor"),
                Names(self.spare.clone())
            ));
        }
        if !self.unknown_settings.is_empty() {
            said.push(format!(
                "settings of the adapter `{name}` that are not known are not used: {}",
                Names(self.unknown_settings.clone())
            ));
        }
        said
    }

    pub(super) fn list(&self) -> &[Module] {
        &self.modules
    }

    pub(super) fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// Reads every tensor once: a number that is none spoils a song.
    fn check_values(&self) -> Result<(), Error> {
        for name in self.modules.iter().flat_map(Module::tensors) {
            if !self.tensors.values::<f32>(name)?.iter().all(|x| x.is_finite()) {
                let (path, tensor) = (self.path.clone(), name.to_owned());
                return Err(AdapterError::NotFinite { path, tensor }.into());
            }
        }
        Ok(())
    }
}

/// The text pairs in the header of a safetensors file that is known to be well-formed.
fn metadata(directory: &Directory, file: &str) -> Result<BTreeMap<String, String>, Error> {
    let bytes = directory.open(file)?;
    let header = bytes.all().split_first_chunk::<8>().and_then(|(length, rest)| {
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        serde_json::from_slice::<Value>(rest.get(..length)?).ok()
    });
    let pairs = header.as_ref().and_then(|header| header.get("__metadata__")?.as_object());
    let pair = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    Ok(pairs.into_iter().flatten().filter_map(pair).collect())
}

/// What a file without a single tensor of an adapter seems to be.
fn foreign(tensors: &Tensors) -> String {
    let names: Vec<_> = tensors.names().map(str::to_owned).collect();
    if names.is_empty() {
        return "it has no tensors".to_owned();
    }
    let whole = names.iter().any(|name| name.ends_with("_proj.weight"));
    let what =
        if whole { "it seems to be a whole network" } else { "none of its tensors is one's" };
    format!("{what}: {}", Names(names))
}

/// `1 tensor`, `2 tensors`
pub(super) fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
