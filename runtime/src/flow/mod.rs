//! Flow matching: from noise to latents.

pub mod noise;
pub mod schedule;
