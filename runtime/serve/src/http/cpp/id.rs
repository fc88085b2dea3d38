//! One id for several jobs: the ids of the jobs, in order, with dots between.
//!
//! acestep.cpp's ids are opaque texts. So an array of requests needs no row of its own, and its id is as
//! durable as its jobs.

use uuid::Uuid;

use super::MOST_SONGS;
use crate::{
    http::{ApiError, Asker},
    job::Job,
};

pub(super) fn of(ids: &[Uuid]) -> String {
    ids.iter().map(Uuid::to_string).collect::<Vec<_>>().join(".")
}

fn parse(id: &str) -> Option<Vec<Uuid>> {
    let ids: Option<Vec<Uuid>> = id.split('.').map(|id| Uuid::parse_str(id).ok()).collect();
    ids.filter(|ids| ids.len() <= MOST_SONGS)
}

/// Returns the jobs of an id.
/// Errors: 404 if one of them is unknown, or if they are of different tasks: no call makes such an id.
pub(super) async fn jobs(asker: &Asker, id: &str) -> Result<Vec<Job>, ApiError> {
    let mut jobs = Vec::new();
    for id in parse(id).ok_or_else(ApiError::no_job)? {
        let job: Job = asker.job(id).await?;
        if jobs.first().is_some_and(|first: &Job| first.kind != job.kind) {
            return Err(ApiError::no_job());
        }
        jobs.push(job);
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_several_jobs_is_read_back() {
        let ids = [Uuid::now_v7(), Uuid::now_v7()];
        assert_eq!(parse(&of(&ids)), Some(ids.to_vec()));
        assert_eq!(parse(""), None);
        assert_eq!(parse(&of(&[ids[0]; MOST_SONGS + 1])), None);
        assert_eq!(parse("0123456789abcdef"), None);
    }
}
