//! One module per kernel, and the helpers that they share. Tests of CI that need no driver for GPUs
//! leave out all names with `on_gpu::`.

mod ada_norm;
mod add_snake;
mod attention;
mod cache_write;
mod code_tokens;
mod conv1d;
mod conv_transpose1d;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
mod cuda_source;
mod draw;
#[cfg(feature = "cuda")]
mod fake_cuda;
mod matrix;
mod matvec;
mod norm_rotate;
mod plain_product;
mod recorded;
mod rms_norm;
mod rows;
mod snake;
mod swiglu;
mod testing;
