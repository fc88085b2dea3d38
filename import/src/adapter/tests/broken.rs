//! Files that are refused on opening.

use super::*;

#[test]
fn a_broken_file_is_refused_when_it_is_opened() {
    let lora_and = |role: &str, of: Stored| File::lora(Q, 64, 0.1).with(&format!("{Q}.{role}"), of);
    let some = |shape: &[usize]| tensor(shape, 0.1);
    let pair = |a| File::of(Q, [("lora_A.weight", a), ("lora_B.weight", some(&[2, 1]))]);
    for (file, says) in [
        (File::of(Q, [("lora_A.weight", some(&[4, 64]))]), "its lora_B (lora_up) is missing"),
        (
            lora_and("lora_down.weight", some(&[4, 64])),
            "`layers.0.self_attn.q_proj.lora_A.weight` and `layers.0.self_attn.q_proj.lora_down.weight` are the same",
        ),
        (
            File::of(Q, [("lora_A.weight", some(&[4, 64])), ("lora_B.weight", some(&[64, 3]))]),
            "[64, 3] and `layers.0.self_attn.q_proj.lora_A.weight` [4, 64] cannot be multiplied",
        ),
        (lora_and("alpha", some(&[2])), "its alpha is not one number"),
        (
            lora_and("dora_scale", some(&[32, 1])),
            "DoRA's magnitudes are [32, 1] for a weight [64, 64]",
        ),
        (lora_and("lokr_w1", some(&[8, 8])), "it is a LoRA and a LoKr at once"),
        (
            File::of(Q, [("lokr_w1", some(&[8, 8])), ("lokr_w2_a", some(&[8, 2]))]),
            "one half of its lokr_w2 is missing",
        ),
        (File::of(Q, [("alpha", alpha(1.0))]), "it has no change beside"),
        (
            lora_and("lokr_t2", some(&[2, 2])),
            "has a Tucker decomposition (`lokr_t2`) in `layers.0.self_attn.q_proj.lokr_t2`, which this version cannot apply",
        ),
        (
            lora_and("lora_E", some(&[4, 1])),
            "has an AdaLoRA (`lora_E`) in `layers.0.self_attn.q_proj.lora_E`, which this version cannot apply",
        ),
        (
            File::of(Q, [("oft_R.default.weight", some(&[16, 6]))]),
            "has an OFT (`oft_R`) in `layers.0.self_attn.q_proj.oft_R.default.weight`, which",
        ),
        (
            File::lora(Q, 64, 0.1)
                .with("base_model.model.proj_out.modules_to_save.1.weight", some(&[64, 8, 2])),
            "has a module that was trained as a whole (`modules_to_save`) in",
        ),
        (
            File::new([("decoder.layers.0.self_attn.q_proj.weight", some(&[64, 64]))]),
            "it seems to be a whole network: `decoder.layers.0.self_attn.q_proj.weight`",
        ),
        (File::new([("x", some(&[4, 64]))]), "none of its tensors is one's: `x`"),
        (pair(stored(Dtype::F32, &[1, 2], &[f32::NAN, 0.0])), "has values that are not finite"),
        (pair(stored(Dtype::I64, &[1, 2], &[1.0, 0.0])), "is I64, weights are F32, F16 or BF16"),
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

/// With a size of 0 the other sizes can be anything: their product may overflow.
#[test]
fn an_empty_tensor_is_refused_whatever_its_other_sizes_are() {
    let empty = |shape: &[usize]| stored(Dtype::F32, shape, &[]);
    let huge = 1 << 40;
    for (role, shape) in
        [("lora_B.weight", vec![0, huge, huge]), ("lora_B.weight", vec![64, 0]), ("diff", vec![0])]
    {
        let key = format!("{Q}.{role}");
        let a = tensor(&[4, 64], 0.1);
        let file =
            File::lora(K, 32, 0.1).with(&format!("{Q}.lora_A.weight"), a).with(&key, empty(&shape));
        let error = message(file.open());
        assert_ends(&error, &format!("`{key}` is {shape:?}: it is empty"));
    }
    // A tensor that is not the adapter's own is only counted.
    let file = File::lora(Q, 64, 0.1).with("note", empty(&[0, huge, huge]));
    assert_eq!(file.adapter().parameters(), 4 * 64 + 64 * 4);
}
