//! The file of an adapter: its modules, each with the change of its weight.
//!
//! Opening a file checks everything that does not need a model: each module is complete, its shapes
//! agree, and every value is finite.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    AdapterError,
    key::{self, Key, Role},
    location::{self, Location},
    module::Module,
    name, other,
    settings::Settings,
};
use crate::{Error, Layout, Tensors, error::NameList, header};

/// An adapter: changes for the weights of any diffusion transformer that has them.
#[derive(Debug, Clone)]
pub struct Adapter {
    path: PathBuf,
    tensors: Arc<Tensors>,
    modules: Vec<Module>,
    /// Tensors that do not belong to an adapter.
    spare: Vec<String>,
    unknown_settings: Vec<String>,
    /// Notices about its settings and its location, one sentence each.
    notices: Vec<String>,
}

impl Adapter {
    /// Opens the adapter at `path`: a safetensors file, or a directory in PEFT's layout.
    ///
    /// # Errors
    /// [`Error::Adapter`] if it is absent, of another kind, incomplete, contradictory or
    /// unsupported; an error of the safetensors file if it is cut or malformed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let Location { directory, file, settings, lacks_settings } = location::locate(path)?;
        let tensors = Tensors::open_file(&directory, &file)?;
        let path = tensors.path().to_owned();
        // A VAE also has tensors called alpha.
        if !tensors.names().any(key::is_change)
            && let Some(other) = other::by_names(&tensors)
        {
            return Err(other.refused(&path).into());
        }
        let settings_path = match &settings {
            Some((name, _)) => directory.path(name),
            None => tensors.path().to_owned(),
        };
        let settings = match settings {
            Some((_, text)) => Settings::peft(&settings_path, &text)?,
            None => {
                let bytes = directory.open(&file)?;
                Settings::metadata(&settings_path, &header::metadata(&path, bytes.all())?)?
            }
        };
        let (groups, mut spare) = grouped(&tensors)?;
        if groups.is_empty() {
            return Err(other::unknown(&tensors).into());
        }
        let mut modules = Vec::new();
        for (name, group) in groups {
            let of_group = Module::of_group(name, &group, &tensors, &settings)?;
            if !of_group.iter().any(Module::is_product) {
                // ComfyUI ignores an alpha beside a difference too.
                spare.extend(group.get(&Role::Alpha).cloned());
            }
            modules.extend(of_group);
        }
        let products = || modules.iter().filter(|module| module.is_product());
        settings.check_kind(products().map(Module::kind)).map_err(|reason| {
            Error::from(AdapterError::BadSettings { path: settings_path.clone(), reason })
        })?;
        if lacks_settings && products().any(|module| module.alpha.is_none()) {
            let path = path.parent().unwrap_or(&path).to_owned();
            let found =
                "adapter_config.json, which says how strongly it works, is missing, and so \
                         is the alpha of its modules"
                    .to_owned();
            return Err(AdapterError::NotADirectoryOfOne { path, found }.into());
        }
        if settings.is_dora && !modules.iter().any(Module::has_magnitudes) {
            let reason = "`use_dora` is true, but no module has the magnitudes of DoRA".to_owned();
            return Err(AdapterError::BadSettings { path: settings_path, reason }.into());
        }
        let not_used = |invalid: String| {
            format!("{invalid}, in the adapter `{}`: it is not used", path.display())
        };
        let notices = settings.invalid.into_iter().map(not_used).collect();
        let this = Self {
            path,
            tensors: Arc::new(tensors),
            modules,
            spare,
            unknown_settings: settings.unknown,
            notices,
        };
        this.check_values()?;
        Ok(this)
    }

    /// Opens the adapter called `name`: a path, or a file or directory in `adapters/` of the models
    /// directory. The ending `.safetensors` is optional there.
    ///
    /// # Errors
    /// As [`Adapter::open`].
    pub fn find(name: &str, layout: &Layout) -> Result<Self, Error> {
        let (path, notices) = location::find(name, layout)?;
        let mut this = Self::open(&path)?;
        this.notices.extend(notices);
        Ok(this)
    }

    /// Returns the names of what is in `adapters/` of the models directories, sorted.
    pub fn names(layout: &Layout) -> Vec<String> {
        location::names(layout)
    }

    /// Returns its name: the file name without the ending, or the directory name if the tool gives
    /// all files the same name.
    pub fn name(&self) -> String {
        name::name(&self.path)
    }

    /// Returns the file of its tensors.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `LoRA`, `LoKr`, `LoHa`, `differences` or a combination, with a note on DoRA.
    pub fn kind(&self) -> String {
        let kinds: BTreeSet<_> = self.modules.iter().map(|module| module.kind()).collect();
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(" and ");
        let with_magnitudes = self.modules.iter().filter(|module| module.has_magnitudes()).count();
        match with_magnitudes {
            0 => kinds,
            n if n == self.modules.len() => format!("{kinds} with DoRA"),
            n => format!("{kinds}, {n} with DoRA"),
        }
    }

    /// Returns the smallest and the largest rank of the modules that have one.
    pub fn ranks(&self) -> Option<(usize, usize)> {
        let ranks = || self.modules.iter().filter_map(|module| module.rank);
        ranks().min().zip(ranks().max())
    }

    /// Returns the smallest and the largest alpha of the modules that have one.
    pub fn alphas(&self) -> Option<(f64, f64)> {
        let alphas = || self.modules.iter().filter_map(|module| module.alpha);
        alphas().min_by(f64::total_cmp).zip(alphas().max_by(f64::total_cmp))
    }

    /// Returns the names of the changed parameters in the file, with shapes: `[out, in]` for a
    /// product, the tensor's own shape for a difference.
    pub fn modules(&self) -> impl Iterator<Item = (String, &[usize])> {
        self.modules.iter().map(|module| (module.title(), module.shape.as_slice()))
    }

    /// True if it changes nothing at any user scale, because the alpha of all its modules is 0.
    pub fn is_silent(&self) -> bool {
        self.modules.iter().all(Module::is_silent)
    }

    /// Returns the notice about modules whose alpha is 0.
    fn without_effect(&self) -> Option<String> {
        let silent = self.modules.iter().filter(|module| module.is_silent()).count();
        let (name, all) = (self.path.display(), self.modules.len());
        let what = match silent {
            0 => return None,
            _ if silent == all => format!(
                "the adapter `{name}` changes nothing by its own settings: its alpha is 0, and so is \
                 alpha over rank, by which every change is multiplied"
            ),
            _ => format!(
                "the alpha of {silent} of the {all} modules of the adapter `{name}` is 0, which leaves \
                 them without effect"
            ),
        };
        Some(format!(
            "{what}, at every scale; if that is a mistake, set `lora_alpha` of its settings, or the \
             modules' alpha, to the value that it was trained with"
        ))
    }

    /// Returns the number of elements of its tensors.
    pub fn parameters(&self) -> u64 {
        // An empty tensor may have sizes whose product overflows.
        let size = |shape: &[usize]| shape.iter().copied().fold(1, usize::saturating_mul);
        let size = |name: &str| self.tensors.shape(name).map_or(0, size);
        self.tensors.names().map(|name| size(name) as u64).sum()
    }

    /// Returns notices about unused parts of the file or its settings, settings without effect, and
    /// other files of the same name. One sentence each.
    pub fn unused(&self) -> Vec<String> {
        let mut said = self.notices.clone();
        said.extend(self.without_effect());
        let name = self.path.display();
        if !self.spare.is_empty() {
            said.push(format!(
                "{} of the adapter `{name}`, no adapter's, left out: {}",
                counted(self.spare.len(), "tensor"),
                NameList(self.spare.clone())
            ));
        }
        if !self.unknown_settings.is_empty() {
            said.push(format!(
                "settings of the adapter `{name}` that are not known are not used: {}",
                NameList(self.unknown_settings.clone())
            ));
        }
        said
    }

    /// Returns the tensors that are not a known kind of change.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &str> {
        let names = self.spare.iter().map(String::as_str);
        names.filter(|name| key::read(name) == Key::Unknown)
    }

    pub(super) fn list(&self) -> &[Module] {
        &self.modules
    }

    pub(super) fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// Reads every tensor once: a NaN or infinite value would break the song.
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

/// Tensors of modules by their roles, and the tensors that do not belong to an adapter.
type Grouped<'a> = (BTreeMap<&'a str, BTreeMap<Role, String>>, Vec<String>);

/// Groups `tensors` by the modules that they change.
///
/// # Errors
/// [`AdapterError::NotSupported`]; [`AdapterError::Broken`] for a duplicate; an error if no weight
/// has the tensor's type.
fn grouped(tensors: &Tensors) -> Result<Grouped<'_>, Error> {
    let path = || tensors.path().to_owned();
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
                    return Err(AdapterError::Broken { path: path(), module, reason }.into());
                }
            }
            Key::Refused(what) => {
                let what = format!("{what} in `{name}`");
                return Err(AdapterError::NotSupported { path: path(), what }.into());
            }
            Key::Unknown => spare.push(name.to_owned()),
        }
    }
    Ok((groups, spare))
}

/// `1 tensor`, `2 tensors`
pub(super) fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
