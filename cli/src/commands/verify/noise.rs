//! `rng`: the number streams of the reference.

use acestep_runtime::flow::noise::{NoiseSource, mt19937_uniforms};
use anyhow::Result;

use super::sheet::Sheet;

/// Streams named `randn.seedS.nN` and `rand.seedS.nN`.
pub(super) fn streams(sheet: &mut Sheet<'_>) -> Result<()> {
    let golden = sheet.golden;
    sheet.inputs(|name| name == "multinomial.probs");
    sheet.skip_all("drawing tokens belongs to the language model", |n| n == "multinomial.draws");
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

fn parse(name: &str) -> Option<(&str, u64, usize)> {
    let mut words = name.split('.');
    let (kind, seed, count) = (words.next()?, words.next()?, words.next()?);
    let seed = seed.strip_prefix("seed")?.parse().ok()?;
    Some((kind, seed, count.strip_prefix('n')?.parse().ok()?))
}
