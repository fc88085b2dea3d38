//! Random draws for training.

use rand::RngExt;
use rand_pcg::Pcg64;

/// Draws from a normal distribution (Box and Muller 1958).
pub fn normal(random: &mut Pcg64, count: usize) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(count + 1);
    while numbers.len() < count {
        let (u, v): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
        let radius = (-2.0 * u.ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * v).sin_cos();
        numbers.extend([(radius * cos) as f32, (radius * sin) as f32]);
    }
    numbers.truncate(count);
    numbers
}
