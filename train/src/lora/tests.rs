//! An adapter that is trained on the built-in model.

use std::{fs, path::Path};

use acestep_engine::{
    Unobserved,
    audio::{
        Audio,
        format::{Encoding, Format},
        write::to_bytes,
    },
};
use acestep_import::{Adapter, open_tiny};
use acestep_model::Place;
use burn::{backend::Autodiff, tensor::Tensor};
use burn_flex::Flex;

use super::*;
use crate::learner::{Learner, OptimizerConfig};

type Learning = Autodiff<Flex>;

/// Writes two seconds of a decaying chord on `root_hz`, with a caption.
fn song(folder: &Path, name: &str, root_hz: f32) {
    let partial = |t: f32, ratio: f32| (std::f32::consts::TAU * root_hz * ratio * t).sin();
    let sample = |i: usize| {
        let t = i as f32 / 48_000.0;
        0.2 * (-t).exp() * (partial(t, 1.0) + partial(t, 1.25) + partial(t, 1.5))
    };
    let channel: Vec<f32> = (0..2 * 48_000).map(sample).collect();
    let audio = Audio { channels: vec![channel.clone(), channel], sample_rate: 48_000 };
    let sound =
        to_bytes(&audio, &Encoding::new(Format::Wav32), None, &Unobserved).expect("a sound file");
    fs::write(folder.join(name).with_extension("wav"), sound).expect("a sound file");
    fs::write(folder.join(name).with_extension("caption.txt"), "a chord").expect("a caption");
}

#[test]
fn what_was_learned_is_what_the_written_adapter_adds() {
    let folder = tempfile::tempdir().expect("a folder");
    song(folder.path(), "a", 220.0);
    song(folder.path(), "b", 330.0);
    let (entries, _) = read(folder.path(), None, None).expect("two songs");
    let (device, model) = (Default::default(), open_tiny().expect("the built-in model"));
    let place = Place::<Flex>::f32(device);
    let (songs, common) = prepare(&entries, 240.0, &model, &place, &Unobserved).expect("songs");
    let frames: Vec<usize> = songs.iter().map(|of| of.latents.len() / common.channels).collect();
    assert_eq!(frames, [50, 50]);

    let targets = vec!["q_proj".into(), "v_proj".into()];
    let shape = Shape { rank: 4, alpha: 8.0, dropout: 0.1, targets };
    let mut dit: Dit<Learning> =
        acestep_model::Checkpoint::dit(&model, &Place::f32(device)).expect("a network");
    dit = dit.no_grad();
    let addition = Addition::init(&mut dit, &shape, 5, &device);
    let layers = model.configs().dit.num_hidden_layers;
    assert_eq!(addition.maps().count(), layers * 2 * 2);

    let optimizer_config = OptimizerConfig {
        steps: 30,
        rate: 1e-2,
        warm_up: 2,
        last: 1.0,
        betas: [0.9, 0.99],
        decay: 0.0,
        longest: 1.0,
        average: 0.0,
    };
    let (songs, common, times) = (&songs[..], &common, Timesteps::Turbo);
    let examples = Examples { dit: &dit, songs, common, times, dropout: 0.0, device };
    let mut learner = Learner::new(addition, optimizer_config);
    // The same data in every step, so that the loss must fall.
    let mut losses = Vec::new();
    for _ in 0..8 {
        let (_, both) = learner.learn_in_turn(vec![1, 2], |seed, addition| {
            let loss = examples.loss(addition, seed);
            (loss.clone(), loss.into_scalar())
        });
        losses.push((both[0] + both[1]) / 2.0);
    }
    assert!(losses[7] < losses[0] - 0.01, "{losses:?}");

    let written = folder.path().join("adapter");
    fs::create_dir(&written).expect("a folder");
    write(&written, &learner.model, &shape, "tiny").expect("an adapter");
    let mut adapted = open_tiny().expect("the built-in model");
    adapted.adapt(vec![(Adapter::open(&written).expect("an adapter"), 1.0)]).expect("it fits");
    let adapted: Dit<Flex> = acestep_model::Checkpoint::dit(&adapted, &place).expect("a network");
    let learned = burn::module::AutodiffModule::valid(&learner.model.added_to(&dit, None));
    let dropout = Some(Dropout { chance: 0.5, seed: 1 });
    let dropped = burn::module::AutodiffModule::valid(&learner.model.added_to(&dit, dropout));
    let plain = burn::module::AutodiffModule::valid(&dit);

    let noise = crate::random::normal(&mut Pcg64::seed_from_u64(3), 20 * common.channels);
    let noise = TensorData::new(noise, [1, 20, common.channels]);
    let noisy = Tensor::<Flex, 3>::from_data(noise, &device);
    let context = Tensor::ones([1, 20, 2 * common.channels], &device);
    let condition = Tensor::ones([1, 3, common.width], &device);
    let velocity = |dit: &Dit<Flex>| -> Vec<f32> {
        let condition = dit.attend_to(condition.clone());
        let v = dit.forward(noisy.clone(), context.clone(), [&[0.5], &[0.5]], &condition);
        v.into_data().to_vec().expect("f32")
    };
    let apart =
        |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max);
    let learned = velocity(&learned);
    assert!(apart(&learned, &velocity(&adapted)) < 1e-4);
    assert!(apart(&learned, &velocity(&plain)) > 1e-2);
    // Half of the adapter's inputs are zero, at the same places each time.
    assert!(apart(&learned, &velocity(&dropped)) > 1e-3);
    assert_eq!(velocity(&dropped), velocity(&dropped));
}
