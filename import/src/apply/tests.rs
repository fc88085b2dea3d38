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
    load(Toy::init(), &tensors, &tensor_names(Network::Conditioner), dtype, None, None)
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
fn a_file_gives_its_values_rounded_to_its_type() -> Result<(), Error> {
    let f16: Vec<_> = all().iter().map(|&x| half::f16::from_f32(x).to_f32()).collect();
    let bf16: Vec<_> = all().iter().map(|&x| half::bf16::from_f32(x).to_f32()).collect();
    for (dtype, expected) in [(F32, all()), (F16, f16), (BF16, bf16)] {
        assert_eq!(values(&load_toy(&toy(dtype))?), expected, "{dtype:?}");
    }
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

/// `encoder.weight` or `encoder.bias` is replaced or removed, and tensors are added.
#[test]
fn tensors_that_are_not_those_of_the_network_are_refused_by_name() {
    let weight = |shape| stored(F32, shape, &WEIGHT);
    let lengths = || ("encoder.weight_g", stored(F32, &[2, 1], &[1.0, 1.0]));
    let half = |name| (Some(0), vec![(name, weight(&[2, 3]))]);
    let extra: Vec<_> = (0..10).map(|i| format!("encoder.extra.{i}")).collect();
    let extra = extra.iter().map(|name| (name.as_str(), stored(F32, &[1], &[0.0]))).collect();
    let zeros = ("encoder.weight_v", stored(F32, &[2, 3], &[0.0; 6]));
    for ((removed, added), says) in [
        (half("encoder.weight_g"), "has tensor `encoder.weight_g` but not `encoder.weight_v`"),
        (half("encoder.weight_v"), "has tensor `encoder.weight_v` but not `encoder.weight_g`"),
        (
            (Some(0), vec![zeros, lengths()]),
            "folding `encoder.weight_v` of `model.safetensors` gives",
        ),
        (
            (None, vec![("encoder.weight_v", weight(&[2, 3])), lengths()]),
            "`model.safetensors` are the same parameter",
        ),
        ((Some(1), vec![]), "has no tensor `encoder.bias`, which the conditioner needs"),
        (
            (None, extra),
            "has 10 tensors that the conditioner does not use: `encoder.extra.0`, `encoder.extra.1`, \
             `encoder.extra.2`, `encoder.extra.3`, `encoder.extra.4`, `encoder.extra.5`, \
             `encoder.extra.6`, `encoder.extra.7` and 2 more",
        ),
        (
            (Some(0), vec![("encoder.weight", weight(&[3, 2]))]),
            "`encoder.weight` of `model.safetensors` is [3, 2], but by config.json it is [2, 3]",
        ),
        (
            (Some(1), vec![("encoder.bias", stored(I64, &[2], &BIAS))]),
            "`encoder.bias` of `model.safetensors` is I64, weights are F32, F16 or BF16",
        ),
    ] {
        let mut tensors: Vec<(&str, Stored)> = toy(F32);
        tensors.extend(added);
        if let Some(removed) = removed {
            tensors.remove(removed);
        }
        let error = message(load_toy(&tensors));
        assert!(error.contains(says), "{says}: {error}");
    }
    // A tensor of another part is not unused.
    let mut tensors = toy(F32);
    tensors.push(("decoder.norm_out.weight", stored(F32, &[1], &[0.0])));
    assert!(load_toy(&tensors).is_ok());
}

#[test]
fn a_file_that_shrinks_while_it_is_open_is_refused() -> std::io::Result<()> {
    let (temporary, directory) = directory(&[("model.safetensors", file(&toy(F32)))]);
    let tensors = Arc::new(Tensors::open(&directory).expect("a good file"));
    let path = temporary.path().join("model.safetensors");
    std::fs::OpenOptions::new().write(true).open(path)?.set_len(100)?;
    let result = load::<B, _>(
        Toy::init(),
        &tensors,
        &tensor_names(Network::Conditioner),
        DType::F32,
        None,
        None,
    );
    assert!(matches!(result, Err(Error::Changed { .. })), "{result:?}");
    Ok(())
}
