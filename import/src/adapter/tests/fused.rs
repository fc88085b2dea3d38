//! Layers of an adapter that combine several of the model's.

use super::*;

/// The built-in model has 4 query heads and 2 key heads of 16 values, and 96 hidden units.
const SELF: &str = "layers.0.self_attn";
const CROSS: &str = "layers.1.cross_attn";
const MLP: &str = "layers.0.mlp";

/// Asserts that the weights of `parts` of `parent` are the rows of `wanted` and nothing else
/// changed.
#[track_caller]
fn assert_split(found: &Weights, parent: &str, parts: &[&str], wanted: &[f64]) {
    let mut rest = wanted;
    let mut rows_of = |part: &&str| {
        let name = format!("{parent}.{part}_proj.weight");
        let (rows, after) = rest.split_at(found[&name].len());
        rest = after;
        (name, rows.to_vec())
    };
    let wanted: Vec<_> = parts.iter().map(&mut rows_of).collect();
    assert!(rest.is_empty());
    assert_are(found, &wanted);
}

/// Returns the weights of `parts` of `parent`, stacked by rows.
fn stacked(parent: &str, parts: &[&str]) -> Vec<f32> {
    parts.iter().flat_map(|part| own(&format!("{parent}.{part}_proj"))).collect()
}

const QKV: &[&str] = &["q", "k", "v"];
const KV: &[&str] = &["k", "v"];
const GATE_UP: &[&str] = &["gate", "up"];

#[test]
fn every_tools_name_of_a_layer_of_several_is_split_by_rows() {
    for (module, parent, parts) in [
        ("base_model.model.layers.0.self_attn.qkv_proj", SELF, QKV),
        ("transformer.layers.0.self_attn.to_qkv", SELF, QKV),
        ("diffusion_model.decoder.layers.0.self_attn.qkv", SELF, QKV),
        ("layers.0.self_attn.Wqkv", SELF, QKV),
        ("lora_unet_layers_0_self_attn_qkv_proj", SELF, QKV),
        ("lycoris_layers_0_self_attn_to_qkv", SELF, QKV),
        ("layers.1.cross_attn.qkv_proj", CROSS, QKV),
        ("layers.1.cross_attn.to_kv", CROSS, KV),
        ("layers.1.cross_attn.kv_proj", CROSS, KV),
        ("lora_transformer_layers_1_cross_attn_kv", CROSS, KV),
        ("layers.1.cross_attn.qk_proj", CROSS, &["q", "k"]),
        ("layers.0.mlp.gate_up_proj", MLP, GATE_UP),
        ("lora_unet_decoder_layers_0_mlp_gate_up_proj", MLP, GATE_UP),
        ("layers.0.mlp.up_gate_proj", MLP, &["up", "gate"]),
    ] {
        let weight = stacked(parent, parts);
        let rows = weight.len() / 64;
        let file = File::lora(module, rows, 0.2).with(&format!("{module}.alpha"), alpha(6.0));
        let (a, b) = file.a_b();
        let folder = adapted(vec![(file.adapter(), 0.5)]);
        let wanted = with_lora(&weight, &a, &b, 4, 0.5 * 6.0 / 4.0);
        assert_split(&weights_in(&folder, &place()), parent, parts, &wanted);
        let fitted = fitted(&folder);
        assert_eq!((fitted.matched().0, fitted.unmatched()), (parts.len(), 0), "{module}");
        let notice = only(fitted.notices());
        let order: Vec<_> = parts.iter().map(|part| format!("{part}_proj")).collect();
        let ends = format!(
            "is several of the model's in one, as `{module}`; its rows are taken for those of {}, in \
             this order",
            order.join(", ")
        );
        assert_ends(&notice, &ends);
    }
}

/// `[128, 64]` for queries, keys and values of 64, 32 and 32 rows: as LoKr of `[4, 8]` and `[32,
/// 8]`, as LoHa, and as a difference.
#[test]
fn every_kind_of_change_of_several_is_split_by_rows() {
    let weight = stacked(SELF, QKV);
    let module = "lycoris_layers_0_self_attn_qkv_proj";
    let lokr =
        File::of(module, [("lokr_w1", tensor(&[4, 8], 0.4)), ("lokr_w2", tensor(&[32, 8], 0.5))]);
    let (w1, w2) = (lokr.values("w1"), lokr.values("w2"));
    let cell = |i: usize| {
        let (row, column) = (i / 64, i % 64);
        f64::from(weight[i]) + w1[row / 32 * 8 + column / 8] * w2[row % 32 * 8 + column % 8]
    };
    let wanted: Vec<_> = (0..weight.len()).map(cell).collect();
    assert_split(&weights(vec![(lokr.adapter(), 1.0)]), SELF, QKV, &wanted);

    let loha = File::loha(module, 128).with(&format!("{module}.alpha"), alpha(1.0));
    let wanted = with_loha(&weight, &loha);
    assert_split(&weights(vec![(loha.adapter(), 1.0)]), SELF, QKV, &wanted);

    let difference = File::of(module, [("diff", tensor(&[128, 64], 0.3))]);
    let sum = weight.iter().zip(difference.values("diff"));
    let wanted: Vec<_> = sum.map(|(&w, d)| f64::from(w) - 0.5 * d).collect();
    assert_split(&weights(vec![(difference.adapter(), -0.5)]), SELF, QKV, &wanted);
}

/// Row magnitudes belong to a part; column magnitudes span all parts.
#[test]
fn dora_of_several_has_its_lengths_of_rows_by_part_and_of_columns_through_all() {
    let weight = stacked(SELF, QKV);
    let module = format!("{SELF}.qkv_proj");
    for (role, shape, of_columns) in [
        ("lora_magnitude_vector", vec![128], false),
        ("dora_scale", vec![128, 1], false),
        ("dora_scale", vec![1, 64], true),
    ] {
        let magnitudes: Vec<f32> =
            (0..shape.iter().product()).map(|i| 2.0 + 0.1 * i as f32).collect();
        let file = File::lora(&module, 128, 0.3)
            .with(&format!("{module}.{role}"), stored(Dtype::F32, &shape, &magnitudes));
        let (a, b) = file.a_b();
        let mut wanted = with_lora(&weight, &a, &b, 4, 1.0);
        let places = |line: usize| -> Vec<usize> {
            let is_of = |i: &usize| if of_columns { i % 64 == line } else { i / 64 == line };
            (0..128 * 64).filter(is_of).collect()
        };
        for (line, &length) in magnitudes.iter().enumerate() {
            let places = places(line);
            let norm = places.iter().map(|&i| wanted[i].powi(2)).sum::<f64>().sqrt();
            let epsilon = if role == "dora_scale" { 7.8125e-3 } else { 0.0 };
            let factor = f64::from(length) / (norm + epsilon);
            places.into_iter().for_each(|i| wanted[i] *= factor);
        }
        let folder = adapted(vec![(file.adapter(), 1.0)]);
        assert_split(&weights_in(&folder, &place()), SELF, QKV, &wanted);
        // Measuring without the network gives the same result.
        let change = fitted(&folder).change();
        let again = adapted(vec![(file.adapter(), 1.0)]);
        again.measure_adapters(DType::F32).expect("measured");
        assert_eq!(fitted(&again).change(), change);
    }
}

#[test]
fn a_layer_of_several_that_does_not_fit_or_comes_twice_is_an_error() {
    // The number of rows if there were as many key heads as query heads.
    let error = refused(&File::lora(&format!("{SELF}.qkv_proj"), 192, 0.3));
    assert_ends(
        &error,
        "changes `layers.0.self_attn.qkv_proj` as [192, 64], but the model has it as [128, 64]",
    );
    let twice = File::lora(&format!("{SELF}.qkv_proj"), 128, 0.3).and_lora(
        &format!("{SELF}.k_proj"),
        32,
        0.1,
    );
    let error = refused(&twice);
    assert_contains(&error, "changes one weight twice, as `layers.0.self_attn.k_proj` and as");
    for name in ["layers.0.self_attn.query_key_value", "lora_unet_layers_0_self_attn_linear_qkv"] {
        let error = refused(&File::lora(name, 128, 0.3));
        let says = format!(
            "has a layer of queries, keys and values in one (`{name}`) whose rows may be in groups"
        );
        assert_contains(&error, &says);
    }
}
