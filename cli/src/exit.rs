//! Exit codes of the program.

use std::process::ExitCode;

// ANCHOR: codes
/// The exit codes, as the help states them.
pub(crate) const EXIT_CODES: [(u8, &str); 5] = [
    (OK, "done"),
    (FAILED, "it cannot be done: a file, the model, the device or the disk is at fault"),
    (USAGE, "the command line is wrong, or a value is out of range or in conflict with another"),
    (BUG, "a mistake in this program"),
    (INTERRUPTED, "stopped by Ctrl-C"),
];
// ANCHOR_END: codes

pub(crate) const OK: u8 = 0;
pub(crate) const FAILED: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const BUG: u8 = 101;
pub(crate) const INTERRUPTED: u8 = 130;

/// Ends `main` with `code`.
pub(crate) fn exit(code: u8) -> ExitCode {
    ExitCode::from(code)
}
