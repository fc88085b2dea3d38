//! Training runs that are stopped, and states that are refused.

use std::{cell::Cell, fs, path::Path, time::Duration};

use acestep_model::nn::Linear;
use burn::{backend::Autodiff, tensor::Distribution};
use burn_flex::Flex;

use super::*;

type Learning = Autodiff<Flex>;

fn training(folder: &Path) -> TrainingRun {
    let optimizer_config = OptimizerConfig {
        steps: 60,
        rate: 0.05,
        warm_up: 5,
        last: 0.1,
        betas: [0.9, 0.99],
        decay: 0.01,
        longest: 1.0,
        average: 0.9,
    };
    let save_every = Duration::from_secs(3600);
    let of = "a test".to_owned();
    TrainingRun {
        folder: folder.to_owned(),
        seed: 3,
        of,
        optimizer_config,
        save_every,
        at_once: Some(DType::F32),
    }
}

/// The last loss and the weights of a run that learns to negate vectors, stopped at `stops`.
fn learned(folder: &Path, stops: &[usize]) -> (f32, Vec<f32>) {
    let device = Default::default();
    let start = Linear::<Learning>::init(4, 4, &device);
    // The same initial weights every time.
    let mut weight = 0.0;
    let start = start.map(&mut Counted(&mut weight));
    let (taken, last) = (Cell::new(0), Cell::new(0.0));
    let step_loss = |step: usize, model: &Linear<Learning>| {
        taken.set(step + 1);
        let x = (0..32).map(|i| ((i * (step + 7)) % 11) as f32 / 5.0 - 1.0).collect();
        let x = burn::tensor::TensorData::new::<f32, _>(x, [8, 4]);
        let x = Tensor::<Learning, 2>::from_data(x, &device);
        let loss = (model.forward(x.clone()) + x).square().mean();
        last.set(loss.clone().into_scalar());
        StepLoss { loss, parts: [last.get()] }
    };
    let stop = || stops.contains(&taken.get());
    let done = training(folder)
        .run::<Learning, _, 1>(start, ["error"], 1, step_loss, &mut |_| {}, &stop)
        .expect("a training run");
    let values = done.map(|done| {
        let eye = Tensor::<Flex, 2>::eye(4, &device);
        done.forward(eye).into_data().to_vec().expect("f32")
    });
    (last.get(), values.unwrap_or_default())
}

/// Fills each parameter with the next multiple of 0.1.
struct Counted<'a>(&'a mut f32);

impl burn::module::ModuleMapper<Learning> for Counted<'_> {
    fn map_float<const D: usize>(
        &mut self,
        param: burn::module::Param<Tensor<Learning, D>>,
    ) -> burn::module::Param<Tensor<Learning, D>> {
        let (id, value, mapper) = param.consume();
        *self.0 += 0.1;
        let value = Tensor::random_like(&value, Distribution::Uniform(0.1, 0.2)) * 0.0 + *self.0;
        burn::module::Param::from_mapped_value(id, value.detach().require_grad(), mapper)
    }
}

#[test]
fn a_course_that_is_stopped_ends_where_one_does_that_is_not() {
    let [whole, parts] = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
    let (error, expected) = learned(whole.path(), &[]);
    assert!(error < 0.2, "it learns: {error}");
    assert!(learned(parts.path(), &[13]).1.is_empty(), "stopped");
    assert!(learned(parts.path(), &[13, 40]).1.is_empty(), "stopped again");
    assert_eq!(learned(parts.path(), &[]).1, expected);
    let table = |folder: &Path| {
        let text = fs::read_to_string(folder.join("losses.csv")).expect("a table");
        // All columns except the seconds.
        let row = |row: &str| {
            row.split(',')
                .enumerate()
                .filter(|(i, _)| *i != 1)
                .map(|(_, of)| of.to_owned())
                .collect::<Vec<_>>()
        };
        text.lines().map(row).collect::<Vec<_>>()
    };
    let (whole, parts) = (table(whole.path()), table(parts.path()));
    assert_eq!(whole.len(), 4, "{whole:?}");
    assert_eq!(whole.first(), parts.first());
    assert_eq!(whole.last().map(|row| &row[0]), parts.last().map(|row| &row[0]));
}

#[test]
fn a_resumed_run_counts_the_parts_of_its_steps_from_its_beginning() {
    let folder = tempfile::tempdir().expect("a folder");
    let device = Default::default();
    for (first, end) in [(0, 6), (6, 180)] {
        let seen = Cell::new(first);
        let step_loss = |part: usize, model: &Linear<Learning>| {
            assert_eq!(part, seen.replace(part + 1));
            let loss = model.forward(Tensor::<Learning, 2>::eye(4, &device)).square().mean();
            StepLoss { loss, parts: [part as f32] }
        };
        let start = Linear::<Learning>::init(4, 4, &device);
        training(folder.path())
            .run::<Learning, _, 1>(start, ["part"], 3, step_loss, &mut |_| {}, &|| seen.get() == 6)
            .expect("a training run");
        assert_eq!(seen.get(), end);
    }
    let table = fs::read_to_string(folder.path().join("losses.csv")).expect("a table");
    // The mean of parts 120 to 179.
    let last: f32 =
        table.lines().last().and_then(|row| row.rsplit(',').next()?.parse().ok()).expect("a mean");
    assert_eq!(last, 149.5);
}

#[test]
fn a_folder_is_of_one_run_and_its_table_is_replaced_in_one_piece() {
    let folder = tempfile::tempdir().expect("a folder");
    let held = training(folder.path()).lock().expect("a lock");
    let second = training(folder.path()).lock().expect_err("it is held");
    assert!(matches!(second, Error::Busy { .. }), "{second}");
    drop(held);
    training(folder.path()).lock().expect("it is free");

    let [path, link] = ["losses.csv", "old.csv"].map(|name| folder.path().join(name));
    let heading = "step,seconds,rate,gradient,error\n";
    let old = [heading.as_bytes(), b"20,1.0,1e-3,0.5,0.25\n40,\xff\n60,1.0\n"].concat();
    fs::write(&path, &old).expect("a table");
    fs::hard_link(&path, &link).expect("a link");
    Table::open(&path, &["error"], 40).expect("a table");
    let kept = fs::read_to_string(&path).expect("a text");
    assert_eq!(kept, format!("{heading}20,1.0,1e-3,0.5,0.25\n40,\u{fffd}\n"));
    // A full disk cannot cut what is never written in place.
    assert_eq!(fs::read(&link).expect("the old table"), old);
}

#[test]
fn a_state_of_another_course_or_a_cut_one_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    learned(folder.path(), &[10]);
    let path = folder.path().join("state.bin");
    let state = fs::read(&path).expect("a state");
    let said = |training: &TrainingRun| {
        let model = Linear::<Learning>::init(4, 4, &Default::default());
        training
            .start(Learner::new(model, training.optimizer_config.clone()), &Default::default())
            .map(|_| ())
            .expect_err("refused")
            .to_string()
    };
    let other = TrainingRun { seed: 4, ..training(folder.path()) };
    assert!(said(&other).contains("(changed: the seed)"), "{}", said(&other));
    let mut other = training(folder.path());
    other.optimizer_config.steps = 61;
    other.optimizer_config.warm_up = 6;
    assert!(said(&other).contains("(changed: the number of steps)"), "{}", said(&other));
    assert!(TrainingRun::is_stopped(folder.path()) && !TrainingRun::is_stopped(&path));
    let other = TrainingRun { of: "another".to_owned(), ..training(folder.path()) };
    assert!(said(&other).contains("another seed"), "{}", said(&other));
    let mut damaged = state.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    fs::write(&path, &damaged).expect("a damaged state");
    assert!(said(&training(folder.path())).contains("damaged"));
    let line = state.iter().position(|&byte| byte == b'\n').expect("a header");
    let header = std::str::from_utf8(&state[..line]).expect("JSON");
    let ahead = header.replace(r#""step":10,"#, r#""step":11,"#);
    assert_ne!(ahead, header);
    fs::write(&path, [ahead.as_bytes(), &state[line..]].concat()).expect("another step");
    assert!(said(&training(folder.path())).contains("damaged"));
    fs::write(&path, &state[..state.len() - 1]).expect("a cut state");
    assert!(said(&training(folder.path())).contains("cut short"));
    fs::write(&path, "x").expect("no state");
    assert!(said(&training(folder.path())).contains("no state of a training run"));
}
