//! Properties of every song, independent of the weights.

mod after;
mod batch;
mod codes;
mod composed;
mod conditioning;
mod dialogue;
mod dit;
mod edit;
mod foreign;
mod guards;
mod heard;
mod language;
mod length;
mod listen;
mod narrow;
mod prompts;
mod residency;
mod sampler;
mod seeds;
mod session;
mod speech_files;
mod tasks;
mod vae;
