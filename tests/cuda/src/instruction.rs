//! Instructions with resolved operands.

use crate::matrix::{Fragment, Shape};

/// Threads of a warp.
pub(crate) const LANES: usize = 32;

/// A value of 32 bits of each thread of a warp.
pub(crate) type Words = [u32; LANES];

/// A value of 64 bits of each thread of a warp.
pub(crate) type Doubles = [u64; LANES];

/// An operand that is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    Word(u32),
    Double(u32),
    /// A predicate, and true if it is negated.
    Predicate(u32, bool),
    Immediate(u64),
    Special(Special),
    /// The address of a parameter, by its offset.
    Parameter(u64),
    /// `_`
    Nothing,
}

/// A register that is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    Word(u32),
    Double(u32),
    Predicate(u32),
    /// `_`
    Nothing,
}

/// A special register.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    Lane,
    LaneMask(fn(u32) -> u32),
    Warp,
    Warps,
    ClusterRank,
    ClusterSize,
    ClusterId(usize),
    Multiprocessor,
    Clock,
    DynamicShared,
}

/// An address: the sum of a register and an offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address {
    pub(crate) base: Source,
    pub(crate) offset: i64,
}

/// The memory that an address is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Shared,
    Local,
    Parameter,
}

/// A function of three values of 32 bits.
pub(crate) type OfWords = fn(&Words, &Words, &Words) -> Words;
/// A function of three values of 64 bits.
pub(crate) type OfDoubles = fn(&Doubles, &Doubles, &Doubles) -> Doubles;

/// A function of two values of 32 bits and one of 64 bits.
pub(crate) type OfBoth = fn(&Words, &Words, &Doubles) -> Doubles;

/// A function of two predicates, each with a bit for each thread.
pub(crate) type OfPredicates = fn(u32, u32) -> u32;

/// A comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Comparison {
    Words(fn(u32, u32) -> bool),
    Doubles(fn(u64, u64) -> bool),
}

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Unsigned(u32),
    Signed(u32),
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
}

/// The rounding of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

/// A conversion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversion {
    pub(crate) to: Number,
    pub(crate) from: Number,
    pub(crate) rounding: Rounding,
    /// The result is an integer, if both types are floats.
    pub(crate) whole: bool,
    pub(crate) saturates: bool,
    pub(crate) relu: bool,
}

/// An atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Atomic {
    Add,
    And,
    Or,
    Xor,
    Min,
    Max,
    Inc,
    Dec,
    Exchange,
    CompareExchange,
}

/// The form of an exchange between threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// A question to all threads of a warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// An operation.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Words(OfWords, Target, [Source; 3]),
    Doubles(OfDoubles, Target, [Source; 3]),
    /// Two words and a double become a double.
    Widened(OfBoth, Target, [Source; 3]),
    /// A double becomes a word.
    Narrowed(fn(&Doubles) -> Words, Target, Source),
    Convert(Conversion, Target, Source),
    /// Two floats become one word, the second in the lower half.
    ConvertPair(Conversion, Target, [Source; 2]),
    Compare {
        comparison: Comparison,
        to: [Target; 2],
        from: [Source; 2],
        with: Option<(OfPredicates, Source)>,
    },
    /// A comparison whose result is a number: these bits, or zero.
    Set {
        comparison: Comparison,
        to: Target,
        from: [Source; 2],
        yes: u32,
    },
    Predicates(OfPredicates, Target, [Source; 2]),
    Select(Target, [Source; 2], Source),
    /// Bits of the first value in the second, from the third on, as many as the fourth; both have so many bits.
    Insert(u32, Target, [Source; 4]),
    /// A function of three bits, as a table.
    Table(Target, [Source; 3], u8),
    /// Parts of so many bits become one value.
    Pack(u32, Target, Vec<Source>),
    Unpack(u32, Vec<Target>, Source),
    Load {
        space: Space,
        number: Number,
        to: Vec<Target>,
        from: Address,
        acquires: bool,
    },
    Store {
        space: Space,
        bytes: usize,
        to: Address,
        from: Vec<Source>,
    },
    Atomic {
        space: Space,
        atomic: Atomic,
        number: Number,
        to: Target,
        at: Address,
        with: [Source; 2],
    },
    /// Adds the base of a space to an address, or subtracts it.
    ToGeneric(Space, Target, Source),
    FromGeneric(Space, Target, Source),
    Branch(usize),
    Exit,
    Trap,
    Shuffle {
        shuffle: Shuffle,
        to: [Target; 2],
        value: Source,
        lane: Source,
        clamp: Source,
        mask: Source,
    },
    Vote {
        vote: Vote,
        to: Target,
        value: Source,
        mask: Source,
    },
    Match {
        to: Target,
        value: Source,
        mask: Source,
    },
    /// Combines the values of all threads of the mask.
    Reduce {
        atomic: Atomic,
        number: Number,
        to: Target,
        value: Source,
        mask: Source,
    },
    Elect {
        to: [Target; 2],
        mask: Source,
    },
    ActiveMask(Target),
    WarpBarrier(Source),
    Barrier {
        id: Source,
        count: Option<Source>,
        waits: bool,
    },
    ClusterArrive,
    ClusterWait,
    MbarrierInit(Address, Source),
    MbarrierArrive {
        at: Address,
        expected: Option<Source>,
        count: Option<Source>,
        state: Target,
    },
    MbarrierExpect(Address, Source),
    MbarrierWait {
        at: Address,
        to: Target,
        parity: Option<Source>,
        state: Option<Source>,
    },
    /// An address of the same memory in another block of the cluster.
    MapRank(Target, Source, Source),
    CopyAsync {
        to: Address,
        from: Address,
        bytes: usize,
        present: Option<Source>,
    },
    CopyCommit,
    /// So many groups may be on their way; `None`: nothing may, committed or not.
    CopyWait(Option<u64>),
    TensorLoad {
        to: Address,
        map: Source,
        at: Vec<Source>,
        barrier: Address,
        blocks: Option<Source>,
    },
    LoadMatrix {
        to: Vec<Target>,
        from: Address,
        transposed: bool,
    },
    StoreMatrix {
        to: Address,
        from: Vec<Source>,
        transposed: bool,
    },
    Multiply {
        shape: Shape,
        to: Vec<Target>,
        a: Vec<Source>,
        b: Vec<Source>,
        c: Vec<Source>,
    },
    WmmaLoad {
        fragment: Fragment,
        space: Space,
        to: Vec<Target>,
        from: Address,
        stride: Source,
    },
    WmmaStore {
        fragment: Fragment,
        space: Space,
        to: Address,
        from: Vec<Source>,
        stride: Source,
    },
    WmmaMultiply {
        shape: Shape,
        to: Vec<Target>,
        a: Vec<Source>,
        b: Vec<Source>,
        c: Vec<Source>,
    },
    Wgmma {
        columns: usize,
        from: Number,
        sums: Vec<Target>,
        a: Vec<Source>,
        b: Source,
        keeps: Source,
        transposed: [bool; 2],
    },
    Sleep,
    Nothing,
}

/// An operation of those threads whose predicate is true.
#[derive(Debug, Clone)]
pub(crate) struct Instruction {
    pub(crate) guard: Option<(u32, bool)>,
    pub(crate) operation: Operation,
}
