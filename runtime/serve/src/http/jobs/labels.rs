//! Limits of the words about a job. They lie in its record, which a queue of many machines keeps in one
//! message of 1 MiB.

use crate::http::{ApiError, error::wrong};

const TITLE: usize = 500;
const TAGS: usize = 64;
/// The most characters of a tag.
const TAG: usize = 100;

/// Checks a title and tags.
/// Errors: 400 with the field that is too long.
pub(super) fn check(title: Option<&str>, tags: Option<&[String]>) -> Result<(), ApiError> {
    let tags = tags.unwrap_or_default();
    if title.is_some_and(|title| is_longer(title, TITLE)) {
        return Err(wrong("title", &format!("it has more than {TITLE} characters")));
    }
    if tags.len() > TAGS {
        return Err(wrong("tags", &format!("there are more than {TAGS}")));
    }
    if tags.iter().any(|tag| is_longer(tag, TAG)) {
        return Err(wrong("tags", &format!("one has more than {TAG} characters")));
    }
    Ok(())
}

fn is_longer(text: &str, most: usize) -> bool {
    text.chars().nth(most).is_some()
}
