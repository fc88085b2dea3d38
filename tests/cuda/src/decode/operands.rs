//! Names of registers, symbols and numbers.

use std::collections::HashMap;

use crate::{
    instruction::{Address, Number, Source, Special, Target},
    ptx::{Class, Kernel, immediate, parts},
};

/// The names that operands may have.
pub(super) struct Names<'a> {
    pub(super) registers: HashMap<&'a str, (Class, u32)>,
    pub(super) kernel: &'a Kernel,
    pub(super) globals: &'a dyn Fn(&str) -> Option<u64>,
}

impl Names<'_> {
    pub(super) fn guard(&self, name: &str) -> Result<(u32, bool), String> {
        match self.source(name)? {
            Source::Predicate(register, negated) => Ok((register, negated)),
            _ => Err(format!("{name} is no predicate")),
        }
    }

    pub(super) fn source(&self, text: &str) -> Result<Source, String> {
        let text = text.trim();
        let (name, negated) = match text.strip_prefix('!') {
            Some(name) => (name, true),
            None => (text, false),
        };
        if let Some(&(class, register)) = self.registers.get(name) {
            return Ok(match class {
                Class::Predicate => Source::Predicate(register, negated),
                Class::Word => Source::Word(register),
                Class::Double => Source::Double(register),
            });
        }
        if let Some(name) = text.strip_prefix('%') {
            return special(name).map(Source::Special).ok_or_else(|| format!("no register {text}"));
        }
        if text == "_" {
            return Ok(Source::Nothing);
        }
        if text == "WARP_SZ" {
            return Ok(Source::Immediate(32));
        }
        if let Some(value) = immediate(text) {
            return Ok(Source::Immediate(value));
        }
        // A symbol, perhaps with an offset.
        let (name, offset) = match text.split_once('+') {
            Some((name, offset)) => {
                (name, immediate(offset).ok_or_else(|| format!("no offset: {text}"))?)
            }
            None => (text, 0),
        };
        if let Some(&at) = self.kernel.offsets.get(name) {
            return Ok(Source::Parameter(at as u64 + offset));
        }
        let place =
            self.kernel.shared.get(name).or(self.kernel.local.get(name)).map(|&at| at as u64);
        let place = place.or_else(|| (self.globals)(name));
        place.map(|at| Source::Immediate(at + offset)).ok_or_else(|| format!("unknown name {text}"))
    }

    pub(super) fn target(&self, text: &str) -> Result<Target, String> {
        let text = text.trim();
        if text == "_" {
            return Ok(Target::Nothing);
        }
        match self.registers.get(text) {
            Some(&(Class::Predicate, register)) => Ok(Target::Predicate(register)),
            Some(&(Class::Word, register)) => Ok(Target::Word(register)),
            Some(&(Class::Double, register)) => Ok(Target::Double(register)),
            None => Err(format!("no register {text}")),
        }
    }

    /// Reads `a|b`, or `a`.
    pub(super) fn targets(&self, text: &str) -> Result<[Target; 2], String> {
        match text.split_once('|') {
            Some((first, second)) => Ok([self.target(first)?, self.target(second)?]),
            None => Ok([self.target(text)?, Target::Nothing]),
        }
    }

    /// Reads `{a, b}`, or `a`.
    pub(super) fn source_list(&self, text: &str) -> Result<Vec<Source>, String> {
        parts(inner(text)).into_iter().map(|part| self.source(part)).collect()
    }

    /// Reads `{a, b}`, or `a`.
    pub(super) fn target_list(&self, text: &str) -> Result<Vec<Target>, String> {
        parts(inner(text)).into_iter().map(|part| self.target(part)).collect()
    }

    /// Reads `[a+4]`.
    pub(super) fn address(&self, text: &str) -> Result<Address, String> {
        let text = inner(text);
        if let Some((name, offset)) = text.split_once('+')
            && self.registers.contains_key(name.trim())
        {
            let offset = immediate(offset.trim()).ok_or_else(|| format!("no offset: {text}"))?;
            return Ok(Address { base: self.source(name)?, offset: offset as i64 });
        }
        Ok(Address { base: self.source(text)?, offset: 0 })
    }
}

/// Returns the text between brackets or braces.
pub(super) fn inner(text: &str) -> &str {
    let text = text.trim();
    let stripped = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    stripped
        .or_else(|| text.strip_prefix('[').and_then(|text| text.strip_suffix(']')))
        .unwrap_or(text)
        .trim()
}

fn special(name: &str) -> Option<Special> {
    let (name, axis) = match name.rsplit_once('.') {
        Some((name, "x")) => (name, 0),
        Some((name, "y")) => (name, 1),
        Some((name, "z")) => (name, 2),
        _ => (name, 0),
    };
    Some(match name {
        "tid" => Special::Tid(axis),
        "ntid" => Special::Ntid(axis),
        "ctaid" => Special::Ctaid(axis),
        "nctaid" => Special::Nctaid(axis),
        "laneid" => Special::Lane,
        "lanemask_eq" => Special::LaneMask(|lane| 1 << lane),
        "lanemask_lt" => Special::LaneMask(|lane| (1 << lane) - 1),
        "lanemask_le" => Special::LaneMask(|lane| (((1u64 << lane) << 1) - 1) as u32),
        "lanemask_gt" => Special::LaneMask(|lane| !((((1u64 << lane) << 1) - 1) as u32)),
        "lanemask_ge" => Special::LaneMask(|lane| !((1 << lane) - 1)),
        "warpid" => Special::Warp,
        "nwarpid" => Special::Warps,
        "cluster_ctarank" => Special::ClusterRank,
        "cluster_ctaid" if axis == 0 => Special::ClusterRank,
        "cluster_nctarank" => Special::ClusterSize,
        "cluster_nctaid" if axis == 0 => Special::ClusterSize,
        "clusterid" => Special::ClusterId(axis),
        "smid" => Special::Multiprocessor,
        "clock" | "clock64" | "globaltimer" => Special::Clock,
        "dynamic_smem_size" => Special::DynamicShared,
        _ => return None,
    })
}

/// Returns the type of this name.
pub(super) fn number(name: &str) -> Option<Number> {
    Some(match name {
        "u8" | "b8" => Number::Unsigned(8),
        "u16" | "b16" => Number::Unsigned(16),
        "u32" | "b32" => Number::Unsigned(32),
        "u64" | "b64" => Number::Unsigned(64),
        "s8" => Number::Signed(8),
        "s16" => Number::Signed(16),
        "s32" => Number::Signed(32),
        "s64" => Number::Signed(64),
        "f16" => Number::F16,
        "bf16" => Number::Bf16,
        "tf32" => Number::Tf32,
        "f32" => Number::F32,
        "f64" => Number::F64,
        _ => return None,
    })
}

impl Number {
    /// Bytes in memory.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Unsigned(bits) | Self::Signed(bits) => bits as usize / 8,
            Self::F16 | Self::Bf16 => 2,
            Self::Tf32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}
