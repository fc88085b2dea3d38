//! Runs a stage for many songs: shares equal work, and skips songs that failed.

use acestep_engine::Error;

use crate::{Plan, condition::Prompt, plan::FlowEdit};

/// State of the stages for many plans.
pub(super) struct Stages<'a> {
    pub(super) plans: &'a [&'a Plan],
    pub(super) failures: Vec<Option<Error>>,
}

/// One result per plan; `None` if the plan failed earlier.
pub(super) struct Done<T>(Vec<Option<T>>);

impl<T> std::ops::Index<usize> for Done<T> {
    type Output = T;

    /// # Panics
    /// If plan `i` has failed.
    fn index(&self, i: usize) -> &T {
        self.0[i].as_ref().expect("only plans that have not failed go on")
    }
}

impl Stages<'_> {
    /// Runs a stage for every plan; plans that are equal by `same` share one result.
    pub(super) fn each<T: Clone>(
        &mut self,
        same: impl Fn(&Plan, &Plan) -> bool,
        mut work: impl FnMut(usize) -> Result<T, Error>,
    ) -> Done<T> {
        let mut done: Vec<Option<T>> = Vec::with_capacity(self.plans.len());
        for (i, plan) in self.plans.iter().enumerate() {
            let result = if self.failures[i].is_some() {
                None
            } else if let Some(shared) =
                (0..i).find(|&j| done[j].is_some() && same(plan, self.plans[j]))
            {
                done[shared].clone()
            } else {
                work(i).map_err(|error| self.failures[i] = Some(error)).ok()
            };
            done.push(result);
        }
        Done(done)
    }

    pub(super) fn end<T>(self, done: Done<T>) -> Vec<Result<T, Error>> {
        let of = |(done, failure): (Option<T>, Option<Error>)| {
            failure.map_or_else(|| Ok(done.expect("a plan that has not failed is done")), Err)
        };
        done.0.into_iter().zip(self.failures).map(of).collect()
    }
}

pub(super) fn same_source(a: &Plan, b: &Plan) -> bool {
    (&a.source.sound, a.repaint.added, a.length.padded_frames)
        == (&b.source.sound, b.repaint.added, b.length.padded_frames)
}

pub(super) fn same_timbre(a: &Plan, b: &Plan) -> bool {
    a.source.references == b.source.references
}

pub(super) fn same_words(a: &Plan, b: &Plan) -> bool {
    prompt(a) == prompt(b)
}

pub(super) fn same_edit(a: &Plan, b: &Plan) -> bool {
    let [a, b] = [a, b].map(|plan| plan.edit.as_ref().map(source_prompt));
    a == b
}

/// Returns the prompts that describe a song before its edit.
pub(super) fn source_prompt(edit: &FlowEdit) -> Prompt {
    Prompt {
        caption: edit.caption_prompt.clone(),
        lyrics: edit.lyric_prompt.clone(),
        plain_caption: None,
    }
}

pub(super) fn same_outline(a: &Plan, b: &Plan) -> bool {
    same_source(a, b)
        && (a.source.task, &a.source.codes, &a.repaint.region)
            == (b.source.task, &b.source.codes, &b.repaint.region)
}

pub(super) fn prompt(plan: &Plan) -> Prompt {
    Prompt {
        caption: plan.words.caption_prompt.clone(),
        lyrics: plan.words.lyric_prompt.clone(),
        plain_caption: plan.words.non_cover_prompt.clone(),
    }
}
