//! Files that are refused on opening.

use super::*;

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
            "it is a LoRA and a LoKr at once",
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
            File::lora(Q, 64, 0.1).with(&key("lora_E"), tensor(&[4, 1], 0.1)),
            "has an AdaLoRA (`lora_E`) in `layers.0.self_attn.q_proj.lora_E`, which this version cannot apply",
        ),
        (
            File::new([(&*key("oft_R.default.weight"), tensor(&[16, 6], 0.1))]),
            "has an OFT (`oft_R`) in `layers.0.self_attn.q_proj.oft_R.default.weight`, which",
        ),
        (
            File::lora(Q, 64, 0.1).with(
                "base_model.model.proj_out.modules_to_save.1.weight",
                tensor(&[64, 8, 2], 0.1),
            ),
            "has a module that was trained as a whole (`modules_to_save`) in",
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
        let file = File::new([
            (&*format!("{K}.lora_A.weight"), a.clone()),
            (&format!("{K}.lora_B.weight"), tensor(&[32, 4], 0.1)),
            (&format!("{Q}.lora_A.weight"), a),
            (&key, empty(&shape)),
        ]);
        let error = message(file.open());
        assert!(error.ends_with(&format!("`{key}` is {shape:?}: it is empty")), "{error}");
    }
    // A tensor that is not the adapter's own is only counted.
    let file = File::lora(Q, 64, 0.1).with("note", empty(&[0, huge, huge]));
    assert_eq!(file.adapter().parameters(), 4 * 64 + 64 * 4);
}
