//! Conversions between types of numbers.

use half::{bf16, f16};

use crate::instruction::{Conversion, Number, Rounding};

/// A number of any type.
#[derive(Debug, Clone, Copy)]
enum Value {
    Whole(i128),
    Float(f64),
}

/// Converts the bits of a number.
pub(crate) fn convert(conversion: Conversion, bits: u64) -> u64 {
    let value = match conversion.from {
        Number::Unsigned(width) => Value::Whole(i128::from(bits & low(width))),
        Number::Signed(width) => {
            Value::Whole(i128::from((bits << (64 - width)) as i64 >> (64 - width)))
        }
        Number::F16 => Value::Float(f16::from_bits(bits as u16).to_f64()),
        Number::Bf16 => Value::Float(bf16::from_bits(bits as u16).to_f64()),
        Number::F32 | Number::Tf32 => Value::Float(f64::from(f32::from_bits(bits as u32))),
        Number::F64 => Value::Float(f64::from_bits(bits)),
    };
    match conversion.to {
        Number::Unsigned(width) => {
            let whole = whole(value, conversion.rounding);
            let limited = matches!(value, Value::Float(_)) || conversion.saturates;
            let whole = if limited { whole.clamp(0, i128::from(low(width))) } else { whole };
            whole as u64 & low(width)
        }
        Number::Signed(width) => {
            let whole = whole(value, conversion.rounding);
            let limited = matches!(value, Value::Float(_)) || conversion.saturates;
            let most = (1i128 << (width - 1)) - 1;
            let whole = if limited { whole.clamp(-most - 1, most) } else { whole };
            whole as u64 & low(width)
        }
        to => {
            let mut float = match value {
                Value::Whole(whole) => return of_whole(whole, to, conversion.rounding),
                Value::Float(float) => float,
            };
            if conversion.whole {
                float = rounded(float, conversion.rounding);
            }
            if conversion.saturates {
                float = if float.is_nan() { 0.0 } else { float.clamp(0.0, 1.0) };
            }
            if conversion.relu {
                float = if float.is_nan() { float } else { float.max(0.0) };
            }
            narrowed(float, to, conversion.rounding)
        }
    }
}

fn low(width: u32) -> u64 {
    if width == 64 { u64::MAX } else { (1 << width) - 1 }
}

fn whole(value: Value, rounding: Rounding) -> i128 {
    match value {
        Value::Whole(whole) => whole,
        Value::Float(float) => rounded(float, rounding) as i128,
    }
}

fn rounded(float: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => float.round_ties_even(),
        Rounding::Zero => float.trunc(),
        Rounding::Down => float.floor(),
        Rounding::Up => float.ceil(),
    }
}

fn of_whole(whole: i128, to: Number, rounding: Rounding) -> u64 {
    match (to, rounding) {
        // Rounded once.
        (Number::F32, Rounding::Nearest) => u64::from((whole as f32).to_bits()),
        (Number::F64, _) => (whole as f64).to_bits(),
        _ => narrowed(whole as f64, to, rounding),
    }
}

/// Rounds to a type. A double holds every sum and product of two numbers of shorter types nearly exactly, so rounding
/// twice matters only where the first result is a tie.
fn narrowed(float: f64, to: Number, rounding: Rounding) -> u64 {
    match to {
        Number::F64 => float.to_bits(),
        Number::F32 => u64::from(
            directed(float, float as f32, rounding, f64::from, |x, up| {
                if up { x.next_up() } else { x.next_down() }
            })
            .to_bits(),
        ),
        Number::Tf32 => {
            let bits = (float as f32).to_bits();
            let rest = bits & 0x1fff;
            let cut = bits & !0x1fff;
            let up = rounding == Rounding::Nearest && rest >= 0x1000;
            u64::from(if up { cut.wrapping_add(0x2000) } else { cut })
        }
        Number::F16 => {
            let step = |x: f16, up: bool| {
                let bits = x.to_bits();
                let away = x.is_sign_positive() == up;
                f16::from_bits(if away { bits + 1 } else { bits.wrapping_sub(1) })
            };
            u64::from(directed(float, f16::from_f64(float), rounding, f16::to_f64, step).to_bits())
        }
        Number::Bf16 => {
            let step = |x: bf16, up: bool| {
                let bits = x.to_bits();
                let away = x.is_sign_positive() == up;
                bf16::from_bits(if away { bits + 1 } else { bits.wrapping_sub(1) })
            };
            u64::from(
                directed(float, bf16::from_f64(float), rounding, bf16::to_f64, step).to_bits(),
            )
        }
        Number::Unsigned(_) | Number::Signed(_) => unreachable!("a float is wanted"),
    }
}

/// Moves the nearest number by one step where the rounding has a direction.
fn directed<T: Copy>(
    exact: f64,
    nearest: T,
    rounding: Rounding,
    wide: impl Fn(T) -> f64,
    step: impl Fn(T, bool) -> T,
) -> T {
    let got = wide(nearest);
    if !exact.is_finite() || got == exact || got.is_nan() {
        return nearest;
    }
    let toward_zero =
        |down: bool| if (exact > 0.0) == down { Rounding::Down } else { Rounding::Up };
    let direction = if rounding == Rounding::Zero { toward_zero(true) } else { rounding };
    match direction {
        Rounding::Down if got > exact => step(nearest, false),
        Rounding::Up if got < exact => step(nearest, true),
        _ => nearest,
    }
}
