//! Variables of the environment: of the terminal, of Rust, and others without a key in the configuration.

use std::{env, ffi::OsString};

/// True if a panic should print a backtrace.
pub(crate) fn wants_backtrace() -> bool {
    set("RUST_BACKTRACE").is_some_and(|value| value != "0")
}

/// True if the terminal cannot move its cursor.
pub(crate) fn terminal_is_dumb() -> bool {
    set("TERM").is_some_and(|value| value == "dumb")
}

/// True if the terminal's name, or its session on Windows, shows that it has xterm's 256 colours.
pub(crate) fn terminal_has_256_colors() -> bool {
    let names = ["256color", "kitty", "alacritty", "foot", "direct"];
    let is_named = |term: &str| names.iter().any(|name| term.contains(name));
    set("TERM").is_some_and(|name| is_named(&name.to_string_lossy()))
        || cfg!(windows) && set("WT_SESSION").is_some()
}

/// Returns the value of a variable; an empty one counts as not set.
pub(crate) fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
