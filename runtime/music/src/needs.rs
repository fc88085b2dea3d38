//! Memory needs of a whole run: the networks that a plan uses, with the sizes of their checkpoint.

use acestep_engine::{
    DeviceTarget, Error, Residency,
    device::memory::{self as device, MemoryNeed, Widths},
    tiling::Tiling,
};
use acestep_model::{Configs, acestep::Network, qwen3};

use crate::{
    Plan,
    align::{Extras, attention_maps},
    lm::settings::LmSettings,
    lyrics::is_sung,
    memory::{
        self, alignment, conditioner, diffusion, language_model, text_encoder, vae, vae_encoder,
    },
    stage,
    tokenize::CODES_AT_ONCE,
    vae::decoded_frames,
};

/// Sizes of a model's networks, and the device that they are for.
pub struct ModelSizes<'a> {
    configs: &'a Configs,
    parameters: Box<dyn Fn(Network) -> Result<u64, Error> + 'a>,
    widths: Widths,
    target: DeviceTarget,
}

impl<'a> ModelSizes<'a> {
    /// Returns the sizes of a model on `target`. `parameters` counts those of a network.
    pub fn new(
        configs: &'a Configs,
        parameters: impl Fn(Network) -> Result<u64, Error> + 'a,
        widths: Widths,
        target: DeviceTarget,
    ) -> Self {
        Self { configs, parameters: Box::new(parameters), widths, target }
    }

    /// Returns the need of the VAE encoder for `frames` latent frames of sound.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn encoder(&self, frames: usize) -> Result<MemoryNeed, Error> {
        let Self { configs, widths, target, .. } = self;
        let size = (self.parameters)(Network::VaeEncoder)?;
        let need = |tiling| vae_encoder(&configs.vae, size, frames, tiling, target.device, *widths);
        // Use the same tiling as the run.
        Ok(need(device::tiling(Tiling::ENCODE, frames, &target.memory, 0, need)))
    }

    /// Returns the need of the VAE decoder for one song of `frames` latent frames.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn decoder(&self, frames: usize) -> Result<MemoryNeed, Error> {
        let need = self.decoder_of(1, frames)?;
        Ok(need(device::tiling(Tiling::default(), frames, &self.target.memory, 0, &need)))
    }

    fn decoder_of(
        &self,
        songs: usize,
        frames: usize,
    ) -> Result<impl Fn(Tiling) -> MemoryNeed, Error> {
        let size = (self.parameters)(Network::VaeDecoder)?;
        let Self { configs, widths, target, .. } = self;
        Ok(move |tiling| vae(&configs.vae, size, songs, frames, tiling, target.device, *widths))
    }

    /// Returns the need of the network between latents and codes for `frames` latent frames.
    fn codec(&self, frames: usize) -> Result<MemoryNeed, Error> {
        let size = (self.parameters)(Network::AudioCodec)?;
        let need = conditioner(&self.configs.dit, size, frames, self.widths);
        Ok(MemoryNeed { stage: stage::CODES, ..need })
    }

    /// Limits `frames` to those that are turned into codes at once.
    fn at_once(&self, frames: usize) -> usize {
        frames.min(CODES_AT_ONCE * self.configs.dit.pool_window_size)
    }

    /// Returns the needs of the networks that encode `frames` latent frames of sound to codes.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn tokenization(&self, frames: usize) -> Result<Vec<MemoryNeed>, Error> {
        Ok(vec![self.encoder(frames)?, self.codec(self.at_once(frames))?])
    }

    /// Returns the needs of the stages of `plan`, in their order; `extras` are results in addition to
    /// the sound. `has_condition` is true if the condition is given and not computed. `caption` and `lyrics` are
    /// the tokens of its longest prompts; a given condition has both together.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn song(
        &self,
        plan: &Plan,
        extras: Extras,
        has_condition: bool,
        [caption, lyrics]: [usize; 2],
    ) -> Result<Vec<MemoryNeed>, Error> {
        let Self { configs, parameters, widths, target } = self;
        let references = plan.source.references.len().max(1);
        let tokens = caption + lyrics + references;
        let (frames, songs) = (plan.length.padded_frames, plan.batch_size());
        let rows = if plan.sampling.guidance.is_some() { 2 * songs } else { songs };

        let mut needs = Vec::new();
        if let Some(frames) = plan.encoded_frames() {
            needs.push(self.encoder(frames)?);
        }
        if plan.uses(Network::TextEncoder, has_condition) {
            let size = parameters(Network::TextEncoder)?;
            needs.push(text_encoder(&configs.text_encoder, size, caption, *widths));
        }
        if plan.uses(Network::Conditioner, has_condition) {
            // With a given condition, guidance still encodes the unconditional input.
            let timbres = references * configs.dit.timbre_fix_frame;
            let read = if has_condition { 0 } else { tokens.max(timbres) };
            let size = parameters(Network::Conditioner)?;
            needs.push(conditioner(&configs.dit, size, read, *widths));
        }
        if plan.source.has_codes() {
            needs.push(self.codec(plan.source.codes.len() * frames)?);
        } else if plan.source.is_cover() {
            needs.push(self.codec(self.at_once(frames))?);
        }
        let size = parameters(Network::Dit)?;
        let heard = songs * conditions(plan) * tokens;
        needs.push(diffusion(&configs.dit, size, rows, frames, heard, *widths));
        if extras.anything() && is_sung(&plan.words.lyrics) {
            let heads = attention_maps::heads(&configs.dit).unwrap_or_default();
            needs.push(alignment(&configs.dit, size, &heads, frames, tokens, *widths));
        }
        let decoded = decoded_frames(plan.length.frames, frames, &configs.vae, target.device);
        needs.push(self.decoder_of(songs, decoded)?(plan.tiling));
        Ok(needs)
    }

    /// Chooses the tiles with which the VAE decodes `plan` in the free memory of the device.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn tiling(&self, plan: &Plan, residency: Residency) -> Result<Tiling, Error> {
        let mut others = 0;
        if residency == Residency::Kept {
            let encoder = plan.encoded_frames().map(|_| Network::VaeEncoder);
            let kept =
                [Network::TextEncoder, Network::Conditioner, Network::AudioCodec, Network::Dit];
            for network in kept.into_iter().chain(encoder) {
                let count = (self.parameters)(network)?;
                others += match network {
                    Network::Dit => self.widths.weights(count),
                    _ => self.widths.weights_of_others(count),
                };
            }
        }
        let frames = plan.length.padded_frames;
        let need = self.decoder_of(plan.batch_size(), frames)?;
        Ok(device::tiling(Tiling::default(), frames, &self.target.memory, others, need))
    }
}

/// Returns the number of conditions of a song whose keys and values are kept until its last step: two where
/// guidance applies, one where it does not, and as many for the song before an edit.
fn conditions(plan: &Plan) -> usize {
    let of = |applies: bool| {
        let guided = |t| plan.sampling.guidance.is_some_and(|guidance| guidance.applies(t));
        plan.steps_to_take().steps.iter().any(|step| guided(step.t) == applies)
    };
    let sides = if plan.edit.is_some() { 2 } else { 1 };
    sides * (2 * usize::from(of(true)) + usize::from(of(false)))
}

/// Returns an upper limit for the tokens of a prompt with `words` bytes of text.
pub fn prompt_tokens(words: usize) -> usize {
    /// Tokens of the prompt's template, and room for values that the plan adds.
    const FRAME: usize = 512;
    // Every language has at least two bytes per token.
    FRAME + words / 2
}

/// Computes the needs of a language model's text stage, and of its code stage if `writes_codes`.
/// `prompt` is the prompt's length in tokens, and `seconds` the song's length if it is known.
pub fn composition(
    config: &qwen3::Config,
    parameters: u64,
    settings: &LmSettings,
    prompt: usize,
    seconds: Option<f64>,
    writes_codes: bool,
    widths: Widths,
) -> Vec<MemoryNeed> {
    let [text, codes] = settings.token_limits(seconds);
    let need = |stage, rows, limit| MemoryNeed {
        stage,
        ..language_model(config, parameters, rows, prompt + limit, widths)
    };
    let mut needs = vec![need(stage::LM_TEXT, 1, text)];
    if writes_codes {
        needs.push(need(stage::LM_CODES, settings.code_rows(), codes));
    }
    needs
}

/// Computes the needs of a language model that scores the songs of `plan`.
pub fn judge(config: &qwen3::Config, parameters: u64, plan: &Plan, widths: Widths) -> MemoryNeed {
    let words = prompt_tokens(plan.words.caption.len() + plan.words.lyrics.len());
    let codes = plan.source.codes.iter().map(Vec::len).max().unwrap_or(0);
    memory::judge(config, parameters, words + codes, widths)
}

#[cfg(test)]
mod tests {
    use acestep_engine::{Device, MemoryInfo};
    use acestep_import::{AceStep, Layout, TINY};
    use burn::tensor::DType;

    use super::*;
    use crate::{
        ModelInfo, Request, flow::guidance::Guidance, plan::GuidanceMode, test_goldens::settings,
    };

    const HALF: Widths = Widths { weight: DType::BF16, number: 2 };

    fn tiny() -> AceStep {
        acestep_import::open(TINY, &Layout::new(None)).expect("built in")
    }

    fn sizes(folder: &AceStep) -> ModelSizes<'_> {
        let count = |network| Ok(folder.size(network).map_err(Error::checkpoint)?.parameters);
        let target = DeviceTarget { device: Device::Cpu, memory: MemoryInfo::default() };
        ModelSizes::new(folder.configs(), count, HALF, target)
    }

    fn plan(folder: &AceStep) -> Plan {
        let info = ModelInfo::new(TINY, folder.is_turbo(), folder.configs());
        let request = Request::default().with(|r| r.words.caption = Some("rain".into()));
        Plan::resolve(&request, &info).expect("a plan").0
    }

    #[test]
    fn words_are_written_in_one_row_and_codes_in_two_for_each_song() {
        let layout = Layout::new(None);
        let folder = acestep_import::open_language_model(Some(TINY), &layout).expect("built in");
        let settings = settings(&[1, 2]);
        let needs = |writes_codes| {
            let prompt = prompt_tokens(100);
            composition(folder.config(), 1, &settings, prompt, Some(10.0), writes_codes, HALF)
        };
        let [words, codes] = needs(true)[..] else { panic!("two stages") };
        assert_eq!((words.stage, codes.stage), (stage::LM_TEXT, stage::LM_CODES));
        assert_eq!(needs(false), [words]);
        // Keys and values of the prompt (562 tokens), and of 60 code tokens in four rows.
        let each = words.cache / (562 + settings.token_limits(None)[0] as u64);
        assert_eq!(codes.cache, each * 4 * (562 + 60));
    }

    #[test]
    fn listening_needs_the_encoder_of_the_vae_and_the_codec() {
        let folder = tiny();
        let needs = sizes(&folder).tokenization(10_000).expect("built in");
        let stages: Vec<_> = needs.iter().map(|need| need.stage).collect();
        assert_eq!(stages, [stage::VAE_ENCODER, stage::CODES]);
        let room = MemoryInfo { free: Some(1000), ..MemoryInfo::default() };
        let error = device::check(&needs, false, &room, "cuda:0").expect_err("too little");
        assert!(error.to_string().starts_with("the VAE encoder stage needs about"), "{error}");
    }

    /// Four layers with two heads of 16 numbers: 512 bytes for a token. The last step is at time 0.3.
    #[test]
    fn keys_and_values_are_those_of_the_tokens_of_every_condition() {
        let folder = tiny();
        let mut plan = plan(&folder);
        for (interval, bytes) in
            [(None, 51_200), (Some((0.0, 1.0)), 2 * 51_200), (Some((0.5, 1.0)), 3 * 51_200)]
        {
            let mode = GuidanceMode::Apg;
            plan.sampling.guidance =
                interval.map(|interval| Guidance { scale: 3.0, mode, interval });
            let needs = sizes(&folder).song(&plan, Extras::default(), false, [60, 39]);
            let needs = needs.expect("built in");
            let diffusion = needs.iter().find(|need| need.stage == stage::DIFFUSION);
            assert_eq!(diffusion.map(|need| need.cache), Some(bytes));
        }
    }

    /// Guidance needs the conditioner's weights for the unconditional input.
    #[test]
    fn a_given_condition_needs_the_conditioner_only_with_guidance() {
        let folder = tiny();
        let mut plan = plan(&folder);
        let stages = |plan: &Plan| -> Vec<_> {
            let needs = sizes(&folder).song(plan, Extras::default(), true, [99, 0]);
            needs.expect("built in").into_iter().map(|need| need.stage).collect()
        };
        assert_eq!(stages(&plan), [stage::DIFFUSION, stage::VAE]);
        // The built-in model has no guidance.
        let mode = GuidanceMode::Apg;
        plan.sampling.guidance = Some(Guidance { scale: 3.0, mode, interval: (0.0, 1.0) });
        assert_eq!(stages(&plan), [stage::CONDITION, stage::DIFFUSION, stage::VAE]);
    }
}
