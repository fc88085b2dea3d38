//! ACE-Step 1.5, as data.

mod kind;
mod names;
mod releases;

pub use kind::Kind;
pub(crate) use kind::{ARCHITECTURES, declared};
pub use names::tensor_name;
pub(crate) use names::{OF_DIT_FILE, OF_VAE_FILE, tensor_names};
pub(crate) use releases::{COMFY_FILES, ComfyFile};
pub use releases::{COMPANIONS, LANGUAGE_MODELS, MODELS, TEXT_ENCODER, VAE};
