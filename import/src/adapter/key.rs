//! Names of an adapter's tensors: which module, and what of it.
//!
//! A key is the module's name, as the tool spells it, and one of the endings below; what may follow
//! is the name of the adapter, which PEFT writes in some versions, and `.weight`.
//!
//! Source of the endings: PEFT `get_peft_model_state_dict`; LyCORIS `custom_state_dict`; kohya-ss
//! `networks/lora.py`; ComfyUI `comfy/lora.py`.

/// What a tensor is to its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// `A` of LoRA, `[rank, in]`.
    Down,
    /// `B` of LoRA, `[out, rank]`.
    Up,
    /// A factor of LoKr: the first or second side of the Kronecker product, whole.
    Kron(Side),
    /// The same side as a product: its left or right factor.
    KronPart(Side, Side),
    /// A factor of LoHa: of the first or second product, the left or right one.
    Hada(Side, Side),
    /// The numerator of the scale.
    Alpha,
    /// DoRA's lengths of rows, as PEFT trains them.
    Magnitude,
    /// DoRA's lengths, as LyCORIS trains them.
    DoraScale,
}

/// The first or the second of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    First,
    Second,
}

use Side::{First, Second};

/// A key, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key<'a> {
    /// Something of a module.
    Of(&'a str, Role),
    /// A change of a kind that is not built, as a noun phrase.
    Refused(&'static str),
    /// No name of an adapter's tensor.
    Unknown,
}

/// (Ending of the module's name, role).
const ENDINGS: &[(&str, Role)] = &[
    (".lora_A", Role::Down),
    (".lora_B", Role::Up),
    (".lora_down", Role::Down),
    (".lora_up", Role::Up),
    (".lora.down", Role::Down),
    (".lora.up", Role::Up),
    ("_lora.down", Role::Down),
    ("_lora.up", Role::Up),
    (".lora_linear_layer.down", Role::Down),
    (".lora_linear_layer.up", Role::Up),
    (".lokr_w1", Role::Kron(First)),
    (".lokr_w1_a", Role::KronPart(First, First)),
    (".lokr_w1_b", Role::KronPart(First, Second)),
    (".lokr_w2", Role::Kron(Second)),
    (".lokr_w2_a", Role::KronPart(Second, First)),
    (".lokr_w2_b", Role::KronPart(Second, Second)),
    (".hada_w1_a", Role::Hada(First, First)),
    (".hada_w1_b", Role::Hada(First, Second)),
    (".hada_w2_a", Role::Hada(Second, First)),
    (".hada_w2_b", Role::Hada(Second, Second)),
    (".lora_magnitude_vector", Role::Magnitude),
    (".dora_scale", Role::DoraScale),
    (".alpha", Role::Alpha),
];

/// (Ending, what it is). They would change the sound: to leave them out silently would be wrong.
const REFUSED: &[(&str, &str)] = &[
    (".lora_mid", "a Tucker decomposition (`lora_mid`)"),
    (".lokr_t2", "a Tucker decomposition (`lokr_t2`)"),
    (".hada_t1", "a Tucker decomposition (`hada_t1`)"),
    (".hada_t2", "a Tucker decomposition (`hada_t2`)"),
    (".lora_embedding_A", "a change of an embedding (`lora_embedding_A`)"),
    (".lora_embedding_B", "a change of an embedding (`lora_embedding_B`)"),
    (".diff", "a whole difference of a weight (`diff`)"),
    (".diff_b", "a difference of a bias (`diff_b`)"),
    (".w_norm", "a difference of a norm (`w_norm`)"),
    (".b_norm", "a difference of a norm (`b_norm`)"),
    (".set_weight", "a replaced weight (`set_weight`)"),
    (".reshape_weight", "a weight of another shape (`reshape_weight`)"),
    (".oft_blocks", "an orthogonal change (OFT, `oft_blocks`)"),
    (".oft_diag", "an orthogonal change (OFT, `oft_diag`)"),
    (".oft_r", "an orthogonal change (OFT, `oft_R`)"),
    (".a1", "a GLoRA (`a1`)"),
    (".a2", "a GLoRA (`a2`)"),
    (".b1", "a GLoRA (`b1`)"),
    (".b2", "a GLoRA (`b2`)"),
    (".on_input", "an IA3 (`on_input`)"),
    (".ia3_l", "an IA3 (`ia3_l`)"),
    (".vera_lambda_b", "a VeRA (`vera_lambda_b`)"),
    (".vera_lambda_d", "a VeRA (`vera_lambda_d`)"),
];

/// Reads `key`.
pub(super) fn read(key: &str) -> Key<'_> {
    for &(ending, role) in ENDINGS {
        if let Some((module, rest)) = split(key, ending) {
            return match rest {
                ".bias" => Key::Refused("a bias of its LoRA (`lora_bias`)"),
                _ if is_rest(rest) => Key::Of(module, role),
                _ => Key::Unknown,
            };
        }
    }
    let refused = |(ending, what): &(&str, &'static str)| {
        split(key, ending).filter(|(_, rest)| is_rest(rest)).map(|_| Key::Refused(what))
    };
    REFUSED.iter().find_map(refused).unwrap_or(Key::Unknown)
}

/// The module before `ending`, and what follows: nothing, or something that begins with a dot.
fn split<'a>(key: &'a str, ending: &str) -> Option<(&'a str, &'a str)> {
    let at = key.rfind(ending)?;
    let (module, rest) = (&key[..at], &key[at + ending.len()..]);
    (!module.is_empty() && (rest.is_empty() || rest.starts_with('.'))).then_some((module, rest))
}

/// `.weight`, `.NAME`, `.NAME.weight` or nothing.
fn is_rest(rest: &str) -> bool {
    let name = rest.strip_suffix(".weight").unwrap_or(rest);
    name.is_empty() || !name[1..].contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tools_endings_are_known() {
        const Q: &str = "layers.0.self_attn.q_proj";
        for (ending, role) in [
            ("lora_A.weight", Role::Down),
            ("lora_A.default.weight", Role::Down),
            ("lora_B.lora_adapter.weight", Role::Up),
            ("lora_down.weight", Role::Down),
            ("lora_up.weight", Role::Up),
            ("lora.down.weight", Role::Down),
            ("lora_linear_layer.up.weight", Role::Up),
            ("lokr_w1", Role::Kron(First)),
            ("lokr_w1_b", Role::KronPart(First, Second)),
            ("lokr_w2", Role::Kron(Second)),
            ("lokr_w2_a", Role::KronPart(Second, First)),
            ("hada_w2_b", Role::Hada(Second, Second)),
            ("lora_magnitude_vector", Role::Magnitude),
            ("lora_magnitude_vector.weight", Role::Magnitude),
            ("lora_magnitude_vector.default.weight", Role::Magnitude),
            ("dora_scale", Role::DoraScale),
            ("alpha", Role::Alpha),
        ] {
            assert_eq!(read(&format!("{Q}.{ending}")), Key::Of(Q, role), "{ending}");
        }
        assert_eq!(read("to_q_lora.up.weight"), Key::Of("to_q", Role::Up));
    }

    #[test]
    fn what_is_not_built_is_called_by_name_and_what_is_foreign_is_unknown() {
        for (key, what) in [
            ("q.lokr_t2", "a Tucker decomposition (`lokr_t2`)"),
            ("q.lora_mid.weight", "a Tucker decomposition (`lora_mid`)"),
            ("q.lora_B.bias", "a bias of its LoRA (`lora_bias`)"),
            ("q.diff", "a whole difference of a weight (`diff`)"),
            ("q.a1.weight", "a GLoRA (`a1`)"),
        ] {
            assert_eq!(read(key), Key::Refused(what), "{key}");
        }
        for key in ["q.weight", "q.bias", "alpha", ".alpha", "q.lora_A.a.b.weight", "q.lokr_w3"] {
            assert_eq!(read(key), Key::Unknown, "{key}");
        }
    }
}
