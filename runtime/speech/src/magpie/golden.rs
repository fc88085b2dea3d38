//! Stored results of the reference.

use serde_json::Value;

/// Reads a file of `tests/goldens/magpie/logic`.
pub(super) fn logic(name: &str) -> Value {
    let path = format!("{}/../../tests/goldens/magpie/logic/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).expect("JSON")
}
