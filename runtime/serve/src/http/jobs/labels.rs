//! Limits of the words about a job. They lie in its record, which a queue of many machines keeps in one
//! message of 1 MiB.

use crate::http::ApiError;

const TITLE: usize = 500;
const TAGS: usize = 64;
/// The most characters of a tag.
const TAG: usize = 100;

/// Checks a title and tags.
/// Errors: 400 with the field that is too long.
pub(super) fn check(title: Option<&str>, tags: Option<&[String]>) -> Result<(), ApiError> {
    let tags = tags.unwrap_or_default();
    let too_long = |field: &str, why: String| {
        Err(ApiError::bad("bad_value", format!("`{field}`: {why}")).param(field))
    };
    if title.is_some_and(|title| is_longer(title, TITLE)) {
        return too_long("title", format!("it has more than {TITLE} characters"));
    }
    if tags.len() > TAGS {
        return too_long("tags", format!("there are more than {TAGS}"));
    }
    if tags.iter().any(|tag| is_longer(tag, TAG)) {
        return too_long("tags", format!("one has more than {TAG} characters"));
    }
    Ok(())
}

fn is_longer(text: &str, most: usize) -> bool {
    text.chars().nth(most).is_some()
}
