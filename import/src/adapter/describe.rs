//! Adapters in words: what one is, what it changes, and how much of the change remains.

use std::collections::BTreeMap;

use super::{
    Adapter, Adapters, Fitted,
    file::counted,
    fit::{WIDTH_OF_2B, WIDTH_OF_XL},
};

impl Adapter {
    /// Returns a text such as `LoRA with DoRA, rank 16, alpha 32`.
    pub fn description(&self) -> String {
        let mut text = self.kind();
        match self.ranks() {
            Some((low, high)) if low == high => text += &format!(", rank {low}"),
            Some((low, high)) => text += &format!(", ranks {low} to {high}"),
            None => (),
        }
        match self.alphas() {
            // Print as f32, the stored type: 0.1 and not 0.10000000149011612.
            Some((low, high)) if low == high => text += &format!(", alpha {}", low as f32),
            Some((low, high)) => text += &format!(", alphas {} to {}", low as f32, high as f32),
            None => (),
        }
        text
    }

    /// Counts its modules by shape and by name, with `*` for the layer number.
    pub fn groups(&self) -> BTreeMap<(String, Vec<usize>), usize> {
        let mut groups = BTreeMap::new();
        for (name, shape) in self.modules() {
            *groups.entry((without_layer(&name), shape.to_vec())).or_default() += 1;
        }
        groups
    }

    /// Names the released models whose weights have matching sizes.
    pub fn fits(&self) -> &'static str {
        let has = |width| self.modules().any(|(_, shape)| shape.contains(&width));
        if has(WIDTH_OF_XL) {
            "the XL models (xl-turbo, xl-base, xl-sft), by its sizes"
        } else if has(WIDTH_OF_2B) {
            "the models of 2B (turbo, base, sft and theirs), by its sizes"
        } else {
            "no released model, by its sizes"
        }
    }
}

/// Replaces the number in `layers.3.mlp` or `layers_3_mlp` by `*`.
fn without_layer(name: &str) -> String {
    const LAYERS: &str = "layers";
    let Some(at) = name.find(LAYERS).map(|at| at + LAYERS.len() + 1) else {
        return name.to_owned();
    };
    let (before, rest) = name.split_at_checked(at).unwrap_or((name, ""));
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if after.len() == rest.len() { name.to_owned() } else { format!("{before}*{after}") }
}

impl Fitted {
    /// Returns a text such as `changed by 1.23 %`; `None` until its weights were read.
    pub fn effect(&self) -> Option<String> {
        self.change().map(effect)
    }
}

fn effect(change: f64) -> String {
    if change == 0.0 {
        return "not changed at all".to_owned();
    }
    let percent = 100.0 * change;
    let digits = if percent < 0.1 { 4 } else { 2 };
    format!("changed by {percent:.digits$} %")
}

impl Adapters {
    /// Returns the effect of each adapter on the loaded network, and notices about problems.
    pub fn outcome(&self) -> (Vec<String>, Vec<String>) {
        let (mut said, mut notices) = (Vec::new(), Vec::new());
        for fitted in self.list() {
            let Some(change) = fitted.change() else { continue };
            let name = fitted.adapter().name();
            let weights = counted(fitted.matched().0, "weight");
            said.push(format!("adapter {name}: {weights} {}", effect(change)));
            // What its own settings make of it was said before.
            if change == 0.0 && fitted.scale() != 0.0 && !fitted.adapter().is_silent() {
                notices.push(format!(
                    "the adapter {name} changes nothing: all its changes are zero, as before training"
                ));
            }
        }
        // If less than half of the change survives, the result is not the trained adapter.
        if let Some(remaining) = self.remaining().filter(|of| *of < 0.5) {
            notices.push(format!(
                "only {:.0} % of the adapters' change survives the rounding of this type; with \
                 `dtype: f32` all of it does",
                100.0 * remaining
            ));
        }
        (said, notices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_layer_is_left_out() {
        for (name, group) in [
            ("base_model.model.layers.12.mlp.up_proj", "base_model.model.layers.*.mlp.up_proj"),
            ("lycoris_layers_3_self_attn_q_proj", "lycoris_layers_*_self_attn_q_proj"),
            ("time_embed.linear_1", "time_embed.linear_1"),
            ("layers", "layers"),
        ] {
            assert_eq!(without_layer(name), group);
        }
    }

    #[test]
    fn a_change_is_said_in_percent() {
        assert_eq!(effect(0.0123), "changed by 1.23 %");
        assert_eq!(effect(0.000_123), "changed by 0.0123 %");
        assert_eq!(effect(0.0), "not changed at all");
    }
}
