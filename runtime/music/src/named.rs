//! Enumerations whose values have names.

/// Defines an enumeration with `ALL`, its values in order, `NAMES`, their names with them, and
/// `name`. A value is written with its name, as in `Low = "low",`.
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $type:ident {
            $($(#[$about:meta])* $value:ident = $name:literal,)+
        }
    ) => {
        $(#[$meta])*
        pub enum $type {
            $($(#[$about])* $value,)+
        }

        impl $type {
            /// All values, in order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// All names with their values, in order.
            pub const NAMES: [(&str, Self); [$($name),+].len()] = [$(($name, Self::$value)),+];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }
    };
}
pub(crate) use named;
