//! A plan as JSON: the decided fields of the request, and the values that follow from them.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{GuidanceMode, MaskMode, Plan, Task};
use crate::{
    flow::{dcw::DcwMode, solver::Solver},
    request::shortest,
};

impl Plan {
    /// Returns the plan as an object with the keys of a request.
    pub fn to_json(&self) -> Map<String, Value> {
        let object = serde_json::to_value(self).expect("texts, numbers and lists are JSON");
        let Value::Object(mut object) = object else { return Map::new() };
        for (key, value) in [
            ("duration", json!(self.output_seconds())),
            ("samples", json!(self.output_samples())),
            ("cover_steps", json!(self.source.is_followed().then(|| self.cover_steps()))),
            ("inference_steps", json!(self.steps())),
            ("timesteps", json!(self.schedule().timesteps)),
            ("infer_method", json!(self.sampler.solver.infer_method())),
        ] {
            object.insert(key.to_owned(), value);
        }
        object.values_mut().for_each(shorten);
        object
    }
}

/// Replaces each number that was an f32 by its shortest decimal: 0.1, not 0.10000000149011612.
fn shorten(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().filter(|_| number.is_f64());
            if let Some(x) = float.filter(|&x| f64::from(x as f32) == x) {
                *value = json!(shortest(x as f32));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(items) => items.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::String(_) => (),
    }
}

/// Writes values as their names in requests.
macro_rules! by_name {
    ($($type:ty),+) => {
        $(impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        })+
    };
}
by_name!(DcwMode, GuidanceMode, MaskMode, Solver, Task);
