//! What must be true of any song, whatever its weights.

mod batch;
mod codes;
mod conditioning;
mod dit;
mod guards;
mod language;
mod length;
mod residency;
mod seeds;
mod vae;
