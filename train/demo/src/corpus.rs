//! Latents of composed pieces, in memory and on disk.
//!
//! Composing and encoding a piece takes longer than a training step, so it is done only once.

use std::{collections::HashMap, fs, panic::resume_unwind, path::Path, thread};

use acestep_model::{Backend, oobleck::Encoder};
use burn::tensor::{Tensor, TensorData};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{
    composer::{Band, Piece, REVISION, Wish},
    labels::Labels,
};
use acestep_train::Error;

/// Pieces per file.
const A_FILE: usize = 100;

/// Lengths of successive pieces in seconds: short pieces are cheap to learn from, and some must be
/// as long as typical requests.
const SECONDS: [f64; 5] = [10.0, 10.0, 10.0, 15.0, 20.0];

/// The latents of a piece, with labels.
#[derive(Debug, Clone)]
pub struct Example {
    /// `[T, C]`
    pub latents: Vec<f32>,
    /// The labels.
    pub labels: Labels,
}

/// Composes piece `index` of a corpus.
pub fn piece(seed: u64, index: usize) -> Piece {
    let seconds = SECONDS[index % SECONDS.len()];
    let wish = Wish { duration_s: Some(seconds), band: Band::Same, ..Wish::default() };
    Piece::compose(seed.wrapping_mul(1_000_003).wrapping_add(index as u64), &wish)
}

/// Folder and contents of a corpus. All fields are part of the file names.
#[derive(Debug, Clone, Copy)]
pub struct Corpus<'a> {
    /// The folder.
    pub folder: &'a Path,
    /// Seed of the pieces.
    pub seed: u64,
    /// Number of pieces.
    pub count: usize,
    /// Name of the encoder: another encoder gives other latents of the same pieces.
    pub latents: &'a str,
}

impl Corpus<'_> {
    /// Reads a corpus, and creates its missing files first.
    ///
    /// `made` receives the number of pieces after every new file, and returns false to stop; the
    /// result is then `None`. `at_once` encodes in two threads, which on a GPU would each keep
    /// memory of their own.
    ///
    /// # Errors
    /// [`Error`] if a file cannot be read or written.
    pub fn read_or_make<B: Backend>(
        self,
        encoder: &Encoder<B>,
        device: &B::Device,
        at_once: bool,
        made: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<Vec<Example>>, Error> {
        let Self { folder, seed, count, latents } = self;
        fs::create_dir_all(folder)
            .map_err(|source| Error::Write { path: folder.to_owned(), source })?;
        let mut examples = Vec::with_capacity(count);
        for first in (0..count).step_by(A_FILE) {
            let here = A_FILE.min(count - first);
            let path =
                folder.join(format!("{seed}-{first:06}-{here}-{REVISION}-{latents}.safetensors"));
            if path.is_file() {
                examples.extend(read(&path)?);
                continue;
            }
            let pieces: Vec<usize> = (first..first + here).collect();
            let of_some = |pieces: &[usize], encoder: &Encoder<B>| -> Vec<Example> {
                pieces.iter().map(|&index| encode(&piece(seed, index), encoder, device)).collect()
            };
            let of_file: Vec<Example> = if at_once {
                // Composing one piece uses one core.
                thread::scope(|scope| {
                    let half =
                        pieces.chunks(here.div_ceil(2)).map(|pieces| (pieces, encoder.clone()));
                    let halves: Vec<_> = half
                        .map(|(pieces, encoder)| scope.spawn(move || of_some(pieces, &encoder)))
                        .collect();
                    let joined = halves.into_iter().map(|half| half.join());
                    joined.flat_map(|half| half.unwrap_or_else(|e| resume_unwind(e))).collect()
                })
            } else {
                of_some(&pieces, encoder)
            };
            write(&path, &of_file)?;
            examples.extend(of_file);
            if !made(examples.len()) {
                return Ok(None);
            }
        }
        Ok(Some(examples))
    }
}

/// Returns the latents of a piece: the means of the encoder's distribution.
pub fn encode<B: Backend>(piece: &Piece, encoder: &Encoder<B>, device: &B::Device) -> Example {
    let [left, right] = piece.render();
    let sound = TensorData::new([left, right].concat(), [1, 2, piece.samples()]);
    let mean = encoder.forward(Tensor::from_data(sound, device)).mean.swap_dims(1, 2);
    let latents = mean.into_data().iter::<f32>().collect();
    Example { latents, labels: Labels::of(piece) }
}

fn write(path: &Path, examples: &[Example]) -> Result<(), Error> {
    let bytes: Vec<Vec<u8>> = examples
        .iter()
        .map(|example| example.latents.iter().flat_map(|x| x.to_le_bytes()).collect())
        .collect();
    let state = |reason: String| Error::State { path: path.to_owned(), reason };
    let views: Vec<(String, TensorView<'_>)> = bytes
        .iter()
        .enumerate()
        .map(|(index, bytes)| {
            let view = TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes);
            view.map(|view| (format!("{index:03}"), view)).map_err(|e| state(e.to_string()))
        })
        .collect::<Result<_, _>>()?;
    let labels: Vec<&Labels> = examples.iter().map(|example| &example.labels).collect();
    let labels = serde_json::to_string(&labels).map_err(|e| state(e.to_string()))?;
    let metadata = HashMap::from([("labels".to_owned(), labels)]);
    let file = safetensors::serialize(views, Some(metadata)).map_err(|e| state(e.to_string()))?;
    acestep_train::release::write(path, &file)
}

fn read(path: &Path) -> Result<Vec<Example>, Error> {
    let state = |reason: &str| Error::State {
        path: path.to_owned(),
        reason: format!("{reason}; remove it, and it is made again"),
    };
    let bytes = fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(|_| state("no part of a corpus"))?;
    let (_, header) =
        SafeTensors::read_metadata(&bytes).map_err(|_| state("no part of a corpus"))?;
    let labels = header.metadata().as_ref().and_then(|metadata| metadata.get("labels"));
    let labels: Vec<Labels> = labels
        .and_then(|labels| serde_json::from_str(labels).ok())
        .ok_or_else(|| state("it has no labels"))?;
    labels
        .into_iter()
        .enumerate()
        .map(|(index, labels)| {
            let tensor =
                tensors.tensor(&format!("{index:03}")).map_err(|_| state("it is cut short"))?;
            let (words, _) = tensor.data().as_chunks::<4>();
            Ok(Example {
                latents: words.iter().map(|word| f32::from_le_bytes(*word)).collect(),
                labels,
            })
        })
        .collect()
}
