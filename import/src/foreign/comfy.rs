//! A single safetensors file: a checkpoint of ComfyUI with all networks, or one network alone.
//!
//! | network | prefixes | names |
//! |---|---|---|
//! | diffusion model | `model.diffusion_model.`, `diffusion_model.`, none | released |
//! | autoencoder | `vae.`, `first_stage_model.`, none | Stability's, or released |
//! | text encoder | `text_encoders.qwen3_06b.transformer.`, none | released |
//! | language model | `text_encoders.qwen3_2b.transformer.`, `..qwen3_4b..`, none | released |
//!
//! Such a file has no config.json: one beside it is used if it fits, else the sizes of the tensors
//! determine it. It also lacks the tokenizer and the latent of silence, which are part of ComfyUI's
//! code; they are searched beside it and in the models directories.
//!
//! Source: ComfyUI `comfy/supported_models.py` (`ACEStep15`), `comfy/text_encoders/ace15.py`,
//! `comfy/sd.py`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    Foreign, ModelFormat, Silence, config, oobleck,
    pieces::{self, near},
    sizes,
};
use crate::{
    Directory, Error, Tensors, adapter_key,
    families::acestep::Kind,
    header::{self, Entry},
};

/// Rows of the text encoder's embedding table. Other Qwen3 networks have 151936, with the same
/// shapes otherwise, and a language model has 217204.
const MOST_ROWS_OF_TEXT: usize = 151_669;
/// Minimum of any Qwen3 with the released vocabulary.
const LEAST_ROWS_OF_TEXT: usize = 151_643;
/// Lower limit for language models with audio codes.
const LEAST_ROWS_OF_LANGUAGE: usize = 160_000;

/// Prefixes of the networks in a checkpoint; none in a file of one network.
const PREFIXES: [(Kind, &[&str]); 4] = [
    (Kind::Dit, &["model.diffusion_model.", "diffusion_model.", ""]),
    (Kind::Vae, &["vae.", "first_stage_model.", ""]),
    (
        Kind::TextEncoder,
        &["text_encoders.qwen3_06b.transformer.", "cond_stage_model.qwen3_06b.transformer.", ""],
    ),
    (
        Kind::LanguageModel,
        &["text_encoders.qwen3_2b.transformer.", "text_encoders.qwen3_4b.transformer.", ""],
    ),
];

/// Returns a tensor that each network has, in all its spellings.
fn markers(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Dit => &["decoder.proj_in.1.weight"],
        Kind::Vae => &[
            "decoder.conv1.weight_v",
            "decoder.layers.0.weight_v",
            "decoder.layers.0.parametrizations.weight.original1",
        ],
        Kind::TextEncoder | Kind::LanguageModel => {
            &["model.embed_tokens.weight", "embed_tokens.weight"]
        }
    }
}

/// Opens the network `wanted` of the file at `path`; `places` are searched for its pieces.
pub(super) fn open(path: &Path, wanted: Kind, places: &[PathBuf]) -> Result<Foreign, Error> {
    let bytes = Directory::open_file(path)?;
    let entries = header::parse(path, bytes.all())?;
    let prefix = find(path, &entries, wanted)?;
    refuse_scaled_weights(path, &entries, prefix)?;
    let own = entries
        .into_iter()
        .filter_map(|(name, entry)| Some((name.strip_prefix(prefix)?.to_owned(), entry)));
    let mut tensors = Tensors::from_entries(path.to_owned(), bytes, own.collect());
    if wanted == Kind::Vae && !tensors.has(markers(Kind::Vae)[0]) {
        // Keep unknown names, so that they are reported.
        let stages = oobleck::stages(tensors.names());
        tensors = tensors
            .renamed(|name| oobleck::released(name, stages).unwrap_or_else(|| name.to_owned()))?;
    }

    let near = near(path, places);
    let config = config::of(path, wanted, &tensors)?;
    let mut notices: Vec<_> = config.notice.into_iter().collect();
    if !config.is_file {
        tensors = tensors.described_by("the sizes of its other tensors");
        if wanted == Kind::Dit {
            notices.push(config::named(path));
        }
    }
    let mut texts = vec![("config.json", config.from, config.text)];
    let mut tokenizer = pieces::Tokenizer::default();
    let mut silence = Silence::default();
    match wanted {
        Kind::TextEncoder | Kind::LanguageModel => {
            let rows = sizes::rows(&tensors)?;
            tokenizer = pieces::tokenizer(wanted, rows, &near);
            if tokenizer.texts.is_empty() && tokenizer.has_no_codes {
                return Err(without_codes(path, rows));
            }
            texts.append(&mut tokenizer.texts);
        }
        Kind::Dit => silence.near = near,
        Kind::Vae => (),
    }
    let foreign = Foreign::new(path, ModelFormat::Single, texts, tensors);
    let (looked_for, tried) = (tokenizer.looked_for, tokenizer.tried);
    Ok(Foreign { silence, notices, looked_for, tried, ..foreign })
}

/// Refuses the file at `path` if it does not hold the network `wanted`, by its header.
pub(super) fn expect(path: &Path, wanted: Kind) -> Result<(), Error> {
    let entries = header::parse(path, Directory::open_file(path)?.all())?;
    find(path, &entries, wanted).map(drop)
}

/// Returns the prefix of the network `wanted`.
fn find(
    path: &Path,
    entries: &BTreeMap<String, Entry>,
    wanted: Kind,
) -> Result<&'static str, Error> {
    let prefix = prefix(entries, wanted).ok_or_else(|| other_kind(path, entries, wanted))?;
    match (wanted, prefix, rows(entries)) {
        (Kind::LanguageModel, "", Some(rows @ LEAST_ROWS_OF_TEXT..=LEAST_ROWS_OF_LANGUAGE)) => {
            Err(without_codes(path, rows))
        }
        _ => Ok(prefix),
    }
}

/// Returns the error for a Qwen3 with `rows` rows, which are all text tokens.
fn without_codes(path: &Path, rows: usize) -> Error {
    Error::WrongDirectory {
        path: path.to_owned(),
        wanted: Kind::LanguageModel.name(),
        found: format!(
            "a Qwen3 network with no audio codes among its {rows} tokens, such as the text encoder"
        ),
    }
}

/// True if the file at `path` holds the network `wanted`; false if it cannot be read.
pub(super) fn holds(path: &Path, wanted: Kind) -> bool {
    let entries = Directory::open_file(path).and_then(|bytes| header::parse(path, bytes.all()));
    let Ok(entries) = entries else { return false };
    match prefix(&entries, wanted) {
        None => false,
        Some("") if wanted == Kind::TextEncoder => {
            rows(&entries).is_some_and(|rows| rows <= MOST_ROWS_OF_TEXT)
        }
        Some("") if wanted == Kind::LanguageModel => {
            rows(&entries).is_none_or(|rows| rows > LEAST_ROWS_OF_LANGUAGE)
        }
        Some(_) => true,
    }
}

fn rows(entries: &BTreeMap<String, Entry>) -> Option<usize> {
    let table = markers(Kind::TextEncoder).iter().find_map(|name| entries.get(*name))?;
    table.shape.first().copied()
}

/// Returns the prefix of `kind` in the file.
fn prefix(entries: &BTreeMap<String, Entry>, kind: Kind) -> Option<&'static str> {
    prefix_among(&|name| entries.contains_key(name), kind)
}

/// The prefix under which the file whose tensors `has` knows by name has `kind`.
fn prefix_among(has: &dyn Fn(&str) -> bool, kind: Kind) -> Option<&'static str> {
    let is_there =
        |prefix: &&&str| markers(kind).iter().any(|marker| has(&format!("{prefix}{marker}")));
    let (_, prefixes) = PREFIXES.iter().find(|(own, _)| *own == kind)?;
    prefixes.iter().find(is_there).copied()
}

/// The networks of the file whose tensors `has` knows by name. A Qwen3 alone is both the text encoder
/// and a language model: their names are the same.
pub(crate) fn networks(has: &dyn Fn(&str) -> bool) -> Vec<Kind> {
    let kinds = PREFIXES.iter().map(|(kind, _)| *kind);
    kinds.filter(|kind| prefix_among(has, *kind).is_some()).collect()
}

fn other_kind(path: &Path, entries: &BTreeMap<String, Entry>, wanted: Kind) -> Error {
    let is_first =
        entries.keys().any(|name| name.contains("lyric_embs.") || name.contains("genre_embedder."));
    if is_first {
        return Error::Foreign {
            path: path.to_owned(),
            reason: "it is a checkpoint of ACE-Step 1, not of 1.5".into(),
            remedy: "take one of ACE-Step 1.5, such as ace_step_1.5_turbo_aio.safetensors".into(),
        };
    }
    if entries.keys().any(|name| adapter_key::is_change(name)) {
        return super::an_adapter(path);
    }
    let held = networks(&|name| entries.contains_key(name));
    let held: Vec<_> = held.into_iter().map(Kind::name).collect();
    if held.is_empty() {
        let first = entries.keys().next().cloned().unwrap_or_default();
        return Error::Foreign {
            path: path.to_owned(),
            reason: format!("it holds no network of ACE-Step 1.5 (its first tensor is `{first}`)"),
            remedy: "take a checkpoint of ACE-Step 1.5, whole or split as ComfyUI has them".into(),
        };
    }
    let (wanted, found) = (wanted.name(), held.join(" and "));
    Error::WrongDirectory { path: path.to_owned(), wanted, found }
}

/// Refuses weights in 8 or 4 bits, which need scales that every program stores differently.
fn refuse_scaled_weights(
    path: &Path,
    entries: &BTreeMap<String, Entry>,
    prefix: &str,
) -> Result<(), Error> {
    const SCALES: [&str; 5] =
        [".scale_weight", ".weight_scale", ".weight_scale_2", ".comfy_quant", "scaled_fp8"];
    let own = || entries.iter().filter(|(name, _)| name.starts_with(prefix));
    let narrow = own()
        .find(|(_, entry)| entry.dtype.starts_with("F8") || entry.dtype == "F4")
        .or_else(|| own().find(|(name, _)| SCALES.iter().any(|scale| name.ends_with(scale))));
    let Some((name, entry)) = narrow else { return Ok(()) };
    Err(Error::Foreign {
        path: path.to_owned(),
        reason: format!("its weights are in 8 bits (tensor `{name}` is {})", entry.dtype),
        remedy: "take the file in BF16, or a GGUF file in Q8_0, which is as small".into(),
    })
}
