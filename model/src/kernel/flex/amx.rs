//! Intel AMX: the question for it, and the shapes of its registers.
//!
//! Source: Intel, "Software Developer's Manual", volume 1, chapter 18; Linux,
//! `Documentation/arch/x86/xstate.rst`.
#![expect(unsafe_code, reason = "a question to the processor, and one to the system")]

use std::{arch::x86_64::__cpuid_count, sync::OnceLock};

/// True if the CPU has the instructions for bf16 and the system permits them.
pub(super) fn exists() -> bool {
    static EXISTS: OnceLock<bool> = OnceLock::new();
    *EXISTS.get_or_init(|| {
        let features = features();
        let [has_bf16, has_tiles] = [22, 24].map(|bit| features >> bit & 1 == 1);
        has_bf16 && has_tiles && is_permitted()
    })
}

/// Returns register EDX of leaf 7 of CPUID.
#[allow(unused_unsafe, reason = "unsafe in Rust 1.92, and safe in newer ones")]
fn features() -> u32 {
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { __cpuid_count(7, 0) }.edx
}

/// Asks the system for the registers of tiles, for all threads.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const TILES: u64 = 18;
    let result: i64;
    // SAFETY: the call changes no memory of this process.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") TILES,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// Other systems were not tried.
#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// Maximum bytes of a line of a tile.
pub(super) const LINE: usize = 64;

/// Shapes of the eight tile registers, as the processor reads them.
#[repr(C, align(64))]
pub(super) struct Shapes([u8; 64]);

impl Shapes {
    /// Registers with these numbers of lines, of so many bytes each.
    pub(super) const fn of(lines: [u8; 8], bytes: [u8; 8]) -> Self {
        let mut shapes = [0; 64];
        shapes[0] = 1; // the only palette
        let mut tile = 0;
        while tile < 8 {
            shapes[16 + 2 * tile] = bytes[tile];
            shapes[48 + tile] = lines[tile];
            tile += 1;
        }
        Self(shapes)
    }
}

/// All registers are full: sixteen lines of 64 bytes.
pub(super) static FULL: Shapes = Shapes::of([16; 8], [LINE as u8; 8]);
