use acestep_engine::host::to_host as values;
use burn::tensor::Tensor;
use burn_flex::Flex;

use super::{adg::Adg, *};

/// One frame of two channels.
fn frame(x: f32, y: f32) -> Tensor<Flex, 3> {
    Tensor::from_data([[[x, y]]], &Default::default())
}

/// In a plane the rotation can be read off: `a` is at 10 degrees, `b` at 0, and w = 2.001.
#[test]
fn music_is_turned_away_from_that_without_the_condition() {
    let degrees = |y: f32, x: f32| y.atan2(x).to_degrees();
    let (sin, cos) = 10f32.to_radians().sin_cos();
    let (x, t) = (frame(3.0, 1.0), 0.5);
    let velocity = |a: Tensor<Flex, 3>| (x.clone() - a) / t;
    let turned = |scale: f32, variant: Adg| {
        let (cond, uncond) = (velocity(frame(2.0 * cos, 2.0 * sin)), velocity(frame(2.0, 0.0)));
        let v = adg(x.clone(), cond, uncond, t, scale, variant);
        let music = values(x.clone() - v * t);
        (degrees(music[1], music[0]), music[0].hypot(music[1]))
    };
    // From a, by the new angle in the direction of the part of a orthogonal to b.
    let expected = |turn: f32| {
        let (sine, cosine) = turn.to_radians().sin_cos();
        let away = 2.0 * sin * sine / sin;
        let (x, y) = (2.0 * cos * cosine, 2.0 * sin * cosine + away);
        (degrees(y, x), x.hypot(y))
    };
    // 70 degrees are more than the limit 3.14 / 6, which is 29.98. A scale of 1 or less hardly rotates.
    for (scale, variant, turn) in [
        (3.0, Adg::CLIPPED, 20.01),
        (8.0, Adg::CLIPPED, 29.985),
        (8.0, Adg::UNCLIPPED, 70.01),
        (1.0, Adg::CLIPPED, 0.01),
    ] {
        let ((angle, length), wanted) = (turned(scale, variant), expected(turn));
        assert!((angle - wanted.0).abs() < 1e-2, "{scale}: {angle} {wanted:?}");
        assert!((length - wanted.1).abs() < 1e-3, "{scale}: {length} {wanted:?}");
    }
}

/// With one frame the norm of a channel over time is its absolute value, so `a`'s values come back.
#[test]
fn the_norm_of_each_channel_is_kept() {
    let (x, cond, uncond) = (frame(1.0, 1.0), frame(0.5, -1.0), frame(-0.5, 1.5));
    let v = adg(x.clone(), cond, uncond, 1.0, 4.0, Adg::WITH_NORM);
    let music = values(x - v);
    assert!((music[0].abs() - 0.5).abs() < 1e-6, "{music:?}");
    assert!((music[1].abs() - 2.0).abs() < 1e-6, "{music:?}");
}

#[test]
fn a_corrector_is_guided_plainly_where_memory_or_angle_fails() {
    let predict =
        || Prediction { conditional: frame(3.0, 1.0), unconditional: Some(frame(1.0, 2.0)) };
    let plain = values(cfg(frame(3.0, 1.0), frame(1.0, 2.0), 4.0));
    let guided = |mode, t, role| {
        let guidance = Guidance { scale: 4.0, mode, interval: (0.0, 1.0) };
        let mut momentum = Momentum::default();
        let v = guidance.applied(predict(), &frame(1.0, 1.0), t, role, &mut momentum);
        (values(v), momentum.0.is_some())
    };
    assert_eq!(guided(GuidanceMode::Apg, 0.5, Role::Corrector), (plain.clone(), false));
    assert!(guided(GuidanceMode::Apg, 0.5, Role::Start).1);
    assert_eq!(guided(GuidanceMode::Adg, 0.0, Role::Corrector).0, plain);
    assert_ne!(guided(GuidanceMode::Adg, 0.5, Role::Corrector).0, plain);
    assert_eq!(guided(GuidanceMode::Cfg, 0.5, Role::Start).0, plain);
    let guidance = Guidance { scale: 4.0, mode: GuidanceMode::Adg, interval: (0.0, 1.0) };
    let alone = Prediction { conditional: frame(3.0, 1.0), unconditional: None };
    let v = guidance.applied(alone, &frame(1., 1.), 0.5, Role::Start, &mut Momentum::default());
    assert_eq!(values(v), [3.0, 1.0]);
}
