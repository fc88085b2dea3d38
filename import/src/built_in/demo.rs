//! The files of the demo model: a gzipped tar of its directories.
//!
//! Packing saves 4.4 MB in the program and in the repository. The files are unpacked once per process.

use std::{collections::BTreeMap, io::Read as _, sync::LazyLock};

use flate2::read::GzDecoder;
use tar::Archive;

use crate::directory::EmbeddedFiles;

/// The archive. Its paths are `demo/DIRECTORY/FILE`.
const ARCHIVE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/demo.tar.gz"));

/// The files of each directory. They live as long as the program.
static DIRECTORIES: LazyLock<BTreeMap<String, EmbeddedFiles>> = LazyLock::new(|| {
    let directories = unpack().expect("the archive is part of the program");
    directories.into_iter().map(|(name, files)| (name, &*files.leak())).collect()
});

/// Returns the files of `directory`; none if there is no such directory.
pub(super) fn files(directory: &str) -> EmbeddedFiles {
    DIRECTORIES.get(directory).copied().unwrap_or_default()
}

type Unpacked = BTreeMap<String, Vec<(&'static str, &'static [u8])>>;

fn unpack() -> std::io::Result<Unpacked> {
    let mut directories = Unpacked::new();
    for entry in Archive::new(GzDecoder::new(ARCHIVE)).entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path()?.into_owned();
        let mut names = path.iter().rev().map(|name| name.to_string_lossy().into_owned());
        let (Some(file), Some(directory)) = (names.next(), names.next()) else { continue };
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        directories.entry(directory).or_default().push((file.leak(), content.leak()));
    }
    Ok(directories)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_the_files_of_a_model() {
        let names = |directory| files(directory).iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let model = ["config.json", "model.safetensors", "silence_latent.safetensors"];
        assert_eq!(names("acestep-v15-demo"), model);
        assert_eq!(names("vae"), ["config.json", "diffusion_pytorch_model.safetensors"]);
        for directory in ["Qwen3-Embedding-0.6B", "acestep-5Hz-lm-0.6B"] {
            assert_eq!(names(directory), ["config.json", "model.safetensors", "tokenizer.json"]);
        }
        assert_eq!(names("other"), [""; 0]);
    }
}
