//! Second training of the autoencoder's decoder. The latents do not change, so other networks stay
//! valid.

use std::{fs, path::PathBuf};

use acestep_demo::{
    demo::Sizes,
    vae::{Crops, loss_of_decoder},
};
use acestep_import::{Directory, Network, VaeDir};
use acestep_model::{Backend, Place, oobleck::Decoder};
use acestep_train::{
    learner::awake,
    release::{read_tensors, tensors_of, weight_normed},
    run::StepLoss,
};
use anyhow::Context;
use burn::backend::Autodiff;

use super::{
    Setting, Taught,
    product::Product,
    tell,
    vae::{FILE, FRAMES, ITEMS, OPTIMIZER, WEIGHTS, parts, release, what_is_made},
};

/// Folder of this stage.
const FOLDER: &str = "decoder";

/// One of this many pieces is played by the band that the later networks are trained on.
const SAME: usize = 2;

pub(super) fn run<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let kept = kept(setting)?;
    let file = kept.join(FILE);
    let before = VaeDir::open(Directory::Disk(kept))?;
    let of = format!(
        "{}, decoder, {SAME}, encoder {}",
        what_is_made(),
        Product::encoder(file.clone()).digest()?
    );
    let seed = setting.seed.wrapping_add(1);
    let training = setting.training(FOLDER, seed, of, taught.of(OPTIMIZER));
    let sizes = Sizes::demo()?;
    let device = &place.device;
    let encoder = before.encoder(place)?;
    let start = awake::<Autodiff<B>, Decoder<Autodiff<B>>>(before.decoder(place)?);
    let mut crops = Crops::new(training.seed, ITEMS, FRAMES * sizes.vae.hop()).with_same_band(SAME);
    let learned = training.run_in_parts::<Autodiff<B>, _, _, 2>(
        start,
        ["spectra", "waveform"],
        |step| parts(&mut crops, training.seed, step),
        |(sounds, seed): (Vec<f32>, u64), model| {
            let halves = (&encoder, model);
            let (loss, losses) =
                loss_of_decoder(halves, &sounds, ITEMS / 2, WEIGHTS.waveform, seed, device);
            StepLoss { loss, parts: [losses.spectra, losses.waveform] }
        },
        &mut tell,
        setting.stop,
    )?;
    let Some(learned) = learned else { return Ok(false) };

    // The encoder's tensors are copied, because rounding them again would change the encoder.
    let mut tensors = read_tensors(&file)?;
    tensors.retain(|name, _| name.starts_with("encoder."));
    tensors.extend(weight_normed(tensors_of(&learned, Network::VaeDecoder)));
    release(setting, &tensors)?;
    Ok(true)
}

/// Returns the folder of the autoencoder from before this stage. The copy is needed because this
/// stage replaces the released decoder. If its encoder differs from the released one, `vae` was
/// trained again, and the copy is renewed.
fn kept(setting: &Setting<'_>) -> anyhow::Result<PathBuf> {
    let kept = setting.folder.join(FOLDER).join("before");
    drop(setting.vae()?);
    let is_kept = kept.join("config.json").is_file()
        && Product::encoder(kept.join(FILE)).digest()? == setting.encoder()?.digest()?;
    if !is_kept {
        let released = setting.released("vae")?;
        let copied = fs::create_dir_all(&kept).and_then(|()| {
            // The file whose presence is checked is copied last.
            [FILE, "config.json"]
                .iter()
                .try_for_each(|name| fs::copy(released.join(name), kept.join(name)).map(drop))
        });
        copied.with_context(|| format!("{}: cannot be written", kept.display()))?;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use acestep_demo::vae::Autoencoder;
    use acestep_engine::Device;
    use acestep_train::release::Tensors;
    use burn_flex::Flex;

    use super::*;

    fn autoencoder() -> Tensors {
        let sizes = Sizes::demo().expect("sizes");
        let random = Autoencoder::<Flex>::init(&sizes.vae, &Default::default());
        let mut tensors = tensors_of(&random.encoder, Network::VaeEncoder);
        tensors.extend(tensors_of(&random.decoder, Network::VaeDecoder));
        weight_normed(tensors)
    }

    #[test]
    fn what_the_course_begins_from_is_kept_until_there_is_another_encoder() {
        let folder = tempfile::tempdir().expect("a folder");
        let setting = Setting {
            folder: folder.path().to_owned(),
            seed: 1,
            pieces: 1,
            device: Device::Cpu,
            stop: &|| false,
        };
        let error = kept(&setting).expect_err("there is none");
        assert!(format!("{error:#}").contains("the stage `vae` comes first"), "{error:#}");
        let is_kept = |tensors: &Tensors| {
            let kept = read_tensors(&kept(&setting).expect("one that is kept").join(FILE));
            kept.expect("tensors") == *tensors
        };
        let rounded = |tensors: &Tensors| {
            release(&setting, tensors).expect("released");
            read_tensors(&setting.released("vae").expect("a folder").join(FILE)).expect("tensors")
        };
        let first = rounded(&autoencoder());
        assert!(is_kept(&first));

        let mut learned_on = rounded(&autoencoder());
        learned_on.retain(|name, _| name.starts_with("decoder."));
        learned_on
            .extend(first.clone().into_iter().filter(|(name, _)| name.starts_with("encoder.")));
        rounded(&learned_on);
        assert!(is_kept(&first), "only the decoder differs");

        let another = rounded(&autoencoder());
        assert!(is_kept(&another));
    }
}
