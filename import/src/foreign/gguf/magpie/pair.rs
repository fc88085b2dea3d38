//! A file with the model and a file with the codec, of the port of February 2026.
//!
//! They have few settings. So sizes are those of the tensors. A run has the settings of the release if
//! the sizes are released ones, else those of the reference's classes.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Map, Value as Json, json};

use super::{Parsed, expect, file, put, texts};
use crate::{
    Tensors,
    families::magpie::Spelling,
    foreign::gguf::{Header, values::Values},
    single_file::{Codec, Opened},
};

/// Returns the shape of tensor `name`, which must have `N` sizes.
fn shape<const N: usize>(tensors: &Tensors, name: &str) -> Parsed<[usize; N]> {
    let shape = tensors.shape(name).map_err(|_| format!("it has no tensor `{name}`"))?;
    <[usize; N]>::try_from(shape)
        .map_err(|_| format!("tensor `{name}` is {shape:?}, not of {N} sizes"))
}

/// Returns the number of parts `{prefix}0{suffix}`, `{prefix}1{suffix}`, and so on.
fn count(tensors: &Tensors, prefix: &str, suffix: &str) -> usize {
    (0..).take_while(|index| tensors.has(&format!("{prefix}{index}{suffix}"))).count()
}

/// Opens the file of a model with this header and these tensors.
pub(super) fn model(path: &Path, header: &Header, tensors: Tensors) -> Parsed<Opened> {
    let values = Values { header, prefix: "magpie" };
    let heads = |key: &str| -> Parsed<usize> {
        let number = values.number(key)?.as_u64().and_then(|heads| usize::try_from(heads).ok());
        number.filter(|&heads| heads > 0).ok_or_else(|| format!("`magpie.{key}` is 0"))
    };
    let stack = |name: &str, heads: usize| -> Parsed<Map<String, Json>> {
        let first = format!("{name}.layers.0.pos_ff.proj.conv.weight");
        let [inner, width, taps] = shape(&tensors, &first)?;
        let [positions, _] = shape(&tensors, &format!("{name}.position_embeddings.weight"))?;
        let layers = count(&tensors, &format!("{name}.layers."), ".norm_self.weight");
        let mut map = Map::new();
        put(&mut map, "n_layers", layers);
        put(&mut map, "d_model", width);
        put(&mut map, "d_ffn", inner);
        put(&mut map, "sa_n_heads", heads);
        put(&mut map, "kernel_size", taps);
        put(&mut map, "max_length_causal_mask", positions);
        put(&mut map, "is_causal", true);
        put(&mut map, "apply_norm_out", tensors.has(&format!("{name}.norm_out.weight")));
        put(&mut map, "use_learnable_pos_emb", true);
        Ok(map)
    };
    let cross = heads("decoder_xa_heads")?;
    let [inner, _] = shape(&tensors, "decoder.layers.0.cross_attention.q_net.weight")?;
    let [_, memory] = shape(&tensors, "decoder.layers.0.cross_attention.kv_net.weight")?;
    let mut decoder = stack("decoder", heads("decoder_sa_heads")?)?;
    put(&mut decoder, "has_xattn", true);
    put(&mut decoder, "xa_n_heads", cross);
    put(&mut decoder, "xa_d_head", inner / cross);
    put(&mut decoder, "xa_d_memory", memory);
    put(&mut decoder, "apply_norm_to_cond", true);
    let [rows, width] = shape(&tensors, "text_embedding.weight")?;
    let [_, local] = shape(&tensors, "local_transformer.position_embeddings.weight")?;
    let tables = count(&tensors, "audio_embeddings.", ".weight");
    let codebooks = heads("num_codebooks")?;
    if !tables.is_multiple_of(codebooks) {
        return Err(format!("it has {tables} tables of codes and {codebooks} codebooks"));
    }
    let mut run = Map::new();
    let is_released = decoder["n_layers"] == json!(12);
    if is_released {
        put(&mut run, "estimate_alignment_from_layers", json!([4, 5, 8, 9]));
        put(&mut run, "apply_prior_to_layers", json!([2, 3, 4, 5, 6, 7, 8, 9, 10]));
    }
    let (artefacts, tokenizers) = english(&values, rows)?;
    let config = json!({
        "model_type": "decoder_ce",
        "embedding_dim": width,
        "frame_stacking_factor": tables / codebooks,
        "encoder": stack("encoder", heads("encoder_heads")?)?,
        "decoder": decoder,
        "local_transformer_type": "autoregressive",
        "local_transformer_n_layers":
            count(&tensors, "local_transformer.layers.", ".norm_self.weight"),
        // Not in the file. The files of this port have one.
        "local_transformer_n_heads": 1,
        "local_transformer_hidden_dim": local,
        "text_tokenizers": tokenizers,
        "language_to_tokenizer_mapping": { "en": ["english_phoneme"] },
        "forced_num_all_tokens_per_codebook": values.number("vocab_size_per_codebook")?,
        "forced_audio_bos_id": values.number("audio_bos_id")?,
        "forced_audio_eos_id": values.number("audio_eos_id")?,
        "inference_parameters": run,
    });
    let notice = "this file has no settings of a run and no names of voices; it reads English only, \
                  and no list says which words have two pronunciations";
    let model = file(path, config, tensors, vec![notice.to_owned()]);
    Ok(Opened { model, texts: texts(path, artefacts, None), lengths: None, codec: None })
}

/// Returns the texts of the English tokenizer, and the settings of all tokenizers: the ids of the others
/// follow, and nothing else of them is known.
fn english(values: &Values<'_>, rows: usize) -> Parsed<(BTreeMap<String, Vec<u8>>, Json)> {
    let (dictionary, vocabulary) = ("tokenizer.dict", "tokenizer.vocab");
    let tokens = values.text(vocabulary)?;
    let count = tokens.split('\n').count();
    let key = "text_eos_id";
    expect(values, key, &values.number(key)?, &json!(rows.checked_sub(1)))?;
    let others = rows.checked_sub(count + 2);
    let others =
        others.ok_or_else(|| format!("it has {count} tokens, but only {rows} rows of text"))?;
    let texts = [(dictionary, values.text(dictionary)?), (vocabulary, tokens)];
    let texts = texts.map(|(key, text)| (key.to_owned(), text.as_bytes().to_vec()));
    let tokenizers = json!({
        "english_phoneme": {
            "_target_":
                "nemo.collections.common.tokenizers.text_to_speech.tts_tokenizers.IPATokenizer",
            "vocabulary": format!("nemo:{vocabulary}"),
            // Words in lower case, with one pronunciation each.
            "g2p": { "phoneme_dict": format!("nemo:{dictionary}"), "ignore_ambiguous_words": false },
        },
        "others": { "_target_": "absent", "size": others },
    });
    Ok((texts.into(), tokenizers))
}

/// Opens the file of a codec with this header and these tensors.
pub(super) fn codec(path: &Path, header: &Header, tensors: Tensors) -> Parsed<Codec> {
    let values = Values { header, prefix: "codec" };
    let name = "vq.fsqs.0.num_levels";
    let levels = tensors.whole_numbers(name).ok().flatten();
    let levels = levels.ok_or_else(|| format!("it has no list of levels `{name}`"))?;
    let product = levels.iter().try_fold(1_i64, |all, &level| all.checked_mul(level));
    let key = "codebook_size";
    expect(&values, key, &values.number(key)?, &json!(product))?;
    let [base, latent, first] = shape(&tensors, "dec.pre.weight")?;
    let [.., last] = shape::<3>(&tensors, "dec.post.weight")?;
    let stages = count(&tensors, "dec.up.", ".c.weight");
    let rates = (0..stages).map(|stage| {
        let [_, _, taps] = shape(&tensors, &format!("dec.up.{stage}.c.weight"))?;
        Ok(taps / 2)
    });
    let chains = count(&tensors, "dec.rl.0.rb.", ".rb.0.in_conv.weight");
    let taps = (0..chains).map(|chain| {
        let [.., taps] = shape::<3>(&tensors, &format!("dec.rl.0.rb.{chain}.rb.0.in_conv.weight"))?;
        Ok(taps)
    });
    let config = json!({
        "sample_rate": values.number("sample_rate")?,
        "samples_per_frame": values.number("hop_length")?,
        "audio_decoder": {
            "up_sample_rates": rates.collect::<Parsed<Vec<_>>>()?,
            "input_dim": latent,
            "base_channels": base,
            "in_kernel_size": first,
            "out_kernel_size": last,
            "resblock_kernel_sizes": taps.collect::<Parsed<Vec<_>>>()?,
            "activation": "half_snake",
            "output_activation": "clamp",
            "n_groups_equal_to_out_channels": true,
        },
        "vector_quantizer": {
            "num_groups": values.number("num_codebooks")?,
            "num_levels_per_group": levels,
        },
    });
    let file = file(path, config, tensors, Vec::new());
    Ok(Codec { file, spelling: Spelling::Short })
}
