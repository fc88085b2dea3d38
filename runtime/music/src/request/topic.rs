//! A topic of a request, from one table of its fields: key, type, reading, other spellings.

use super::keys::Kind;

/// One of our keys in request files.
pub(super) struct Key {
    /// The name of the field.
    pub name: &'static str,
    /// The way to read its values.
    pub kind: Kind,
    /// Other programs' names.
    pub others: &'static [&'static str],
}

impl Key {
    /// True if `name` is this key in any spelling.
    pub(super) fn is(&self, name: &str) -> bool {
        self.name == name || self.others.contains(&name)
    }
}

/// Declares a topic: `key: type = kind("other spelling", ..)` for each field.
///
/// It makes a struct of optional fields, whose JSON leaves out the ones that are not set, and the
/// table `KEYS` for the reader of request files.
macro_rules! topic {
    (
        $(#[$about:meta])*
        $topic:ident {
            $(
                $(#[$of:meta])*
                $key:ident: $type:ty = $kind:ident $(($($other:literal),+))?,
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $topic {
            $(
                $(#[$of])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $key: Option<$type>,
            )+
        }

        impl $topic {
            /// The keys of the fields in request files.
            pub(super) const KEYS: &[super::topic::Key] = &[$(super::topic::Key {
                name: stringify!($key),
                kind: super::keys::Kind::$kind,
                others: &[$($($other),+)?],
            }),+];
        }
    };
}
pub(super) use topic;
