//! Weights of a directory: one safetensors file, the shards of an index, or the tensors of a stand-in.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use serde::Deserialize;

use super::Directory;
use crate::{Error, header, safetensors::Tensors};

const STEMS: [&str; 2] = ["model.safetensors", "diffusion_pytorch_model.safetensors"];

#[derive(Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

impl Tensors {
    /// Maps the weights that lie in `directory` and parses their headers.
    ///
    /// # Errors
    /// Errors that name the file: it is missing, truncated or contradictory.
    pub fn open(directory: &Directory) -> Result<Self, Error> {
        if let Directory::Foreign(foreign) = directory {
            return Ok(foreign.tensors.clone());
        }
        for stem in STEMS {
            if directory.has(stem) {
                return Self::from_files(directory, stem, [stem.to_owned()].into());
            }
            let index = format!("{stem}.index.json");
            if directory.has(&index) {
                return Self::from_index(directory, &index);
            }
        }
        Err(Error::MissingFile {
            path: directory.path(STEMS[0]),
            alternatives: format!(", and so are its shards' index and `{}`", STEMS[1]),
        })
    }

    /// Maps one file of `directory`.
    ///
    /// # Errors
    /// As [`Tensors::open`].
    pub fn open_file(directory: &Directory, file: &str) -> Result<Self, Error> {
        Self::from_files(directory, file, [file.to_owned()].into())
    }

    fn from_index(directory: &Directory, index: &str) -> Result<Self, Error> {
        let path = directory.path(index);
        let broken = |reason: String| Error::BadIndex { path: path.clone(), reason };
        let Index { weight_map } = serde_json::from_str(&directory.text(index)?)
            .map_err(|error| broken(error.to_string()))?;
        let shards: BTreeSet<String> = weight_map.values().cloned().collect();
        for shard in &shards {
            if Path::new(shard).file_name() != Some(shard.as_ref()) {
                return Err(broken(format!("shard `{shard}` is not a file name")));
            }
            if !directory.has(shard) {
                let shard = shard.clone();
                return Err(Error::MissingShard { index: path, shard });
            }
        }
        let tensors = Self::from_files(directory, index, shards)?;
        // Sorted, so that the same damage gives the same message.
        for (tensor, shard) in weight_map.into_iter().collect::<BTreeMap<_, _>>() {
            let found = tensors.entries.get(&tensor);
            if found.is_none_or(|(file, _)| tensors.files[*file].0 != directory.path(&shard)) {
                return Err(Error::NotInShard { index: path, shard, tensor });
            }
        }
        Ok(tensors)
    }

    fn from_files(
        directory: &Directory,
        name: &str,
        names: BTreeSet<String>,
    ) -> Result<Self, Error> {
        let part = |name: String| -> Result<_, Error> {
            let (path, bytes) = (directory.path(&name), directory.open(&name)?);
            let entries = header::parse(&path, bytes.all())?;
            Ok(Self::from_entries(path, bytes, entries))
        };
        let parts = names.into_iter().map(part).collect::<Result<_, _>>()?;
        Ok(Self { loose: false, ..Self::joined(directory.path(name), parts)? })
    }
}
