//! Parameters of the model, each with the module that changes it.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use super::module::Module;

/// The module that changes a parameter.
#[derive(Debug)]
pub(super) struct ModuleRows {
    /// The index in the adapter's list of modules.
    pub(super) module: usize,
    /// The rows of that module that belong to the parameter.
    pub(super) rows: Range<usize>,
    /// The parameters that share the module, in the order of their rows.
    pub(super) sharing: Arc<[String]>,
}

/// Returns the shape of matrices or vectors stacked by rows. The shape of the first if they cannot
/// be stacked.
pub(super) fn stacked_shape(found: &[(&str, &[usize])]) -> Vec<usize> {
    let mut shape = found.first().map(|(_, shape)| shape.to_vec()).unwrap_or_default();
    if let [rows, rest @ ..] = &mut shape[..]
        && found.iter().all(|(_, other)| other.get(1..) == Some(&*rest))
    {
        *rows = found.iter().map(|(_, shape)| shape[0]).sum();
    }
    shape
}

/// Returns the parameters `found` of `module`, which has the index `place`, each with its rows.
pub(super) fn split(
    place: usize,
    module: &Module,
    found: &[(&str, &[usize])],
) -> Vec<(String, ModuleRows)> {
    let sharing: Arc<[String]> = found.iter().map(|(path, _)| (*path).to_owned()).collect();
    let mut at = 0;
    let one = |(path, shape): &(&str, &[usize])| {
        let rows = match found {
            // The rows in the file, which may have another shape with the same number of elements.
            [_] => module.rows(),
            _ => shape.first().copied().unwrap_or(1),
        };
        let start = at;
        at += rows;
        let sharing = Arc::clone(&sharing);
        ((*path).to_owned(), ModuleRows { module: place, rows: start..start + rows, sharing })
    };
    found.iter().map(one).collect()
}

/// Among `places`, finds modules that combine several of the model's. Returns their number, the
/// first one, and the order of the parts, such as `q_proj, k_proj, v_proj`.
pub(super) fn of_several<'a>(
    places: impl Iterator<Item = &'a ModuleRows>,
) -> Option<(usize, usize, String)> {
    let divided = places.filter(|place| place.sharing.len() > 1);
    let modules: BTreeMap<usize, &ModuleRows> =
        divided.map(|place| (place.module, place)).collect();
    let mut orders: Vec<String> = Vec::new();
    for place in modules.values() {
        let order = place.sharing.iter().map(|path| leaf(path)).collect::<Vec<_>>().join(", ");
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    let (first, _) = modules.first_key_value()?;
    Some((modules.len(), *first, orders.join("; or of ")))
}

/// Returns `q_proj` for `layers.0.self_attn.q_proj.weight`.
fn leaf(path: &str) -> &str {
    let module = path.strip_suffix(".weight").or_else(|| path.strip_suffix(".bias"));
    module.unwrap_or(path).rsplit('.').next().unwrap_or(path)
}
