//! The structures of a request, with the names of all their fields.

/// Defines the structures of a request, and `FIELDS`, the names of all their fields in order. The field after a
/// `+` is another one of the structures, whose fields are fields of the request (`#[serde(flatten)]`). So this
/// has the names `text` and `top_k`:
///
/// ```text
/// fields! {
///     pub struct Request {
///         pub text: String,
///         +
///         pub sampling: Sampling,
///     }
///     pub struct Sampling {
///         pub top_k: Option<u32>,
///     }
/// }
/// ```
macro_rules! fields {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$about:meta])* pub $field:ident: $type:ty,)+
            $(+ $(#[$of_part:meta])* pub $part:ident: $part_type:ty,)?
        }
    )+) => {
        $(
            $(#[$meta])*
            pub struct $name {
                $($(#[$about])* pub $field: $type,)+
                $($(#[$of_part])* #[serde(flatten)] pub $part: $part_type,)?
            }
        )+

        /// Names of the fields.
        pub const FIELDS: &[&str] = &[$($(stringify!($field)),+),+];
    };
}
pub(crate) use fields;
