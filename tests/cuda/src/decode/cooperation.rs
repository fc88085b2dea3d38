//! Instructions for memory, for threads that work together, and for matrix units.

use super::operands::{Names, inner, number};
use crate::{
    instruction::{Atomic, Number, Operation, Shuffle, Source, Space, Target, Vote},
    matrix::{Fragment, Shape},
    ptx,
};

/// Returns the operation of a statement.
pub(super) fn decoded(
    parts: &[&str],
    operands: &[&str],
    names: &Names<'_>,
) -> Result<Operation, String> {
    let has = |part: &str| parts.contains(&part);
    let kind = parts[parts.len() - 1];
    let second = parts.get(1).copied().unwrap_or_default();
    let source = |at: usize| names.source(operands.get(at).ok_or("too few operands")?);
    let target = |at: usize| names.target(operands.get(at).ok_or("too few operands")?);
    let address = |at: usize| names.address(operands.get(at).ok_or("too few operands")?);
    let sources = |at: usize| names.source_list(operands.get(at).ok_or("too few operands")?);
    let targets = |at: usize| names.target_list(operands.get(at).ok_or("too few operands")?);
    let optional = |at: usize| operands.get(at).map(|operand| names.source(operand)).transpose();
    Ok(match parts[0] {
        "ld" | "ldu" => Operation::Load {
            space: space(parts),
            number: number(kind).ok_or("this type")?,
            to: targets(0)?,
            from: address(1)?,
            acquires: has("acquire") || has("volatile") || has("relaxed"),
        },
        "st" => Operation::Store {
            space: space(parts),
            bytes: number(kind).ok_or("this type")?.bytes(),
            to: address(0)?,
            from: sources(1)?,
        },
        "atom" | "red" => atomic(parts, operands, names)?,
        "cvta" => {
            let space = space(parts);
            match second {
                "to" => Operation::FromGeneric(space, target(0)?, source(1)?),
                _ => Operation::ToGeneric(space, target(0)?, source(1)?),
            }
        }
        "bra" => {
            let label = operands.first().ok_or("a branch without a label")?;
            Operation::Branch(*names.kernel.labels.get(*label).ok_or("an unknown label")?)
        }
        "ret" | "exit" => Operation::Exit,
        "trap" => Operation::Trap,
        "shfl" => {
            let shuffle = match parts[2] {
                "up" => Shuffle::Up,
                "down" => Shuffle::Down,
                "bfly" => Shuffle::Butterfly,
                "idx" => Shuffle::Index,
                _ => return Err("this exchange".to_owned()),
            };
            let [value, lane, clamp, mask] = [source(1)?, source(2)?, source(3)?, source(4)?];
            Operation::Shuffle {
                shuffle,
                to: names.targets(operands[0])?,
                value,
                lane,
                clamp,
                mask,
            }
        }
        "vote" => {
            let vote = match parts[2] {
                "all" => Vote::All,
                "any" => Vote::Any,
                "uni" => Vote::Uniform,
                "ballot" => Vote::Ballot,
                _ => return Err("this vote".to_owned()),
            };
            Operation::Vote { vote, to: target(0)?, value: source(1)?, mask: source(2)? }
        }
        "match" if second == "any" => {
            Operation::Match { to: target(0)?, value: source(1)?, mask: source(2)? }
        }
        "redux" => Operation::Reduce {
            atomic: operation(parts).ok_or("this reduction")?,
            number: number(kind).ok_or("this type")?,
            to: target(0)?,
            value: source(1)?,
            mask: source(2)?,
        },
        "elect" => Operation::Elect { to: names.targets(operands[0])?, mask: source(1)? },
        "activemask" => Operation::ActiveMask(target(0)?),
        "bar" if second == "warp" => Operation::WarpBarrier(source(0)?),
        "barrier" if second == "cluster" => match parts[2] {
            "arrive" => Operation::ClusterArrive,
            _ => Operation::ClusterWait,
        },
        "bar" | "barrier" => {
            let waits = match () {
                () if has("sync") => true,
                () if has("arrive") => false,
                () => return Err("this barrier".to_owned()),
            };
            Operation::Barrier { id: source(0)?, count: optional(1)?, waits }
        }
        "mbarrier" => mbarrier(parts, operands, names)?,
        "mapa" => Operation::MapRank(target(0)?, source(1)?, source(2)?),
        "cp" if second == "async" => match parts[2] {
            "ca" | "cg" => {
                let Source::Immediate(bytes) = source(2)? else {
                    return Err("a size in a register".to_owned());
                };
                Operation::CopyAsync {
                    to: address(0)?,
                    from: address(1)?,
                    bytes: bytes as usize,
                    present: optional(3)?,
                }
            }
            "commit_group" => Operation::CopyCommit,
            "wait_all" => Operation::CopyWait(None),
            "wait_group" => match source(0)? {
                Source::Immediate(pending) => Operation::CopyWait(Some(pending)),
                _ => return Err("a count in a register".to_owned()),
            },
            "bulk"
                if parts.get(3) == Some(&"tensor")
                    && parts.get(5).is_some_and(|part| part.starts_with("shared")) =>
            {
                let inside = ptx::parts(inner(operands[1]));
                let at = names.source_list(inside.get(1).ok_or("a map without a place")?)?;
                Operation::TensorLoad {
                    to: address(0)?,
                    map: names.source(inside[0])?,
                    at,
                    barrier: address(2)?,
                    blocks: if has("multicast::cluster") { optional(3)? } else { None },
                }
            }
            _ => return Err("this copy".to_owned()),
        },
        "ldmatrix" => {
            Operation::LoadMatrix { to: targets(0)?, from: address(1)?, transposed: has("trans") }
        }
        "stmatrix" => {
            Operation::StoreMatrix { to: address(0)?, from: sources(1)?, transposed: has("trans") }
        }
        "mma" if !has("sp") => {
            let shape = parts.iter().find_map(|part| sizes(part)).ok_or("no sizes")?;
            let types: Vec<Number> =
                parts[parts.len() - 4..].iter().filter_map(|part| matrix_number(part)).collect();
            let &[_, a, _, c] = types.as_slice() else { return Err("these types".to_owned()) };
            let shape = Shape { sizes: shape, factors: a, sums: c };
            Operation::Multiply {
                shape,
                to: targets(0)?,
                a: sources(1)?,
                b: sources(2)?,
                c: sources(3)?,
            }
        }
        "wmma" => wmma(parts, operands, names)?,
        "wgmma" if second == "mma_async" => wgmma(parts, operands, names)?,
        "nanosleep" => Operation::Sleep,
        "fence" | "membar" | "prefetch" | "prefetchu" | "setmaxnreg" | "griddepcontrol"
        | "wgmma" | "discard" | "applypriority" => Operation::Nothing,
        _ => return Err("this instruction is not supported".to_owned()),
    })
}

fn space(parts: &[&str]) -> Space {
    match () {
        () if parts.iter().any(|part| part.starts_with("shared")) => Space::Shared,
        () if parts.contains(&"local") => Space::Local,
        () if parts.contains(&"param") => Space::Parameter,
        () => Space::Generic,
    }
}

fn operation(parts: &[&str]) -> Option<Atomic> {
    parts.iter().find_map(|part| {
        Some(match *part {
            "add" => Atomic::Add,
            "and" => Atomic::And,
            "or" => Atomic::Or,
            "xor" => Atomic::Xor,
            "min" => Atomic::Min,
            "max" => Atomic::Max,
            "inc" => Atomic::Inc,
            "dec" => Atomic::Dec,
            "exch" => Atomic::Exchange,
            "cas" => Atomic::CompareExchange,
            _ => return None,
        })
    })
}

fn atomic(parts: &[&str], operands: &[&str], names: &Names<'_>) -> Result<Operation, String> {
    let first = usize::from(parts[0] == "atom");
    let to = if first == 1 { names.target(operands[0])? } else { Target::Nothing };
    let mut with = [Source::Immediate(0); 2];
    for (to, operand) in with.iter_mut().zip(&operands[first + 1..]) {
        *to = names.source(operand)?;
    }
    Ok(Operation::Atomic {
        space: space(parts),
        atomic: operation(parts).ok_or("this operation")?,
        number: number(parts[parts.len() - 1]).ok_or("this type")?,
        to,
        at: names.address(operands[first])?,
        with,
    })
}

fn mbarrier(parts: &[&str], operands: &[&str], names: &Names<'_>) -> Result<Operation, String> {
    let has = |part: &str| parts.contains(&part);
    Ok(match parts[1] {
        "init" => Operation::MbarrierInit(names.address(operands[0])?, names.source(operands[1])?),
        "inval" => Operation::Nothing,
        "expect_tx" => {
            Operation::MbarrierExpect(names.address(operands[0])?, names.source(operands[1])?)
        }
        "arrive" => {
            let third = operands.get(2).map(|operand| names.source(operand)).transpose()?;
            let expects = has("expect_tx");
            Operation::MbarrierArrive {
                state: names.target(operands[0])?,
                at: names.address(operands[1])?,
                expected: if expects { third } else { None },
                count: if expects { None } else { third },
            }
        }
        "try_wait" | "test_wait" => {
            let third = names.source(operands[2])?;
            let is_parity = has("parity");
            Operation::MbarrierWait {
                to: names.target(operands[0])?,
                at: names.address(operands[1])?,
                parity: is_parity.then_some(third),
                state: (!is_parity).then_some(third),
            }
        }
        _ => return Err("this barrier".to_owned()),
    })
}

/// Reads `m16n8k16`.
fn sizes(text: &str) -> Option<[usize; 3]> {
    let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

fn matrix_number(text: &str) -> Option<Number> {
    match text {
        "f16" | "bf16" | "tf32" | "f32" | "s8" | "u8" | "s32" => number(text),
        _ => None,
    }
}

fn wmma(parts: &[&str], operands: &[&str], names: &Names<'_>) -> Result<Operation, String> {
    let [m, n, k] = parts.iter().find_map(|part| sizes(part)).ok_or("no sizes")?;
    let kind = parts[parts.len() - 1];
    if parts[1] == "mma" {
        let types: Vec<Number> = parts.iter().filter_map(|part| matrix_number(part)).collect();
        // Without types of the factors these are f16.
        let (factors, sums) = match types.as_slice() {
            [_, a, _, c] => (*a, *c),
            [_, c] => (Number::F16, *c),
            _ => return Err("these types".to_owned()),
        };
        let list = |at: usize| names.source_list(operands[at]);
        let shape = Shape { sizes: [m, n, k], factors, sums };
        return Ok(Operation::WmmaMultiply {
            shape,
            to: names.target_list(operands[0])?,
            a: list(1)?,
            b: list(2)?,
            c: list(3)?,
        });
    }
    let (rows, columns) = match parts[2] {
        "a" => (m, k),
        "b" => (k, n),
        _ => (m, n),
    };
    let row_major = parts.contains(&"row");
    let fragment =
        Fragment { rows, columns, number: matrix_number(kind).ok_or("this type")?, row_major };
    let stride = |at: usize| {
        operands
            .get(at)
            .map_or(Ok(Source::Immediate(columns as u64)), |operand| names.source(operand))
    };
    let space = space(parts);
    Ok(match parts[1] {
        "load" => Operation::WmmaLoad {
            fragment,
            space,
            to: names.target_list(operands[0])?,
            from: names.address(operands[1])?,
            stride: stride(2)?,
        },
        "store" => Operation::WmmaStore {
            fragment,
            space,
            to: names.address(operands[0])?,
            from: names.source_list(operands[1])?,
            stride: stride(2)?,
        },
        _ => return Err("this form".to_owned()),
    })
}

fn wgmma(parts: &[&str], operands: &[&str], names: &Names<'_>) -> Result<Operation, String> {
    let [m, columns, k] = parts.iter().find_map(|part| sizes(part)).ok_or("no sizes")?;
    let from = matrix_number(parts[parts.len() - 1]).ok_or("this type")?;
    if (m, k) != (64, 16) || !parts.contains(&"f32") || !matches!(from, Number::F16 | Number::Bf16)
    {
        return Err("this product".to_owned());
    }
    let is_one = |at: usize| match operands.get(at).map(|operand| names.source(operand)) {
        Some(Ok(Source::Immediate(value))) => Ok(value == 1),
        _ => Err("an option in a register"),
    };
    let in_registers = operands[1].starts_with('{');
    if !is_one(4)? || !is_one(5)? {
        return Err("negative factors".to_owned());
    }
    let transposed = if in_registers { [false, is_one(6)?] } else { [is_one(6)?, is_one(7)?] };
    Ok(Operation::Wgmma {
        columns,
        from,
        sums: names.target_list(operands[0])?,
        a: names.source_list(operands[1])?,
        b: names.source(operands[2])?,
        keeps: names.source(operands[3])?,
        transposed,
    })
}
