//! Solvers on problems with a known solution; time runs from 1 to 0 as in a song.

use burn::tensor::{Tensor, TensorData};
use burn_flex::Flex;

use super::*;

fn scalar(x: f32) -> Tensor<Flex, 3> {
    Tensor::from_data(TensorData::new(vec![x], [1, 1, 1]), &Default::default())
}

fn number(x: Tensor<Flex, 3>) -> f64 {
    f64::from(x.into_scalar())
}

/// Solves `dx/dt = v(x, t)`, `x(1) = 1` in `n` steps from 1 to 0; equal, or shorter at the end.
fn carried(solver: Solver, n: usize, even: bool, v: impl Fn(f32, f32) -> f32) -> f64 {
    let time = |i: usize| {
        let t = 1.0 - i as f32 / n as f32;
        if even { t } else { t * t }
    };
    let velocity = |x: &Tensor<Flex, 3>, t: f32| scalar(v(number(x.clone()) as f32, t));
    let (mut x, mut history) = (scalar(1.0), History::default());
    for i in 0..n {
        let step = Step { t: time(i), next: time(i + 1) };
        let start = velocity(&x, step.t);
        history = {
            let mut next = history.clone();
            next.push(start.clone(), step.length());
            x = match solver {
                Solver::Heun => {
                    let ahead = euler::step(x.clone(), start.clone(), step);
                    euler::step(x, heun::mean(start, velocity(&ahead, step.next)), step)
                }
                Solver::Dpm3m => euler::step(x, dpm3m::extrapolated(start, &history), step),
                Solver::Stork4 => stork4::step(x, start, step, &history),
                _ => euler::step(x, start, step),
            };
            next
        };
    }
    number(x)
}

/// Factor by which the error of `dx/dt = -x` shrinks when the steps are halved: 2^order.
fn gain(solver: Solver, even: bool) -> f64 {
    let error = |n| (carried(solver, n, even, |x, _| -x) - 1f64.exp()).abs();
    error(16) / error(32)
}

#[test]
fn errors_shrink_as_the_order_says() {
    for (solver, even, order) in [
        (Solver::Euler, true, 1.0),
        (Solver::Heun, true, 2.0),
        (Solver::Heun, false, 2.0),
        // Third-order Adams-Bashforth begins with an Euler step, whose error is of second order.
        (Solver::Dpm3m, true, 2.0),
        (Solver::Dpm3m, false, 2.0),
        (Solver::Stork4, true, 2.0),
        (Solver::Stork4, false, 2.0),
    ] {
        let measured = gain(solver, even).log2();
        assert!((measured - order).abs() < 0.35, "{solver:?} even={even}: {measured}");
    }
}

/// With a full history, a step with the weights 23/12, -16/12, 5/12 is exact for parabolas.
#[test]
fn dpm3m_is_exact_for_parabolas_of_even_steps() {
    let parabola = |t: f32| 3.0 * t * t - 2.0 * t + 0.5;
    let integral = |t: f32| t * t * t - t * t + 0.5 * t;
    let h = 0.125;
    let mut history = History::default();
    history.push(scalar(parabola(1.0)), h);
    history.push(scalar(parabola(0.875)), h);
    let v = dpm3m::extrapolated(scalar(parabola(0.75)), &history);
    let ours = number(euler::step(scalar(0.0), v, Step { t: 0.75, next: 0.625 }));
    let exact = f64::from(integral(0.625) - integral(0.75));
    assert!((ours - exact).abs() < 1e-7, "{ours} {exact}");
    // With one earlier step it is exact for lines.
    let mut history = History::default();
    history.push(scalar(5.0), h);
    assert_eq!(number(dpm3m::extrapolated(scalar(4.0), &history)), 3.5);
}

/// ROCK4 with 2 and with 10 recurrence stages, as published: the recurrence, then the two tableaus
/// of the four finishing stages.
type Rock4 = (&'static [f64], [f64; 6], [f64; 4]);

/// Applies ROCK4 to `x' = v + s v' + s^2 / 2 v''` over a step of `h`, time running down. Returns
/// the factors of `v`, `v'` and `v''`. This is the recurrence of acestep.cpp's `_rock4_substep`.
fn rock4((recurrence, a, b): Rock4, h: f64) -> [f64; 3] {
    let velocity = |s: f64| [1.0, s, s * s / 2.0];
    let add =
        |x: [f64; 3], k: f64, v: [f64; 3]| [x[0] + k * v[0], x[1] + k * v[1], x[2] + k * v[2]];
    let (mut old, mut x) = ([0.0; 3], add([0.0; 3], -h * recurrence[0], velocity(0.0)));
    let (mut old_time, mut time) = (0.0, -h * recurrence[0]);
    for pair in recurrence[1..].chunks_exact(2) {
        let (step, back) = (-h * pair[0], -pair[1]);
        let mixed = add(add([0.0; 3], 1.0 - back, x), back, old);
        let next = add(mixed, step, velocity(time));
        let next_time = step + (1.0 - back) * time + back * old_time;
        (old, x, old_time, time) = (x, next, time, next_time);
    }
    let at = [0.0, a[0], a[1] + a[2], a[3] + a[4] + a[5]].map(|c| velocity(time - h * c));
    (0..4).fold(x, |x, i| add(x, -h * b[i], at[i]))
}

/// The reason that `stork4` needs no sub-steps: any number of them gives the integral.
#[test]
fn the_sub_steps_of_rock4_integrate_a_parabola_exactly() {
    for method in ROCK4 {
        for h in [1.0, 0.1] {
            let expected = [-h, h * h / 2.0, -h * h * h / 6.0];
            for (ours, exact) in rock4(method, h).into_iter().zip(expected) {
                assert!((ours - exact).abs() < 1e-14, "{h}: {ours} {exact}");
            }
        }
    }
}

#[test]
fn stork4_goes_along_the_parabola_of_the_last_three_velocities() {
    // v = 2 + 3 s + 4 s^2 around t = 0.5, known one step of 0.25 and one of 0.125 before.
    let v = |s: f32| 2.0 + 3.0 * s + 4.0 * s * s;
    let mut history = History::default();
    history.push(scalar(v(0.375)), 0.125);
    history.push(scalar(v(0.25)), 0.25);
    let ours =
        number(stork4::step(scalar(0.0), scalar(v(0.0)), Step { t: 0.5, next: 0.3 }, &history));
    // The slope is the difference to the last velocity, 3 + 4 x 0.25; the second derivative is 8.
    let h = 0.2;
    let expected = -2.0 * h + 4.0 * h * h / 2.0 - 8.0 * h * h * h / 6.0;
    assert!((ours - expected).abs() < 1e-6, "{ours} {expected}");
}

/// Two songs of one frame: only the velocity of the first jumps.
#[test]
fn a_derivative_that_is_noise_is_left_out_for_its_own_song_only() {
    let songs = |a: f32, b: f32| {
        Tensor::<Flex, 3>::from_data(TensorData::new(vec![a, b], [2, 1, 1]), &Default::default())
    };
    let mut history = History::default();
    history.push(songs(7.0, 2.0), 0.25);
    let step = Step { t: 0.5, next: 0.25 };
    let out = stork4::step(songs(0.0, 0.0), songs(1.0, 1.0), step, &history);
    let out = out.into_data().to_vec::<f32>().expect("f32");
    // |7 - 1| > 5; the slope of the other song is 4.
    assert_eq!(out, [-0.25, -0.25 + 4.0 * 0.25 * 0.25 / 2.0]);
}

#[test]
fn a_stochastic_step_to_time_zero_is_the_predicted_music() {
    let step =
        |next| number(sde::step(scalar(2.0), scalar(1.0), scalar(8.0), Step { t: 0.5, next }));
    assert_eq!(step(0.0), 1.5);
    assert_eq!(step(0.25), 0.25 * 8.0 + 0.75 * 1.5);
}

#[rustfmt::skip]
const ROCK4: [Rock4; 2] = [
    (
        &[0.10671314855438, 0.1296319693918818, 0.006097984609869632],
        [
            -0.179313593132677, 0.522354978881996, -0.268020263243268,
            0.0410644459848542, -0.0673692676033641, 0.534974252895965,
        ],
        [0.727428506710284, -0.281882500610754, -0.366883181811475, 0.684341322628128],
    ),
    (
        &[
            0.01595000101933615, 0.01929098080329146, 0.006813771091892661, 0.02218226060548395,
            0.03194763050768121, 0.02468951849041972, 0.06429708643843554, 0.02687566748685502,
            0.09885398134767075, 0.02879687047315825, 0.1332911334324939, 0.03051024265050759,
            0.1666672556601528, 0.03211180339134084, 0.1993212628717513, 0.03387840798530223,
            0.2348117800966209, 0.03672204698847085, 0.2881723275817451,
        ],
        [
            -0.145179937599982, 0.477661231491125, -0.248988404183759,
            0.00930730703798092, -0.0330359105371527, 0.481074258113903,
        ],
        [0.685711960310753, -0.269724027269246, -0.349535907736682, 0.619566456617273],
    ),
];
