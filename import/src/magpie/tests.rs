//! Archives of a model and a codec with few weights, whole and damaged.

use std::{collections::BTreeMap, io::Write, path::Path};

use acestep_model::speech::magpie::Files as _;
use burn_flex::Flex;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::*;

/// (Values, type of the storage) of a tensor with a shape.
type Stored = BTreeMap<String, (Vec<usize>, Vec<u8>, &'static str)>;

fn floats(all: &mut Stored, name: impl Into<String>, shape: &[usize]) {
    let name = name.into();
    let values =
        (0..shape.iter().product::<usize>()).map(|i| ((i * 7 + name.len()) % 13) as f32 - 5.5);
    let bytes = values.flat_map(|value| (value / 16.0).to_le_bytes()).collect();
    all.insert(name, (shape.to_vec(), bytes, "FloatStorage"));
}

fn integers(all: &mut Stored, name: &str, shape: &[usize], values: &[i64]) {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    all.insert(name.to_owned(), (shape.to_vec(), bytes, "LongStorage"));
}

/// A checkpoint as `torch.save` writes it.
fn checkpoint(tensors: &Stored) -> Vec<u8> {
    let text =
        |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let int = |number: usize| [b"J", &(number as i32).to_le_bytes()[..]].concat();
    let tuple = |numbers: &[usize]| {
        let all: Vec<u8> = numbers.iter().flat_map(|&number| int(number)).collect();
        [b"(".to_vec(), all, b"t".to_vec()].concat()
    };
    let mut pickle = b"\x80\x02}".to_vec();
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (key, (name, (shape, bytes, class))) in tensors.iter().enumerate() {
        let size = if *class == "FloatStorage" { 4 } else { 8 };
        let strides: Vec<usize> =
            (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
        for part in [
            text(name),
            b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
            text("storage"),
            format!("ctorch\n{class}\n").into_bytes(),
            text(&key.to_string()),
            text("cpu"),
            int(bytes.len() / size),
            b"tQK\0".to_vec(),
            tuple(shape),
            tuple(&strides),
            b"\x89ccollections\nOrderedDict\n)RtRs".to_vec(),
        ] {
            pickle.extend(part);
        }
        zip.start_file(format!("m/data/{key}"), options).expect("an entry");
        zip.write_all(bytes).expect("bytes");
    }
    pickle.push(b'.');
    zip.start_file("m/data.pkl", options).expect("an entry");
    zip.write_all(&pickle).expect("bytes");
    zip.finish().expect("an archive").into_inner()
}

fn archive(path: &Path, yaml: &str, checkpoint: &[u8]) {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in
        [("./model_config.yaml", yaml.as_bytes()), ("./model_weights.ckpt", checkpoint)]
    {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, content).expect("a member");
    }
    std::fs::write(path, builder.into_inner().expect("an archive")).expect("a file");
}

const YAML: &str = "\
model_type: decoder_ce
embedding_dim: 4
local_transformer_type: autoregressive
local_transformer_n_layers: 1
local_transformer_hidden_dim: 2
text_tokenizers: {}
encoder:
  n_layers: 1
  d_model: 4
  d_ffn: 6
  sa_n_heads: 2
  kernel_size: 3
  is_causal: true
  apply_norm_out: true
  max_length_causal_mask: 8
  use_learnable_pos_emb: true
decoder:
  n_layers: 1
  d_model: 4
  d_ffn: 6
  sa_n_heads: 2
  kernel_size: 1
  is_causal: true
  apply_norm_out: true
  max_length_causal_mask: 8
  use_learnable_pos_emb: true
  has_xattn: true
  xa_d_head: 3
  xa_d_memory: 4
  xa_n_heads: 1
  apply_norm_to_cond: true
";
const CODEC_YAML: &str = "\
sample_rate: 22050
samples_per_frame: 2
audio_decoder: {up_sample_rates: [2], input_dim: 2, base_channels: 4, activation: half_snake,
  output_activation: clamp, pad_mode: zeros, n_groups_equal_to_out_channels: true}
vector_quantizer: {num_groups: 2, num_levels_per_group: [5]}
";

/// The tensors of a model: two codebooks of five codes, three voices of two rows.
fn model_tensors() -> Stored {
    let mut all = Stored::new();
    floats(&mut all, "text_embedding.weight", &[9, 4]);
    for (stack, width, inner, kernel) in
        [("encoder", 4, 6, 3), ("decoder", 4, 6, 1), ("local_transformer", 2, 8, 1)]
    {
        let positions = if stack == "local_transformer" { 4 } else { 8 };
        floats(&mut all, format!("{stack}.position_embeddings.weight"), &[positions, width]);
        if stack != "local_transformer" {
            floats(&mut all, format!("{stack}.norm_out.weight"), &[width]);
        }
        let layer = format!("{stack}.layers.0.");
        for norm in ["norm_self", "norm_pos_ff"] {
            floats(&mut all, format!("{layer}{norm}.weight"), &[width]);
        }
        floats(&mut all, format!("{layer}self_attention.qkv_net.weight"), &[3 * width, width]);
        floats(&mut all, format!("{layer}self_attention.o_net.weight"), &[width, width]);
        floats(&mut all, format!("{layer}self_attention.causal_mask"), &[1, 1, 8, 8]);
        floats(&mut all, format!("{layer}pos_ff.proj.conv.weight"), &[inner, width, kernel]);
        floats(&mut all, format!("{layer}pos_ff.o_net.conv.weight"), &[width, inner, kernel]);
    }
    for (name, shape) in [
        ("norm_xattn_query.weight", &[4][..]),
        ("norm_xattn_memory.weight", &[4]),
        ("cross_attention.q_net.weight", &[3, 4]),
        ("cross_attention.kv_net.weight", &[6, 4]),
        ("cross_attention.o_net.weight", &[4, 3]),
    ] {
        floats(&mut all, format!("decoder.layers.0.{name}"), shape);
    }
    for table in 0..2 {
        floats(&mut all, format!("audio_embeddings.{table}.weight"), &[13, 4]);
        let head = format!("local_transformer_out_projections.{table}");
        floats(&mut all, format!("{head}.weight"), &[13, 2]);
        floats(&mut all, format!("{head}.bias"), &[13]);
    }
    floats(&mut all, "local_transformer_in_projection.weight", &[2, 4]);
    floats(&mut all, "local_transformer_in_projection.bias", &[2]);
    floats(&mut all, "final_proj.weight", &[26, 4]);
    floats(&mut all, "final_proj.bias", &[26]);
    floats(&mut all, "baked_context_embedding.weight", &[3, 8]);
    integers(&mut all, "_baked_embedding_T", &[], &[2]);
    integers(&mut all, "_baked_embedding_D", &[], &[4]);
    integers(&mut all, "baked_context_embedding_len", &[3], &[2, 1, 2]);
    all
}

fn codec_tensors() -> Stored {
    let mut all = Stored::new();
    let conv = |all: &mut Stored, name: &str, shape: [usize; 3], bias: usize| {
        floats(all, format!("audio_decoder.{name}.conv.bias"), &[bias]);
        let norm = format!("audio_decoder.{name}.conv.parametrizations.weight.original");
        floats(all, format!("{norm}0"), &[shape[0], 1, 1]);
        floats(all, format!("{norm}1"), &shape);
    };
    let snake = |all: &mut Stored, name: &str, channels: usize| {
        floats(all, format!("audio_decoder.{name}.activation.snake_act.alpha"), &[1, channels, 1]);
    };
    conv(&mut all, "pre_conv", [4, 2, 7], 4);
    snake(&mut all, "activations.0", 2);
    conv(&mut all, "up_sample_conv_layers.0", [4, 1, 4], 2);
    for (chain, taps) in [3, 7, 11].into_iter().enumerate() {
        for block in 0..3 {
            let block = format!("res_layers.0.res_blocks.{chain}.res_blocks.{block}.");
            for part in ["input", "skip"] {
                conv(&mut all, &format!("{block}{part}_conv"), [2, 2, taps], 2);
                snake(&mut all, &format!("{block}{part}_activation"), 1);
            }
        }
    }
    snake(&mut all, "post_activation", 1);
    conv(&mut all, "post_conv", [1, 2, 3], 1);
    for group in 0..2 {
        let name = format!("vector_quantizer.fsqs.{group}.");
        integers(&mut all, &format!("{name}num_levels"), &[1, 1, 1], &[5]);
        integers(&mut all, &format!("{name}dim_base_index"), &[1, 1, 1], &[1]);
    }
    floats(&mut all, "audio_encoder.pre_conv.conv.bias", &[2]);
    floats(&mut all, "discriminator.conv.weight", &[2, 2]);
    all
}

/// Opens and checks the model of these tensors.
fn opened(model: &Stored, codec: &Stored) -> Result<Magpie, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, of_codec) =
        (folder.path().join("magpie.nemo"), folder.path().join("nemo-nano-codec-x.nemo"));
    archive(&path, YAML, &checkpoint(model));
    archive(&of_codec, CODEC_YAML, &checkpoint(codec));
    let magpie = Magpie::open(folder.path(), None)?;
    magpie.check::<Flex>(&Default::default())?;
    Ok(magpie)
}

#[test]
fn a_model_and_its_codec_in_one_folder_are_read_in_place() {
    let magpie = opened(&model_tensors(), &codec_tensors()).expect("a model");
    let sizes = magpie.sizes();
    assert_eq!((sizes.text_rows, sizes.codebooks, sizes.codes), (9, 2, 5));
    assert_eq!((sizes.context_rows, &sizes.context_lengths[..]), (2, &[2, 1, 2][..]));
    assert_eq!(magpie.name(), "magpie");
    let place = Place::<Flex>::f32(Default::default());
    let decoder = magpie.decoder(&place).expect("a decoder");
    // The second voice has one row, the first of its two: values 8 to 11 of the table.
    let voice: Vec<f32> = decoder.context(1, &place.device).into_data().to_vec().expect("f32");
    let name = "baked_context_embedding.weight".len();
    let expected: Vec<f32> =
        (8..12).map(|i: usize| (((i * 7 + name) % 13) as f32 - 5.5) / 16.0).collect();
    assert_eq!(voice, expected);
    magpie.encoder(&place).expect("an encoder");
    magpie.local_transformer(&place).expect("a local transformer");
    magpie.codec_decoder(&place).expect("a codec");
}

#[test]
fn a_missing_a_foreign_and_a_misshaped_tensor_are_named() {
    let changed = |change: &dyn Fn(&mut Stored, &mut Stored)| {
        let (mut model, mut codec) = (model_tensors(), codec_tensors());
        change(&mut model, &mut codec);
        opened(&model, &codec).map(drop).expect_err("a damaged model").to_string()
    };
    const CONV: &str = "encoder.layers.0.pos_ff.proj.conv.weight";
    const G: &str = "audio_decoder.pre_conv.conv.parametrizations.weight.original0";
    const V: &str = "audio_decoder.pre_conv.conv.parametrizations.weight.original1";
    type Change<'a> = &'a dyn Fn(&mut Stored, &mut Stored);
    let cases: [(Change<'_>, &[&str]); 9] = [
        (&|model, _| drop(model.remove("final_proj.bias")), &["has no tensor `final_proj.bias`"]),
        (
            &|model, _| floats(model, "context_encoder.x", &[1]),
            &["`context_encoder.x`", "does not use"],
        ),
        // Another kernel with as many values.
        (&|model, _| floats(model, CONV, &[6, 6, 2]), &[CONV, "[6, 6, 2]"]),
        (&|model, _| floats(model, "audio_embeddings.1.weight", &[12, 4]), &["[12, 4]", "[13, 4]"]),
        (
            &|model, _| drop(model.remove("baked_context_embedding.weight")),
            &["it has no voices", "`baked_context_embedding.weight`"],
        ),
        (
            &|model, _| integers(model, "baked_context_embedding_len", &[3], &[2, 3, 2]),
            &["[2, 3, 2]"],
        ),
        (&|_, codec| drop(codec.remove(G)), &[V, G]),
        (&|_, codec| floats(codec, G, &[2, 1, 1]), &[G, "[4, 1, 1]"]),
        (
            &|_, codec| integers(codec, "vector_quantizer.fsqs.1.num_levels", &[1, 1, 1], &[4]),
            &["`vector_quantizer.fsqs.1.num_levels`"],
        ),
    ];
    for (change, says) in cases {
        let error = changed(change);
        for part in says {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(error.contains(".nemo"), "{error}");
    }
}

/// Values that a pickle would run, entries that would grow, and values that are cut.
#[test]
fn hostile_weights_give_one_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("magpie.nemo");
    let whole = checkpoint(&model_tensors());
    let zip_of = |entries: &[(&str, &[u8])]| {
        let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        for (name, content) in entries {
            zip.start_file(*name, options).expect("an entry");
            zip.write_all(content).expect("bytes");
        }
        zip.finish().expect("an archive").into_inner()
    };
    let big = b"big";
    let other = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.";
    for (checkpoint, says) in [
        (whole[..whole.len() / 2].to_vec(), "it is no zip archive"),
        (zip_of(&[("m/data.pkl", other)]), "`os.system`"),
        (zip_of(&[("a/data.pkl", other), ("b/data.pkl", other)]), "2 descriptions"),
        (zip_of(&[("m/data/0", other)]), "0 descriptions"),
        (zip_of(&[("m/data.pkl", b"\x80\x02}."), ("m/byteorder", big)]), "not little-endian"),
        (zip_of(&[("m/data.pkl", b"\x80\x02}.")]), "it has no voices"),
        (Vec::new(), "it is no zip archive"),
    ] {
        archive(&path, YAML, &checkpoint);
        archive(
            &folder.path().join("nemo-nano-codec-x.nemo"),
            CODEC_YAML,
            &self::checkpoint(&codec_tensors()),
        );
        let error = Magpie::open(&path, None).map(drop).expect_err(says).to_string();
        assert!(error.contains("magpie.nemo") && error.contains(says), "{says}: {error}");
    }
}

#[test]
fn a_model_without_its_codec_says_where_it_was_looked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("magpie.nemo");
    archive(&path, YAML, &checkpoint(&model_tensors()));
    let error = Magpie::open(&path, None).map(drop).expect_err("no codec");
    assert!(error.to_string().contains("nemo-nano-codec-*.nemo"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("`nanocodec`")), "{error}");
    // The codec in place of the model.
    let codec = folder.path().join("other.nemo");
    archive(&codec, CODEC_YAML, &checkpoint(&codec_tensors()));
    let error = Magpie::open(&codec, Some(&codec)).map(drop).expect_err("no model");
    assert!(error.to_string().contains("other.nemo"), "{error}");
}
