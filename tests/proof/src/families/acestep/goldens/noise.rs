//! `rng`: the random number streams of the reference.

use acestep_model::{Backend, Place};
use acestep_music::{
    flow::noise::{NoiseSource, mt19937_uniforms},
    lm::sample::{Draws, Sampler, Scores, TokenMap},
};
use anyhow::Result;

use crate::{families::GoldenSource, golden::sheet::Sheet};

/// Streams named `randn.seedS.nN` and `rand.seedS.nN`.
pub(crate) fn streams<B: Backend>(
    sheet: &mut Sheet<'_>,
    _: &GoldenSource,
    _: &Place<B>,
) -> Result<()> {
    let golden = sheet.golden;
    sheet.inputs(|name| name == "multinomial.probs");
    if golden.has("multinomial.draws") {
        draws(sheet)?;
    }
    for name in golden.names() {
        let Some((kind, seed, count)) = parse(name) else { continue };
        let ours = match kind {
            "randn" => NoiseSource::Mt19937.initial_noise(seed, count, 1),
            "rand" => mt19937_uniforms(seed, count),
            _ => continue,
        };
        sheet.close_values(name, &[count], &ours);
    }
    sheet.skip_all("CPU noise in bf16 is used nowhere", |name| name.starts_with("randn_bf16"));
    Ok(())
}

/// Tokens drawn one after the other from the same probabilities.
fn draws(sheet: &mut Sheet<'_>) -> Result<()> {
    /// The seed of the reference's generator.
    const SEED: u64 = 99;
    let probabilities = sheet.golden.floats("multinomial.probs")?;
    let count = sheet.golden.shape("multinomial.draws")?.iter().product();
    // The sampler takes logits; the softmax of these logits gives the probabilities again.
    let logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
    let sampler = Sampler { temperature: 1.0, top_k: None, top_p: None, repetition_penalty: 1.0 };
    let mut chance = Draws::new(SEED, logits.len());
    let scores = Scores { logits, tokens: TokenMap::All };
    let drawn: Vec<i64> = (0..count)
        .map(|_| sampler.pick(&scores, &mut chance).map(i64::from))
        .collect::<Result<_, _>>()?;
    sheet.exact("multinomial.draws", &[count], &drawn);
    Ok(())
}

fn parse(name: &str) -> Option<(&str, u64, usize)> {
    let mut words = name.split('.');
    let (kind, seed, count) = (words.next()?, words.next()?, words.next()?);
    let seed = seed.strip_prefix("seed")?.parse().ok()?;
    Some((kind, seed, count.strip_prefix('n')?.parse().ok()?))
}
