//! The text that a talker reads beside its frames, a token with each.
//!
//! Source: upstream `trailing_text_hidden`.

use acestep_model::{Backend, speech::qwen3_tts::Talker};
use burn::tensor::Tensor;

/// Tokens that are projected at once: so the first frame does not wait for the end of a long text.
const PIECE: usize = 32;

/// The text after a prompt.
#[derive(Debug)]
pub(super) struct Trailing<B: Backend> {
    ids: Vec<u32>,
    /// Number and vectors of the piece that was read last, `[1, n, H]`.
    piece: Option<(usize, Tensor<B, 3>)>,
}

impl<B: Backend> Trailing<B> {
    pub(super) fn new(ids: Vec<u32>) -> Self {
        Self { ids, piece: None }
    }

    /// Returns the vector of token `index`, `[1, 1, H]`; `None` after the last one.
    pub(super) fn at(
        &mut self,
        index: usize,
        talker: &Talker<B>,
        device: &B::Device,
    ) -> Option<Tensor<B, 3>> {
        let number = index / PIECE;
        let ids = self.ids.chunks(PIECE).nth(number)?;
        let offset = index % PIECE;
        if offset >= ids.len() {
            return None;
        }
        let piece = match self.piece.take() {
            Some((own, piece)) if own == number => piece,
            _ => talker.text(ids, device),
        };
        let vector = piece.clone().narrow(1, offset, 1);
        self.piece = Some((number, piece));
        Some(vector)
    }
}

#[cfg(test)]
mod tests {
    use acestep_engine::host::to_host;
    use acestep_import::{Layout, Qwen3Tts, TINY_SPEECH};
    use acestep_model::{Place, speech::qwen3_tts::Checkpoint};
    use burn_flex::{Flex, FlexDevice};

    use super::*;

    /// 70 tokens are three pieces.
    #[test]
    fn pieces_are_the_whole_text() {
        let layout = Layout::new([]);
        let model = Qwen3Tts::find(Some(TINY_SPEECH), &layout).expect("it is part of the program");
        let place = Place::f32(FlexDevice);
        let talker = Checkpoint::<Flex>::talker(&model, &place).expect("a talker");
        let ids: Vec<u32> = (0..70).map(|index| index * 5 % 400).collect();
        let whole = talker.text(&ids, &place.device);
        let mut trailing = Trailing::new(ids);
        for index in 0..70 {
            let own = trailing.at(index, &talker, &place.device).expect("a token");
            let same = whole.clone().narrow(1, index, 1);
            let farthest = to_host((own - same).abs()).into_iter().fold(0.0, f32::max);
            assert!(farthest < 1e-5, "{index}: {farthest:e}");
        }
        assert!(trailing.at(70, &talker, &place.device).is_none());
        assert!(trailing.at(96, &talker, &place.device).is_none());
        // A run may ask for the same one again.
        assert!(trailing.at(3, &talker, &place.device).is_some());
    }
}
