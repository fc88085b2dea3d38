//! The model of a song, its adapters, and tiles of the latents for the VAE.

use acestep_engine::{
    Error, Notice,
    check::{self, length, whole},
    error::counted,
    tiling::Tiling,
};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::topic::topic;

topic! {
    /// Model, adapters and tiles.
    Compute {
        /// The model: a short name, a directory name or a path. Not used by [`Plan`](crate::Plan).
        model: String = Model("model_name", "dit_model", "synth_model"),
        /// Adapters such as LoRA: a name or a path each. Not used by [`Plan`](crate::Plan).
        #[serde(with = "super::one_or_many")]
        adapter: Vec<String> = Names("adapters"),
        /// Scales of the adapters: one for all or one for each; 1 = as trained.
        #[serde(with = "super::one_or_many")]
        adapter_scale: Vec<f64> = Numbers("adapter_scales"),
        /// Latent frames per VAE tile.
        vae_chunk: i64 = Count,
        /// Latent frames on either side of a tile whose sound is discarded.
        vae_overlap: i64 = Whole,
    }
}

/// Largest scale; an adapter gives only noise long before that.
const MOST_SCALE: f64 = 10.0;

/// The most adapters of a song.
const MOST_ADAPTERS: usize = 16;

/// More frames than any song has.
const MOST_FRAMES: u32 = 1_000_000;

/// Overlap with which a tile sounds exactly as in the whole song.
const EXACT_OVERLAP: usize = 9;

impl Compute {
    /// Pairs the adapters with their scales: one for all, one for each, or 1.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the number of scales does not match; [`Error::OutOfRange`].
    pub fn adapters(&self) -> Result<Vec<(String, f64)>, Error> {
        let names = self.adapter.as_deref().unwrap_or_default();
        length("adapter", names.len(), "adapters", MOST_ADAPTERS)?;
        let scales = self.adapter_scale.as_deref().unwrap_or_default();
        let scale = |i: usize| match scales {
            [] => 1.0,
            [one] => *one,
            each => each[i],
        };
        if scales.len() > 1 && scales.len() != names.len() {
            let (names, scales) = (counted(names.len(), "adapter"), scales.len());
            let why = format!(
                "`adapter_scale` has {scales} numbers for {names}: give one, or one for each"
            );
            return Err(Error::Conflict(why));
        }
        let pair = |(i, name): (usize, &String)| {
            Ok((name.clone(), check::real("adapter_scale", scale(i), -MOST_SCALE, MOST_SCALE)?))
        };
        names.iter().enumerate().map(pair).collect()
    }

    /// Decides the tiles for a song of `frames`.
    pub(crate) fn tiling(&self, frames: usize, notices: &mut Vec<Notice>) -> Result<Tiling, Error> {
        tiling((self.vae_chunk, self.vae_overlap), Tiling::default(), frames, notices)
    }

    /// Returns the fields with the decisions of `plan`, which they make again.
    pub(crate) fn decided(&self, plan: &Tiling) -> Self {
        Self {
            vae_chunk: i64::try_from(plan.chunk).ok(),
            vae_overlap: i64::try_from(plan.overlap).ok(),
            ..self.clone()
        }
    }
}

/// Returns the tiling for `frames`; `chunk` and `overlap` default to `usual`.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn tiling(
    (chunk, overlap): (Option<i64>, Option<i64>),
    usual: Tiling,
    frames: usize,
    notices: &mut Vec<Notice>,
) -> Result<Tiling, Error> {
    let chunk = chunk.map(|asked| whole("vae_chunk", asked, 1, MOST_FRAMES)).transpose()?;
    let overlap = overlap.map(|asked| whole("vae_overlap", asked, 0, MOST_FRAMES)).transpose()?;
    let chunk = chunk.map_or(usual.chunk, |asked| asked as usize);
    let overlap = overlap.map_or(usual.overlap, |asked| asked as usize);
    let fitted = Tiling { chunk, overlap }.fitted()?;
    if fitted.overlap != overlap {
        notices.push(Notice(format!(
            "a VAE overlap of {} does not fit into chunks of {chunk}; it counts as {}",
            counted(overlap, "frame"),
            fitted.overlap
        )));
    }
    if frames > chunk && fitted.overlap < EXACT_OVERLAP {
        notices.push(Notice(format!(
            "a VAE overlap of {} frames can be heard where chunks meet; one of {EXACT_OVERLAP} \
             cannot",
            fitted.overlap
        )));
    }
    Ok(fitted)
}

/// Writes a tiling as the fields of a request that choose it.
pub(crate) fn of_tiling<S: Serializer>(tiling: &Tiling, to: S) -> Result<S::Ok, S::Error> {
    json!({ "vae_chunk": tiling.chunk, "vae_overlap": tiling.overlap }).serialize(to)
}

#[cfg(test)]
mod tests {
    use crate::Request;

    fn of(json: &str) -> Result<Vec<(String, f64)>, String> {
        let (request, _) = Request::from_json(json).expect("a request");
        request.compute.adapters().map_err(|error| error.to_string())
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
        let many = format!(r#"{{"adapter": {:?}}}"#, ["a"; 17]);
        let error = of(&many).expect_err("too many");
        assert_eq!(error, "`adapter: (17 adapters)` is out of range: at most 16");
        let error = of(r#"{"adapter": "a", "adapter_scale": 11}"#).expect_err("too strong");
        assert_eq!(error, "`adapter_scale: 11` is out of range: -10 to 10");
    }

    #[test]
    fn a_request_keeps_its_adapters() {
        let text = r#"{"adapter": ["a", "b"], "adapter_scale": [1, 0.5]}"#;
        let (request, _) = Request::from_json(text).expect("a request");
        assert_eq!(Request::from_json(&request.to_json()).expect("it again").0, request);
        assert_eq!(request.without_language_model().compute.adapter, request.compute.adapter);
        assert_eq!(request.without_condition().compute.adapter, request.compute.adapter);
    }
}
