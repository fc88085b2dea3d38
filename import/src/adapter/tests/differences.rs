//! Whole differences of weights and biases, as ComfyUI's training writes them beside its products.

use super::*;

/// A norm of `[64]`, a linear layer, and a patch convolution of `[64, 16, 2]` with its bias.
const NORM: &str = "layers.0.self_attn_norm";
const TIME: &str = "time_embed.linear_1";
const OUT: &str = "proj_out";

/// ComfyUI's name of a module: a prefix of all that it trains.
fn comfy(module: &str) -> String {
    format!("diffusion_model.decoder.{module}")
}

/// The shape of a parameter of the built-in model.
fn shape(path: &str) -> Vec<usize> {
    let folder = open_tiny().expect("built in");
    let dit = acestep_model::Checkpoint::<B>::dit(&folder, &place()).expect("a network");
    let snapshots = dit.collect(None, None, false);
    let found = snapshots.iter().find(|of| of.full_path() == path).expect(path);
    found.shape.to_vec()
}

/// Returns `W + scale D`.
fn with(path: &str, difference: &[f64], scale: f64) -> (String, Vec<f64>) {
    let own = weights(vec![]).remove(path).expect(path);
    assert_eq!(own.len(), difference.len(), "{path}");
    let sum = own.iter().zip(difference).map(|(&w, &d)| f64::from(w) + scale * d);
    (path.to_owned(), sum.collect())
}

/// A matrix has a product with its own alpha. Everything else has a difference at the user's scale.
#[test]
fn a_file_of_comfyuis_training_changes_weights_norms_and_biases() {
    let (q, norm, time) = (comfy(Q), comfy(NORM), comfy(TIME));
    let out = comfy("proj_out.1");
    let [norm_shape, bias_shape, out_shape, out_bias] = [
        "layers.0.self_attn_norm.weight",
        "time_embed.linear_1.bias",
        "proj_out.weight",
        "proj_out.bias",
    ]
    .map(shape);
    let [inputs, rest @ ..] = &out_shape[..] else { panic!("{out_shape:?}") };
    let columns: usize = rest.iter().product();
    let file = File::new([
        (format!("{q}.lora_up.weight").as_str(), tensor(&[64, 4], 0.1)),
        (&format!("{q}.lora_down.weight"), tensor(&[4, 64], 0.2)),
        (&format!("{q}.alpha"), alpha(1.0)),
        (&format!("{norm}.diff"), tensor(&norm_shape, 0.3)),
        (&format!("{time}.diff_b"), tensor(&bias_shape, 0.4)),
        (&format!("{out}.lora_up.weight"), tensor(&[*inputs, 2], 0.5)),
        (&format!("{out}.lora_down.weight"), tensor(&[2, columns], 0.6)),
        (&format!("{out}.alpha"), alpha(1.0)),
        (&format!("{out}.diff_b"), tensor(&out_bias, 0.7)),
    ]);
    let values = |ending: &str| file.values(ending);
    for scale in [1.0, -0.5] {
        let folder = adapted(vec![(file.adapter(), scale)]);
        let product = |module: &str, path: &str, rank: usize| {
            let own = weights(vec![]).remove(path).expect(path);
            let a = values(&format!("{module}.lora_down.weight"));
            let b = values(&format!("{module}.lora_up.weight"));
            (path.to_owned(), with_lora(&own, &a, &b, rank, scale / rank as f64))
        };
        let wanted = [
            product(&q, &format!("{Q}.weight"), 4),
            product(&out, &format!("{OUT}.weight"), 2),
            with(&format!("{NORM}.weight"), &values("self_attn_norm.diff"), scale),
            with(&format!("{TIME}.bias"), &values("linear_1.diff_b"), scale),
            with(&format!("{OUT}.bias"), &values("proj_out.1.diff_b"), scale),
        ];
        assert_are(&weights_in(&folder, &place()), &wanted);
        let fitted = fitted(&folder);
        assert_eq!((fitted.matched().0, fitted.unmatched()), (5, 0));
        assert_eq!(fitted.matched().1, weights(vec![]).len());
        assert_eq!(fitted.notices(), [""; 0]);
        assert!(fitted.change().is_some_and(|change| change > 0.0));
    }
    let adapter = file.adapter();
    assert_eq!(adapter.kind(), "LoRA and differences");
    let bias = adapter.modules().find(|(name, _)| name.ends_with("proj_out.1.bias"));
    assert_eq!(bias.expect("there").1, out_bias);
}

/// LyCORIS's names, a parameter without a module, and a difference of a matrix, in f16.
#[test]
fn a_difference_may_be_of_any_parameter() {
    let table = "layers.0.scale_shift_table";
    let sizes = shape(table);
    let half =
        |shape: &[usize], seed| stored(Dtype::F16, shape, &numbers(shape.iter().product(), seed));
    let file = File::new([
        (format!("lycoris_{}.w_norm", NORM.replace('.', "_")).as_str(), tensor(&[64], 0.2)),
        (&format!("diffusion_model.decoder.{table}.diff"), tensor(&sizes, 0.3)),
        (&format!("lycoris_{}.diff", K.replace('.', "_")), half(&[32, 64], 0.4)),
    ]);
    let rounded: Vec<f64> =
        numbers(32 * 64, 0.4).iter().map(|&x| half::f16::from_f32(x).to_f64()).collect();
    let wanted = [
        with(&format!("{NORM}.weight"), &file.values("w_norm"), 2.0),
        with(table, &file.values("table.diff"), 2.0),
        with(&format!("{K}.weight"), &rounded, 2.0),
    ];
    assert_are(&weights(vec![(file.adapter(), 2.0)]), &wanted);
}

#[test]
fn a_difference_that_does_not_fit_is_an_error_or_named() {
    let error = refused(&File::of(&comfy(NORM), [("diff", tensor(&[48], 0.3))]));
    assert_contains(&error, ".self_attn_norm` as [48], but the model has it as [64]");
    // The transposed shape has the same number of elements.
    let error = refused(&File::of(&comfy(UP), [("diff", tensor(&[64, 96], 0.3))]));
    assert_contains(&error, "as [64, 96], but the model has it as [96, 64]");
    // No projection of the attention has a bias, and the conditioner is another network.
    let file = File::lora(Q, 64, 0.3)
        .with(&format!("{Q}.alpha"), alpha(4.0))
        .with(&format!("{Q}.diff_b"), tensor(&[64], 0.1))
        .with("diffusion_model.encoder.lyric_encoder.norm.diff", tensor(&[64], 0.1));
    let folder = adapted(vec![(file.adapter(), 1.0)]);
    let notice = only(fitted(&folder).notices());
    assert_starts(&notice, "2 modules of the adapter");
    assert_contains(&notice, "a network like this one with more parameters and the conditioner: ");
    assert_contains(&notice, &format!("`{Q}.bias`"));
}

#[test]
fn a_difference_beside_a_product_of_the_same_weight_is_refused() {
    let file = File::lora(Q, 64, 0.3).with(&format!("{Q}.diff"), tensor(&[64, 64], 0.1));
    let error = message(file.open());
    assert_ends(&error, "it is a LoRA and a whole difference at once");
    let twice = File::lora(Q, 64, 0.3).with(
        &format!("diffusion_model.{}.diff", Q.replace("q_proj", "to_q")),
        tensor(&[64, 64], 0.1),
    );
    assert!(refused(&twice).contains("changes one weight twice"));
    let magnitudes = ("dora_scale", tensor(&[64, 1], 0.1));
    let file = File::of(Q, [("diff", tensor(&[64, 64], 0.1)), magnitudes]);
    let error = message(file.open());
    assert_ends(&error, "it has no change beside its alpha or magnitudes");
}

/// Alpha scales only products.
#[test]
fn an_alpha_beside_a_difference_is_left_out_and_said() {
    let file = File::of(NORM, [("diff", tensor(&[64], 0.3)), ("alpha", alpha(8.0))]);
    let wanted = [with(&format!("{NORM}.weight"), &file.values("norm.diff"), 1.0)];
    let folder = adapted(vec![(file.adapter(), 1.0)]);
    assert_are(&weights_in(&folder, &place()), &wanted);
    let notice = only(fitted(&folder).notices());
    assert_ends(&notice, &format!("left out: `{NORM}.alpha`"));
}
