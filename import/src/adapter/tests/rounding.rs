//! Zeros, and the share of the changes that remains in each type of weights.

use super::*;

#[test]
fn an_adapter_of_zeros_or_at_scale_zero_changes_no_bit() {
    let bits = |weights: &Weights| -> Vec<u32> {
        weights.values().flatten().map(|x| x.to_bits()).collect()
    };
    let b = stored(Dtype::F32, &[64, 4], &[0.0; 256]);
    let zeros = File::of(Q, [("lora_A.weight", tensor(&[4, 64], 0.3)), ("lora_B.weight", b)]);
    let dora = File::lora(Q, 64, 0.7)
        .with(&format!("{Q}.dora_scale"), stored(Dtype::F32, &[64, 1], &[3.0; 64]));
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let place = Place::<B> { device: FlexDevice, dtype };
        let own = bits(&weights_in(&open_tiny().expect("built in"), &place));
        let silent = adapted(vec![(zeros.adapter(), 1.0)]);
        assert_eq!(bits(&weights_in(&silent, &place)), own, "{dtype:?}");
        assert_eq!(fitted(&silent).change(), Some(0.0));
        let off = adapted(vec![(dora.adapter(), 0.0)]);
        assert_eq!(bits(&weights_in(&off, &place)), own, "{dtype:?}");
        let notices = fitted(&off).notices();
        assert!(notices[0].ends_with("has the scale 0: it changes nothing"), "{notices:?}");
    }
}

/// The sum is rounded once: from f32 to bf16.
#[test]
fn in_bf16_the_sum_is_rounded_and_the_change_is_not() {
    let file = File::lora(K, 32, 0.2);
    let folder = adapted(vec![(file.adapter(), 0.01)]);
    let name = format!("{K}.weight");
    let wide = weights_in(&folder, &place());
    let list = folder.adapters().expect("one").list();
    let change = list[0].change().expect("it was read");
    assert_eq!(folder.adapters().expect("one").remaining(), None);
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
    let remaining = folder.adapters().expect("one").remaining().expect("bf16");
    assert!((remaining - with / own_product).abs() < 1e-4, "{remaining} {}", with / own_product);
}

#[test]
fn a_change_that_f16_cannot_hold_is_an_error() {
    let factor = |shape: &[usize]| stored(Dtype::F32, shape, &[300.0; 64]);
    let factors = [("lora_A.weight", factor(&[1, 64])), ("lora_B.weight", factor(&[64, 1]))];
    let file = File::of(Q, factors);
    let folder = adapted(vec![(file.adapter(), 1.0)]);
    let place = Place::<B> { device: FlexDevice, dtype: DType::F16 };
    let error = acestep_model::Checkpoint::<B>::dit(&folder, &place).expect_err("too large");
    assert_eq!(
        error.to_string(),
        "with its adapters, `layers.0.self_attn.q_proj.weight` has values that are too large for f16"
    );
}
