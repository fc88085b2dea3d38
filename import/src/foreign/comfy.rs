//! A single safetensors file: a checkpoint of ComfyUI with all networks, or one network alone.
//!
//! | network | prefixes | names |
//! |---|---|---|
//! | diffusion model | `model.diffusion_model.`, `diffusion_model.`, none | released |
//! | autoencoder | `vae.`, `first_stage_model.`, none | Stability's, or released |
//! | text encoder | `text_encoders.qwen3_06b.transformer.`, none | released |
//! | language model | `text_encoders.qwen3_2b.transformer.`, `..qwen3_4b..`, none | released |
//!
//! Such a file has no config.json: one beside it is taken, else the sizes of the tensors tell. It
//! has neither a tokenizer nor a latent of silence, both of which ComfyUI carries in its code; they
//! are looked for beside it.
//!
//! Source: ComfyUI `comfy/supported_models.py` (`ACEStep15`), `comfy/text_encoders/ace15.py`,
//! `comfy/sd.py`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{Foreign, Format, Silence, oobleck, sizes};
use crate::{
    Directory, Error, TEXT_ENCODER, Tensors,
    header::{self, Entry},
    kind::Kind,
    language_tokenizer::AUDIO_CODE_0,
};

/// Rows of the text encoder's table. Other networks of Qwen3's have 151936, in the same shapes
/// otherwise, and a language model has 217204.
const MOST_ROWS_OF_TEXT: usize = 151_669;
/// Fewer than any language model with audio codes has.
const LEAST_ROWS_OF_LANGUAGE: usize = 160_000;

/// Where the networks of a checkpoint are; no prefix in a file of one.
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

/// A tensor that each network has, in one of its spellings.
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

/// Opens the network `wanted` of the file at `path`; `places` are where its pieces may lie.
///
/// # Errors
/// Names what is missing, cut, of another kind or of a type that is not read.
pub(super) fn open(path: &Path, wanted: Kind, places: &[PathBuf]) -> Result<Foreign, Error> {
    let bytes = Directory::open_file(path)?;
    let entries = header::parse(path, bytes.all())?;
    let prefix = prefix(&entries, wanted).ok_or_else(|| other_kind(path, &entries, wanted))?;
    refuse_eight_bits(path, &entries, prefix)?;
    let own = entries
        .into_iter()
        .filter_map(|(name, entry)| Some((name.strip_prefix(prefix)?.to_owned(), entry)));
    let mut tensors = Tensors::from_entries(path.to_owned(), bytes, own.collect());
    if wanted == Kind::Vae && !tensors.has(markers(Kind::Vae)[0]) {
        // Names that have no place in the lists stay, so that they are told of.
        let stages = oobleck::stages(tensors.names());
        tensors = tensors
            .renamed(|name| oobleck::released(name, stages).unwrap_or_else(|| name.to_owned()))?;
    }

    let is_qwen3 = matches!(wanted, Kind::TextEncoder | Kind::LanguageModel);
    let config = sizes::beside(path, &tensors, is_qwen3).filter(|text| declares(text, wanted));
    let is_told = config.is_some();
    let (config, from) = match config {
        Some(text) => (text, path.with_file_name("config.json")),
        None => (
            match wanted {
                Kind::Dit => sizes::dit(&tensors)?,
                Kind::Vae => sizes::vae(&tensors)?,
                Kind::TextEncoder | Kind::LanguageModel => sizes::qwen3(&tensors)?,
            },
            path.to_owned(),
        ),
    };
    let mut texts = vec![("config.json", from, config)];
    let places = near(path, places);
    if is_qwen3 {
        texts.extend(tokenizer(wanted, &places)?);
    }
    let notices = match wanted {
        Kind::Dit if !is_told => vec![is_turbo_by_name(path)],
        _ => Vec::new(),
    };
    let silence = match wanted {
        Kind::Dit => Silence::Beside(places.clone()),
        Kind::Vae | Kind::TextEncoder | Kind::LanguageModel => Silence::None,
    };
    Ok(Foreign {
        root: path.to_owned(),
        format: Format::Single,
        texts,
        tensors,
        silence,
        notices,
        looked_for: tokenizer_places(wanted, &places),
    })
}

/// Whether the file at `path` holds the network `wanted`; not if it cannot be read.
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

/// The prefix under which the file has `kind`.
fn prefix(entries: &BTreeMap<String, Entry>, kind: Kind) -> Option<&'static str> {
    let has = |prefix: &&&str| {
        markers(kind).iter().any(|marker| entries.contains_key(&format!("{prefix}{marker}")))
    };
    let (_, prefixes) = PREFIXES.iter().find(|(own, _)| *own == kind)?;
    prefixes.iter().find(has).copied()
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
    let held: Vec<_> = PREFIXES
        .iter()
        .filter(|(kind, _)| prefix(entries, *kind).is_some())
        .map(|(kind, _)| kind.name())
        .collect();
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

/// Refuses weights in 8 or 4 bits, which need scales that every program stores in its own way.
fn refuse_eight_bits(
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

/// Whether config.json `text` is of the kind `wanted`.
fn declares(text: &str, wanted: Kind) -> bool {
    serde_json::from_str(text).is_ok_and(|config| {
        matches!(
            (crate::kind::declared(&config), wanted),
            (Ok(Kind::Dit), Kind::Dit)
                | (Ok(Kind::Vae), Kind::Vae)
                | (Ok(Kind::TextEncoder), Kind::TextEncoder | Kind::LanguageModel)
        )
    })
}

/// The directory of the file, the one above, and `places`: ComfyUI's models lie in directories by
/// kind.
fn near(path: &Path, places: &[PathBuf]) -> Vec<PathBuf> {
    let mut near: Vec<PathBuf> = path.ancestors().skip(1).take(2).map(Path::to_owned).collect();
    near.retain(|place| !place.as_os_str().is_empty());
    for place in places {
        if !near.contains(place) {
            near.push(place.clone());
        }
    }
    near
}

/// Where a tokenizer may lie.
fn tokenizer_places(wanted: Kind, places: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for place in places {
        all.push(place.clone());
        if wanted == Kind::LanguageModel {
            let known =
                crate::KNOWN_LANGUAGE_MODELS.iter().map(|model| place.join(model.directory));
            all.extend(known.filter(|path| path.is_dir()));
        }
        all.push(place.join(TEXT_ENCODER));
    }
    all
}

/// The tokenizer's files of the first place that has them.
fn tokenizer(
    wanted: Kind,
    places: &[PathBuf],
) -> Result<Vec<(&'static str, PathBuf, String)>, Error> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path);
        text.map_err(|source| Error::Io { path: path.clone(), source }).map(|text| (path, text))
    };
    for place in tokenizer_places(wanted, places) {
        let whole = place.join("tokenizer.json");
        if whole.is_file() {
            let (path, text) = read(whole)?;
            // The other network's, unless it has or lacks the audio codes.
            if text.contains(AUDIO_CODE_0) == (wanted == Kind::LanguageModel) {
                return Ok(vec![("tokenizer.json", path, text)]);
            }
        }
        let halves = [place.join("vocab.json"), place.join("merges.txt")];
        if halves.iter().all(|path| path.is_file()) {
            let [vocabulary, merges] = halves;
            let ((from, vocabulary), (other, merges)) = (read(vocabulary)?, read(merges)?);
            return Ok(vec![("vocab.json", from, vocabulary), ("merges.txt", other, merges)]);
        }
    }
    Ok(Vec::new())
}

fn is_turbo_by_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let turbo = if name.to_lowercase().contains("turbo") { "a" } else { "not a" };
    format!(
        "`{name}` does not say how it was trained: by its name it is {turbo} turbo model; put the \
         release's config.json beside it to be sure"
    )
}
