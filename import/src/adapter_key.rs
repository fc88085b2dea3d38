//! Names of an adapter's tensors: the module and the tensor's role in it.
//!
//! A key is the module's name, as the tool spells it, and one of the endings below. The name of the
//! adapter (some versions of PEFT write it) and `.weight` may follow.
//!
//! Source of the endings: PEFT `get_peft_model_state_dict`; LyCORIS `custom_state_dict`; kohya-ss
//! `networks/lora.py`; ComfyUI `comfy/lora.py`.

/// Role of a tensor in its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// `A` of LoRA, `[rank, in]`.
    Down,
    /// `B` of LoRA, `[out, rank]`.
    Up,
    /// A factor of LoKr: the first or second factor of the Kronecker product, as one matrix.
    Kron(Side),
    /// The same factor as a product of two: its left or right matrix.
    KronPart(Side, Side),
    /// A factor of LoHa: the left or right matrix of the first or second product.
    Hada(Side, Side),
    /// A difference that is added to the weight.
    Difference,
    /// A difference that is added to the bias.
    BiasDifference,
    /// The numerator of the scale.
    Alpha,
    /// DoRA's row magnitudes, as PEFT trains them.
    Magnitude,
    /// DoRA's magnitudes, as LyCORIS trains them.
    DoraScale,
}

/// The first or the second of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    First,
    Second,
}

use Side::{First, Second};

/// A parsed key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key<'a> {
    /// A tensor of a module.
    Of(&'a str, Role),
    /// An unsupported kind of change, as a noun phrase.
    Refused(String),
    /// Not the name of an adapter's tensor.
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
    (".diff", Role::Difference),
    (".diff_b", Role::BiasDifference),
    // LyCORIS's names in a norm.
    (".w_norm", Role::Difference),
    (".b_norm", Role::BiasDifference),
    (".alpha", Role::Alpha),
];

/// (Endings in lower case, or starts of a part of the name if the last character is `_` or `.`;
/// description). These would change the sound, so they must not be ignored silently.
const REFUSED: &[(&str, &str)] = &[
    (".lora_mid .lokr_t2 .hada_t1 .hada_t2", "a Tucker decomposition"),
    (".lora_embedding_a .lora_embedding_b", "a change of an embedding"),
    (".lora_e .ranknum", "an AdaLoRA"),
    (".set_weight", "a replaced weight"),
    (".reshape_weight", "a weight of another shape"),
    (".modules_to_save.", "a module that was trained as a whole"),
    (".rescale .oft_", "an OFT"),
    (".boft_", "a BOFT"),
    (".a1 .a2 .b1 .b2 .glora_", "a GLoRA"),
    (".on_input .ia3_", "an IA3"),
    (".vera_lambda_ .pvera_lambda_", "a VeRA"),
    (".vblora_", "a VB-LoRA"),
    (".randlora_", "a RandLoRA"),
    (".fourierft_", "a FourierFT"),
    (".hra_", "an HRA"),
    (".delora_", "a DeLoRA"),
    (".gralora_", "a GraLoRA"),
    (".hira_", "a HiRA"),
    (".miss_", "a MiSS"),
    (".shira_", "a SHiRA"),
    (".road_", "a RoAd"),
    (".c3a_", "a C3A"),
    (".waveft_", "a WaveFT"),
    (".ln_tuning_", "a trained norm"),
];

pub(super) fn read(key: &str) -> Key<'_> {
    for &(ending, role) in ENDINGS {
        if let Some((module, rest)) = split(key, ending) {
            return match rest {
                ".bias" => Key::Refused("a bias of its LoRA (`lora_bias`)".to_owned()),
                _ if is_rest(rest) => Key::Of(module, role),
                _ => Key::Unknown,
            };
        }
    }
    // PEFT writes `oft_R` and LyCORIS has written `oft_blocks`, so the case is ignored.
    let small = key.to_ascii_lowercase();
    let place = |pattern: &str| match pattern.ends_with(['_', '.']) {
        true => small.rfind(pattern),
        false => {
            split(&small, pattern).filter(|(_, rest)| is_rest(rest)).map(|(module, _)| module.len())
        }
    };
    let found = REFUSED
        .iter()
        .find_map(|(patterns, what)| Some((patterns.split(' ').find_map(place)?, *what)));
    match found {
        Some((at, what)) => {
            let part = key[at + 1..].split('.').next().unwrap_or_default();
            Key::Refused(format!("{what} (`{part}`)"))
        }
        None => Key::Unknown,
    }
}

/// True if `key` names a change of a module. An alpha alone is not a change.
pub(crate) fn is_change(key: &str) -> bool {
    matches!(read(key), Key::Of(_, role) if role != Role::Alpha)
}

/// Returns the module before `ending`, and the rest: empty, or something that begins with a dot.
fn split<'a>(key: &'a str, ending: &str) -> Option<(&'a str, &'a str)> {
    let at = key.rfind(ending)?;
    let (module, rest) = (&key[..at], &key[at + ending.len()..]);
    (!module.is_empty() && (rest.is_empty() || rest.starts_with('.'))).then_some((module, rest))
}

/// True for `.weight`, `.NAME`, `.NAME.weight` and the empty string.
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
            ("diff", Role::Difference),
            ("diff_b", Role::BiasDifference),
            ("w_norm", Role::Difference),
            ("b_norm", Role::BiasDifference),
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
            ("q.a1.weight", "a GLoRA (`a1`)"),
            ("q.lora_E", "an AdaLoRA (`lora_E`)"),
            ("q.lora_E.default", "an AdaLoRA (`lora_E`)"),
            ("q.oft_R.weight", "an OFT (`oft_R`)"),
            ("q.oft_R.default.weight", "an OFT (`oft_R`)"),
            ("q.OFT_blocks", "an OFT (`OFT_blocks`)"),
            ("q.boft_R", "a BOFT (`boft_R`)"),
            ("q.randlora_lambda.default", "a RandLoRA (`randlora_lambda`)"),
            (
                "q.modules_to_save.default.bias",
                "a module that was trained as a whole (`modules_to_save`)",
            ),
        ] {
            assert_eq!(read(key), Key::Refused(what.to_owned()), "{key}");
        }
        for key in ["q.weight", "q.bias", "alpha", ".alpha", "q.lora_A.a.b.weight", "q.lokr_w3"] {
            assert_eq!(read(key), Key::Unknown, "{key}");
        }
    }
}
