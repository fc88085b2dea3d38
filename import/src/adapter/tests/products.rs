//! Changes by LoRA, LoKr and LoHa.

use super::*;

#[test]
fn a_lora_adds_scale_times_alpha_over_rank_times_b_a() {
    let file = File::lora(&format!("base_model.model.{K}"), 32, 0.2)
        .with(&format!("base_model.model.{K}.alpha"), alpha(6.0));
    let found = weights(vec![(file.adapter(), 0.5)]);
    let (a, b) = file.a_b();
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

/// `np.kron(w1, w2)[i, j] = w1[i / c, j / d] w2[i % c, j % d]`.
#[test]
fn a_lokr_adds_the_kronecker_product_whole_or_of_products() {
    let kron = |w1: &[f64], w2: &[f64], scale: f64| -> Vec<f64> {
        // 96 x 64 from 6 x 8 and 16 x 8.
        let base = own(UP);
        let cell = |i: usize| {
            let (row, column) = (i / 64, i % 64);
            let (outer, inner) = (row / 16 * 8 + column / 8, row % 16 * 8 + column % 8);
            f64::from(base[i]) + scale * w1[outer] * w2[inner]
        };
        (0..base.len()).map(cell).collect()
    };
    let name = "lycoris_layers_0_mlp_up_proj";

    let whole = File::of(
        name,
        [
            ("lokr_w1", tensor(&[6, 8], 0.4)),
            ("lokr_w2", tensor(&[16, 8], 0.5)),
            ("alpha", alpha(2.0)),
        ],
    );
    let (w1, w2) = (whole.values("w1"), whole.values("w2"));
    // Without a recorded rank LyCORIS's quotient is 1.
    assert_only(&weights(vec![(whole.adapter(), 3.0)]), UP, &kron(&w1, &w2, 3.0));
    let noted = whole.metadata("lokr_config", r#"{"linear_dim": 8}"#);
    assert_only(&weights(vec![(noted.adapter(), 1.0)]), UP, &kron(&w1, &w2, 2.0 / 8.0));

    let parts = File::of(
        name,
        [
            ("lokr_w1", tensor(&[6, 8], 0.4)),
            ("lokr_w2_a", tensor(&[16, 4], 0.6)),
            ("lokr_w2_b", tensor(&[4, 8], 0.7)),
            ("alpha", alpha(2.0)),
        ],
    );
    let (a, b) = (parts.values("w2_a"), parts.values("w2_b"));
    let w2 = with_lora(&[0.0; 128], &b, &a, 4, 1.0);
    assert_only(&weights(vec![(parts.adapter(), 1.0)]), UP, &kron(&w1, &w2, 2.0 / 4.0));
}

#[test]
fn a_loha_adds_the_product_of_two_products_number_by_number() {
    let module = format!("diffusion_model.{Q}");
    let file =
        File::loha(&module, 64).with(&format!("{module}.alpha"), stored(Dtype::F32, &[1], &[1.0]));
    assert_only(&weights(vec![(file.adapter(), 1.0)]), Q, &with_loha(&own(Q), &file));
}

/// The bf16 factors are read exactly, and nothing is rounded to bf16 before the sum. Rounding would
/// give an error of 1/256 after each of the three products.
#[test]
fn a_loha_in_bf16_is_multiplied_out_in_f32() {
    let narrow = |shape: &[usize], seed: f64| {
        let values = numbers(shape.iter().product(), seed);
        let rounded: Vec<f32> = values.iter().map(|&x| half::bf16::from_f32(x).to_f32()).collect();
        [stored(Dtype::BF16, shape, &values), stored(Dtype::F32, shape, &rounded)]
    };
    let factors: [(&str, [Stored; 2]); 4] = [
        ("hada_w1_a", narrow(&[64, 2], 0.1)),
        ("hada_w1_b", narrow(&[2, 64], 0.2)),
        ("hada_w2_a", narrow(&[64, 2], 0.3)),
        ("hada_w2_b", narrow(&[2, 64], 0.4)),
    ];
    let file = |which: usize| {
        let factors = factors.clone().map(|(role, of)| (role, of[which].clone()));
        File::of(&format!("diffusion_model.{Q}"), factors)
            .with(&format!("diffusion_model.{Q}.alpha"), stored(Dtype::BF16, &[], &[1.0]))
    };
    let (bf16, f32) = (file(0), file(1));
    let found = weights(vec![(bf16.adapter(), 1.0)]);
    assert_only(&found, Q, &with_loha(&own(Q), &f32));
    assert_eq!(found, weights(vec![(f32.adapter(), 1.0)]));
}
