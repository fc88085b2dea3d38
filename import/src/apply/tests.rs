use safetensors::Dtype::{self, BF16, F16, F32, I64};

use super::*;
use crate::testing::{B, Stored, Toy, directory, file, stored};
use crate::{Network, families::acestep::tensor_names};

const WEIGHT: [f32; 6] = [0.1, -2.0, 3.25, 1e-3, 0.0, -7.7];
const BIAS: [f32; 2] = [0.5, -0.3];
const NULL: [f32; 4] = [1.0, 2.0, 3.0, 4.0];

fn toy(dtype: Dtype) -> Vec<(&'static str, Stored)> {
    vec![
        ("encoder.weight", stored(dtype, &[2, 3], &WEIGHT)),
        ("encoder.bias", stored(dtype, &[2], &BIAS)),
        ("null_condition_emb", stored(dtype, &[4], &NULL)),
    ]
}

fn load_files(files: &[(&str, Vec<u8>)], dtype: DType) -> Result<Toy<B>, Error> {
    let (_temporary, directory) = directory(files);
    let tensors = Arc::new(Tensors::open(&directory)?);
    load(Toy::init(), &tensors, &tensor_names(Network::Conditioner), dtype, None)
}

fn load_toy(tensors: &[(&str, Stored)]) -> Result<Toy<B>, Error> {
    load_files(&[("model.safetensors", file(tensors))], DType::F32)
}

/// Returns the message without the temporary directory.
fn message(result: Result<Toy<B>, Error>) -> String {
    let text = result.expect_err("an error").to_string();
    let (before, after) = text.split_once("`/").expect("a path");
    let (path, after) = after.split_once('`').expect("its end");
    format!("{before}`{}`{after}", path.rsplit('/').next().unwrap_or_default())
}

fn values(toy: &Toy<B>) -> Vec<f32> {
    let inner = [
        toy.encoder.weight.val().into_data(),
        toy.encoder.bias.val().into_data(),
        toy.null_condition_emb.val().into_data(),
    ];
    inner.iter().flat_map(|data| data.iter::<f32>().collect::<Vec<_>>()).collect()
}

fn all() -> Vec<f32> {
    [WEIGHT.as_slice(), &BIAS, &NULL].concat()
}

#[test]
fn an_f32_file_gives_its_values() -> Result<(), Error> {
    assert_eq!(values(&load_toy(&toy(F32))?), all());
    Ok(())
}

#[test]
fn half_files_give_the_rounded_values() -> Result<(), Error> {
    let f16: Vec<_> = all().iter().map(|&x| half::f16::from_f32(x).to_f32()).collect();
    assert_eq!(values(&load_toy(&toy(F16))?), f16);
    let bf16: Vec<_> = all().iter().map(|&x| half::bf16::from_f32(x).to_f32()).collect();
    assert_eq!(values(&load_toy(&toy(BF16))?), bf16);
    Ok(())
}

#[test]
fn parameters_have_the_type_that_was_asked_for() -> Result<(), Error> {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for stored in [F32, F16, BF16] {
            let toy = load_files(&[("model.safetensors", file(&toy(stored)))], dtype)?;
            assert_eq!(toy.encoder.weight.val().dtype(), dtype, "{stored:?}");
            // Parameters of elementwise operations have the compute type, which is not bf16 on
            // Flex.
            let wide = if dtype == DType::BF16 { DType::F32 } else { dtype };
            assert_eq!(toy.encoder.bias.val().dtype(), wide, "{stored:?}");
            assert_eq!(toy.null_condition_emb.val().dtype(), wide, "{stored:?}");
            assert!((values(&toy)[5] + 7.7).abs() < 0.03, "{:?}", values(&toy));
        }
    }
    Ok(())
}

/// bf16 reaches 3e38, f16 only 65504: 65519 still rounds to that, 65536 does not.
#[test]
fn what_f16_cannot_hold_is_an_error_that_names_the_tensor() -> Result<(), Error> {
    let load = |stored_as: Dtype, dtype, value: f32| {
        let mut tensors = toy(stored_as);
        tensors[1] = ("encoder.bias", stored(stored_as, &[2], &[0.5, value]));
        load_files(&[("model.safetensors", file(&tensors))], dtype)
    };
    let error = load(BF16, DType::F16, -65_536.0).expect_err("too large for f16");
    assert_eq!(error.hint().as_deref(), Some("pass `dtype: f32`"));
    let says = "tensor `encoder.bias` of `model.safetensors` has values beyond 65504, the largest \
                number of f16";
    assert_eq!(message(Err(error)), says);
    assert!(load(F32, DType::F16, 65_536.0).is_err());
    for (stored_as, dtype) in [(BF16, DType::BF16), (BF16, DType::F32), (F32, DType::BF16)] {
        assert_eq!(values(&load(stored_as, dtype, 65_536.0)?)[7], 65_536.0);
    }
    assert_eq!(values(&load(F32, DType::F16, 65_519.0)?)[7], 65_504.0);
    // An infinite value in the file does not depend on the type.
    assert_eq!(values(&load(F32, DType::F16, f32::INFINITY)?)[7], f32::INFINITY);
    Ok(())
}

/// The row (3, 4) of length 5 gets length 100 000.
#[test]
fn a_folded_weight_that_f16_cannot_hold_is_an_error() {
    let mut tensors = toy(F32);
    tensors[0] = ("encoder.weight_v", stored(F32, &[2, 3], &[3.0, 4.0, 0.0, 1.0, 0.0, 0.0]));
    tensors.push(("encoder.weight_g", stored(F32, &[2, 1], &[1e5, 1.0])));
    let load = |dtype| load_files(&[("model.safetensors", file(&tensors))], dtype);
    let error = message(load(DType::F16));
    assert!(error.starts_with("tensor `encoder.weight_v` of `model.safetensors` has"), "{error}");
    assert!(load(DType::BF16).is_ok());
}

#[test]
fn shards_give_what_one_file_gives() -> Result<(), Error> {
    let tensors = toy(F32);
    let index = serde_json::json!({"metadata": {}, "weight_map": {
        "encoder.weight": "model-00001-of-00002.safetensors",
        "encoder.bias": "model-00002-of-00002.safetensors",
        "null_condition_emb": "model-00002-of-00002.safetensors",
    }});
    let toy = load_files(
        &[
            ("model.safetensors.index.json", index.to_string().into()),
            ("model-00001-of-00002.safetensors", file(&tensors[..1])),
            ("model-00002-of-00002.safetensors", file(&tensors[1..])),
        ],
        DType::F32,
    )?;
    assert_eq!(values(&toy), all());
    Ok(())
}

/// By hand: the rows (3, 0, 4) and (0, 2, 0) have lengths 5 and 2, g gives them 10 and -1.
#[test]
fn a_weight_norm_pair_becomes_the_weight() -> Result<(), Error> {
    let mut tensors = toy(F32);
    let v = [3.0, 0.0, 4.0, 0.0, 2.0, 0.0];
    tensors[0] = ("encoder.weight_v", stored(F32, &[2, 3], &v));
    tensors.push(("encoder.weight_g", stored(F32, &[2, 1], &[10.0, -1.0])));
    let toy = load_toy(&tensors)?;
    assert_eq!(values(&toy)[..6], [6.0, 0.0, 8.0, 0.0, -1.0, 0.0]);
    Ok(())
}

#[test]
fn half_a_weight_norm_pair_is_refused() {
    for (found, missing) in [("weight_g", "weight_v"), ("weight_v", "weight_g")] {
        let mut tensors = toy(F32);
        let name = format!("encoder.{found}");
        tensors[0] = (&name, stored(F32, &[2, 3], &WEIGHT));
        assert_eq!(
            message(load_toy(&tensors)),
            format!("`model.safetensors` has tensor `encoder.{found}` but not `encoder.{missing}`")
        );
    }
}

#[test]
fn weight_norm_of_a_row_of_zeros_is_refused() {
    let mut tensors = toy(F32);
    tensors[0] = ("encoder.weight_v", stored(F32, &[2, 3], &[0.0; 6]));
    tensors.push(("encoder.weight_g", stored(F32, &[2, 1], &[1.0, 1.0])));
    let error = load_toy(&tensors).expect_err("not finite").to_string();
    assert!(error.starts_with("folding `encoder.weight_v` of `/"), "{error}");
}

#[test]
fn a_weight_beside_its_weight_norm_pair_is_refused() {
    let mut tensors = toy(F32);
    tensors.push(("encoder.weight_v", stored(F32, &[2, 3], &WEIGHT)));
    tensors.push(("encoder.weight_g", stored(F32, &[2, 1], &[1.0, 1.0])));
    let error = load_toy(&tensors).expect_err("one parameter twice").to_string();
    assert!(error.contains("are the same parameter"), "{error}");
}

#[test]
fn a_missing_tensor_is_named_as_in_the_file() {
    let mut tensors = toy(F32);
    tensors.remove(1);
    assert_eq!(
        message(load_toy(&tensors)),
        "`model.safetensors` has no tensor `encoder.bias`, which the conditioner needs"
    );
}

#[test]
fn unused_tensors_are_counted_and_the_first_eight_named() {
    let mut tensors = toy(F32);
    let names: Vec<_> = (0..10).map(|i| format!("encoder.extra.{i}")).collect();
    tensors.extend(names.iter().map(|name| (name.as_str(), stored(F32, &[1], &[0.0]))));
    let message = message(load_toy(&tensors));
    let start =
        "`model.safetensors` has 10 tensors that the conditioner does not use: `encoder.extra.0`, ";
    assert!(message.starts_with(start), "{message}");
    assert!(message.ends_with("`encoder.extra.7` and 2 more"), "{message}");
}

#[test]
fn tensors_of_other_parts_are_not_unused() -> Result<(), Error> {
    let mut tensors = toy(F32);
    tensors.push(("decoder.norm_out.weight", stored(F32, &[1], &[0.0])));
    load_toy(&tensors).map(drop)
}

#[test]
fn a_wrong_shape_is_told_with_both_shapes() {
    let mut tensors = toy(F32);
    tensors[0] = ("encoder.weight", stored(F32, &[3, 2], &WEIGHT));
    assert_eq!(
        message(load_toy(&tensors)),
        "tensor `encoder.weight` of `model.safetensors` is [3, 2], but by config.json it is [2, 3]"
    );
}

#[test]
fn a_weight_of_integers_is_refused() {
    let mut tensors = toy(F32);
    tensors[1] = ("encoder.bias", stored(I64, &[2], &BIAS));
    assert_eq!(
        message(load_toy(&tensors)),
        "tensor `encoder.bias` of `model.safetensors` is I64, weights are F32, F16 or BF16"
    );
}

#[test]
fn a_file_that_shrinks_while_it_is_open_is_refused() -> std::io::Result<()> {
    let (temporary, directory) = directory(&[("model.safetensors", file(&toy(F32)))]);
    let tensors = Arc::new(Tensors::open(&directory).expect("a good file"));
    let path = temporary.path().join("model.safetensors");
    std::fs::OpenOptions::new().write(true).open(path)?.set_len(100)?;
    let result =
        load::<B, _>(Toy::init(), &tensors, &tensor_names(Network::Conditioner), DType::F32, None);
    assert!(matches!(result, Err(Error::Changed { .. })), "{result:?}");
    Ok(())
}
