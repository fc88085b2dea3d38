//! Seeds of the songs of a batch.

use acestep_engine::{Error, Notice, check::whole};

use crate::{Request, flow::noise::NoiseSource};

/// Largest batch, as in upstream's entry points.
const MOST_SONGS: u32 = 8;

/// Draws a 32-bit seed as upstream does, so that both generators use all of its bits.
fn drawn() -> u64 {
    u64::from(rand::random::<u32>())
}

/// Decides the seeds; `outlines` is the number of code lists, more than one means one per song.
pub(super) fn decide(
    request: &Request,
    outlines: usize,
    noise: NoiseSource,
    notices: &mut Vec<Notice>,
) -> Result<Vec<u64>, Error> {
    if outlines > MOST_SONGS as usize {
        return Err(Error::OutOfRange {
            field: "audio_codes",
            value: format!("(of {outlines} songs)"),
            range: format!("at most {MOST_SONGS}"),
        });
    }
    let songs = match request.batch_size {
        Some(songs) => Some(whole("batch_size", songs, 1, MOST_SONGS)? as usize),
        None => None,
    };
    let listed = request.seed.as_ref().map_or(0, Vec::len) > 1;
    let songs = songs.or((outlines > 1 && !listed).then_some(outlines));
    let seeds = match request.seed.as_deref() {
        None | Some([]) => counted(drawn(), songs.unwrap_or(1)),
        Some(&[seed]) => counted(seed, songs.unwrap_or(1)),
        Some(seeds) => {
            if seeds.len() > MOST_SONGS as usize {
                return Err(Error::OutOfRange {
                    field: "seed",
                    value: format!("({} seeds)", seeds.len()),
                    range: format!("at most {MOST_SONGS}"),
                });
            }
            match songs {
                Some(songs) if songs != seeds.len() => {
                    return Err(Error::Conflict(format!(
                        "`seed` has {} seeds, but `batch_size` is {songs}: leave `batch_size` out, or \
                         give one seed",
                        seeds.len()
                    )));
                }
                _ => seeds.to_vec(),
            }
        }
    };
    if outlines > 1 && outlines != seeds.len() {
        return Err(Error::Conflict(format!(
            "there are audio codes for {outlines} songs, but {} {} made: leave `batch_size` out, or give a \
             seed for each",
            seeds.len(),
            if seeds.len() == 1 { "is" } else { "are" }
        )));
    }
    if noise == NoiseSource::Mt19937 && seeds.iter().any(|&seed| seed > u64::from(u32::MAX)) {
        notices.push(Notice("mt19937 uses only the low 32 bits of a seed".into()));
    }
    Ok(seeds)
}

/// Returns seeds for a purpose other than the songs' initial noise, one for each of `songs` songs.
pub(super) fn for_songs(
    field: &'static str,
    given: Option<&[u64]>,
    songs: usize,
) -> Result<Vec<u64>, Error> {
    match given {
        None | Some([]) => Ok(counted(drawn(), songs)),
        Some(&[seed]) => Ok(counted(seed, songs)),
        Some(seeds) if seeds.len() == songs => Ok(seeds.to_vec()),
        Some(seeds) => Err(Error::Conflict(format!(
            "`{field}` has {} seeds, but there {} {songs} song{}: give one seed, or one for each",
            seeds.len(),
            if songs == 1 { "is" } else { "are" },
            if songs == 1 { "" } else { "s" },
        ))),
    }
}

/// Counts up: song i has seed + i, as in acestep.cpp; upstream draws all but the first at random.
fn counted(first: u64, songs: usize) -> Vec<u64> {
    (0..songs as u64).map(|i| first.wrapping_add(i)).collect()
}
