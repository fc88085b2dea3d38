//! Conversion of audio codes to the input tokens of the detokenizer.
//!
//! Source: Mentzer et al. 2023, arXiv:2309.15505; vector-quantize-pytorch `ResidualFSQ`, and
//! upstream's detokenizer, which adds a learned token to each copy.

use burn::tensor::{Int, Tensor};

use super::{Backend, Weight, linear, primitive, tensor};

/// A linear map: weight `[out, in]`, bias `[out]`.
pub type Map<B> = (Weight<B, 2>, Option<Tensor<B, 1>>);

/// Converts codes to tokens. The levels of a code become values in `[-1, 1]`, go through the
/// codebook's projection and the embedding, and are repeated for each position of the window.
///
/// Level `i` of a code is `code / (levels[0] .. levels[i - 1]) % levels[i]`, its value
/// `2 level / (levels[i] - 1) - 1`.
///
/// # Shapes
/// - `codes`: `[n]`, each below the product of `levels`
/// - `project`: `[C, levels]`, `embed`: `[H, C]`
/// - `places`: `[window, H]`, added to the token of every code
/// - output: `[n, window, H]`
pub fn code_tokens<B: Backend>(
    codes: Tensor<B, 1, Int>,
    levels: &[u32],
    project: Map<B>,
    embed: Map<B>,
    places: Tensor<B, 2>,
) -> Tensor<B, 3> {
    let [(inner, inner_bias), (outer, outer_bias)] = [project, embed];
    match (inner, outer) {
        (Weight::Plain(inner), Weight::Plain(outer)) => {
            let project = (primitive(inner), inner_bias.map(primitive));
            let embed = (primitive(outer), outer_bias.map(primitive));
            let codes = codes.into_primitive();
            tensor(B::code_tokens(codes, levels, project, embed, primitive(places)))
        }
        (inner, outer) => {
            reference(codes, levels, (inner, inner_bias), (outer, outer_bias), places)
        }
    }
}

/// Reference of [`code_tokens`], of the same shapes.
pub fn reference<B: Backend>(
    codes: Tensor<B, 1, Int>,
    levels: &[u32],
    project: Map<B>,
    embed: Map<B>,
    places: Tensor<B, 2>,
) -> Tensor<B, 3> {
    let ([count], [_, width]) = (codes.dims(), places.dims());
    let mut rest = codes;
    let values = levels.iter().map(|&levels| {
        let level = rest.clone().remainder_scalar(levels as i32).float();
        rest = rest.clone().div_scalar(levels as i32);
        level * (2.0 / (levels - 1) as f32) - 1.0
    });
    let values = Tensor::<B, 1>::stack::<2>(values.collect(), 1).cast(places.dtype());
    let vectors = linear(values, project.0, project.1);
    let embedded = linear(vectors, embed.0, embed.1);
    embedded.reshape([count, 1, width]) + places.unsqueeze()
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use burn_flex::Flex;

    use super::*;
    use crate::acestep::Fsq;

    /// Identity maps show the values, which must equal those of the codebook.
    #[test]
    fn levels_are_those_of_the_codebook() {
        let device = Default::default();
        let levels = vec![8, 8, 8, 5, 5, 5];
        let codes = [0, 1, 63_999, 12_800, 4711];
        let same = || (Tensor::<Flex, 2>::eye(6, &device).into(), None);
        let ids = Tensor::from_ints(codes.map(|code: u32| code as i32), &device);
        let y = code_tokens(ids, &levels, same(), same(), Tensor::zeros([1, 6], &device));
        let y = y.into_data().to_vec::<f32>().expect("f32");
        let book = Fsq::new(levels);
        let expected: Vec<f32> = codes.iter().flat_map(|&code| book.values(code)).collect();
        assert_eq!(y, expected);
    }
}
