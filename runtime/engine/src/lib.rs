//! The engine below every model family: devices, memory, progress, files and sound.
//!
//! This crate names no model family. A family's crate (songs, speech) defines its stages, its
//! networks and its requests with the types of this one.
//!
//! The types that a caller needs are at the root. The modules are open to the other crates of this
//! repository and hidden from this page.
//!
//! | module | content |
//! |---|---|
//! | `device` | the devices of this machine; the only place that turns a choice into a backend |
//! | `networks`, `shared_ref` | networks in memory, with one runner for every stage; their checkpoint |
//! | `retry` | retry of a stage in f32 |
//! | `progress` | progress events of a run, and its cancellation |
//! | `sampling` | from logits to one token |
//! | `tiling` | tiles of a long sequence |
//! | `host` | tensors to values and back |
//! | `audio` | sound files of many formats in and out, rates, loudness, tags |
//! | `files`, `texts` | files that are written whole; text files of any program |
//! | `check` | checks of ranges and choices |
//! | `process`, `machine` | memory of this process; memory and disks of the machine |
//! | `threads`, `allocator` | the threads of the CPU that compute; memory that was freed |
//! | `error`, [`nearest`] | errors and how to fix them; suggestions for misspelt names |

#[doc(hidden)]
pub mod allocator;
#[doc(hidden)]
pub mod audio;
#[doc(hidden)]
pub mod check;
#[doc(hidden)]
pub mod device;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod files;
#[doc(hidden)]
pub mod host;
#[doc(hidden)]
pub mod machine;
#[doc(hidden)]
pub mod networks;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod progress;
#[doc(hidden)]
pub mod retry;
#[doc(hidden)]
pub mod sampling;
mod shared_ref;
mod suggest;
#[doc(hidden)]
pub mod texts;
#[cfg(feature = "cpu")]
#[doc(hidden)]
pub mod threads;
#[doc(hidden)]
pub mod tiling;

pub use audio::{
    Audio,
    encoding::EncodingOptions,
    format::{Encoding, Format},
    loudness::Loudness,
    read::read as read_audio,
    tags::Tags,
    write::save as save_audio,
};
pub use device::{
    BackendWork, Device, DeviceTarget, Dtype, Engine,
    memory::{MemoryInfo, MemoryNeed},
};
pub use error::{Action, BoxedFamilyError, Error, FamilyError, Notice};
pub use files::{Existing, write_whole};
pub use networks::{NetworkCache, NetworkSpec, Residency};
pub use progress::{AudioChunk, CancelIf, Event, Observe, Stage, Unit, Unobserved};
pub use shared_ref::SharedRef;
pub use suggest::nearest;
pub use tiling::Tiling;
