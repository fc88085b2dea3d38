//! The files of Mimi: a directory with transformers' names or Moshi's, or one file with Moshi's.

use std::{collections::BTreeMap, path::Path};

use acestep_model::speech::mimi::Config;

use crate::{
    Directory, Error, Tensors,
    families::mimi::{self as names, moshi},
    header::Entry,
    kind,
    listing::folder_of,
    mapped::Bytes,
    weights::WeightsDir,
};

/// Opens the codec at `path` for the first `codebooks` codebooks.
pub(crate) fn open(path: &Path, codebooks: usize) -> Result<WeightsDir<Config>, Error> {
    let bad = |path, source| Error::BadConfig { path, source };
    let (directory, config, tensors) = if path.is_file() {
        let config = Config::from_json(moshi::RELEASED);
        let config = config.map_err(|source| bad(path.to_owned(), source))?;
        let directory = Directory::Disk(folder_of(path).to_owned());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let tensors = Tensors::open_file(&directory, &name)?;
        (directory, config, tensors.described_by("the released Mimi"))
    } else {
        let directory = Directory::Disk(path.to_owned());
        let text = kind::config_of_type(&directory, "mimi", "the codec Mimi")?;
        let config = Config::from_json(&text)
            .map_err(|source| bad(directory.path("config.json"), source))?;
        let tensors = Tensors::open(&directory)?;
        (directory, config, tensors)
    };
    if codebooks > config.num_quantizers || codebooks <= config.num_semantic_quantizers {
        let have = config.num_quantizers;
        let reason = format!("the model has {codebooks} codebooks, and this codec {have}");
        let remedy = "use the codec of the same release".to_owned();
        return Err(Error::Foreign { path: path.to_owned(), reason, remedy });
    }
    let is_of_moshi = tensors.names().any(moshi::is_one);
    let tensors = match is_of_moshi {
        true => of_transformers(tensors, &config)?,
        false => tensors,
    };
    let networks = [
        names::encoder("codec encoder", "", &config, codebooks),
        names::decoder(&config, codebooks),
    ];
    let unused = names::unused("", &config, codebooks);
    WeightsDir::of(directory, config, tensors, "codec Mimi", (&networks, &unused))
}

/// Returns the tensors of a file of Moshi under the names of transformers.
fn of_transformers(mut tensors: Tensors, config: &Config) -> Result<Tensors, Error> {
    let (width, hidden) = (config.num_attention_heads * config.head_dim, config.hidden_size);
    let path = tensors.path().to_owned();
    let all: Vec<_> = tensors.names().map(str::to_owned).collect();
    let mut converted = Vec::new();
    let mut entries = BTreeMap::new();
    for name in all {
        let Some(begin) = moshi::fused(&name) else { continue };
        let expected = vec![3 * width, hidden];
        if !tensors.fits(&name, &expected)? {
            return Err(tensors.wrong_shape(&name, expected));
        }
        tensors.check_dtype(&name)?;
        let (file, entry) = tensors.entries[&name].clone();
        let whole = &tensors.files[file].1.all()[entry.range.clone()];
        let row = whole.len() / (3 * width);
        for (part, which) in ["q", "k", "v"].into_iter().enumerate() {
            let start = converted.len();
            for index in 0..width {
                let index =
                    if which == "v" { index } else { moshi::row_of(index, config.head_dim) };
                converted.extend_from_slice(&whole[(part * width + index) * row..][..row]);
            }
            let range = start..converted.len();
            let shape = vec![width, hidden];
            let entry = Entry { dtype: entry.dtype.clone(), shape, range };
            entries.insert(format!("{begin}{which}_proj.weight"), entry);
        }
        tensors.leave_out(&name);
    }
    tensors.unchanged()?;
    let split = Tensors::from_entries(path.clone(), Bytes::Owned(converted), entries);
    let described_by = tensors.described_by;
    let others = tensors.renamed(moshi::renamed)?;
    Ok(Tensors::joined(path, vec![others, split])?.described_by(described_by))
}
