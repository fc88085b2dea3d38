//! Checks before loading whether a run fits into memory; shared by the commands.

use acestep_engine::{
    Device, Engine,
    device::memory::{self, MemoryNeed},
    tiling::Tiling,
};
use acestep_import::{AceStep, Error, LanguageModelDir, Network};
use acestep_music::{lm::settings::Settings, stage, tokenize::CODES_AT_ONCE};
use anyhow::Result;

use super::engine;

/// Returns the needs of the language model's text stage, and of its code stage if `writes_codes`.
/// `prompt` is the prompt length in tokens, and `seconds` the song length if it is known.
///
/// # Errors
/// None after the model was opened.
pub(crate) fn language(
    folder: &LanguageModelDir,
    settings: &Settings,
    prompt: usize,
    seconds: Option<f64>,
    writes_codes: bool,
    engine: Engine,
) -> Result<Vec<MemoryNeed>, Error> {
    let parameters = folder.size()?.parameters;
    let [text, codes] = settings.token_limits(seconds);
    let need = |stage, rows, limit| MemoryNeed {
        stage,
        ..acestep_music::memory::language_model(
            folder.config(),
            parameters,
            rows,
            prompt + limit,
            engine.widths(),
        )
    };
    let mut needs = vec![need(stage::LM_TEXT, 1, text)];
    if writes_codes {
        needs.push(need(stage::LM_CODES, settings.code_rows(), codes));
    }
    Ok(needs)
}

/// Returns an upper limit for the tokens of a prompt with `words` bytes of text.
pub(crate) fn prompt_tokens(words: usize) -> usize {
    /// Tokens of the prompt's template, and room for values that the plan adds.
    const FRAME: usize = 512;
    // Every language has at least two bytes per token.
    FRAME + words / 2
}

/// Returns the needs of the networks that encode `frames` latent frames of sound to codes.
///
/// # Errors
/// None after the model was opened.
pub(crate) fn listening(
    folder: &AceStep,
    frames: usize,
    engine: Engine,
) -> Result<Vec<MemoryNeed>, Error> {
    let (configs, widths) = (folder.configs(), engine.widths());
    let size = folder.size(Network::AudioCodec)?.parameters;
    let at_once = frames.min(CODES_AT_ONCE * configs.dit.pool_window_size);
    let codec = acestep_music::memory::conditioner(&configs.dit, size, at_once, widths);
    Ok(vec![encoder(folder, frames, engine)?, MemoryNeed { stage: stage::CODES, ..codec }])
}

/// Returns the need of the VAE encoder for `frames` latent frames of sound.
///
/// # Errors
/// None after the model was opened.
pub(crate) fn encoder(
    folder: &AceStep,
    frames: usize,
    engine: Engine,
) -> Result<MemoryNeed, Error> {
    let (configs, widths) = (folder.configs(), engine.widths());
    let size = folder.size(Network::VaeEncoder)?.parameters;
    let need =
        |tiling| acestep_music::memory::vae_encoder(&configs.vae, size, frames, tiling, widths);
    // Use the same tiling as the run.
    Ok(need(memory::tiling(Tiling::ENCODE, frames, &engine::room(engine.device), 0, need)))
}

/// Returns the need of the VAE decoder for `frames` latent frames.
///
/// # Errors
/// None after the model was opened.
pub(crate) fn sounding(
    folder: &AceStep,
    frames: usize,
    engine: Engine,
) -> Result<MemoryNeed, Error> {
    let (configs, widths) = (folder.configs(), engine.widths());
    let size = folder.size(Network::VaeDecoder)?.parameters;
    let decoder =
        |tiling| acestep_music::memory::vae(&configs.vae, size, 1, frames, tiling, widths);
    let room = engine::room(engine.device);
    Ok(decoder(memory::tiling(Tiling::default(), frames, &room, 0, decoder)))
}

/// Refuses a run that cannot fit.
///
/// # Errors
/// Too little memory: the error names the need, the available memory, and a remedy.
pub(crate) fn check(needs: &[MemoryNeed], kept: bool, engine: Engine) -> Result<()> {
    let name = match engine.device {
        Device::Cpu => "this machine".to_owned(),
        device => device.to_string(),
    };
    Ok(memory::check(needs, kept, &engine::room(engine.device), &name)?)
}

#[cfg(test)]
mod tests {
    use acestep_engine::device::memory::MemoryInfo;
    use acestep_import::{Layout, TINY};
    use acestep_music::Request;
    use burn::tensor::DType;

    use super::*;

    const ENGINE: Engine = Engine { device: Device::Cuda(0), dtype: DType::BF16 };

    fn settings() -> Settings {
        let request = Request::default();
        request.language.plan(&request.words, &[1, 2], &mut vec![]).expect("defaults")
    }

    #[test]
    fn words_are_written_in_one_row_and_codes_in_two_for_each_song() {
        let layout = Layout::new(None);
        let folder = acestep_import::open_language_model(Some(TINY), &layout).expect("built in");
        let needs = |writes_codes| {
            let prompt = prompt_tokens(100);
            language(&folder, &settings(), prompt, Some(10.0), writes_codes, ENGINE)
                .expect("built in")
        };
        let [words, codes] = needs(true)[..] else { panic!("two stages") };
        assert_eq!((words.stage, codes.stage), (stage::LM_TEXT, stage::LM_CODES));
        assert_eq!(needs(false), [words]);
        // Keys and values of the prompt (562 tokens), and of 60 code tokens in four rows.
        let each = words.cache / (562 + settings().token_limits(None)[0] as u64);
        assert_eq!(codes.cache, each * 4 * (562 + 60));
    }

    #[test]
    fn what_listens_needs_the_encoder_of_the_vae_and_the_codec() {
        let folder = acestep_import::open(TINY, &Layout::new(None)).expect("built in");
        let needs = listening(&folder, 10_000, ENGINE).expect("built in");
        let stages: Vec<_> = needs.iter().map(|need| need.stage).collect();
        assert_eq!(stages, [stage::VAE_ENCODER, stage::CODES]);
        let room = MemoryInfo { free: Some(1000), ..MemoryInfo::default() };
        let error = memory::check(&needs, false, &room, "cuda:0").expect_err("too little");
        assert!(error.to_string().starts_with("the VAE encoder stage needs about"), "{error}");
    }
}
