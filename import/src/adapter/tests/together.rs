//! Several adapters at positive and negative scales, in every type of weights.

use acestep_model::{Checkpoint, acestep::Dit};
use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{Int, Tensor},
};

use super::*;
use crate::testing::{Copy, narrow};

/// A LoRA, a LoKr, a LoHa and a difference of several weights.
fn files() -> [File; 4] {
    let lokr = [("lokr_w1", tensor(&[6, 8], 0.4)), ("lokr_w2", tensor(&[16, 8], 0.5))];
    [
        File::lora(Q, 64, 0.3).and_lora(K, 32, 0.1),
        File::of("lycoris_layers_0_mlp_up_proj", lokr),
        File::loha(&format!("diffusion_model.{Q}"), 64),
        File::of(K, [("diff", tensor(&[32, 64], 0.6))]),
    ]
}

/// Returns the stored bytes of the parameters; those of int8 weights are the words.
fn kept(folder: &AceStep, dtype: DType) -> BTreeMap<String, Vec<u8>> {
    #[derive(Default)]
    struct Kept(Vec<String>, BTreeMap<String, Vec<u8>>);
    impl ModuleVisitor<B> for Kept {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            self.1.insert(self.0.join("."), param.val().into_data().as_bytes().to_vec());
        }
        fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<B, D, Int>>) {
            self.1.insert(self.0.join("."), param.val().into_data().as_bytes().to_vec());
        }
        fn enter_module(&mut self, name: &str, _: &str) {
            self.0.push(name.to_owned());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.0.pop();
        }
    }
    let place = Place { device: FlexDevice, dtype };
    let dit: Dit<B> = Checkpoint::<B>::dit(folder, &place).expect("a network");
    let mut kept = Kept::default();
    dit.visit(&mut kept);
    kept.1
}

const TYPES: [DType; 4] = [DType::F32, DType::BF16, DType::F16, DType::I8];

#[test]
fn an_adapter_and_its_opposite_leave_every_weight_as_it_was() {
    for dtype in TYPES {
        let own = kept(&open_tiny().expect("built in"), dtype);
        for file in files() {
            let kind = file.adapter().kind();
            for scale in [1.0, 0.7] {
                let both = [scale, -scale].map(|scale| (file.adapter(), scale)).to_vec();
                assert_eq!(kept(&adapted(both), dtype), own, "{kind} {dtype:?}");
            }
            let one = kept(&adapted(vec![(file.adapter(), -1.0)]), dtype);
            assert_ne!(one, own, "{kind} {dtype:?}");
        }
    }
}

/// int8 weights are rounded from bf16 if unchanged and from f32 if changed. The same values must
/// give the same result.
#[test]
fn a_file_in_bf16_with_an_adapter_and_its_opposite_is_the_same_in_int8() {
    let copy = Copy::new();
    narrow(&copy.paths.dit.join("model.safetensors"), Dtype::BF16);
    let mut folder = AceStep::open(&copy.paths).expect("a model");
    for dtype in [DType::BF16, DType::I8] {
        folder.adapt(vec![]).expect("none");
        let own = kept(&folder, dtype);
        for file in files() {
            let both = [2.0, -2.0].map(|scale| (file.adapter(), scale)).to_vec();
            folder.adapt(both).expect("they fit");
            assert_eq!(kept(&folder, dtype), own, "{} {dtype:?}", file.adapter().kind());
        }
    }
}

/// The sum of two numbers is the same in any order, the sum of three up to the last bit of f32.
#[test]
fn the_order_of_adapters_at_any_scale_does_not_matter() {
    let files = files();
    let list = |order: &[usize]| -> Vec<(Adapter, f64)> {
        let scales = [1.0, -0.5, 0.3, -1.25];
        order.iter().map(|&i| (files[i].adapter(), scales[i])).collect()
    };
    for dtype in TYPES {
        let [first, second] = [[0, 2, 1, 3], [3, 1, 2, 0]].map(|o| kept(&adapted(list(&o)), dtype));
        assert_eq!(first, second, "{dtype:?}");
    }
}

/// `W + D1 - D2 / 2`, rounded once.
#[test]
fn changes_at_scales_below_zero_are_taken_away_before_the_sum_is_rounded() {
    let [lora, _, loha, _] = files();
    let both = adapted(vec![(lora.adapter(), 1.0), (loha.adapter(), -0.5)]);
    let name = format!("{Q}.weight");
    let alone = |file: &File| weights(vec![(file.adapter(), 1.0)]).remove(&name).expect("it");
    let (first, second) = (alone(&lora), alone(&loha));
    let wide = weights_in(&both, &place()).remove(&name).expect("it");
    for ((&found, &w), (&x, &y)) in wide.iter().zip(&own(Q)).zip(first.iter().zip(&second)) {
        let [w, x, y] = [w, x, y].map(f64::from);
        let wanted = w + (x - w) - 0.5 * (y - w);
        assert!((f64::from(found) - wanted).abs() < 2e-6 * (1.0 + wanted.abs()));
    }
    let narrow = weights_in(&both, &Place { device: FlexDevice, dtype: DType::BF16 });
    let rounded: Vec<f32> = wide.iter().map(|&x| half::bf16::from_f32(x).to_f32()).collect();
    assert_eq!(narrow[&name], rounded);
}
