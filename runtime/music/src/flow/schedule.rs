//! Times at which the diffusion transformer predicts a velocity.
//!
//! `x_t = t noise + (1 - t) x_0`: time runs from 1 (noise) to 0 (music). Shifting keeps the ends
//! and spends more steps near the noise: `t' = s t / (1 + (s - 1) t)`.
//!
//! Source: upstream `modeling_acestep_v15_turbo.py` (steps since April 2026, snapping) in f64, and
//! `modeling_acestep_v15_base.py` (linspace and shift) in f32.

/// Times of a whole song, descending, and the end time of the last step.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Times at which a velocity is computed.
    pub timesteps: Vec<f32>,
    /// End time of the last step; 0 unless the user's own list ends elsewhere.
    pub terminal: f32,
}

impl Schedule {
    /// Returns the rest of the schedule for a start that keeps `strength` of a source
    /// (`cover_noise_strength`): from the time nearest to `1 - strength`, the first one on a tie.
    ///
    /// 0 returns the whole schedule, even if its first time is below 1. Sampling starts from the
    /// [`noised`](super::latents::noised) source at the first time. Step counts and [`cover_steps`]
    /// refer to the remaining steps.
    // ANCHOR: after_noise
    pub fn keeping(&self, strength: f64) -> Self {
        if strength <= 0.0 {
            return self.clone();
        }
        let distance = |index: &usize| (f64::from(self.timesteps[*index]) - (1.0 - strength)).abs();
        let nearest = (0..self.timesteps.len())
            .reduce(|best, index| if distance(&index) < distance(&best) { index } else { best });
        let timesteps = self.timesteps[nearest.unwrap_or(0)..].to_vec();
        Self { timesteps, terminal: self.terminal }
    }
    // ANCHOR_END: after_noise
}

/// Steps for which turbo was distilled.
pub const TURBO_STEPS: usize = 8;
/// Shifts of the times to which a list for turbo is moved.
const SHIFTS: [f64; 3] = [1.0, 2.0, 3.0];
/// Most times of a list for turbo: as many different ones as [`SHIFTS`] give.
const MOST_TIMES: usize = 20;

/// Returns times for turbo: `steps` times from 1 on, shifted; sampling ends at 0.
///
/// # Panics
/// If `steps` is 0; a plan has already rejected that.
pub fn turbo(steps: usize, shift: f64) -> Schedule {
    assert!(steps > 0, "a schedule has at least one step");
    let timesteps = turbo_times(steps, shift).map(|t| t as f32).collect();
    Schedule { timesteps, terminal: 0.0 }
}

// Upstream computes with Python floats, hence f64.
fn turbo_times(steps: usize, shift: f64) -> impl Iterator<Item = f64> {
    (0..steps).map(move |step| {
        let t = 1.0 - step as f64 / steps as f64;
        shift * t / (1.0 + (shift - 1.0) * t)
    })
}

/// Returns a user's own times for turbo: trailing zeros dropped, at most 20 kept, each replaced by
/// the nearest of the eight times at shift 1, 2 and 3. `None` if nothing is left.
pub fn turbo_custom(timesteps: &[f32]) -> Option<Schedule> {
    let kept = timesteps.iter().rposition(|&t| t != 0.0)? + 1;
    let snapped = timesteps[..kept.min(MOST_TIMES)].iter().map(|&t| snap(t)).collect();
    Some(Schedule { timesteps: snapped, terminal: 0.0 })
}

// Upstream compares the f32 input with Python floats, hence f64.
fn snap(t: f32) -> f32 {
    let distance = |valid: f64| (valid - f64::from(t)).abs();
    let nearest = SHIFTS
        .into_iter()
        .flat_map(|shift| turbo_times(TURBO_STEPS, shift))
        .reduce(|best, valid| if distance(valid) < distance(best) { valid } else { best });
    nearest.map_or(t, |valid| valid as f32)
}

/// Returns times for base and sft: `steps + 1` points from 1 to 0, shifted; the 0 is only the end.
///
/// # Panics
/// If `steps` is 0; a plan has already rejected that.
pub fn base(steps: usize, shift: f32) -> Schedule {
    assert!(steps > 0, "a schedule has at least one step");
    let mut timesteps = linspace_to_zero(steps + 1);
    if shift != 1.0 {
        for t in &mut timesteps {
            *t = shifted(*t, shift);
        }
    }
    let terminal = timesteps.pop().unwrap_or(0.0);
    Schedule { timesteps, terminal }
}

/// Returns a user's own times for base and sft, unchanged: the last one is the end of sampling.
/// `None` if there are fewer than two.
pub fn base_custom(timesteps: &[f32]) -> Option<Schedule> {
    match timesteps {
        [steps @ .., terminal] if !steps.is_empty() => {
            Some(Schedule { timesteps: steps.to_vec(), terminal: *terminal })
        }
        _ => None,
    }
}

/// Returns `t' = s t / (1 + (s - 1) t)` in f32, in upstream's order of operations.
// ANCHOR: shifted
pub fn shifted(t: f32, shift: f32) -> f32 {
    shift * t / (1.0 + (shift - 1.0) * t)
}
// ANCHOR_END: shifted

/// Returns the end time of an SDE step of base and sft: `1 - (i + 1) / N`.
///
/// Upstream ignores shift and custom times here, so it is not the schedule's next time.
pub fn base_sde_next(index: usize, steps: usize) -> f32 {
    (1.0 - (index + 1) as f64 / steps as f64) as f32
}

/// Returns the first step that no longer follows the audio codes: `trunc(steps x strength)` in f64,
/// as Python's `int(steps * strength)`.
pub fn cover_steps(steps: usize, strength: f64) -> usize {
    (steps as f64 * strength) as usize
}

/// `torch.linspace(1, 0, n)` in f32: the first half counts up from the start, the second half
/// counts back from the end, so both ends are exact.
fn linspace_to_zero(n: usize) -> Vec<f32> {
    let step = -1.0 / (n - 1) as f32;
    let value = |i: usize| {
        // PyTorch's vectorised loop uses a fused multiply-add.
        if i < n / 2 {
            step.mul_add(i as f32, 1.0)
        } else {
            (-step).mul_add((n - 1 - i) as f32, 0.0)
        }
    };
    (0..n).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_goldens::golden_f32;

    /// Values of `torch.linspace(1, 0, n + 1)` of PyTorch 2.15 on a CPU with AVX-512.
    #[test]
    fn unshifted_times_equal_torch_linspace_to_the_last_bit() {
        let times = |steps: usize| {
            let times = base(steps, 1.0).timesteps;
            [3, 7, 11, steps - 4].map(|i| times[i])
        };
        assert_eq!(times(30), [0.9, 0.766_666_65, 0.633_333_3, 0.133_333_34]);
        assert_eq!(times(50), [0.94, 0.86, 0.780_000_03, 0.08]);
    }

    /// Goldens: `sampling_turbo.safetensors` and `sampling_base.safetensors`, recorded from every
    /// decoder call of upstream; steps and shift from the manifest's notes.
    #[test]
    fn times_equal_upstreams_bit_for_bit() {
        for (model, case, ours) in [
            ("turbo", "ode_shift1", turbo(8, 1.0)),
            ("turbo", "ode_shift2", turbo(8, 2.0)),
            ("turbo", "ode_shift3", turbo(8, 3.0)),
            ("turbo", "sde_shift3", turbo(8, 3.0)),
            ("turbo", "batch_ode", turbo(8, 3.0)),
            ("turbo", "batch_sde_shift1", turbo(8, 1.0)),
            ("base", "apg_4steps", base(4, 1.0)),
            ("base", "apg_shift3_6steps", base(6, 3.0)),
            ("base", "apg_interval", base(5, 1.0)),
            ("base", "nocfg_5steps", base(5, 2.0)),
            ("base", "sde_apg", base(4, 3.0)),
        ] {
            let file = format!("a/sampling_{model}.safetensors");
            let timesteps = golden_f32(&file, &format!("{case}.timesteps"));
            assert_eq!(ours, Schedule { timesteps, terminal: 0.0 }, "{case}");
        }
    }

    /// The golden's input list, snapped by hand. The stored `custom_timesteps.timesteps` are the
    /// list itself, not the decoder's times; the latents of that case check the rest.
    #[test]
    fn custom_turbo_times_lose_trailing_zeros_and_snap_to_the_twenty_known_ones() {
        let given = golden_f32("a/sampling_turbo.safetensors", "custom_timesteps.timesteps");
        assert_eq!(given, [0.97, 0.76, 0.615, 0.5, 0.395, 0.28, 0.18, 0.085, 0.0]);
        let schedule = turbo_custom(&given).expect("not empty");
        let expected = [21.0 / 22.0, 10.0 / 13.0, 0.625, 0.5, 0.4, 0.3, 2.0 / 9.0, 0.125];
        assert_eq!(schedule.timesteps, expected.map(|t: f64| t as f32));
    }

    #[test]
    fn each_time_snaps_to_the_nearest_known_one() {
        assert_eq!(snap(0.5625), (6.0f64 / 11.0) as f32);
        assert_eq!(snap(0.4375), 0.4);
        assert_eq!(snap(0.1875), (2.0f64 / 9.0) as f32);
        assert_eq!(snap(0.01), 0.125);
        assert_eq!(snap(5.0), 1.0);
        // In f32 it is 0.387499988, slightly nearer to 0.375 than to 0.4. Only f64 sees it.
        assert_eq!(snap(0.3875), 0.375);
    }

    #[test]
    fn only_twenty_custom_turbo_times_are_kept_and_zeros_alone_are_none() {
        assert_eq!(turbo_custom(&[0.5; 30]).expect("some").timesteps.len(), 20);
        assert_eq!(turbo_custom(&[0.0, 0.0]), None);
        assert_eq!(turbo_custom(&[]), None);
    }

    /// By hand: `t = 1, 3/4, 1/2, 1/4`, and `4 t / (1 + 3 t)` of them.
    #[test]
    fn turbo_takes_any_number_of_steps_and_any_shift() {
        let expected = [1.0, 12.0 / 13.0, 0.8, 4.0 / 7.0].map(|t: f64| t as f32);
        assert_eq!(turbo(4, 4.0).timesteps, expected);
        assert_eq!(turbo(1, 3.0), Schedule { timesteps: vec![1.0], terminal: 0.0 });
    }

    #[test]
    fn a_custom_base_list_ends_where_it_says() {
        let schedule = base_custom(&[1.0, 0.6, 0.1]).expect("two steps");
        assert_eq!(schedule, Schedule { timesteps: vec![1.0, 0.6], terminal: 0.1 });
        assert_eq!(base_custom(&[1.0]), None);
    }

    #[test]
    fn every_base_schedule_starts_at_one_ends_at_zero_and_falls() {
        for steps in 1..=200 {
            for shift in [0.5, 1.0, 3.0, 6.0] {
                let schedule = base(steps, shift);
                assert_eq!(schedule.timesteps.len(), steps);
                assert_eq!((schedule.timesteps[0], schedule.terminal), (1.0, 0.0));
                assert!(schedule.timesteps.windows(2).all(|w| w[0] > w[1]), "{steps} {shift}");
            }
        }
    }

    /// In f32, 0.7 is 0.699999988, which would give 34 of 50 steps.
    #[test]
    fn the_share_of_steps_that_follow_the_codes_is_cut_in_double_precision() {
        for (steps, strength, expected) in
            [(50, 0.7, 35), (50, 0.9, 45), (20, 0.35, 7), (8, 0.99, 7), (8, 1.0, 8), (8, 0.0, 0)]
        {
            assert_eq!(cover_steps(steps, strength), expected, "{steps} x {strength}");
        }
    }

    /// Level 0.6 of the golden `cover_strength0p3_noise0p4`, which starts at 9/14.
    #[test]
    fn a_source_is_kept_from_the_nearest_time_on() {
        let turbo = turbo(8, 3.0);
        let golden =
            golden_f32("a/sampling_turbo.safetensors", "cover_strength0p3_noise0p4.timesteps");
        assert_eq!(turbo.keeping(0.4).timesteps, golden);
        assert_eq!(turbo.keeping(0.0), turbo);
        assert_eq!(turbo.keeping(1.0).timesteps, [0.3]);
        let base = base_custom(&[1.0, 0.75, 0.5, 0.25]).expect("three steps");
        assert_eq!(base.keeping(0.4), Schedule { timesteps: vec![0.5], terminal: 0.25 });
        // Half way between 1 and 0.75: the first one.
        assert_eq!(base.keeping(0.125), base);
    }

    #[test]
    fn the_sde_of_base_ignores_the_shift() {
        assert_eq!([0, 1, 2, 3].map(|i| base_sde_next(i, 4)), [0.75, 0.5, 0.25, 0.0]);
    }
}
