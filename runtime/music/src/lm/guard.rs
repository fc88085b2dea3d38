//! Detection of useless answers; the errors contain the answer.

use acestep_engine::Error;

use super::{compose::Composed, metadata::Metadata};
use crate::codes;

/// Least number of equal codes in a row that counts as stuck: 20 seconds. Real songs have fewer,
/// even for silence at the end.
const STUCK: usize = 100;

/// Refuses an answer without any metadata.
pub(super) fn require_metadata(metadata: &Metadata, answer: &str) -> Result<(), Error> {
    if *metadata != Metadata::default() {
        return Ok(());
    }
    let what = "no tempo, key, caption or anything else of a plan".into();
    Err(Error::NothingValid { what, had: answer.to_owned() })
}

/// Refuses codes that are empty, stuck, or of different lengths.
pub(super) fn check_codes(songs: &[Vec<u32>], composed: &Composed) -> Result<(), Error> {
    for song in songs {
        if song.is_empty() {
            let what = "no audio codes".into();
            return Err(Error::NothingValid { what, had: composed.text.clone() });
        }
        let run = song.chunk_by(|a, b| a == b).max_by_key(|run| run.len()).unwrap_or_default();
        if run.len() >= STUCK {
            return Err(Error::Repeats {
                code: run[0],
                times: run.len(),
                had: codes::to_list(song),
            });
        }
    }
    let lengths: Vec<usize> = songs.iter().map(Vec::len).collect();
    if lengths.windows(2).any(|pair| pair[0] != pair[1]) {
        let what = format!("songs of {lengths:?} codes, which make no batch");
        return Err(Error::NothingValid { what, had: composed.text.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(songs: &[Vec<u32>]) -> Result<(), Error> {
        check_codes(songs, &Composed::default())
    }

    #[test]
    fn a_model_that_repeats_one_code_is_stuck_after_20_seconds_of_it() {
        let song = |times| [vec![1, 2, 3], vec![7; times], vec![4]].concat();
        assert!(check(&[song(99)]).is_ok());
        let error = check(&[vec![1; 50], song(100)]).expect_err("stuck");
        let Error::Repeats { code, times, had } = error else { panic!("{error}") };
        assert_eq!((code, times), (7, 100));
        assert!(had.starts_with("1,2,3,7,7") && had.ends_with("7,4"), "{had}");
    }

    #[test]
    fn songs_of_a_batch_have_one_length_and_some_codes() {
        assert!(check(&[vec![1, 2], vec![3, 4]]).is_ok());
        assert!(check(&[vec![1, 2], vec![3]]).is_err());
        assert!(check(&[vec![]]).is_err());
    }
}
