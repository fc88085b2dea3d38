//! The model or the codec of one file, as a directory of the released layout.

use std::path::{Path, PathBuf};

use acestep_model::speech::magpie::{Config, StackConfig};
use burn::tensor::TensorData;

use crate::{Error, Format, Tensors, directory::StandIn, families::magpie::Spelling, nemo::Texts};

/// A configuration as JSON, and tensors.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    pub(crate) config: String,
    pub(crate) tensors: Tensors,
    pub(crate) notices: Vec<String>,
}

/// The content of the file of a model.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) model: Part,
    pub(crate) texts: Texts,
    /// Rows of each voice, if the file says so.
    pub(crate) lengths: Option<Vec<usize>>,
    /// The codec, if it is in the same file.
    pub(crate) codec: Option<Codec>,
}

/// A codec and the spelling of its tensors.
#[derive(Debug)]
pub(crate) struct Codec {
    pub(crate) part: Part,
    pub(crate) spelling: Spelling,
}

impl StandIn for Part {
    fn root(&self) -> &Path {
        &self.path
    }

    fn format(&self) -> Format {
        self.format
    }

    fn notices(&self) -> &[String] {
        &self.notices
    }

    fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    fn origin(&self, _file: &str) -> &Path {
        &self.path
    }

    fn text(&self, file: &str) -> Option<&str> {
        (file == "config.json").then_some(&self.config)
    }

    fn missing(&self) -> Error {
        Error::MissingFile { path: self.path.clone(), alternatives: String::new() }
    }

    fn lack_of(&self, _network: &str) -> Option<Error> {
        None
    }

    fn silence(&self, _channels: usize) -> Result<TensorData, Error> {
        Err(Error::NoNetwork { path: self.path.clone(), network: "latent of silence" })
    }
}

/// Gives the convolutions of the feed-forward blocks the shape `[out, in taps]` of their layers here.
/// A tensor of another kernel keeps its shape, which is an error later.
pub(super) fn flatten_convolutions(tensors: &mut Tensors, config: &Config) {
    let stacks: [(&str, &StackConfig); 2] =
        [("encoder.", &config.encoder), ("decoder.", &config.decoder.stack)];
    let names: Vec<_> = tensors.names().map(str::to_owned).collect();
    for name in names {
        if !name.contains(".pos_ff.") || !name.ends_with(".conv.weight") {
            continue;
        }
        let of = stacks.iter().find(|(prefix, _)| name.starts_with(prefix));
        let taps = of.map_or(1, |(_, stack)| stack.kernel_size);
        let shape = tensors.shape(&name).map(<[usize]>::to_vec).unwrap_or_default();
        if let [output, input, kernel] = shape[..]
            && kernel == taps
        {
            tensors.reshape(&name, vec![output, input * taps]);
        }
    }
}
