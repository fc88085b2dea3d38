//! Archives of a model and a codec with few weights, whole and damaged.

mod gguf;
mod networks;
mod presence;
mod written;

use acestep_model::{kernel::Precision, speech::magpie::Files as _};
use burn_flex::Flex;

use super::*;
use crate::testing::zip;
use written::{
    CODEC_YAML, Stored, YAML, archive, checkpoint, codec_tensors, floats, integers, model_tensors,
    value,
};

/// Opens and checks the model of these tensors.
fn opened(model: &Stored, codec: &Stored) -> Result<Magpie, Error> {
    opened_with(YAML, model, codec)
}

fn opened_with(yaml: &str, model: &Stored, codec: &Stored) -> Result<Magpie, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, of_codec) =
        (folder.path().join("magpie.nemo"), folder.path().join("nemo-nano-codec-x.nemo"));
    archive(&path, yaml, &checkpoint(model));
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
    let expected: Vec<f32> = (8..12).map(|i| value("baked_context_embedding.weight", i)).collect();
    assert_eq!(voice, expected);
    magpie.encoder(&place).expect("an encoder");
    magpie.local_transformer(&place).expect("a local transformer");
    magpie.codec_decoder(&place, Precision::Highest).expect("a codec");
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
    let cases: [(Change<'_>, &[&str]); 11] = [
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
        // The same number of values, in other rows.
        (
            &|model, _| integers(model, "_baked_embedding_T", &[], &[4]),
            &["`_baked_embedding_T` is [4]", "[3, 8]"],
        ),
        (
            &|model, _| integers(model, "_baked_embedding_D", &[], &[2]),
            &["`_baked_embedding_D` is [2]", "[3, 8]"],
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

#[test]
fn a_model_of_another_layout_of_codes_than_its_codec_is_refused_by_its_key() {
    let yaml = format!("{YAML}vector_quantizer: {{num_groups: 4}}\n");
    let error = opened_with(&yaml, &model_tensors(), &codec_tensors()).map(drop);
    let error = error.expect_err("another layout").to_string();
    assert!(error.contains("magpie.nemo"), "{error}");
    let null = format!("{YAML}vector_quantizer: null\n");
    opened_with(&null, &model_tensors(), &codec_tensors()).expect("a model");
}

/// Values that a pickle would run, entries that would grow, and values that are cut.
#[test]
fn hostile_weights_give_one_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("magpie.nemo");
    let whole = checkpoint(&model_tensors());
    let big = b"big";
    let other = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.";
    for (checkpoint, says) in [
        (whole[..whole.len() / 2].to_vec(), "it is no zip archive"),
        (zip(&[("m/data.pkl", other)]), "`os.system`"),
        (zip(&[("a/data.pkl", other), ("b/data.pkl", other)]), "2 descriptions"),
        (zip(&[("m/data/0", other)]), "0 descriptions"),
        (zip(&[("m/data.pkl", b"\x80\x02}."), ("m/byteorder", big)]), "not little-endian"),
        (zip(&[("m/data.pkl", b"\x80\x02}.")]), "it has no voices"),
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
