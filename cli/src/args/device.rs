//! Where to compute, and in what numbers: the same flags for every verb that computes.

/// A device and a type, as typed.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model and device")]
pub(crate) struct Where {
    /// auto, cpu, cuda[:N] or wgpu[:N] [default: auto].
    ///
    /// auto is the best NVIDIA card that can be used, else the best card of Vulkan or Metal, else the
    /// processor, of what is built in. acestep doctor shows the numbers.
    #[arg(long, value_name = "DEVICE", default_value = "auto", hide_default_value = true)]
    pub(crate) device: String,

    /// Type of the weights: auto, f32, bf16, f16 or q8 [default: auto].
    ///
    /// auto is bf16, that of the released files, on processors and on NVIDIA cards that compute in it
    /// (since 2020), else f32. On a processor f32 takes twice the memory and up to twice the time. q8,
    /// eight bits and a scale for each 32 of them, is for processors: it nearly halves the memory of
    /// the language model and the diffusion transformer again, and with AVX-512 VNNI takes two thirds of
    /// their time; the song is another. f16 is taken only by name: its numbers end at 65504, which
    /// large activations can pass, so results are guarded.
    #[arg(
        long,
        value_name = "TYPE",
        default_value = "auto",
        hide_default_value = true,
        hide_short_help = true
    )]
    pub(crate) dtype: String,
}

/// A device, as typed, of a verb that knows in which types it computes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model and device")]
pub(crate) struct OnDevice {
    /// auto, cpu, cuda[:N] or wgpu[:N] [default: auto].
    ///
    /// auto is the best NVIDIA card that can be used, else the best card of Vulkan or Metal, else the
    /// processor, of what is built in. acestep doctor shows the numbers.
    #[arg(long, value_name = "DEVICE", default_value = "auto", hide_default_value = true)]
    device: String,
}

impl OnDevice {
    /// The device with weights in f32.
    pub(crate) fn in_f32(self) -> Where {
        Where { device: self.device, dtype: "f32".to_owned() }
    }
}
