//! Results of the reference: `tests/goldens`.

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

/// One file of tensors.
#[derive(Debug)]
pub struct Golden {
    bytes: Vec<u8>,
}

impl Golden {
    /// Opens `tests/goldens/<relative>`.
    pub fn open(relative: &str) -> Self {
        let path = crate::root().join("tests/goldens").join(relative);
        Self { bytes: std::fs::read(path).expect("the goldens are in the repository") }
    }

    /// Returns the shape and the values of an f32 tensor.
    pub fn f32(&self, name: &str) -> (Vec<usize>, Vec<f32>) {
        self.with(name, |view| {
            assert_eq!(view.dtype(), Dtype::F32, "{name}");
            let value = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("four bytes"));
            (view.shape().to_vec(), view.data().chunks_exact(4).map(value).collect())
        })
    }

    /// Returns the values of an i64 tensor.
    pub fn i64(&self, name: &str) -> Vec<i64> {
        self.with(name, |view| {
            assert_eq!(view.dtype(), Dtype::I64, "{name}");
            let value = |b: &[u8]| i64::from_le_bytes(b.try_into().expect("eight bytes"));
            view.data().chunks_exact(8).map(value).collect()
        })
    }

    fn with<T>(&self, name: &str, read: impl FnOnce(TensorView<'_>) -> T) -> T {
        let tensors = SafeTensors::deserialize(&self.bytes).expect("a safetensors file");
        read(tensors.tensor(name).expect("the golden has this tensor"))
    }
}
