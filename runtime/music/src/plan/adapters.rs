//! Adapters of a request, and their scales.

use acestep_engine::{Error, check};

use crate::Request;

/// Largest scale; an adapter gives only noise long before that.
const MOST: f64 = 10.0;

/// Pairs the adapters of `request` with their scales: one for all, one for each, or 1.
///
/// # Errors
/// [`Error::Conflict`] if the number of scales does not match; [`Error::OutOfRange`].
pub fn adapters(request: &Request) -> Result<Vec<(String, f64)>, Error> {
    let names = request.adapter.as_deref().unwrap_or_default();
    let scales = request.adapter_scale.as_deref().unwrap_or_default();
    let scale = |i: usize| match scales {
        [] => 1.0,
        [one] => *one,
        each => each[i],
    };
    if scales.len() > 1 && scales.len() != names.len() {
        let (names, scales) = (names.len(), scales.len());
        let why = format!(
            "`adapter_scale` has {scales} numbers for {names} adapters: give one, or one for \
             each"
        );
        return Err(Error::Conflict(why));
    }
    let pair = |(i, name): (usize, &String)| {
        Ok((name.clone(), check::real("adapter_scale", scale(i), -MOST, MOST)?))
    };
    names.iter().enumerate().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Result<Vec<(String, f64)>, String> {
        let (request, _) = Request::from_json(json).expect("a request");
        adapters(&request).map_err(|error| error.to_string())
    }

    #[test]
    fn each_adapter_has_its_scale_or_all_have_one() {
        let pair = |name: &str, scale| (name.to_owned(), scale);
        for (json, wanted) in [
            (r#"{"adapter": "a.safetensors"}"#, vec![pair("a.safetensors", 1.0)]),
            (r#"{"adapter": "a", "adapter_scale": 0.5}"#, vec![pair("a", 0.5)]),
            (
                r#"{"adapter": ["a", "b"], "adapter_scale": 0}"#,
                vec![pair("a", 0.0), pair("b", 0.0)],
            ),
            (
                r#"{"adapters": ["a", "b"], "adapter_scale": [1, -2]}"#,
                vec![pair("a", 1.0), pair("b", -2.0)],
            ),
            (r#"{"adapter": "", "adapter_scale": 1}"#, vec![]),
            (r#"{"adapter": [], "adapter_scale": [1, 2]}"#, vec![]),
        ] {
            assert_eq!(of(json).expect(json), wanted, "{json}");
        }
        let error =
            of(r#"{"adapter": ["a", "b"], "adapter_scale": [1, 2, 3]}"#).expect_err("three");
        assert_eq!(
            error,
            "`adapter_scale` has 3 numbers for 2 adapters: give one, or one for each"
        );
        let error = of(r#"{"adapter": "a", "adapter_scale": 11}"#).expect_err("too strong");
        assert_eq!(error, "`adapter_scale: 11` is out of range: -10 to 10");
    }

    #[test]
    fn a_request_keeps_its_adapters() {
        let text = r#"{"adapter": ["a", "b"], "adapter_scale": [1, 0.5]}"#;
        let (request, _) = Request::from_json(text).expect("a request");
        assert_eq!(Request::from_json(&request.to_json()).expect("it again").0, request);
        assert_eq!(request.without_language_model().adapter, request.adapter);
        assert_eq!(request.without_condition().adapter, request.adapter);
    }
}
