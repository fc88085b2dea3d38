//! Recognises files and directories that are not adapters.
//!
//! A file is recognised by its first bytes, a safetensors file by the names of its tensors, and a
//! directory by the files that every model of its kind has.

use std::{fs::File, io::Read, path::Path};

use super::{AdapterError, target::without_prefixes};
use crate::{
    Tensors,
    error::NameList,
    families::acestep::{Kind, declared},
    foreign, kind,
    listing::read_text,
};

/// A kind of file that is not an adapter, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Other {
    /// A noun phrase.
    what: String,
    remedy: &'static str,
}

impl Other {
    fn new(what: impl Into<String>, remedy: &'static str) -> Self {
        Self { what: what.into(), remedy }
    }

    /// Returns the error for the file or directory at `path` of this kind.
    pub(super) fn refused(self, path: &Path) -> AdapterError {
        let reason = format!("it is {}", self.what);
        AdapterError::NotAnAdapter { path: path.to_owned(), reason, remedy: self.remedy }
    }
}

const AS_MODEL: &str = "a model is no adapter: pass it as `model`, without `adapter`";
const AS_LANGUAGE_MODEL: &str = "a language model is no adapter: pass it as `lm_model`";
const AS_PART: &str = "it is a part of a model, which finds it by itself: leave `adapter` out; to use \
                       it in place of another, put it where that lies, as `vae/` or \
                       `Qwen3-Embedding-0.6B/` beside the diffusion model's directory";
const AS_WHOLE: &str =
    "it is a part of a model: pass the whole model, with its config.json, as `model`";
const PICKLE: &str = "save it as safetensors: load it in PyTorch, if you trust it, and write its tensors with \
                      `safetensors.torch.save_file`";
const FETCH: &str = "fetch the .safetensors file of the adapter itself";
const PAGE: &str = "the page about the file was saved, not the file: on the hub its address has `resolve` in place \
     of `blob`";
const ONE_OF_THIS: &str =
    "take an adapter of ACE-Step 1.5: a LoRA, LoKr or LoHa as a .safetensors file";

/// A file of `torch.save`.
pub(super) fn pickle() -> Other {
    Other::new("a pickle of PyTorch, which can hold programs and is not read", PICKLE)
}

/// Returns the kind of the file at `path` by its first bytes; `None` if it may be safetensors.
pub(super) fn by_bytes(path: &Path) -> Option<Other> {
    let mut first = Vec::new();
    File::open(path).and_then(|file| file.take(64).read_to_end(&mut first)).ok()?;
    let sound = Other::new(
        "a sound file",
        "an adapter is a file of weights; sound is given as `src_audio` or `reference_audio`",
    );
    Some(match &first[..] {
        // Safetensors: the length of the header, then its JSON.
        [_, _, _, _, _, _, 0, 0, b'{', ..] => return None,
        [b'G', b'G', b'U', b'F', ..] => gguf(path),
        // The zip of `torch.save`, and the pickle of older versions.
        [b'P', b'K', 3, 4, ..] => pickle(),
        [0x80, 2..=5, ..] => pickle(),
        [b'R', b'I', b'F', b'F' | b'X', ..]
        | [b'R', b'F' | b'6', b'6' | b'4', b'4', ..]
        | [b'f', b'L', b'a', b'C', ..]
        | [b'O', b'g', b'g', b'S', ..]
        | [b'I', b'D', b'3', ..]
        | [0xFF, 0xE2..=0xFB, ..] => sound,
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => sound,
        bytes => {
            let text = String::from_utf8_lossy(bytes);
            let text = text.trim_start_matches('\u{feff}').trim_start();
            match text.chars().next() {
                Some('<') => Other::new("a web page (HTML or XML)", PAGE),
                Some('{' | '[') => Other::new("a text of JSON", FETCH),
                _ => return None,
            }
        }
    })
}

fn gguf(path: &Path) -> Other {
    match foreign::identify_gguf(path) {
        Some((_, Some(kind))) => {
            Other { what: format!("{} in a GGUF file", kind.name()), ..of(kind) }
        }
        Some((true, None)) => {
            Other::new("an adapter of llama.cpp in a GGUF file, for a language model", ONE_OF_THIS)
        }
        _ => Other::new("a GGUF file of no network of ACE-Step 1.5", ONE_OF_THIS),
    }
}

/// A network of the ACE-Step family.
fn of(kind: Kind) -> Other {
    let remedy = match kind {
        Kind::Dit => AS_MODEL,
        Kind::LanguageModel => AS_LANGUAGE_MODEL,
        Kind::Vae | Kind::TextEncoder => AS_PART,
    };
    Other::new(kind.name(), remedy)
}

/// Returns the kind of a safetensors file by the names of its `tensors`, which hold no adapter.
pub(super) fn by_names(tensors: &Tensors) -> Option<Other> {
    let any = |is: &dyn Fn(&str) -> bool| tensors.names().any(is);
    if any(&|name| name.contains("lyric_embs.") || name.contains("genre_embedder.")) {
        return Some(Other::new("a checkpoint of ACE-Step 1, not of 1.5", ONE_OF_THIS));
    }
    networks(tensors).or_else(|| {
        let sign = SIGNS.iter().find(|(signs, ..)| any(&|name| has_sign(name, signs)));
        sign.map(|&(_, what, remedy)| Other::new(what, remedy))
    })
}

/// Returns the networks of the ACE-Step family among `tensors`.
fn networks(tensors: &Tensors) -> Option<Other> {
    let held = foreign::networks(&|name| tensors.has(name));
    match held[..] {
        [] => None,
        // Their tensors have the same names; only the size of the vocabulary differs.
        [Kind::TextEncoder, Kind::LanguageModel] => Some(Other::new(
            "a Qwen3 network: a text encoder or a language model",
            "a language model is passed as `lm_model`; the text encoder is a part of a model, which \
             finds it by itself",
        )),
        [kind] => Some(of(kind)),
        _ => {
            let names: Vec<_> = held.iter().map(|kind| kind.name()).collect();
            let what = format!("a checkpoint of several networks: {}", names.join(", "));
            Some(Other::new(what, AS_MODEL))
        }
    }
}

/// (Signs with spaces between, kind of the file, remedy), for kinds that `foreign` cannot recognise. A sign is
/// a part of a tensor's name; `^` is its beginning and `$` its end.
const SIGNS: &[(&str, &str, &str)] = &[
    (".res_unit1. .snake1.alpha$", "an audio autoencoder (VAE)", AS_PART),
    (
        "^proj_in.1.weight$ ^proj_in_conv.weight$ ^condition_embedder.weight$",
        "a diffusion transformer of ACE-Step 1.5 without its other networks",
        AS_WHOLE,
    ),
    ("^silence_latent$", "the latent of silence of a model", AS_WHOLE),
    ("^emb_params ^string_to_param", "a trained embedding (textual inversion)", ONE_OF_THIS),
    (
        "exp_avg",
        "the state of an optimiser, which a training goes on with",
        "take the adapter that lies beside it",
    ),
    ("control_model.", "a ControlNet", ONE_OF_THIS),
    (
        "^first_stage_model. ^decoder.conv_in. ^decoder.up_blocks.",
        "an autoencoder (VAE) of another model",
        ONE_OF_THIS,
    ),
    (
        "^model.diffusion_model. transformer_blocks.",
        "a diffusion model of another kind",
        ONE_OF_THIS,
    ),
    (
        "^text_model. ^shared.weight ^lm_head. ^model.layers. ^transformer.h.",
        "a language model or a text encoder of another kind",
        ONE_OF_THIS,
    ),
];

/// True if the tensor `name` has one of `signs`. A sign of a whole weight may also have the prefixes of tools.
fn has_sign(name: &str, signs: &str) -> bool {
    let [whole, bare] = [name, without_prefixes(name)].map(|name| format!("^{name}$"));
    let is_bare = |sign: &str| sign.ends_with("weight$") && bare == sign;
    signs.split(' ').any(|sign| whole.contains(sign) || is_bare(sign))
}

/// Returns the error for a file of unknown kind whose `tensors` hold no adapter.
pub(super) fn unknown(tensors: &Tensors) -> AdapterError {
    let names: Vec<_> = tensors.names().map(str::to_owned).collect();
    let is_whole = names.iter().any(|name| name.ends_with("_proj.weight"));
    let reason = match (is_whole, &names[..]) {
        (_, []) => "it has no tensors".to_owned(),
        (true, _) => format!("it seems to be a whole network: {}", NameList(names)),
        (false, _) => format!("none of its tensors is one's: {}", NameList(names)),
    };
    let remedy = "take a LoRA, LoKr or LoHa of ACE-Step 1.5; a whole model is chosen with `model`";
    AdapterError::NotAnAdapter { path: tensors.path().to_owned(), reason, remedy }
}

/// Returns the kind of the directory at `path`, which holds no adapter.
pub(super) fn by_directory(path: &Path) -> Option<Other> {
    if path.join(foreign::PIPELINE).is_file() {
        return Some(Other::new("a pipeline of diffusers, a whole model", AS_MODEL));
    }
    if kind::holds_models(path) {
        let remedy = "pass one of the models in it as `model`, or the directory as `models_dir`";
        return Some(Other::new("a directory of models", remedy));
    }
    let config = read_text(&path.join("config.json")).ok()?;
    let config = serde_json::from_str(config.trim_start_matches('\u{feff}')).ok()?;
    let kind = declared(&config).ok()?;
    Some(match kind {
        // The language model has the same declaration.
        Kind::TextEncoder => Other {
            what: "a Qwen3 network: a text encoder or a language model".to_owned(),
            remedy: AS_LANGUAGE_MODEL,
        },
        kind => of(kind),
    })
}
