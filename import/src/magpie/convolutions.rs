//! The convolutions of the feed-forward blocks, which are products of rows here.

use acestep_model::speech::magpie::{Config, StackConfig};

use crate::Tensors;

/// Gives the convolutions of the feed-forward blocks the shape `[out, in taps]` of their layers here.
/// A tensor of another kernel keeps its shape, which is an error later.
pub(super) fn flatten_convolutions(tensors: &mut Tensors, config: &Config) {
    let stacks: [(&str, &StackConfig); 2] =
        [("encoder.", &config.encoder), ("decoder.", &config.decoder.stack)];
    let names: Vec<_> = tensors.names().map(str::to_owned).collect();
    for name in names {
        if !name.contains(".pos_ff.") || !name.ends_with(".conv.weight") {
            continue;
        }
        let of = stacks.iter().find(|(prefix, _)| name.starts_with(prefix));
        let taps = of.map_or(1, |(_, stack)| stack.kernel_size);
        let shape = tensors.shape(&name).map(<[usize]>::to_vec).unwrap_or_default();
        if let [output, input, kernel] = shape[..]
            && kernel == taps
        {
            tensors.reshape(&name, vec![output, input * taps]);
        }
    }
}
