//! The autoencoder's tensor names in Stability's code and in ComfyUI.
//!
//! Its modules are numbered in a list; the released file has diffusers' names:
//!
//! | in the list | released |
//! |---|---|
//! | `encoder.layers.0`, `decoder.layers.0` | `conv1` |
//! | `encoder.layers.N.layers.0` to `.2`, `.3`, `.4` | `block.N-1.res_unit1` to `3`, `snake1`, `conv1` |
//! | `decoder.layers.N.layers.0`, `.1`, `.2` to `.4` | `block.N-1.snake1`, `conv_t1`, `res_unit1` to `3` |
//! | the last but one, the last | `snake1`, `conv2` |
//! | in a residual unit `.layers.0` to `.3` | `snake1`, `conv1`, `snake2`, `conv2` |
//! | `parametrizations.weight.original0`, `1` | `weight_g`, `weight_v` |
//!
//! Source: stable-audio-tools `models/autoencoders.py`; ComfyUI `comfy/ldm/audio/autoencoder.py`;
//! diffusers `scripts/convert_stable_audio.py`, which maps the same way.

/// Returns the released name of tensor `name`; `stages` is the number of blocks of each side.
/// `None` if there is no such module.
pub(super) fn released(name: &str, stages: usize) -> Option<String> {
    let (side, rest) = name.split_once(".layers.")?;
    let (place, rest) = rest.split_once('.')?;
    let place: usize = place.parse().ok()?;
    let is_encoder = match side {
        "encoder" => true,
        "decoder" => false,
        _ => return None,
    };
    let path = match place {
        0 => format!("conv1.{}", parameter(rest)),
        _ if place <= stages => format!("block.{}.{}", place - 1, in_block(rest, is_encoder)?),
        _ if place == stages + 1 => format!("snake1.{rest}"),
        _ if place == stages + 2 => format!("conv2.{}", parameter(rest)),
        _ => return None,
    };
    Some(format!("{side}.{path}"))
}

/// Returns the number of blocks of each side, from the names of a file: its lists have a
/// convolution before the blocks and two modules after them.
pub(super) fn stages<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    let places = names.filter_map(|name| {
        name.strip_prefix("decoder.layers.")?.split('.').next()?.parse::<usize>().ok()
    });
    places.max().unwrap_or_default().saturating_sub(2)
}

fn in_block(rest: &str, is_encoder: bool) -> Option<String> {
    let (place, rest) = rest.strip_prefix("layers.")?.split_once('.')?;
    let unit = |number: usize| Some(format!("res_unit{number}.{}", in_unit(rest)?));
    match (is_encoder, place.parse::<usize>().ok()?) {
        (true, place @ 0..3) => unit(place + 1),
        (true, 3) | (false, 0) => Some(format!("snake1.{rest}")),
        (true, 4) => Some(format!("conv1.{}", parameter(rest))),
        (false, 1) => Some(format!("conv_t1.{}", parameter(rest))),
        (false, place @ 2..5) => unit(place - 1),
        _ => None,
    }
}

fn in_unit(rest: &str) -> Option<String> {
    let (place, rest) = rest.strip_prefix("layers.")?.split_once('.')?;
    let module = ["snake1", "conv1", "snake2", "conv2"].get(place.parse::<usize>().ok()?)?;
    Some(format!("{module}.{}", parameter(rest)))
}

/// PyTorch's newer weight norm has other names.
fn parameter(name: &str) -> &str {
    match name {
        "parametrizations.weight.original0" => "weight_g",
        "parametrizations.weight.original1" => "weight_v",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_lists_become_the_released_names() {
        for (name, expected) in [
            ("encoder.layers.0.weight_v", "encoder.conv1.weight_v"),
            ("encoder.layers.1.layers.0.layers.1.bias", "encoder.block.0.res_unit1.conv1.bias"),
            ("encoder.layers.5.layers.2.layers.2.beta", "encoder.block.4.res_unit3.snake2.beta"),
            ("encoder.layers.2.layers.3.alpha", "encoder.block.1.snake1.alpha"),
            ("encoder.layers.2.layers.4.weight_g", "encoder.block.1.conv1.weight_g"),
            ("encoder.layers.6.alpha", "encoder.snake1.alpha"),
            ("encoder.layers.7.bias", "encoder.conv2.bias"),
            ("decoder.layers.1.layers.0.beta", "decoder.block.0.snake1.beta"),
            ("decoder.layers.2.layers.1.weight_v", "decoder.block.1.conv_t1.weight_v"),
            (
                "decoder.layers.5.layers.4.layers.3.parametrizations.weight.original0",
                "decoder.block.4.res_unit3.conv2.weight_g",
            ),
            ("decoder.layers.7.parametrizations.weight.original1", "decoder.conv2.weight_v"),
        ] {
            assert_eq!(released(name, 5).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(stages(["decoder.layers.0.bias", "decoder.layers.7.weight_g"].into_iter()), 5);
        for name in ["decoder.layers.8.bias", "decoder.layers.1.layers.5.bias", "bottleneck.x"] {
            assert_eq!(released(name, 5), None, "{name}");
        }
    }
}
