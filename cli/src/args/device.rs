//! Device, weight type and threads: the same flags for every command that computes.

use std::num::NonZero;

use acestep_session::settings::threads;

/// A device, a weight type and a number of threads, as typed.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model and device")]
pub(crate) struct Where {
    /// auto, cpu, cuda[:N] or wgpu[:N] [default: auto].
    ///
    /// auto is the best usable NVIDIA GPU, else the best GPU of Vulkan or Metal, else the CPU; only
    /// the built-in backends count. acestep doctor shows the numbers.
    #[arg(long, value_name = "DEVICE", default_value = "auto", hide_default_value = true)]
    pub(crate) device: String,

    /// Type of the weights: auto, f32, bf16, f16 or q8 [default: auto].
    ///
    /// auto is bf16, the type of the released files, on CPUs and on NVIDIA GPUs that compute in it
    /// (since 2020), else f32. On a CPU, f32 takes twice the memory and up to twice the time. q8,
    /// which is int8 with a scale for each 32 values, is for CPUs. It nearly halves the memory of
    /// the language model and the diffusion transformer again, and with AVX-512 VNNI takes two
    /// thirds of their time; the song is different. f16 is only used by name: its range ends at
    /// 65504, which large activations can exceed, so results are guarded.
    #[arg(long, value_name = "TYPE", default_value = "auto", hide_default_value = true)]
    #[arg(hide_short_help = true)]
    pub(crate) dtype: String,

    /// Threads of the CPU that compute [default: one for each core].
    ///
    /// The default is no more than the CPU quota of a container allows. Two threads of one core are
    /// seldom faster than one.
    #[arg(long, value_name = "N", value_parser = threads, hide_short_help = true)]
    pub(crate) threads: Option<NonZero<usize>>,
}

/// A device, as typed, for a command that chooses the types itself.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model and device")]
pub(crate) struct OnDevice {
    /// auto, cpu, cuda[:N] or wgpu[:N] [default: auto].
    ///
    /// auto is the best usable NVIDIA GPU, else the best GPU of Vulkan or Metal, else the CPU; only
    /// the built-in backends count. acestep doctor shows the numbers.
    #[arg(long, value_name = "DEVICE", default_value = "auto", hide_default_value = true)]
    device: String,
}

impl OnDevice {
    /// Returns the device with f32 weights.
    pub(crate) fn in_f32(self) -> Where {
        Where { device: self.device, dtype: "f32".to_owned(), threads: None }
    }
}
