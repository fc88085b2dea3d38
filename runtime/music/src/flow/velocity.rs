//! The velocity for a solver: one or two predictions of the transformer, guided.

use acestep_model::{
    Backend, Tap,
    acestep::{CrossAttended, Dit},
};
use burn::tensor::Tensor;

use super::{
    Steering, Track,
    guidance::{Momentum, Prediction, Role},
};

/// The transformer with its inputs, its guidance, and its state between steps: the cross-attention
/// keys and values of the condition, and APG's momentum.
pub(super) struct Velocity<'a, B: Backend> {
    dit: &'a Dit<B>,
    steering: Option<&'a Steering<B>>,
    track: &'a Track<B>,
    plain: Option<CrossAttended<B>>,
    doubled: Option<CrossAttended<B>>,
    /// APG's momentum.
    pub(super) momentum: Momentum<B>,
}

impl<'a, B: Backend> Velocity<'a, B> {
    pub(super) fn new(
        dit: &'a Dit<B>,
        track: &'a Track<B>,
        steering: Option<&'a Steering<B>>,
    ) -> Self {
        Self { dit, steering, track, plain: None, doubled: None, momentum: Momentum::default() }
    }

    /// Switches to another track; the cross-attention state is recomputed.
    pub(super) fn follow(&mut self, track: &'a Track<B>) {
        (self.track, self.plain, self.doubled) = (track, None, None);
    }

    /// Returns the guided velocity at `x` and time `t`.
    ///
    /// # Shapes
    /// - `x`, output: `[B, T, C]`
    pub(super) fn at(
        &mut self,
        x: &Tensor<B, 3>,
        t: f32,
        role: Role,
        shown: Option<usize>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 3> {
        let prediction = self.predict(x, t, shown, tap);
        self.guided(prediction, x, t, role)
    }

    /// Applies guidance to a result of [`Velocity::predict`] at `x` and time `t`.
    pub(super) fn guided(
        &mut self,
        prediction: Prediction<B>,
        x: &Tensor<B, 3>,
        t: f32,
        role: Role,
    ) -> Tensor<B, 3> {
        match self.steering {
            Some(Steering { guidance, .. }) => {
                guidance.applied(prediction, x, t, role, &mut self.momentum)
            }
            None => prediction.conditional,
        }
    }

    /// Runs the transformer at `x` and time `t`; `shown` is the step number for the tap.
    ///
    /// # Shapes
    /// - `x`: `[B, T, C]`
    pub(super) fn predict(
        &mut self,
        x: &Tensor<B, 3>,
        t: f32,
        shown: Option<usize>,
        tap: &mut impl Tap<B>,
    ) -> Prediction<B> {
        let Track { condition, context } = self.track;
        let batch = x.dims()[0];
        let dit = self.dit;
        let mut show = |what: &str, x: &Tensor<B, 3>| {
            if let Some(step) = shown {
                tap.tap(format_args!("step{step}.{what}"), x);
            }
        };
        let Some(Steering { null, .. }) = self.steering.filter(|s| s.guidance.applies(t)) else {
            let heard = self.plain.get_or_insert_with(|| dit.attend_to(condition.clone()));
            let times = vec![t; batch];
            show("xt", x);
            let v = dit.forward(x.clone(), context.clone(), [&times, &times], heard);
            show("vt", &v);
            return Prediction { conditional: v, unconditional: None };
        };

        let heard = self.doubled.get_or_insert_with(|| {
            let nothing = null.clone().expand(condition.dims());
            dit.attend_to(Tensor::cat(vec![condition.clone(), nothing], 0))
        });
        let times = vec![t; 2 * batch];
        let context = Tensor::cat(vec![context.clone(); 2], 0);
        let x = Tensor::cat(vec![x.clone(); 2], 0);
        show("xt", &x);
        let both = dit.forward(x, context, [&times, &times], heard);
        show("vt", &both);
        Prediction {
            conditional: both.clone().narrow(0, 0, batch),
            unconditional: Some(both.narrow(0, batch, batch)),
        }
    }
}
