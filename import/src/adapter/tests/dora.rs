//! DoRA: the magnitudes of rows and columns.

use super::*;

/// `m (W + s B A) / |W + s B A|`, row by row: each row of the result has the length `m`.
#[test]
fn dora_of_peft_gives_each_row_its_length() {
    let module = format!("base_model.model.{Q}");
    let magnitudes: Vec<f32> = (0..64).map(|i| 0.5 + 0.1 * i as f32).collect();
    let magnitudes = stored(Dtype::F32, &[64], &magnitudes);
    let file =
        File::lora(&module, 64, 0.3).with(&format!("{module}.lora_magnitude_vector"), magnitudes);
    let (a, b) = file.a_b();
    let magnitudes = file.values("magnitude_vector");
    for scale in [1.0, 0.25] {
        let mut wanted = with_lora(&own(Q), &a, &b, 4, scale);
        for (row, length) in wanted.chunks_exact_mut(64).zip(&magnitudes) {
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            row.iter_mut().for_each(|x| *x *= length / norm);
        }
        let found = weights(vec![(file.adapter(), scale)]);
        assert_only(&found, Q, &wanted);
        for (row, length) in found[&format!("{Q}.weight")].chunks_exact(64).zip(&magnitudes) {
            let norm = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            assert!((norm - length).abs() < 1e-5, "{norm} and {length}");
        }
    }
}

/// `(W + D) (u m / (|W + D| + eps) + 1 - u)`; the shape of the magnitudes decides: rows or columns.
#[test]
fn dora_of_lycoris_is_blended_by_the_scale() {
    for of_columns in [false, true] {
        let shape = if of_columns { [1, 64] } else { [64, 1] };
        let magnitudes: Vec<f32> = (0..64).map(|i| 2.0 + 0.1 * i as f32).collect();
        let module = format!("lycoris_{}", Q.replace('.', "_"));
        let file = File::lora(&module, 64, 0.3)
            .with(&format!("{module}.dora_scale"), stored(Dtype::F32, &shape, &magnitudes));
        let (a, b) = file.a_b();
        for user in [1.0, 0.3] {
            let sum = with_lora(&own(Q), &a, &b, 4, 1.0);
            let at = |line: usize, k: usize| if of_columns { k * 64 + line } else { line * 64 + k };
            let mut wanted = sum.clone();
            for (line, &length) in magnitudes.iter().enumerate() {
                let norm = (0..64).map(|k| sum[at(line, k)].powi(2)).sum::<f64>().sqrt();
                let factor = user * f64::from(length) / (norm + 7.8125e-3) + 1.0 - user;
                (0..64).for_each(|k| wanted[at(line, k)] *= factor);
            }
            assert_only(&weights(vec![(file.adapter(), user)]), Q, &wanted);
        }
    }
}

/// `[64, 48, 2]`: one length for each of the 48 inputs, whose weights are two adjacent columns.
#[test]
fn dora_of_lycoris_by_the_inputs_of_a_convolution_takes_their_columns_together() {
    let magnitudes: Vec<f32> = (0..48).map(|i| 2.0 + 0.1 * i as f32).collect();
    let file = File::of(
        "diffusion_model.decoder.proj_in.1",
        [
            ("lora_down.weight", tensor(&[4, 48, 2], 0.3)),
            ("lora_up.weight", tensor(&[64, 4, 1], 0.4)),
            ("dora_scale", stored(Dtype::F32, &[1, 48, 1], &magnitudes)),
        ],
    );
    let (a, b) = (file.values("lora_down.weight"), file.values("lora_up.weight"));
    let mut wanted = with_lora(&own("proj_in"), &a, &b, 4, 1.0);
    for (input, &length) in magnitudes.iter().enumerate() {
        let places: Vec<_> = (0..64 * 96).filter(|i| i % 96 / 2 == input).collect();
        let norm = places.iter().map(|&i| wanted[i].powi(2)).sum::<f64>().sqrt();
        let factor = f64::from(length) / (norm + 7.8125e-3);
        places.into_iter().for_each(|i| wanted[i] *= factor);
    }
    assert_only(&weights(vec![(file.adapter(), 1.0)]), "proj_in", &wanted);
}

#[test]
fn two_adapters_add_in_any_order_and_dora_sees_the_checkpoints_own_weight() {
    let lora = File::lora(Q, 64, 0.3);
    let dora = File::lora(Q, 64, 0.7)
        .with(&format!("{Q}.lora_magnitude_vector"), stored(Dtype::F32, &[64], &[3.0; 64]));
    let name = format!("{Q}.weight");
    let alone = |file: &File| weights(vec![(file.adapter(), 1.0)]).remove(&name).expect("it");
    let (first, second) = (alone(&lora), alone(&dora));
    let wanted: Vec<f64> = own(Q)
        .iter()
        .zip(first.iter().zip(&second))
        .map(|(&w, (&x, &y))| f64::from(x) + f64::from(y) - f64::from(w))
        .collect();
    assert_only(&weights(vec![(lora.adapter(), 1.0), (dora.adapter(), 1.0)]), Q, &wanted);
    assert_only(&weights(vec![(dora.adapter(), 1.0), (lora.adapter(), 1.0)]), Q, &wanted);
}
