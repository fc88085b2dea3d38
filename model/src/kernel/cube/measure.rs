//! Benchmarks of each kernel against its reference on the present device, as a table.
//!
//! `cargo test -p acestep-model --features wgpu --lib -- --ignored --nocapture cube::measure`

#![expect(
    clippy::disallowed_methods,
    clippy::type_complexity,
    reason = "a table for the person who asks for it"
)]

use std::time::Instant;

use burn::tensor::{DType, Int, Tensor, TensorData, ops::FloatTensor};

use super::{
    super::{Backend, ConvGeometry, Map, Slot, primitive, reference, tensor},
    testing::{Plain, Recorded, random},
};
use crate::kernel;

/// Rows of the table for one backend.
struct Table<'a, B: Backend> {
    name: &'a str,
    device: &'a B::Device,
    /// Only operations whose name contains this.
    only: String,
}

impl<B: Backend> Table<'_, B> {
    fn x<const D: usize>(&self, shape: [usize; D]) -> Tensor<B, D> {
        random(shape, shape.iter().sum::<usize>() as u32, DType::F32, self.device)
    }

    fn best(&self, rounds: usize, run: &dyn Fn() -> FloatTensor<B>) -> f64 {
        let mut best = f64::MAX;
        for _ in 0..rounds {
            B::sync(self.device).expect("a device that works");
            let start = Instant::now();
            let held = run();
            B::sync(self.device).expect("a device that works");
            best = best.min(start.elapsed().as_secs_f64());
            drop(held);
        }
        best
    }

    #[expect(clippy::print_stdout, reason = "the table is what the test is run for")]
    fn row(
        &self,
        operation: &str,
        shape: &str,
        reference: impl Fn() -> FloatTensor<B>,
        kernel: impl Fn() -> FloatTensor<B>,
    ) {
        if !operation.contains(&self.only) {
            return;
        }
        let (mut plain, mut ours) = (f64::MAX, f64::MAX);
        self.best(2, &reference);
        self.best(2, &kernel);
        // The runs alternate, so that other load affects both.
        let start = Instant::now();
        for round in 0..10 {
            if round >= 2 && start.elapsed().as_secs() >= 3 {
                break;
            }
            plain = plain.min(self.best(2, &reference));
            ours = ours.min(self.best(2, &kernel));
        }
        println!(
            "| {operation} | {shape} | {} | {:.2} | {:.2} | {:.2} |",
            self.name,
            plain * 1e3,
            ours * 1e3,
            plain / ours
        );
    }

    fn rows(&self) {
        self.norms();
        self.products();
        self.sound();
        self.codes();
    }

    fn norms(&self) {
        let (x, w) = (self.x([375, 2048]), self.x([2048]));
        self.row(
            "rms_norm",
            "375 x 2048",
            || primitive(reference::rms_norm(x.clone(), w.clone(), 1e-6)),
            || primitive(kernel::rms_norm(x.clone(), w.clone(), 1e-6)),
        );
        let (x, part) = (self.x([1, 375, 2048]), self.x([1, 1, 2048]));
        let reference_norm = || reference::rms_norm(x.clone(), w.clone(), 1e-6);
        self.row(
            "ada_norm",
            "375 x 2048",
            || primitive(reference::modulate(reference_norm(), part.clone(), part.clone())),
            || primitive(kernel::ada_norm(x.clone(), w.clone(), 1e-6, part.clone(), part.clone())),
        );
        for [batch, length] in [[1, 375], [2, 1]] {
            let (x, w) = (self.x([batch, length, 16, 128]), self.x([128]));
            let table = self.x([length, 64]);
            let normed = || reference::rms_norm(x.clone(), w.clone(), 1e-6).swap_dims(1, 2);
            self.row(
                "norm_rotate",
                &format!("{batch} x {length} x 16 x 128"),
                || primitive(reference::rotate(normed(), table.clone(), table.clone())),
                || {
                    let [cos, sin] = [table.clone(), table.clone()];
                    primitive(kernel::norm_rotate(x.clone(), w.clone(), 1e-6, cos, sin))
                },
            );
        }
        for rows in [2, 375] {
            let (gate, up) = (self.x([rows, 6144]), self.x([rows, 6144]));
            self.row(
                "swiglu",
                &format!("{rows} x 6144"),
                || primitive(reference::swiglu(gate.clone(), up.clone())),
                || primitive(kernel::swiglu(gate.clone(), up.clone())),
            );
        }
    }

    fn products(&self) {
        for rows in [1, 2, 4, 8] {
            let (x, w) = (self.x([rows, 1024]), self.x([3072, 1024]));
            let weight = || primitive(w.clone());
            self.row(
                "product",
                &format!("{rows} x 1024 to 3072"),
                || {
                    let weight: Tensor<B, 2> = tensor(weight());
                    primitive(x.clone().matmul(weight.transpose()))
                },
                || B::product(primitive(x.clone()), weight()),
            );
        }
        let (cache, new) = (self.x([2, 8, 2048, 128]), self.x([2, 8, 1, 128]));
        let slots = [0, 1].map(|row| Slot { row, start: 1000 });
        for (name, shared) in [("cache_write", false), ("cache_write, shared", true)] {
            // A cell, because the cache moves from step to step.
            let step = |write: fn(Tensor<B, 4>, Tensor<B, 4>, &[Slot]) -> Tensor<B, 4>| {
                let held = std::cell::RefCell::new(Some(cache.clone() * 1.0));
                let new = new.clone();
                move || {
                    let mut held = held.borrow_mut();
                    let before = held.take().expect("put back by every step");
                    let keeper = shared.then(|| before.clone());
                    let after = write(before, new.clone(), &slots);
                    *held = Some(keeper.unwrap_or_else(|| after.clone()));
                    drop(after);
                    // A read, because both must have run.
                    let held = held.as_ref().expect("just put");
                    primitive(held.clone().narrow(2, 1000, 1))
                }
            };
            let (plain, ours) = (step(reference::cache_write), step(kernel::cache_write));
            self.row(name, "2 x 8 x 2048 x 128, 2 slots", plain, ours);
        }
    }

    fn sound(&self) {
        for (channels, samples) in [(128, 4800), (512, 600)] {
            let a = self.x([1, channels, 1]);
            let x = self.x([1, channels, samples]);
            let last = self.x([1, samples, channels]).swap_dims(1, 2);
            for (order, x) in [("", x), (", channels last", last)] {
                self.row(
                    "snake",
                    &format!("{channels} x {samples}{order}"),
                    || primitive(reference::snake(x.clone(), a.clone(), a.clone())),
                    || primitive(kernel::snake(x.clone(), a.clone(), a.clone())),
                );
            }
        }
        for (channels, samples) in [(128, 4800), (512, 600)] {
            let a = self.x([1, channels, 1]);
            let x = self.x([1, samples, channels]).swap_dims(1, 2);
            let plain = |x: Tensor<B, 3>, y: Tensor<B, 3>, alpha, beta| {
                let sum: Tensor<B, 3> = x + y;
                [sum.clone(), reference::snake(sum, alpha, beta)]
            };
            let joined = |[sum, active]: [Tensor<B, 3>; 2]| {
                // Both results are used, as in the networks; a view costs nothing.
                drop(sum.narrow(2, 0, 1));
                primitive(active)
            };
            let shape = format!("{channels} x {samples}, channels last");
            self.row(
                "add_snake",
                &shape,
                || joined(plain(x.clone(), x.clone(), a.clone(), a.clone())),
                || joined(kernel::add_snake(x.clone(), x.clone(), a.clone(), a.clone())),
            );
            self.row(
                "add_snake beside add, snake",
                &shape,
                || {
                    let sum = kernel::add(x.clone(), x.clone());
                    joined([sum.clone(), kernel::snake(sum, a.clone(), a.clone())])
                },
                || joined(kernel::add_snake(x.clone(), x.clone(), a.clone(), a.clone())),
            );
        }
        let wide =
            |dilation| ConvGeometry { padding: [3 * dilation; 2], dilation, ..Default::default() };
        let strided =
            |stride, padding| ConvGeometry { stride, padding: [padding; 2], ..Default::default() };
        for (channels, samples, taps, geometry) in [
            ([128, 128], 600, 7, wide(9)),
            ([128, 128], 600, 1, strided(1, 0)),
            ([64, 512], 150, 2, strided(2, 0)),
        ] {
            let [input, output] = channels;
            let x = self.x([1, samples, input]).swap_dims(1, 2);
            let (w, b) = (self.x([output, input, taps]), self.x([output]));
            let bias = || Some(b.clone());
            let ConvGeometry { stride, dilation, .. } = geometry;
            self.row(
                "conv1d",
                &format!("{input} to {output}, k {taps} s {stride} d {dilation}, {samples}"),
                || primitive(reference::conv1d(x.clone(), w.clone(), bias(), geometry)),
                || primitive(kernel::conv1d(x.clone(), w.clone(), bias(), geometry)),
            );
        }
        for (channels, frames, taps, stride, padding) in
            [([256, 128], 60, 8, 4, 2), ([128, 128], 240, 4, 2, 1), ([512, 64], 75, 2, 2, 0)]
        {
            let [input, output] = channels;
            let x = self.x([1, frames, input]).swap_dims(1, 2);
            let (w, b) = (self.x([input, output, taps]), self.x([output]));
            let bias = || Some(b.clone());
            let geometry = strided(stride, padding);
            self.row(
                "conv_transpose1d",
                &format!("{input} to {output}, k {taps} s {stride}, {frames}"),
                || primitive(reference::conv_transpose1d(x.clone(), w.clone(), bias(), geometry)),
                || primitive(kernel::conv_transpose1d(x.clone(), w.clone(), bias(), geometry)),
            );
        }
    }

    fn codes(&self) {
        let codes: Vec<i32> = (0..150).map(|i| i * 421).collect();
        let codes = TensorData::new(codes, [150]);
        let codes = Tensor::<B, 1, Int>::from_data(codes, self.device);
        let levels = [8, 8, 8, 5, 5, 5];
        let map = |output, input| -> Map<B> { (self.x([output, input]), Some(self.x([output]))) };
        let (project, embed, places) = (map(2048, 6), map(2048, 2048), self.x([5, 2048]));
        let inputs = || (codes.clone(), project.clone(), embed.clone(), places.clone());
        self.row(
            "code_tokens",
            "150 codes, 2048 to 2048",
            || {
                let (codes, project, embed, places) = inputs();
                primitive(reference::code_tokens(codes, &levels, project, embed, places))
            },
            || {
                let (codes, project, embed, places) = inputs();
                primitive(kernel::code_tokens(codes, &levels, project, embed, places))
            },
        );
    }
}

/// `ACESTEP_MEASURE=snake` restricts the benchmark to operations of that name.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::print_stdout, reason = "the table is what the test is run for")]
fn measure() {
    let device = burn_wgpu::WgpuDevice::DefaultDevice;
    let only = std::env::var("ACESTEP_MEASURE").unwrap_or_default();
    println!("| operation | shape | backend | reference ms | kernel ms | ratio |");
    println!("|---|---|---|---|---|---|");
    Table::<Plain> { name: "plain", device: &device, only: only.clone() }.rows();
    Table::<Recorded> { name: "recorded", device: &device, only }.rows();
}
