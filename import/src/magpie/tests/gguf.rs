//! The tiny model of `written` as GGUF files of both ports, whole and damaged.

use std::{fs, path::Path};

use acestep_model::{
    Place,
    kernel::Precision,
    speech::{
        magpie::{Checkpoint as _, Files as _},
        nanocodec,
    },
};
use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::Flex;
use serde_json::{Map, Value as Json};

use super::{Error, Magpie, Stored, codec_tensors, model_tensors, opened};
use crate::{families::magpie::Spelling, testing::gguf};

/// The types of tensors.
const F32: u32 = 0;
const I8: u32 = 24;

/// (Name, shape, type, bytes).
type Tensors = Vec<(String, Vec<usize>, u32, Vec<u8>)>;

/// The values of a header: keys, and encoded pairs of key and value.
struct Header(Vec<(String, Vec<u8>)>);

impl Header {
    /// The values of an object of JSON. A key that begins with a dot is one of the family.
    fn of(values: &str) -> Self {
        let values: Map<String, Json> = serde_json::from_str(values).expect("JSON");
        let mut header = Self(Vec::new());
        values.iter().for_each(|(key, value)| header.add(key, value));
        header
    }

    fn add(&mut self, key: &str, value: &Json) {
        let family = if key.starts_with('.') { "magpie" } else { "" };
        let key = format!("{family}{key}");
        let (kind, value) = encoded(value);
        let pair = gguf::value(&key, kind, &value);
        self.0.push((key, pair));
    }

    /// The bytes of a file with this header.
    fn file(&self, tensors: &Tensors) -> Vec<u8> {
        let (mut described, mut data) = (Vec::new(), Vec::new());
        for (name, shape, kind, own) in tensors {
            let sizes: Vec<_> = shape.iter().rev().map(|&size| size as u64).collect();
            described.push(gguf::tensor(name, &sizes, *kind, data.len() as u64));
            data.extend(own);
            data.resize(data.len().next_multiple_of(32), 0);
        }
        let values: Vec<_> = self.0.iter().map(|(_, pair)| pair.clone()).collect();
        [gguf::file(&values, &described, 0), data].concat()
    }
}

/// Returns the type of a value in a header, and its bytes.
fn encoded(value: &Json) -> (u32, Vec<u8>) {
    match value {
        Json::Bool(flag) => (7, vec![u8::from(*flag)]),
        Json::String(text) => (8, gguf::text(text)),
        Json::Number(number) => match number.as_u64() {
            Some(number) => (4, (number as u32).to_le_bytes().into()),
            None => (6, (number.as_f64().expect("a number") as f32).to_le_bytes().into()),
        },
        Json::Array(items) => {
            let items: Vec<_> = items.iter().map(encoded).collect();
            let mut bytes = items[0].0.to_le_bytes().to_vec();
            bytes.extend((items.len() as u64).to_le_bytes());
            items.iter().for_each(|(_, item)| bytes.extend(item));
            (9, bytes)
        }
        Json::Null | Json::Object(_) => panic!("no header has {value}"),
    }
}

/// The tensors of the model that a converter keeps.
fn of_model() -> Tensors {
    let is_kept = |name: &String| {
        let constants = ["_baked_embedding_T", "_baked_embedding_D", "baked_context_embedding_len"];
        !constants.contains(&name.as_str()) && !name.ends_with("causal_mask")
    };
    let all = model_tensors().into_iter().filter(|(name, _)| is_kept(name));
    all.map(|(name, (shape, bytes, _))| (name, shape, F32, bytes)).collect()
}

fn values(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&of| f32::from_le_bytes(of)).collect()
}

/// The tensors of the codec without weight norm: `g v / |v|`.
fn of_codec(spelling: Spelling) -> Tensors {
    let stored: Stored = codec_tensors();
    let mut all = Tensors::new();
    for (name, (shape, bytes, _)) in &stored {
        if !name.starts_with("audio_decoder.") {
            continue;
        }
        let conv = name.strip_suffix(".parametrizations.weight.original0");
        if let Some(conv) = conv {
            let (shape, of_v, _) = &stored[&format!("{conv}.parametrizations.weight.original1")];
            let (g, v) = (values(bytes), values(of_v));
            let rows = v.chunks(v.len() / shape[0]).zip(g);
            let folded = rows.flat_map(|(row, g)| {
                let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
                row.iter().flat_map(move |x| (g * x / norm).to_le_bytes()).collect::<Vec<_>>()
            });
            let name = spelling.of(&format!("{conv}.weight"));
            all.push((name, shape.clone(), F32, folded.collect()));
        } else if !name.ends_with("original1") {
            all.push((spelling.of(name), shape.clone(), F32, bytes.clone()));
        }
    }
    all
}

/// The model and the codec in two files.
pub(super) fn pair() -> [Vec<u8>; 2] {
    let header = Header::of(
        r#"{
        "general.architecture": "magpie",
        ".tokenizer.vocab": "a\nb\n \n<pad>\n<oov>", ".tokenizer.dict": "b\ta",
        ".encoder_heads": 2, ".decoder_sa_heads": 2, ".decoder_xa_heads": 1, ".num_codebooks": 2,
        ".vocab_size_per_codebook": 13, ".audio_bos_id": 5, ".audio_eos_id": 6, ".text_eos_id": 8
        }"#,
    );
    let codec = Header::of(
        r#"{
        "general.architecture": "nano-codec", "codec.sample_rate": 22050,
        "codec.num_codebooks": 2, "codec.codebook_size": 5, "codec.hop_length": 2
        }"#,
    );
    let mut tensors = of_codec(Spelling::Short);
    for group in 0..2 {
        for (list, value) in [("num_levels", 5.0_f32), ("dim_base_index", 1.0)] {
            let name = format!("vq.fsqs.{group}.{list}");
            tensors.push((name, vec![1, 1, 1], F32, value.to_le_bytes().into()));
        }
    }
    [header.file(&of_model()), codec.file(&tensors)]
}

/// The header of a file with everything.
const HEADER_OF_WHOLE: &str = r#"{
    "general.architecture": "magpie-tts", ".model_type": "decoder_ce", ".activation": "gelu_tanh",
    ".norm_eps": 1e-5, ".d_model": 4,
    ".encoder.n_layers": 1, ".encoder.d_ffn": 6, ".encoder.n_heads": 2, ".encoder.d_head": 2,
    ".encoder.kernel_size": 3, ".encoder.max_positions": 8, ".encoder.is_causal": true,
    ".encoder.apply_norm_out": true, ".encoder.learnable_pos_emb": true,
    ".decoder.n_layers": 1, ".decoder.d_ffn": 6, ".decoder.n_heads": 2, ".decoder.d_head": 2,
    ".decoder.kernel_size": 1, ".decoder.max_positions": 8, ".decoder.is_causal": true,
    ".decoder.apply_norm_out": true, ".decoder.learnable_pos_emb": true,
    ".decoder.xattn.n_heads": 1, ".decoder.xattn.d_head": 3, ".decoder.xattn.d_memory": 4,
    ".decoder.xattn.apply_norm_to_cond": true,
    ".local_transformer.kernel_size": 1, ".local_transformer.n_layers": 1,
    ".local_transformer.n_heads": 1, ".local_transformer.d_head": 2,
    ".local_transformer.d_ffn": 8, ".local_transformer.apply_norm_out": false,
    ".prior.apply": true, ".prior.apply_to_layers": [0], ".prior.estimate_from_layers": [0],
    ".prior.epsilon": 0.1, ".prior.lookahead_window": 5, ".prior.start_after_n_audio_steps": 0,
    ".prior.sink_skip_threshold": 8, ".prior.sink_penalty_threshold": 10,
    ".sampling.max_decoder_steps": 6, ".sampling.topk": 5, ".sampling.min_generated_frames": 0,
    ".sampling.argmax_temperature": 0.01, ".sampling.temperature": 0.6, ".sampling.cfg_scale": 2.5,
    ".sampling.ignore_finished_sentence_tracking": true,
    ".sampling.eos_detection_method": "argmax_or_multinomial_any",
    ".audio.frame_stacking_factor": 1, ".audio.num_codebooks": 2, ".audio.codebook_size": 5,
    ".audio.tokens_per_codebook": 13, ".audio.bos_id": 5, ".audio.eos_id": 6,
    ".text.vocab_size": 9, ".text.bos_id": 7, ".text.eos_id": 8,
    ".speaker.count": 3, ".speaker.names": ["Cy", "Ann", "Bob"], ".speaker.indices": [2, 0, 1],
    ".baked_context.t": 2, ".baked_context.d": 4, ".baked_context.lengths": [2, 1, 2],
    ".codec.name": "codec", ".codec.sample_rate": 22050, ".codec.samples_per_frame": 2,
    ".codec.latent_dim": 2, ".codec.fsq.num_groups": 2, ".codec.fsq.num_levels": [5],
    ".codec.fsq.dim_base_index": [1], ".codec.fsq.eps": 1e-3,
    ".codec.dec.base_channels": 4, ".codec.dec.in_kernel_size": 7, ".codec.dec.out_kernel_size": 3,
    ".codec.dec.up_sample_rates": [2], ".codec.dec.up_kernel_sizes": [4],
    ".codec.dec.resblock_kernel_sizes": [3, 7, 11],
    ".codec.dec.resblock_dilation_sizes": [1, 3, 5],
    ".codec.dec.activation": "half_snake", ".codec.dec.output_activation": "clamp",
    ".codec.dec.pad_mode": "zeros", ".codec.dec.snake_eps": 1e-9, ".codec.dec.lrelu_slope": 0.01,
    ".codec.dec.causal": true, ".codec.dec.grouped_upsample": true,
    ".tokenizer.names": ["english_phoneme"], ".tokenizer.sizes": [7], ".tokenizer.offsets": [0],
    ".tokenizer.tokens": ["!", "'", "a", "b", " ", "<pad>", "<oov>"],
    ".tokenizer.language_map.keys": ["en"],
    ".tokenizer.language_map.values": ["english_phoneme"],
    ".tokenizer.g2p.english_phoneme.entries": 1,
    ".tokenizer.english_phoneme.target":
        "nemo.collections.common.tokenizers.text_to_speech.tts_tokenizers.IPATokenizer"
}"#;

/// Model, codec and texts in one file.
pub(super) fn whole() -> Vec<u8> {
    let mut tensors = of_model();
    for (name, shape, ..) in &mut tensors {
        if name == "baked_context_embedding.weight" {
            *shape = vec![3, 2, 4];
        }
    }
    tensors.extend(of_codec(Spelling::Whole));
    tensors.push(("g2p.english_phoneme.dict".to_owned(), vec![4], I8, b"b\ta\n".to_vec()));
    Header::of(HEADER_OF_WHOLE).file(&tensors)
}

/// Opens and checks the model at `path`.
fn checked(path: &Path) -> Result<Magpie, Error> {
    let magpie = Magpie::open(path, None)?;
    magpie.check::<Flex>(&Default::default())?;
    Ok(magpie)
}

fn floats<const D: usize>(x: Tensor<Flex, D>) -> Vec<f32> {
    x.into_data().to_vec().expect("f32")
}

/// The memory of a text, the rows of a voice and the sound of some codes.
fn results(magpie: &Magpie) -> [Vec<f32>; 3] {
    let place = Place::<Flex>::f32(Default::default());
    let ints = |values: Vec<i32>, shape: [usize; 2]| {
        Tensor::<Flex, 2, Int>::from_data(TensorData::new(values, shape), &place.device)
    };
    let encoder = magpie.encoder(&place).expect("an encoder");
    let memory = encoder.forward(ints(vec![3, 0, 8], [1, 3]));
    let voice = magpie.decoder(&place).expect("a decoder").context(2, &place.device);
    magpie.local_transformer(&place).expect("a local transformer");
    let codec = magpie.codec_decoder(&place, Precision::Highest).expect("a codec");
    let mut state = nanocodec::DecoderState::default();
    let sound = codec.forward(ints(vec![0, 3, 4, 1, 2, 2], [2, 3]), &mut state);
    [floats(memory), floats(voice), floats(sound)]
}

#[test]
fn the_files_of_both_ports_hold_the_model_of_the_archive() {
    let archive = opened(&model_tensors(), &codec_tensors()).expect("an archive");
    let [memory, voice, sound] = results(&archive);
    let folder = tempfile::tempdir().expect("a folder");
    let whole_file = folder.path().join("whole.gguf");
    fs::write(&whole_file, whole()).expect("a file");
    let pair_folder = folder.path().join("pair");
    fs::create_dir(&pair_folder).expect("a folder");
    for (name, bytes) in ["magpie-F32.gguf", "codec.gguf"].into_iter().zip(pair()) {
        fs::write(pair_folder.join(name), bytes).expect("a file");
    }
    let found = [(whole_file, "whole"), (pair_folder, "magpie")].map(|(path, name)| {
        let magpie = checked(&path).expect(name);
        assert_eq!(magpie.name(), name);
        magpie
    });
    let [whole, pair] = &found;
    for magpie in &found {
        let [own_memory, own_voice, own_sound] = results(magpie);
        assert_eq!((&own_memory, &own_voice), (&memory, &voice), "{}", magpie.name());
        assert_eq!(own_sound.len(), sound.len());
        let pairs = own_sound.iter().zip(&sound);
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-5), "{own_sound:?} {sound:?}");
    }
    assert!(sound.iter().any(|x| x.abs() > 1e-3), "{sound:?}");
    let speakers = whole.texts().speakers().expect("names");
    let names = ["Ann", "Bob", "Cy"].map(str::to_owned).into_iter().zip(0..);
    assert_eq!(speakers, names.collect::<Vec<_>>());
    assert_eq!(whole.texts().artefact("g2p.english_phoneme.dict").expect("a text"), b"b\ta\n");
    assert_eq!(whole.sizes().context_lengths, [2, 1, 2]);
    // The other port does not say that the second voice is shorter.
    assert_eq!(pair.sizes().context_lengths, [2, 2, 2]);
}

/// Replaces the only `from` in a file by `to`, which is as long.
fn damaged(file: &[u8], from: &str, to: &str) -> Vec<u8> {
    let places = file.windows(from.len()).enumerate();
    let places: Vec<_> = places.filter(|(_, own)| *own == from.as_bytes()).collect();
    let [(at, _)] = places[..] else { panic!("{} of `{from}`", places.len()) };
    assert_eq!(from.len(), to.len());
    [&file[..at], to.as_bytes(), &file[at + to.len()..]].concat()
}

#[test]
fn a_damaged_file_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("magpie.gguf");
    let whole = whole();
    let refused = |bytes: &[u8], says: &[&str]| {
        fs::write(&path, bytes).expect("a file");
        let error = checked(&path).map(drop).expect_err("a damaged file").to_string();
        assert!(error.contains("magpie.gguf"), "{error}");
        says.iter().for_each(|part| assert!(error.contains(part), "{part}: {error}"));
    };
    for cut in [0, 3, 20, 100, whole.len() / 4, whole.len() / 2, whole.len() - 40] {
        refused(&whole[..cut], &[]);
    }
    const CONV: &str = "codec.audio_decoder.post_conv.conv";
    for (from, to, says) in [
        ("final_proj.bias", "final_proj.bims", "`final_proj.bi"),
        (&format!("{CONV}.bias"), &format!("{CONV}.bims"), &format!("`{CONV}.bi")),
        ("magpie.audio.bos_id", "magpie.audio.bos_ix", "whole number `magpie.audio.bos_id`"),
        ("magpie.prior.apply\u{7}", "magpie.prior.appli\u{7}", "flag `magpie.prior.apply`"),
        ("half_snake", "halv_snake", ""),
        ("magpie-tts", "magpie-txs", "architecture is `magpie-txs`"),
    ] {
        refused(&damaged(&whole, from, to), &[says]);
    }
    let changed = |change: &dyn Fn(&mut Header)| {
        let mut header = Header::of(HEADER_OF_WHOLE);
        change(&mut header);
        header.file(&of_model())
    };
    let replaced = |key: &str, number: u32| {
        changed(&|header: &mut Header| {
            header.0.retain(|(own, _)| own != key);
            header.add(key, &number.into());
        })
    };
    refused(&replaced("magpie.text.vocab_size", 10), &["10 rows", "7 ids", "english_phoneme 7"]);
    refused(&replaced("magpie.prior.sink_skip_threshold", 7), &["`magpie.prior.sink_skip_thr"]);
    for (key, only) in [
        ("encoder.d_head", "2"),
        ("decoder.d_head", "2"),
        ("text.bos_id", "7"),
        ("text.eos_id", "8"),
        ("audio.num_codebooks", "2"),
        ("audio.codebook_size", "5"),
        ("baked_context.t", "2"),
        ("baked_context.d", "4"),
        ("speaker.count", "3"),
        ("codec.fsq.eps", "0.001"),
    ] {
        let key = format!("magpie.{key}");
        let says = format!("`{key}` is 6, only {only} is supported");
        refused(&replaced(&key, 6), &[says.as_str()]);
    }
    // The codec is missing.
    refused(&changed(&|_| ()), &["codec.audio_decoder."]);
}

#[test]
fn a_damaged_file_of_a_pair_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let [model, codec] = pair();
    let refused = |name: &str, bytes: &[u8], says: &str| {
        for (own, bytes) in [("model.gguf", &model[..]), ("codec.gguf", &codec), (name, bytes)] {
            fs::write(folder.path().join(own), bytes).expect("a file");
        }
        let error = checked(&folder.path().join("model.gguf")).map(drop);
        let error = error.expect_err("a damaged file").to_string();
        assert!(error.contains(name) && error.contains(says), "{says}: {error}");
    };
    refused("model.gguf", &model[..model.len() / 2], "");
    refused("codec.gguf", &codec[..codec.len() / 2], "");
    // The length of a name ends with a zero.
    let renamed = damaged(&model, "\0text_embedding.weight", "\0text_embedding.weighs");
    refused("model.gguf", &renamed, "no tensor `text_embedding.weight`");
    let renamed = damaged(&codec, "dec.post.bias", "dec.post.bims");
    refused("codec.gguf", &renamed, "`dec.post.bi");
    let renamed = damaged(&model, "magpie.text_eos_id", "magpie.text_eos_ix");
    refused("model.gguf", &renamed, "`magpie.text_eos_id`");
}
