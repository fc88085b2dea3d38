//! Draws of ids, compared with the CPU: every id must be equal.

use acestep_model::{Backend, kernel};
use burn::tensor::{DType, Tensor, TensorData};

use super::testing::{Operation, same_everywhere, values};

struct Draw {
    logits: Vec<f32>,
    exponentials: Vec<f32>,
    rows: usize,
    temperature: f32,
    top_k: usize,
}

impl Operation for Draw {
    /// Logits are f32 in every type.
    fn run<B: Backend>(&self, _: DType, device: &B::Device) -> Vec<f32> {
        let [logits, exponentials] = [&self.logits, &self.exponentials].map(|values| {
            let data = TensorData::new(values.clone(), [self.rows, values.len() / self.rows]);
            Tensor::<B, 2>::from_data(data, (device, DType::F32))
        });
        let ids = kernel::draw(logits, exponentials, self.temperature, self.top_k);
        assert_eq!(ids.dims(), [self.rows, 1]);
        ids.into_data().convert::<f32>().to_vec().expect("converted to f32")
    }
}

/// One id and many, with units that have several and none; numbers that are kept; equal logits.
#[test]
fn ids_of_every_number() {
    for [rows, ids] in [[1, 1], [3, 5], [2, 255], [1, 257], [2, 2048], [70, 33]] {
        for (top_k, temperature) in [(0, 1.0), (1, 0.9), (4, 0.5), (50, 2.0), (ids, 0.9)] {
            for steps in [2.0, 1e4] {
                let name = format!("{rows} x {ids}, {top_k} at {temperature} in {steps} steps");
                let logits = values(rows * ids, 1).into_iter();
                let exponentials = values(rows * ids, 2).into_iter();
                let case = Draw {
                    logits: logits.map(|x| (x * steps).round() / steps * 6.0).collect(),
                    exponentials: exponentials.map(|x| x.abs() + 0.01).collect(),
                    rows,
                    temperature,
                    top_k,
                };
                same_everywhere(&name, &case, 0.0);
            }
        }
    }
}

/// Ties, both zeros, minus infinity; then rows that have no id. The expected ids are worked out by hand.
#[test]
fn ids_at_the_edges() {
    let (infinity, nan) = (f32::INFINITY, f32::NAN);
    let rows = [
        ([3.0, 1.0, 3.0], [1.0, 1.0, 1.0], 0.0),
        ([3.0, 1.0, 3.0], [2.0, 0.1, 1.0], 2.0),
        ([-0.0, 0.0, -1.0], [1.0, 2.0, 0.1], 0.0),
        ([-infinity, -2.0, -infinity], [0.1, 9.0, 0.1], 1.0),
        ([0.0, nan, 1.0], [1.0, 1.0, 1.0], -1.0),
        ([0.0, -nan, 1.0], [1.0, 1.0, 1.0], -1.0),
        ([infinity, 0.0, 0.0], [1.0, 1.0, 1.0], -1.0),
        ([-infinity; 3], [1.0, 1.0, 1.0], -1.0),
        ([3e38, 0.0, 0.0], [1.0, 1.0, 1.0], -1.0),
        ([0.0, 1.0, 2.0], [1.0, 1.0, 1.0], 2.0),
    ];
    let case = Draw {
        logits: rows.iter().flat_map(|row| row.0).collect(),
        exponentials: rows.iter().flat_map(|row| row.1).collect(),
        rows: rows.len(),
        temperature: 0.5,
        top_k: 1,
    };
    let expected: Vec<f32> = rows.iter().map(|row| row.2).collect();
    assert_eq!(case.run::<burn_flex::Flex>(DType::F32, &burn_flex::FlexDevice), expected);
    same_everywhere("draws at the edges", &case, 0.0);
}
