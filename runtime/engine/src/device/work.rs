//! Work that is generic over the backend, and a short form of it.

use acestep_model::{Backend, Place};

/// Work that is generic over the backend.
pub trait BackendWork {
    /// The result.
    type Output;

    /// Runs the work at `place`.
    fn run<B: Backend>(self, place: Place<B>) -> Self::Output;
}

/// Runs a body with the backend of an engine. Rust has no closures that are generic over a type, so
/// the variables that the body uses are listed with their types:
/// `on_engine!(engine, for<'a>(folder: &'a AceStep) -> Result<(), Error>, |place: B| { .. })`
#[macro_export]
macro_rules! on_engine {
    ($engine:expr, for<$life:lifetime>($($name:ident: $type:ty),+ $(,)?) -> $output:ty,
     |$place:ident: $backend:ident| $body:block) => {{
        struct Work<$life> {
            $($name: $type),+
        }

        impl<$life> $crate::BackendWork for Work<$life> {
            type Output = $output;

            fn run<$backend: $crate::device::Backend>(
                self,
                $place: $crate::device::Place<$backend>,
            ) -> $output {
                let Self { $($name),+ } = self;
                $body
            }
        }

        $engine.run(Work { $($name),+ })
    }};
}
