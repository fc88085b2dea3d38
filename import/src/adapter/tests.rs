//! Adapters on the built-in tiny model, against sums in double precision.

use std::{collections::BTreeMap, path::PathBuf};

use acestep_model::Place;
use burn::tensor::DType;
use burn_flex::FlexDevice;
use burn_store::ModuleSnapshot;
use safetensors::{Dtype, serialize};
use tempfile::TempDir;

use super::{Adapter, AdapterError};
use crate::{
    Error, Folder, open_tiny,
    testing::{B, Stored, place, stored},
};

/// `[64, 64]`, `[32, 64]` and `[96, 64]`.
const Q: &str = "layers.0.self_attn.q_proj";
const K: &str = "layers.1.cross_attn.k_proj";
const UP: &str = "layers.0.mlp.up_proj";

/// Numbers between -1 and 1 that look like noise (Weyl's sequence).
fn numbers(n: usize, seed: f64) -> Vec<f32> {
    let number = |i: usize| (((i as f64 + 1.0) * (seed + 0.618_034)).fract() * 2.0 - 1.0) as f32;
    (0..n).map(number).collect()
}

fn tensor(shape: &[usize], seed: f64) -> Stored {
    stored(Dtype::F32, shape, &numbers(shape.iter().product(), seed))
}

/// A file of an adapter.
struct File {
    folder: TempDir,
    tensors: Vec<(String, Stored)>,
    metadata: BTreeMap<String, String>,
}

impl File {
    fn new<const N: usize>(tensors: [(&str, Stored); N]) -> Self {
        let tensors = tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, tensors, metadata: BTreeMap::new() }
    }

    /// `A` and `B` of rank 4 for a weight `[out, 64]`.
    fn lora(module: &str, out: usize, seed: f64) -> Self {
        let (a, b) = (format!("{module}.lora_A.weight"), format!("{module}.lora_B.weight"));
        Self::new([
            (a.as_str(), tensor(&[4, 64], seed)),
            (b.as_str(), tensor(&[out, 4], seed + 0.1)),
        ])
    }

    fn with(mut self, name: &str, tensor: Stored) -> Self {
        self.tensors.push((name.to_owned(), tensor));
        self
    }

    fn metadata(mut self, key: &str, value: &str) -> Self {
        self.metadata.insert(key.to_owned(), value.to_owned());
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let tensors = self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.clone()));
        let metadata = self.metadata.clone().into_iter().collect();
        serialize(tensors, Some(metadata)).expect("a file")
    }

    fn write(&self) -> PathBuf {
        let path = self.folder.path().join("style.safetensors");
        std::fs::write(&path, self.bytes()).expect("written");
        path
    }

    fn open(&self) -> Result<Adapter, Error> {
        Adapter::open(&self.write())
    }

    fn adapter(&self) -> Adapter {
        self.open().expect("an adapter")
    }

    /// The values of a tensor.
    fn values(&self, ending: &str) -> Vec<f64> {
        let mut found = self.tensors.iter().filter(|(name, _)| name.ends_with(ending));
        let (_, tensor) = found.next().expect(ending);
        let bytes = tensor.bytes.chunks_exact(4);
        bytes.map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("four")))).collect()
    }
}

type Weights = BTreeMap<String, Vec<f32>>;

fn weights_in(folder: &Folder, place: &Place<B>) -> Weights {
    let dit = acestep_model::Checkpoint::<B>::dit(folder, place).expect("a network");
    let values = |data: burn::tensor::TensorData| data.iter::<f32>().collect();
    dit.collect(None, None, false)
        .iter()
        .map(|of| (of.full_path(), values(of.to_data().expect("values"))))
        .collect()
}

fn adapted(adapters: Vec<(Adapter, f64)>) -> Folder {
    let mut folder = open_tiny().expect("built in");
    folder.adapt(adapters).expect("they fit");
    folder
}

fn weights(adapters: Vec<(Adapter, f64)>) -> Weights {
    weights_in(&adapted(adapters), &place())
}

fn message(result: Result<Adapter, Error>) -> String {
    result.expect_err("an error").to_string()
}

fn refused(file: &File) -> String {
    let mut folder = open_tiny().expect("built in");
    folder.adapt(vec![(file.adapter(), 1.0)]).expect_err("it does not fit").to_string()
}

/// That `module` is `wanted` and nothing else has changed.
#[track_caller]
fn assert_only(found: &Weights, module: &str, wanted: &[f64]) {
    let own = weights(vec![]);
    let name = format!("{module}.weight");
    assert_eq!(found.len(), own.len());
    for (path, values) in found {
        if *path == name {
            assert_ne!(values, &own[path]);
            for (i, (&found, &wanted)) in values.iter().zip(wanted).enumerate() {
                let error = (f64::from(found) - wanted).abs();
                assert!(error < 2e-6 * (1.0 + wanted.abs()), "{i}: {found} and {wanted}");
            }
        } else {
            assert_eq!(values, &own[path], "{path}");
        }
    }
}

/// `W + scale B A`, in double precision.
fn with_lora(w: &[f32], a: &[f64], b: &[f64], rank: usize, scale: f64) -> Vec<f64> {
    let columns = a.len() / rank;
    let cell = |i: usize| {
        let (row, column) = (i / columns, i % columns);
        let sum: f64 = (0..rank).map(|r| b[row * rank + r] * a[r * columns + column]).sum();
        f64::from(w[i]) + scale * sum
    };
    (0..w.len()).map(cell).collect()
}

fn own(module: &str) -> Vec<f32> {
    weights(vec![]).remove(&format!("{module}.weight")).expect("a weight")
}

#[test]
fn a_lora_adds_scale_times_alpha_over_rank_times_b_a() {
    let file = File::lora(&format!("base_model.model.{K}"), 32, 0.2)
        .with(&format!("base_model.model.{K}.alpha"), stored(Dtype::F32, &[], &[6.0]));
    let found = weights(vec![(file.adapter(), 0.5)]);
    let (a, b) = (file.values("lora_A.weight"), file.values("lora_B.weight"));
    assert_only(&found, K, &with_lora(&own(K), &a, &b, 4, 0.5 * 6.0 / 4.0));
}

#[test]
fn an_alpha_may_be_a_whole_number_and_must_be_one() {
    let with = |alpha: Stored| File::lora(K, 32, 0.2).with(&format!("{K}.alpha"), alpha);
    let alphas = |file: File| file.adapter().alphas();
    assert_eq!(alphas(with(stored(Dtype::I64, &[], &[6.0]))), Some((6.0, 6.0)));
    assert_eq!(alphas(with(stored(Dtype::BF16, &[1], &[6.0]))), Some((6.0, 6.0)));
    let file = with(stored(Dtype::F32, &[], &[f32::NAN]));
    assert!(message(file.open()).ends_with("its alpha is not one number"));
}

#[test]
fn a_directory_of_peft_has_its_alpha_in_its_settings() {
    let file = File::lora(&format!("base_model.model.{Q}"), 64, 0.3);
    let folder = file.folder.path().join("adapter");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("adapter_model.safetensors"), file.bytes()).expect("written");
    let settings = folder.join("adapter_config.json");
    let (a, b) = (file.values("lora_A.weight"), file.values("lora_B.weight"));
    for (text, scale) in [
        (r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8}"#, 2.0),
        (r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": true}"#, 4.0),
        (r#"{"r": 4, "lora_alpha": 8, "alpha_pattern": {"self_attn.q_proj": 2}}"#, 0.5),
    ] {
        std::fs::write(&settings, text).expect("written");
        // The directory, the one around it as ACE-Step's training writes it, and the file in it.
        for path in [&folder, file.folder.path(), &folder.join("adapter_model.safetensors")] {
            let found = weights(vec![(Adapter::open(path).expect("an adapter"), 1.0)]);
            assert_only(&found, Q, &with_lora(&own(Q), &a, &b, 4, scale));
        }
    }
    // Renamed, with nothing but its settings beside it.
    let renamed = file.folder.path().join("renamed");
    std::fs::create_dir(&renamed).expect("a folder");
    std::fs::write(renamed.join("voice.safetensors"), file.bytes()).expect("written");
    let text = r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8}"#;
    std::fs::write(renamed.join("adapter_config.json"), text).expect("written");
    let voice = Adapter::open(&renamed.join("voice.safetensors")).expect("an adapter");
    assert_only(&weights(vec![(voice, 1.0)]), Q, &with_lora(&own(Q), &a, &b, 4, 2.0));
    std::fs::write(&settings, r#"{"r": 4, "lora_alpha": 8, "use_dora": true}"#).expect("written");
    let error = message(Adapter::open(&folder));
    assert!(
        error.ends_with("`use_dora` is true, but no module has the lengths of DoRA"),
        "{error}"
    );
    std::fs::write(&settings, r#"{"r": 8, "lora_alpha": 8}"#).expect("written");
    let error = message(Adapter::open(&folder));
    assert!(error.contains("its rank is 4, but the settings say 8"), "{error}");
    std::fs::remove_file(settings).expect("gone");
    let error = message(Adapter::open(&folder));
    assert!(error.ends_with("adapter_config.json, which says how strongly it works, is missing"));
    let empty = tempfile::tempdir().expect("a folder");
    let error = message(Adapter::open(empty.path()));
    assert!(error.ends_with("holds no adapter: there is no adapter_config.json"), "{error}");
}

/// `np.kron(w1, w2)[i, j] = w1[i / c, j / d] w2[i % c, j % d]`.
#[test]
fn a_lokr_adds_the_kronecker_product_whole_or_of_products() {
    let alpha = || stored(Dtype::F32, &[], &[2.0]);
    let kron = |w1: &[f64], w2: &[f64], scale: f64| -> Vec<f64> {
        // 96 x 64 of 6 x 8 and 16 x 8.
        let base = own(UP);
        let cell = |i: usize| {
            let (row, column) = (i / 64, i % 64);
            let (outer, inner) = (row / 16 * 8 + column / 8, row % 16 * 8 + column % 8);
            f64::from(base[i]) + scale * w1[outer] * w2[inner]
        };
        (0..base.len()).map(cell).collect()
    };
    let name = "lycoris_layers_0_mlp_up_proj";
    let of = |role: &str| format!("{name}.lokr_{role}");

    let whole = File::new([
        (of("w1").as_str(), tensor(&[6, 8], 0.4)),
        (of("w2").as_str(), tensor(&[16, 8], 0.5)),
        (&format!("{name}.alpha"), alpha()),
    ]);
    let (w1, w2) = (whole.values("w1"), whole.values("w2"));
    // Without a note of its rank LyCORIS's quotient is 1.
    assert_only(&weights(vec![(whole.adapter(), 3.0)]), UP, &kron(&w1, &w2, 3.0));
    let noted = whole.metadata("lokr_config", r#"{"linear_dim": 8}"#);
    assert_only(&weights(vec![(noted.adapter(), 1.0)]), UP, &kron(&w1, &w2, 2.0 / 8.0));

    let parts = File::new([
        (of("w1").as_str(), tensor(&[6, 8], 0.4)),
        (of("w2_a").as_str(), tensor(&[16, 4], 0.6)),
        (of("w2_b").as_str(), tensor(&[4, 8], 0.7)),
        (&format!("{name}.alpha"), alpha()),
    ]);
    let (a, b) = (parts.values("w2_a"), parts.values("w2_b"));
    let w2 = with_lora(&[0.0; 128], &b, &a, 4, 1.0);
    assert_only(&weights(vec![(parts.adapter(), 1.0)]), UP, &kron(&w1, &w2, 2.0 / 4.0));
}

#[test]
fn a_loha_adds_the_product_of_two_products_number_by_number() {
    let of = |role: &str| format!("diffusion_model.{Q}.hada_{role}");
    let file = File::new([
        (of("w1_a").as_str(), tensor(&[64, 2], 0.1)),
        (of("w1_b").as_str(), tensor(&[2, 64], 0.2)),
        (of("w2_a").as_str(), tensor(&[64, 2], 0.3)),
        (of("w2_b").as_str(), tensor(&[2, 64], 0.4)),
        (&format!("diffusion_model.{Q}.alpha"), stored(Dtype::F32, &[1], &[1.0])),
    ]);
    let product = |n: u8| {
        let (a, b) = (file.values(&format!("w{n}_a")), file.values(&format!("w{n}_b")));
        with_lora(&[0.0; 64 * 64], &b, &a, 2, 1.0)
    };
    let sum = own(Q).into_iter().zip(product(1)).zip(product(2));
    let wanted: Vec<f64> = sum.map(|((w, x), y)| f64::from(w) + x * y / 2.0).collect();
    assert_only(&weights(vec![(file.adapter(), 1.0)]), Q, &wanted);
}

/// `m (W + s B A) / |W + s B A|`, row by row: each row of the result has the length `m`.
#[test]
fn dora_of_peft_gives_each_row_its_length() {
    let file = File::lora(&format!("base_model.model.{Q}"), 64, 0.3).with(
        &format!("base_model.model.{Q}.lora_magnitude_vector"),
        {
            let lengths: Vec<f32> = (0..64).map(|i| 0.5 + 0.1 * i as f32).collect();
            stored(Dtype::F32, &[64], &lengths)
        },
    );
    let (a, b) = (file.values("lora_A.weight"), file.values("lora_B.weight"));
    let lengths = file.values("magnitude_vector");
    for scale in [1.0, 0.25] {
        let mut wanted = with_lora(&own(Q), &a, &b, 4, scale);
        for (row, length) in wanted.chunks_exact_mut(64).zip(&lengths) {
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            row.iter_mut().for_each(|x| *x *= length / norm);
        }
        let found = weights(vec![(file.adapter(), scale)]);
        assert_only(&found, Q, &wanted);
        for (row, length) in found[&format!("{Q}.weight")].chunks_exact(64).zip(&lengths) {
            let norm = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            assert!((norm - length).abs() < 1e-5, "{norm} and {length}");
        }
    }
}

/// `(W + D) (u m / (|W + D| + eps) + 1 - u)`, of rows or of columns by the shape of the lengths.
#[test]
fn dora_of_lycoris_is_blended_by_the_scale() {
    for of_columns in [false, true] {
        let shape = if of_columns { [1, 64] } else { [64, 1] };
        let lengths: Vec<f32> = (0..64).map(|i| 2.0 + 0.1 * i as f32).collect();
        let file = File::lora(&format!("lycoris_{}", Q.replace('.', "_")), 64, 0.3).with(
            &format!("lycoris_{}.dora_scale", Q.replace('.', "_")),
            stored(Dtype::F32, &shape, &lengths),
        );
        let (a, b) = (file.values("lora_A.weight"), file.values("lora_B.weight"));
        for user in [1.0, 0.3] {
            let sum = with_lora(&own(Q), &a, &b, 4, 1.0);
            let at = |line: usize, k: usize| if of_columns { k * 64 + line } else { line * 64 + k };
            let mut wanted = sum.clone();
            for (line, &length) in lengths.iter().enumerate() {
                let norm = (0..64).map(|k| sum[at(line, k)].powi(2)).sum::<f64>().sqrt();
                let factor = user * f64::from(length) / (norm + 7.8125e-3) + 1.0 - user;
                (0..64).for_each(|k| wanted[at(line, k)] *= factor);
            }
            assert_only(&weights(vec![(file.adapter(), user)]), Q, &wanted);
        }
    }
}

#[test]
fn two_adapters_add_in_any_order_and_dora_sees_the_checkpoints_own_weight() {
    let lora = File::lora(Q, 64, 0.3);
    let dora = File::lora(Q, 64, 0.7)
        .with(&format!("{Q}.lora_magnitude_vector"), stored(Dtype::F32, &[64], &[3.0; 64]));
    let name = format!("{Q}.weight");
    let alone = |file: &File| weights(vec![(file.adapter(), 1.0)]).remove(&name).expect("it");
    let (first, second) = (alone(&lora), alone(&dora));
    let wanted: Vec<f64> = own(Q)
        .iter()
        .zip(first.iter().zip(&second))
        .map(|(&w, (&x, &y))| f64::from(x) + f64::from(y) - f64::from(w))
        .collect();
    assert_only(&weights(vec![(lora.adapter(), 1.0), (dora.adapter(), 1.0)]), Q, &wanted);
    assert_only(&weights(vec![(dora.adapter(), 1.0), (lora.adapter(), 1.0)]), Q, &wanted);
}

#[test]
fn an_adapter_of_zeros_or_at_scale_zero_changes_no_bit() {
    let bits = |weights: &Weights| -> Vec<u32> {
        weights.values().flatten().map(|x| x.to_bits()).collect()
    };
    let zeros = File::new([
        (&*format!("{Q}.lora_A.weight"), tensor(&[4, 64], 0.3)),
        (&format!("{Q}.lora_B.weight"), stored(Dtype::F32, &[64, 4], &[0.0; 256])),
    ]);
    let dora = File::lora(Q, 64, 0.7)
        .with(&format!("{Q}.dora_scale"), stored(Dtype::F32, &[64, 1], &[3.0; 64]));
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let place = Place::<B> { device: FlexDevice, dtype };
        let own = bits(&weights_in(&open_tiny().expect("built in"), &place));
        let silent = adapted(vec![(zeros.adapter(), 1.0)]);
        assert_eq!(bits(&weights_in(&silent, &place)), own, "{dtype:?}");
        assert_eq!(silent.adapters().expect("one").list()[0].change(), Some(0.0));
        let off = adapted(vec![(dora.adapter(), 0.0)]);
        assert_eq!(bits(&weights_in(&off, &place)), own, "{dtype:?}");
        let notices = off.adapters().expect("one").list()[0].notices();
        assert!(notices[0].ends_with("has the scale 0: it changes nothing"), "{notices:?}");
    }
}

/// The sum is rounded once: f32 to bf16.
#[test]
fn in_bf16_the_sum_is_rounded_and_the_change_is_not() {
    let file = File::lora(K, 32, 0.2);
    let folder = adapted(vec![(file.adapter(), 0.01)]);
    let name = format!("{K}.weight");
    let wide = weights_in(&folder, &place());
    let list = folder.adapters().expect("one").list();
    let change = list[0].change().expect("it was read");
    assert_eq!(folder.adapters().expect("one").arrived(), None);
    let narrow = weights_in(&folder, &Place { device: FlexDevice, dtype: DType::BF16 });
    let rounded: Vec<f32> = wide[&name].iter().map(|&x| half::bf16::from_f32(x).to_f32()).collect();
    assert_eq!(narrow[&name], rounded);
    assert_eq!(list[0].change(), Some(change));

    let (mut length, mut of, mut with, mut own_product) = (0.0, 0.0, 0.0, 0.0);
    for (&w, &x) in own(K).iter().zip(&wide[&name]) {
        let bf16 = |x: f32| f64::from(half::bf16::from_f32(x).to_f32());
        let d = f64::from(x) - f64::from(w);
        (length, of) = (length + d * d, of + f64::from(w).powi(2));
        (with, own_product) = (with + d * (bf16(x) - bf16(w)), own_product + d * d);
    }
    assert!((change - (length / of).sqrt()).abs() < 1e-6, "{change}");
    let arrived = folder.adapters().expect("one").arrived().expect("bf16");
    assert!((arrived - with / own_product).abs() < 1e-4, "{arrived} {}", with / own_product);
}

#[test]
fn what_the_model_does_not_have_is_named_and_nothing_at_all_is_an_error() {
    let file = File::lora(&format!("base_model.model.{Q}"), 64, 0.3)
        .with("lora_te_layers_0_self_attn_q_proj.lora_down.weight", tensor(&[4, 64], 0.1))
        .with("lora_te_layers_0_self_attn_q_proj.lora_up.weight", tensor(&[64, 4], 0.1))
        .with("note", stored(Dtype::I64, &[1], &[1.0]));
    let folder = adapted(vec![(file.adapter(), 1.0)]);
    let fitted = &folder.adapters().expect("one").list()[0];
    assert_eq!((fitted.matched().0, fitted.unmatched(), fitted.change()), (1, 1, None));
    let notices = fitted.notices();
    assert!(notices[0].starts_with("1 tensor of the adapter"), "{notices:?}");
    assert!(notices[0].ends_with("no adapter's, left out: `note`"), "{notices:?}");
    assert!(
        notices[1].starts_with("1 module of the adapter")
            && notices[1]
                .ends_with("is not used, the model does not have it; it seems to be of the text encoder: `lora_te_layers_0_self_attn_q_proj`"),
        "{notices:?}"
    );
    assert!(notices[2].ends_with("does not say its alpha: it works as if that were its rank"));

    let error = refused(&File::lora("base_model.model.model.layers.0.self_attn.q_proj", 64, 0.3));
    assert!(
        error.ends_with(
            "changes nothing of tiny, which has none of its 1 module: \
             `base_model.model.model.layers.0.self_attn.q_proj`; they seem to be of a language model"
        ),
        "{error}"
    );
}

#[test]
fn a_wrong_shape_says_both_shapes() {
    let error = refused(&File::lora(&format!("diffusion_model.{UP}"), 64, 0.3));
    assert!(
        error.ends_with("changes `diffusion_model.layers.0.mlp.up_proj` as [64, 64], but the model has it as [96, 64]"),
        "{error}"
    );
    let twice = File::lora(Q, 64, 0.3)
        .with(
            &format!("transformer.{}.lora_A.weight", Q.replace("q_proj", "to_q")),
            tensor(&[4, 64], 0.1),
        )
        .with(
            &format!("transformer.{}.lora_B.weight", Q.replace("q_proj", "to_q")),
            tensor(&[64, 4], 0.1),
        );
    let error = refused(&twice);
    assert!(error.contains("changes one weight twice, as `layers.0.self_attn.q_proj` and as"));
    // As between the released sizes.
    let mut folder = super::Adapters::fit(
        vec![(
            File::new([
                ("q.lora_A.weight", tensor(&[1, 2560], 0.1)),
                ("q.lora_B.weight", tensor(&[2560, 1], 0.1)),
            ])
            .adapter(),
            1.0,
        )],
        "turbo",
        [("q.weight".to_owned(), vec![2048, 2048])],
    );
    let error = folder.as_mut().expect_err("too large").to_string();
    assert!(
        error.ends_with(
            "has it as [2048, 2048]: it was trained on an XL model, and this is one of 2B"
        ),
        "{error}"
    );
}

#[test]
fn a_broken_file_is_refused_when_it_is_opened() {
    let a = || tensor(&[4, 64], 0.1);
    let key = |role: &str| format!("{Q}.{role}");
    for (file, says) in [
        (File::new([(&*key("lora_A.weight"), a())]), "its lora_B (lora_up) is missing"),
        (
            File::lora(Q, 64, 0.1).with(&key("lora_down.weight"), a()),
            "`layers.0.self_attn.q_proj.lora_A.weight` and `layers.0.self_attn.q_proj.lora_down.weight` are the same",
        ),
        (
            File::new([
                (&*key("lora_A.weight"), a()),
                (&key("lora_B.weight"), tensor(&[64, 3], 0.1)),
            ]),
            "[64, 3] and `layers.0.self_attn.q_proj.lora_A.weight` [4, 64] cannot be multiplied",
        ),
        (
            File::lora(Q, 64, 0.1).with(&key("alpha"), stored(Dtype::F32, &[2], &[1.0, 2.0])),
            "its alpha is not one number",
        ),
        (
            File::lora(Q, 64, 0.1).with(&key("dora_scale"), tensor(&[32, 1], 0.1)),
            "DoRA's lengths are [32, 1] for a weight [64, 64]",
        ),
        (
            File::lora(Q, 64, 0.1).with(&key("lokr_w1"), tensor(&[8, 8], 0.1)),
            "it is a LoRA, a LoKr and a LoHa at once",
        ),
        (
            File::new([
                (&*key("lokr_w1"), tensor(&[8, 8], 0.1)),
                (&key("lokr_w2_a"), tensor(&[8, 2], 0.1)),
            ]),
            "one half of its lokr_w2 is missing",
        ),
        (File::new([(&*key("alpha"), stored(Dtype::F32, &[], &[1.0]))]), "it has no change beside"),
        (
            File::lora(Q, 64, 0.1).with(&key("lokr_t2"), tensor(&[2, 2], 0.1)),
            "has a Tucker decomposition (`lokr_t2`) in `layers.0.self_attn.q_proj.lokr_t2`, which this version cannot apply",
        ),
        (
            File::new([("decoder.layers.0.self_attn.q_proj.weight", tensor(&[64, 64], 0.1))]),
            "it seems to be a whole network: `decoder.layers.0.self_attn.q_proj.weight`",
        ),
        (File::new([("x", a())]), "none of its tensors is one's: `x`"),
        (
            File::new([
                (&*key("lora_A.weight"), stored(Dtype::F32, &[1, 2], &[f32::NAN, 0.0])),
                (&key("lora_B.weight"), tensor(&[2, 1], 0.1)),
            ]),
            "has values that are not finite",
        ),
        (
            File::new([
                (&*key("lora_A.weight"), stored(Dtype::I64, &[1, 2], &[1.0, 0.0])),
                (&key("lora_B.weight"), tensor(&[2, 1], 0.1)),
            ]),
            "is I64, weights are F32, F16 or BF16",
        ),
    ] {
        let error = message(file.open());
        assert!(error.contains(says), "{says}: {error}");
    }
    let file = File::lora(Q, 64, 0.1);
    let path = file.write();
    let bytes = file.bytes();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
    assert!(message(Adapter::open(&path)).contains("is cut"));
    let pickle = file.folder.path().join("adapter.pt");
    std::fs::write(&pickle, b"PK").expect("written");
    assert!(message(Adapter::open(&pickle)).contains("it is a pickle of PyTorch"));
    let absent = Adapter::open(&file.folder.path().join("no"));
    assert!(matches!(absent, Err(Error::Adapter(AdapterError::Absent { .. }))));
}

#[test]
fn a_change_that_f16_cannot_hold_is_an_error() {
    let file = File::new([
        (&*format!("{Q}.lora_A.weight"), stored(Dtype::F32, &[1, 64], &[300.0; 64])),
        (&format!("{Q}.lora_B.weight"), stored(Dtype::F32, &[64, 1], &[300.0; 64])),
    ]);
    let folder = adapted(vec![(file.adapter(), 1.0)]);
    let place = Place::<B> { device: FlexDevice, dtype: DType::F16 };
    let error = acestep_model::Checkpoint::<B>::dit(&folder, &place).expect_err("too large");
    assert_eq!(
        error.to_string(),
        "with its adapters, `layers.0.self_attn.q_proj.weight` has values that are too large for f16"
    );
}
