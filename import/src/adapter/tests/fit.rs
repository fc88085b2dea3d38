//! Adapters that belong to another network, entirely or in part.

use super::*;

#[test]
fn what_the_model_does_not_have_is_named_and_nothing_at_all_is_an_error() {
    let file = File::lora(&format!("base_model.model.{Q}"), 64, 0.3)
        .with("lora_te_layers_0_self_attn_q_proj.lora_down.weight", tensor(&[4, 64], 0.1))
        .with("lora_te_layers_0_self_attn_q_proj.lora_up.weight", tensor(&[64, 4], 0.1))
        .with("note", stored(Dtype::I64, &[1], &[1.0]));
    let folder = adapted(vec![(file.adapter(), 1.0)]);
    let fitted = fitted(&folder);
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
    assert_ends(
        &error,
        "changes nothing of tiny, which has none of its 1 module: \
             `base_model.model.model.layers.0.self_attn.q_proj`; they seem to be of a language model",
    );
}

#[test]
fn a_wrong_shape_says_both_shapes() {
    let error = refused(&File::lora(&format!("diffusion_model.{UP}"), 64, 0.3));
    assert_ends(
        &error,
        "changes `diffusion_model.layers.0.mlp.up_proj` as [64, 64], but the model has it as [96, 64]",
    );
    // The same mismatch as between the released sizes.
    let mut folder = crate::Adapters::fit(
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
    assert_ends(
        &error,
        "has it as [2048, 2048]: it was trained on an XL model, and this is one of 2B",
    );
}

/// PEFT stores modules that it trained entirely under their plain names.
#[test]
fn a_trained_module_beside_the_products_is_refused_and_a_foreign_tensor_is_not() {
    for (tensor_name, shape) in [
        ("base_model.model.proj_out.1.weight", vec![64, 8, 2]),
        ("base_model.model.layers.0.mlp_norm.weight", vec![64]),
        ("base_model.model.layers.0.self_attn.q_proj.new_kind.default", vec![4]),
    ] {
        let file = File::lora(Q, 64, 0.3).with(tensor_name, tensor(&shape, 0.1));
        let error = refused(&file);
        assert_ends(
            &error,
            &format!(
                "has 1 tensor of the model's modules that is no change of a known kind, as PEFT's \
                 `modules_to_save` is one: `{tensor_name}`, which this version cannot apply"
            ),
        );
    }
    let file = File::lora(Q, 64, 0.3).with("text_encoder.norm.weight", tensor(&[64], 0.1));
    let notices = adapted(vec![(file.adapter(), 1.0)]).adapters().expect("one").list()[0].notices();
    assert!(notices[0].ends_with("left out: `text_encoder.norm.weight`"), "{notices:?}");
}

#[test]
fn modules_without_an_alpha_are_counted_where_others_have_one() {
    let file = File::lora(Q, 64, 0.3)
        .with(&format!("{Q}.alpha"), alpha(8.0))
        .and_lora(K, 32, 0.1)
        .with("layers.0.self_attn_norm.diff", tensor(&[64], 0.1));
    let folder = adapted(vec![(file.adapter(), 1.0)]);
    let notice = only(fitted(&folder).notices());
    assert_ends(
        &notice,
        "does not say the alpha of 1 of its 2 modules: there it works as if that were the \
             rank",
    );
}
