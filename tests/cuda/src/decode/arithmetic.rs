//! Instructions of single threads: arithmetic, comparisons, conversions.

use std::cmp::Ordering::{Equal, Greater, Less};

use half::{bf16, f16};

use super::operands::{Names, number};
use crate::instruction::{
    Comparison, Conversion, Doubles, Number, OfDoubles, OfWords, Operation, Rounding, Source,
    Target, Words,
};

/// A function of words, from an expression of three of them.
macro_rules! words {
    (|$a:ident, $b:ident, $c:ident| $result:expr) => {{
        let of: OfWords = |a, b, c| {
            std::array::from_fn(|lane| {
                #[allow(unused_variables, reason = "some operations have fewer operands")]
                let ($a, $b, $c) = (a[lane], b[lane], c[lane]);
                $result
            })
        };
        of
    }};
}

/// A function of floats in words.
macro_rules! floats {
    (|$a:ident, $b:ident, $c:ident| $result:expr) => {
        words!(|x, y, z| {
            #[allow(unused_variables, reason = "some operations have fewer operands")]
            let ($a, $b, $c) = (f32::from_bits(x), f32::from_bits(y), f32::from_bits(z));
            let result: f32 = $result;
            result.to_bits()
        })
    };
}

/// A function of doubles, from an expression of three of them.
macro_rules! doubles {
    (|$a:ident, $b:ident, $c:ident| $result:expr) => {{
        let of: OfDoubles = |a, b, c| {
            std::array::from_fn(|lane| {
                #[allow(unused_variables, reason = "some operations have fewer operands")]
                let ($a, $b, $c) = (a[lane], b[lane], c[lane]);
                $result
            })
        };
        of
    }};
}

/// A function of `f64` in doubles.
macro_rules! f64s {
    (|$a:ident, $b:ident, $c:ident| $result:expr) => {
        doubles!(|x, y, z| {
            #[allow(unused_variables, reason = "some operations have fewer operands")]
            let ($a, $b, $c) = (f64::from_bits(x), f64::from_bits(y), f64::from_bits(z));
            let result: f64 = $result;
            result.to_bits()
        })
    };
}

/// A function of 16-bit floats, one or two in a word, computed in f32 and rounded once.
macro_rules! halves {
    ($type:ty, $pair:expr, |$a:ident, $b:ident, $c:ident| $result:expr) => {{
        let single: OfWords = words!(|x, y, z| {
            #[allow(unused_variables, reason = "some operations have fewer operands")]
            let ($a, $b, $c) = (
                <$type>::from_bits(x as u16).to_f32(),
                <$type>::from_bits(y as u16).to_f32(),
                <$type>::from_bits(z as u16).to_f32(),
            );
            u32::from(<$type>::from_f32($result).to_bits())
        });
        let pair: OfWords = words!(|x, y, z| {
            let half = |shift: u32| {
                #[allow(unused_variables, reason = "some operations have fewer operands")]
                let ($a, $b, $c) = (
                    <$type>::from_bits((x >> shift) as u16).to_f32(),
                    <$type>::from_bits((y >> shift) as u16).to_f32(),
                    <$type>::from_bits((z >> shift) as u16).to_f32(),
                );
                u32::from(<$type>::from_f32($result).to_bits()) << shift
            };
            half(0) | half(16)
        });
        if $pair { pair } else { single }
    }};
}

/// Returns the operation of a statement, or `None` if it is of another kind.
pub(super) fn decoded(
    parts: &[&str],
    operands: &[&str],
    names: &Names<'_>,
) -> Result<Option<Operation>, String> {
    let (name, kind) = (parts[0], parts[parts.len() - 1]);
    let has = |part: &str| parts.contains(&part);
    match name {
        "mov" => return moved(kind, operands, names).map(Some),
        "cvt" => return converted(parts, operands, names).map(Some),
        "setp" => return compared(parts, operands, names).map(Some),
        "set" if operands.len() == 3 => {
            let yes = match parts[parts.len() - 2] {
                "u32" | "s32" => u32::MAX,
                "f32" => 1f32.to_bits(),
                "f16" => u32::from(f16::ONE.to_bits()),
                "bf16" => u32::from(bf16::ONE.to_bits()),
                _ => return Err("this type".to_owned()),
            };
            let comparison = comparison(parts[1], kind).ok_or("this comparison")?;
            let from = [names.source(operands[1])?, names.source(operands[2])?];
            return Ok(Some(Operation::Set {
                comparison,
                to: names.target(operands[0])?,
                from,
                yes,
            }));
        }
        "selp" => {
            let [a, b] = [names.source(operands[1])?, names.source(operands[2])?];
            return Ok(Some(Operation::Select(
                names.target(operands[0])?,
                [a, b],
                names.source(operands[3])?,
            )));
        }
        "bfi" => {
            let mut from = [Source::Immediate(0); 4];
            for (to, operand) in from.iter_mut().zip(&operands[1..]) {
                *to = names.source(operand)?;
            }
            let width = if kind == "b64" { 64 } else { 32 };
            return Ok(Some(Operation::Insert(width, names.target(operands[0])?, from)));
        }
        "lop3" => {
            let Source::Immediate(table) = names.source(operands[4])? else {
                return Err("a table in a register".to_owned());
            };
            return Ok(Some(Operation::Table(
                names.target(operands[0])?,
                sources(&operands[1..4], names)?,
                table as u8,
            )));
        }
        "mul" | "mad" if has("wide") => {
            let of: fn(&Words, &Words, &Doubles) -> Doubles = match kind {
                "s32" => |a, b, c| {
                    std::array::from_fn(|i| {
                        (i64::from(a[i] as i32) * i64::from(b[i] as i32)).wrapping_add(c[i] as i64)
                            as u64
                    })
                },
                "u32" => |a, b, c| {
                    std::array::from_fn(|i| (u64::from(a[i]) * u64::from(b[i])).wrapping_add(c[i]))
                },
                "u16" | "s16" => {
                    let of = if kind == "u16" {
                        words!(|a, b, c| ((a & 0xffff) * (b & 0xffff)).wrapping_add(c))
                    } else {
                        words!(|a, b, c| (i32::from(a as i16) * i32::from(b as i16))
                            .wrapping_add(c as i32) as u32)
                    };
                    return Ok(Some(Operation::Words(
                        of,
                        names.target(operands[0])?,
                        sources(&operands[1..], names)?,
                    )));
                }
                _ => return Err("this type".to_owned()),
            };
            return Ok(Some(Operation::Widened(
                of,
                names.target(operands[0])?,
                sources(&operands[1..], names)?,
            )));
        }
        _ => {}
    }
    if kind == "pred" {
        let of: fn(u32, u32) -> u32 = match name {
            "and" => |a, b| a & b,
            "or" => |a, b| a | b,
            "xor" => |a, b| a ^ b,
            "not" => |a, _| !a,
            _ => return Ok(None),
        };
        let [a, b, _] = sources(&operands[1..], names)?;
        return Ok(Some(Operation::Predicates(of, names.target(operands[0])?, [a, b])));
    }
    if matches!(name, "popc" | "clz" | "bfind") && matches!(kind, "b64" | "u64" | "s64") {
        let of: fn(&Doubles) -> Words = match name {
            "popc" => |a| a.map(u64::count_ones),
            "clz" => |a| a.map(u64::leading_zeros),
            _ => |a| a.map(|a| 63u32.wrapping_sub(a.leading_zeros())),
        };
        return Ok(Some(Operation::Narrowed(
            of,
            names.target(operands[0])?,
            names.source(operands[1])?,
        )));
    }
    if let Some(of) = of_words(parts, operands.len()) {
        return Ok(Some(Operation::Words(
            of,
            names.target(operands[0])?,
            sources(&operands[1..], names)?,
        )));
    }
    if let Some(of) = of_doubles(parts) {
        return Ok(Some(Operation::Doubles(
            of,
            names.target(operands[0])?,
            sources(&operands[1..], names)?,
        )));
    }
    Ok(None)
}

fn sources(operands: &[&str], names: &Names<'_>) -> Result<[Source; 3], String> {
    let mut sources = [Source::Immediate(0); 3];
    for (to, operand) in sources.iter_mut().zip(operands) {
        *to = names.source(operand)?;
    }
    Ok(sources)
}

fn of_words(parts: &[&str], operands: usize) -> Option<OfWords> {
    let (name, kind) = (parts[0], parts[parts.len() - 1]);
    let has = |part: &str| parts.contains(&part);
    let is_16 = matches!(kind, "u16" | "s16" | "b16");
    let is_32 = matches!(kind, "u32" | "s32" | "b32") || is_16;
    if kind == "f32" {
        let saturates = has("sat");
        return Some(match name {
            "add" if saturates => floats!(|a, b, c| saturated(a + b)),
            "fma" if saturates => floats!(|a, b, c| saturated(a.mul_add(b, c))),
            "mul" if saturates => floats!(|a, b, c| saturated(a * b)),
            "fma" if has("rm") => floats!(|a, b, c| {
                // Exact but for the last bits of a double.
                let exact = f64::from(a).mul_add(f64::from(b), f64::from(c));
                let nearest = exact as f32;
                if f64::from(nearest) > exact { nearest.next_down() } else { nearest }
            }),
            // No kernel has them.
            _ if ["rz", "rm", "rp"].into_iter().any(has) => return None,
            "add" => floats!(|a, b, c| a + b),
            "sub" => floats!(|a, b, c| a - b),
            "mul" => floats!(|a, b, c| a * b),
            "fma" | "mad" => floats!(|a, b, c| a.mul_add(b, c)),
            "div" => floats!(|a, b, c| a / b),
            "neg" => words!(|a, b, c| a ^ 0x8000_0000),
            "abs" => words!(|a, b, c| a & 0x7fff_ffff),
            "min" if has("NaN") => {
                floats!(|a, b, c| if a.is_nan() || b.is_nan() { f32::NAN } else { a.min(b) })
            }
            "max" if has("NaN") => {
                floats!(|a, b, c| if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) })
            }
            "min" if operands == 4 => floats!(|a, b, c| a.min(b).min(c)),
            "max" if operands == 4 => floats!(|a, b, c| a.max(b).max(c)),
            "min" => floats!(|a, b, c| a.min(b)),
            "max" => floats!(|a, b, c| a.max(b)),
            "rcp" => floats!(|a, b, c| 1.0 / a),
            "sqrt" => floats!(|a, b, c| a.sqrt()),
            "rsqrt" => floats!(|a, b, c| 1.0 / a.sqrt()),
            "sin" => floats!(|a, b, c| a.sin()),
            "cos" => floats!(|a, b, c| a.cos()),
            "lg2" => floats!(|a, b, c| a.log2()),
            "ex2" => floats!(|a, b, c| a.exp2()),
            "tanh" => floats!(|a, b, c| a.tanh()),
            "copysign" => words!(|a, b, c| a & 0x8000_0000 | b & 0x7fff_ffff),
            _ => return None,
        });
    }
    if let "f16" | "f16x2" | "bf16" | "bf16x2" = kind {
        let pair = kind.ends_with("x2");
        macro_rules! both {
            (|$a:ident, $b:ident, $c:ident| $result:expr) => {
                if kind.starts_with('b') {
                    halves!(bf16, pair, |$a, $b, $c| $result)
                } else {
                    halves!(f16, pair, |$a, $b, $c| $result)
                }
            };
        }
        return Some(match name {
            "add" => both!(|a, b, c| a + b),
            "sub" => both!(|a, b, c| a - b),
            "mul" => both!(|a, b, c| a * b),
            "fma" if has("relu") => both!(|a, b, c| a.mul_add(b, c).max(0.0)),
            "fma" => both!(|a, b, c| a.mul_add(b, c)),
            "neg" => both!(|a, b, c| -a),
            "abs" => both!(|a, b, c| a.abs()),
            "min" if has("NaN") => {
                both!(|a, b, c| if a.is_nan() || b.is_nan() { f32::NAN } else { a.min(b) })
            }
            "max" if has("NaN") => {
                both!(|a, b, c| if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) })
            }
            "min" => both!(|a, b, c| a.min(b)),
            "max" => both!(|a, b, c| a.max(b)),
            "tanh" => both!(|a, b, c| a.tanh()),
            "ex2" => both!(|a, b, c| a.exp2()),
            _ => return None,
        });
    }
    if !is_32 {
        return match (name, kind) {
            ("and", "b8") => Some(words!(|a, b, c| a & b)),
            _ => None,
        };
    }
    let is_whole = matches!((name, kind), ("mul" | "mad", "s32" | "u32"));
    // Words of 16 bits keep nothing above them.
    Some(match (name, kind) {
        ("add", "u16" | "s16") => words!(|a, b, c| a.wrapping_add(b) & 0xffff),
        ("sub", "u16" | "s16") => words!(|a, b, c| a.wrapping_sub(b) & 0xffff),
        ("mul", "u16" | "s16") if has("lo") => words!(|a, b, c| a.wrapping_mul(b) & 0xffff),
        ("mad", "u16" | "s16") if has("lo") => {
            words!(|a, b, c| a.wrapping_mul(b).wrapping_add(c) & 0xffff)
        }
        ("div", "u16") => words!(|a, b, c| (a & 0xffff).checked_div(b & 0xffff).unwrap_or(0xffff)),
        ("rem", "u16") => {
            words!(|a, b, c| (a & 0xffff).checked_rem(b & 0xffff).unwrap_or(a & 0xffff))
        }
        ("shl", "b16") => words!(|a, b, c| a.checked_shl(b).unwrap_or(0) & 0xffff),
        ("shr", "u16" | "b16") => words!(|a, b, c| (a & 0xffff).checked_shr(b).unwrap_or(0)),
        ("shr", "s16") => words!(|a, b, c| (i32::from(a as i16) >> b.min(15)) as u32 & 0xffff),
        ("neg", "s16") => words!(|a, b, c| a.wrapping_neg() & 0xffff),
        ("not", "b16") => words!(|a, b, c| !a & 0xffff),
        ("min", "u16") => words!(|a, b, c| (a & 0xffff).min(b & 0xffff)),
        ("max", "u16") => words!(|a, b, c| (a & 0xffff).max(b & 0xffff)),
        ("min", "s16") => words!(|a, b, c| u32::from((a as i16).min(b as i16) as u16)),
        ("max", "s16") => words!(|a, b, c| u32::from((a as i16).max(b as i16) as u16)),
        ("mul", "u16") if has("hi") => words!(|a, b, c| ((a & 0xffff) * (b & 0xffff)) >> 16),
        ("mul" | "mad" | "mul24" | "mad24", _) if has("hi") && !is_whole => return None,
        ("abs", "s16") => words!(|a, b, c| u32::from((a as i16).unsigned_abs())),
        ("min" | "max", _) if has("relu") => return None,
        ("and", _) => words!(|a, b, c| a & b),
        ("or", _) => words!(|a, b, c| a | b),
        ("xor", _) => words!(|a, b, c| a ^ b),
        ("add", _) if has("sat") => words!(|a, b, c| (a as i32).saturating_add(b as i32) as u32),
        ("sub", _) if has("sat") => words!(|a, b, c| (a as i32).saturating_sub(b as i32) as u32),
        // Carries are not supported.
        ("add" | "sub" | "mad", _) if has("cc") => return None,
        ("add", _) => words!(|a, b, c| a.wrapping_add(b)),
        ("sub", _) => words!(|a, b, c| a.wrapping_sub(b)),
        ("mul", "s32") if has("hi") => {
            words!(|a, b, c| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32)
        }
        ("mul", "u32") if has("hi") => {
            words!(|a, b, c| ((u64::from(a) * u64::from(b)) >> 32) as u32)
        }
        ("mad", "s32") if has("hi") => {
            words!(|a, b, c| (((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32)
                .wrapping_add(c))
        }
        ("mad", "u32") if has("hi") => {
            words!(|a, b, c| (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c))
        }
        ("mul" | "mul24", _) => words!(|a, b, c| a.wrapping_mul(b)),
        ("mad" | "mad24", _) => words!(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        // A division by zero gives all ones.
        ("div", "s32") => words!(|a, b, c| if b == 0 {
            u32::MAX
        } else {
            (a as i32).wrapping_div(b as i32) as u32
        }),
        ("div", "u32") => words!(|a, b, c| a.checked_div(b).unwrap_or(u32::MAX)),
        ("rem", "s32") => {
            words!(|a, b, c| if b == 0 { a } else { (a as i32).wrapping_rem(b as i32) as u32 })
        }
        ("rem", "u32") => words!(|a, b, c| a.checked_rem(b).unwrap_or(a)),
        ("shl", _) => words!(|a, b, c| a.checked_shl(b).unwrap_or(0)),
        ("shr", "s32") => words!(|a, b, c| ((a as i32) >> b.min(31)) as u32),
        ("shr", _) => words!(|a, b, c| a.checked_shr(b).unwrap_or(0)),
        ("neg", _) => words!(|a, b, c| a.wrapping_neg()),
        ("not", _) => words!(|a, b, c| !a),
        ("cnot", _) => words!(|a, b, c| u32::from(a == 0)),
        ("abs", _) => words!(|a, b, c| (a as i32).unsigned_abs()),
        ("min", "s32") => words!(|a, b, c| (a as i32).min(b as i32) as u32),
        ("max", "s32") => words!(|a, b, c| (a as i32).max(b as i32) as u32),
        ("min", _) => words!(|a, b, c| a.min(b)),
        ("max", _) => words!(|a, b, c| a.max(b)),
        ("popc", _) => words!(|a, b, c| a.count_ones()),
        ("clz", _) => words!(|a, b, c| a.leading_zeros()),
        ("brev", _) => words!(|a, b, c| a.reverse_bits()),
        ("bfind", "u32") if has("shiftamt") => {
            words!(|a, b, c| if a == 0 { u32::MAX } else { a.leading_zeros() })
        }
        ("bfind", "u32") => words!(|a, b, c| 31u32.wrapping_sub(a.leading_zeros())),
        ("prmt", _) if parts.len() == 2 => words!(|a, b, c| permuted(a, b, c)),
        ("bfe", "u32") => words!(|a, b, c| field(a, b & 0xff, c & 0xff)),
        ("bfe", "s32") => words!(|a, b, c| signed_field(a, b & 0xff, c & 0xff)),
        ("shf", _) if has("l") && has("wrap") => {
            words!(|a, b, c| (((u64::from(b) << 32 | u64::from(a)) << (c & 31)) >> 32) as u32)
        }
        ("shf", _) if has("r") && has("wrap") => {
            words!(|a, b, c| ((u64::from(b) << 32 | u64::from(a)) >> (c & 31)) as u32)
        }
        ("shf", _) if has("l") => {
            words!(|a, b, c| (((u64::from(b) << 32 | u64::from(a)) << c.min(32)) >> 32) as u32)
        }
        ("shf", _) if has("r") => {
            words!(|a, b, c| ((u64::from(b) << 32 | u64::from(a)) >> c.min(32)) as u32)
        }
        _ => return None,
    })
}

/// Returns a number from 0 to 1; NaN becomes 0.
fn saturated(x: f32) -> f32 {
    if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) }
}

/// Selects four bytes of `b:a`.
fn permuted(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    let byte = |at: u32| {
        let choice = selector >> (4 * at) & 0xf;
        let byte = bytes[(choice & 7) as usize];
        if choice & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 }
    };
    u32::from_le_bytes(std::array::from_fn(|at| byte(at as u32)))
}

fn field(value: u32, at: u32, length: u32) -> u32 {
    let shifted = value.checked_shr(at).unwrap_or(0);
    if length >= 32 { shifted } else { shifted & ((1 << length) - 1) }
}

fn signed_field(value: u32, at: u32, length: u32) -> u32 {
    if length == 0 {
        return 0;
    }
    let last = (at + length - 1).min(31);
    let sign = value >> last & 1;
    let count = length.min(32u32.saturating_sub(at));
    let low = field(value, at, count);
    if sign == 1 && count < 32 { low | !((1 << count) - 1) } else { low }
}

fn of_doubles(parts: &[&str]) -> Option<OfDoubles> {
    let (name, kind) = (parts[0], parts[parts.len() - 1]);
    let has = |part: &str| parts.contains(&part);
    if kind == "f64" {
        return Some(match name {
            "add" => f64s!(|a, b, c| a + b),
            "sub" => f64s!(|a, b, c| a - b),
            "mul" => f64s!(|a, b, c| a * b),
            "fma" => f64s!(|a, b, c| a.mul_add(b, c)),
            "div" => f64s!(|a, b, c| a / b),
            "neg" => f64s!(|a, b, c| -a),
            "abs" => f64s!(|a, b, c| a.abs()),
            "min" => f64s!(|a, b, c| a.min(b)),
            "max" => f64s!(|a, b, c| a.max(b)),
            "sqrt" => f64s!(|a, b, c| a.sqrt()),
            "rcp" => f64s!(|a, b, c| 1.0 / a),
            _ => return None,
        });
    }
    if !matches!(kind, "u64" | "s64" | "b64") || has("cc") {
        return None;
    }
    Some(match (name, kind) {
        ("add", _) => doubles!(|a, b, c| a.wrapping_add(b)),
        ("sub", _) => doubles!(|a, b, c| a.wrapping_sub(b)),
        ("mul", "s64") if has("hi") => {
            doubles!(|a, b, c| ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64)
        }
        ("mul", "u64") if has("hi") => {
            doubles!(|a, b, c| ((u128::from(a) * u128::from(b)) >> 64) as u64)
        }
        ("mul", _) => doubles!(|a, b, c| a.wrapping_mul(b)),
        ("mad", _) if has("lo") => doubles!(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        ("div", "s64") => doubles!(|a, b, c| if b == 0 {
            u64::MAX
        } else {
            (a as i64).wrapping_div(b as i64) as u64
        }),
        ("div", "u64") => doubles!(|a, b, c| a.checked_div(b).unwrap_or(u64::MAX)),
        ("rem", "s64") => {
            doubles!(|a, b, c| if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 })
        }
        ("rem", "u64") => doubles!(|a, b, c| a.checked_rem(b).unwrap_or(a)),
        ("and", _) => doubles!(|a, b, c| a & b),
        ("or", _) => doubles!(|a, b, c| a | b),
        ("xor", _) => doubles!(|a, b, c| a ^ b),
        ("not", _) => doubles!(|a, b, c| !a),
        ("neg", _) => doubles!(|a, b, c| a.wrapping_neg()),
        ("abs", _) => doubles!(|a, b, c| (a as i64).unsigned_abs()),
        ("shl", _) => doubles!(|a, b, c| a.checked_shl(b as u32).unwrap_or(0)),
        ("shr", "s64") => doubles!(|a, b, c| ((a as i64) >> (b as u32).min(63)) as u64),
        ("shr", _) => doubles!(|a, b, c| a.checked_shr(b as u32).unwrap_or(0)),
        ("min", "s64") => doubles!(|a, b, c| (a as i64).min(b as i64) as u64),
        ("max", "s64") => doubles!(|a, b, c| (a as i64).max(b as i64) as u64),
        ("min", _) => doubles!(|a, b, c| a.min(b)),
        ("max", _) => doubles!(|a, b, c| a.max(b)),
        ("brev", _) => doubles!(|a, b, c| a.reverse_bits()),
        ("bfe", "u64") => doubles!(|a, b, c| {
            let shifted = a.checked_shr(b as u32 & 0xff).unwrap_or(0);
            let length = c as u32 & 0xff;
            if length >= 64 { shifted } else { shifted & ((1 << length) - 1) }
        }),
        _ => return None,
    })
}

fn moved(kind: &str, operands: &[&str], names: &Names<'_>) -> Result<Operation, String> {
    let bits = |count: usize| match kind {
        "b128" => 128,
        _ => number(kind).map_or(32, |number| number.bytes() as u32 * 8) / count as u32,
    };
    if operands[0].starts_with('{') {
        let to = names.target_list(operands[0])?;
        return Ok(Operation::Unpack(bits(to.len()), to, names.source(operands[1])?));
    }
    if operands[1].starts_with('{') {
        let from = names.source_list(operands[1])?;
        return Ok(Operation::Pack(bits(from.len()), names.target(operands[0])?, from));
    }
    let (to, from) = (names.target(operands[0])?, names.source(operands[1])?);
    let zero = Source::Immediate(0);
    Ok(match to {
        Target::Predicate(_) => Operation::Predicates(|a, _| a, to, [from, zero]),
        Target::Double(_) => Operation::Doubles(|a, _, _| *a, to, [from, zero, zero]),
        _ => Operation::Words(|a, _, _| *a, to, [from, zero, zero]),
    })
}

fn converted(parts: &[&str], operands: &[&str], names: &Names<'_>) -> Result<Operation, String> {
    if parts.contains(&"pack") {
        return Err("this conversion".to_owned());
    }
    let has = |part: &str| parts.contains(&part);
    let [to_name, from_name] = [parts[parts.len() - 2], parts[parts.len() - 1]];
    let from = number(from_name).ok_or("this type")?;
    let rounding = match () {
        () if has("rz") || has("rzi") => Rounding::Zero,
        () if has("rm") || has("rmi") => Rounding::Down,
        () if has("rp") || has("rpi") => Rounding::Up,
        () => Rounding::Nearest,
    };
    let whole = ["rni", "rzi", "rmi", "rpi"].into_iter().any(has);
    let conversion =
        |to| Conversion { to, from, rounding, whole, saturates: has("sat"), relu: has("relu") };
    let target = names.target(operands[0])?;
    let is_plain =
        rounding == Rounding::Nearest && !has("sat") && !has("relu") && from == Number::F32;
    if let Some(to) = to_name.strip_suffix("x2") {
        let to = number(to).ok_or("this type")?;
        let from = [names.source(operands[1])?, names.source(operands[2])?];
        if to == Number::Bf16 && is_plain {
            let of = words!(|a, b, c| nearest_bf16(a) << 16 | nearest_bf16(b));
            return Ok(Operation::Words(of, target, [from[0], from[1], Source::Immediate(0)]));
        }
        return Ok(Operation::ConvertPair(conversion(to), target, from));
    }
    let to = number(to_name).ok_or("this type")?;
    let source = names.source(operands[1])?;
    let zero = Source::Immediate(0);
    // The commonest have functions of their own.
    Ok(match (to, from) {
        (Number::Unsigned(64) | Number::Signed(64), Number::Unsigned(32)) => {
            Operation::Doubles(|a, _, _| *a, target, [source, zero, zero])
        }
        (Number::Unsigned(64) | Number::Signed(64), Number::Signed(32)) => Operation::Doubles(
            |a, _, _| a.map(|a| i64::from(a as i32) as u64),
            target,
            [source, zero, zero],
        ),
        (Number::Unsigned(32) | Number::Signed(32), Number::Unsigned(64) | Number::Signed(64))
            if !has("sat") =>
        {
            Operation::Words(|a, _, _| *a, target, [source, zero, zero])
        }
        (Number::F32, Number::Bf16) => {
            Operation::Words(words!(|a, b, c| a << 16), target, [source, zero, zero])
        }
        (Number::F32, Number::Signed(32)) if rounding == Rounding::Nearest => Operation::Words(
            words!(|a, b, c| (a as i32 as f32).to_bits()),
            target,
            [source, zero, zero],
        ),
        (Number::F32, Number::Unsigned(32)) if rounding == Rounding::Nearest => {
            Operation::Words(words!(|a, b, c| (a as f32).to_bits()), target, [source, zero, zero])
        }
        (Number::F32, Number::F16) if !has("sat") => {
            let of = words!(|a, b, c| f16::from_bits(a as u16).to_f32().to_bits());
            Operation::Words(of, target, [source, zero, zero])
        }
        (Number::Bf16, Number::F32) if is_plain => {
            Operation::Words(words!(|a, b, c| nearest_bf16(a)), target, [source, zero, zero])
        }
        (Number::F16, Number::F32) if is_plain => {
            let of = words!(|a, b, c| u32::from(f16::from_f32(f32::from_bits(a)).to_bits()));
            Operation::Words(of, target, [source, zero, zero])
        }
        _ => Operation::Convert(conversion(to), target, source),
    })
}

/// Rounds the bits of a float to those of the nearest bf16.
fn nearest_bf16(bits: u32) -> u32 {
    u32::from(bf16::from_f32(f32::from_bits(bits)).to_bits())
}

fn compared(parts: &[&str], operands: &[&str], names: &Names<'_>) -> Result<Operation, String> {
    let kind = parts[parts.len() - 1];
    let comparison = comparison(parts[1], kind).ok_or("this comparison")?;
    let logic: Option<fn(u32, u32) -> u32> = match parts[2] {
        "and" => Some(|a, b| a & b),
        "or" => Some(|a, b| a | b),
        "xor" => Some(|a, b| a ^ b),
        _ => None,
    };
    let with = match logic {
        Some(logic) => Some((logic, names.source(operands[3])?)),
        None => None,
    };
    let from = [names.source(operands[1])?, names.source(operands[2])?];
    Ok(Operation::Compare { comparison, to: names.targets(operands[0])?, from, with })
}

fn comparison(name: &str, kind: &str) -> Option<Comparison> {
    macro_rules! compare {
        ($variant:ident, $bits:ty, |$x:ident| $value:expr) => {{
            macro_rules! by {
                (|$order:ident| $result:expr) => {
                    Comparison::$variant(|a: $bits, b: $bits| {
                        let convert = |$x: $bits| $value;
                        let $order = convert(a).partial_cmp(&convert(b));
                        $result
                    })
                };
            }
            Some(match name {
                "eq" => by!(|order| order == Some(Equal)),
                "ne" => by!(|order| matches!(order, Some(Less | Greater))),
                "lt" | "lo" => by!(|order| order == Some(Less)),
                "le" | "ls" => by!(|order| matches!(order, Some(Less | Equal))),
                "gt" | "hi" => by!(|order| order == Some(Greater)),
                "ge" | "hs" => by!(|order| matches!(order, Some(Greater | Equal))),
                // Names with `u` are also true for NaN.
                "equ" => by!(|order| matches!(order, None | Some(Equal))),
                "neu" => by!(|order| order != Some(Equal)),
                "ltu" => by!(|order| matches!(order, None | Some(Less))),
                "leu" => by!(|order| order != Some(Greater)),
                "gtu" => by!(|order| matches!(order, None | Some(Greater))),
                "geu" => by!(|order| order != Some(Less)),
                "num" => by!(|order| order.is_some()),
                "nan" => by!(|order| order.is_none()),
                _ => return None,
            })
        }};
    }
    match kind {
        "s16" => compare!(Words, u32, |x| x as i16),
        "u16" | "b16" => compare!(Words, u32, |x| x as u16),
        "s32" => compare!(Words, u32, |x| x as i32),
        "u32" | "b32" => compare!(Words, u32, |x| x),
        "f32" => compare!(Words, u32, |x| f32::from_bits(x)),
        "f16" => compare!(Words, u32, |x| f16::from_bits(x as u16)),
        "bf16" => compare!(Words, u32, |x| bf16::from_bits(x as u16)),
        "s64" => compare!(Doubles, u64, |x| x as i64),
        "u64" | "b64" => compare!(Doubles, u64, |x| x),
        "f64" => compare!(Doubles, u64, |x| f64::from_bits(x)),
        _ => None,
    }
}
