//! Recipes of the electronic styles: chiptune, house, techno, drum and bass.

use super::{Layer, Part, Recipe, Role, drum};
use crate::composer::{
    harmony::Harmony,
    instrument::Instrument::{
        Bell, Clap, Crash, ElectricPiano, Flute, Hat, Kick, Lead, OpenHat, Organ, Pad, Piano,
        Pluck, Snare, Square, Strings, SubBass, SynthBass,
    },
    melody::Pace,
};

pub(super) const CHIPTUNE: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 4, 5, 1], [1, 6, 1, 5], [1, 5, 4, 5]],
        minor: &[[1, 4, 5, 1], [1, 6, 1, 5], [1, 6, 5, 1]],
    },
    swing: 0,
    pumping: 0.0,
    hiss: 0.0,
    parts: &[
        drum(&[Kick], 0.6, Layer::Verse, &["X...x...X...x..."]),
        drum(&[Snare], 0.32, Layer::Verse, &["....X.......X..."]),
        drum(&[Hat], 0.24, Layer::Verse, &["X.o.o.o.X.o.o.o."]),
        Part {
            role: Role::Bass,
            instruments: &[Square],
            lowest: 36,
            level: 0.7,
            layer: Layer::Always,
            percent: 100,
            patterns: &["1-8-1-8-1-8-1-8-", "1-1-1-1-1-1-1-1-", "1-..1-8-1-..1-8-"],
        },
        Part {
            role: Role::Arpeggio,
            instruments: &[Square],
            lowest: 60,
            level: 0.55,
            layer: Layer::Always,
            percent: 100,
            patterns: &["1-2-3-2-1-2-3-2-", "1234123412341234", "1232123212321232"],
        },
        Part {
            role: Role::Melody(Pace::Lively),
            instruments: &[Square],
            lowest: 69,
            level: 0.75,
            layer: Layer::Verse,
            percent: 100,
            patterns: &[],
        },
    ],
};

pub(super) const HOUSE: Recipe = Recipe {
    harmony: Harmony { major: &[[1, 1, 4, 5], [1, 1, 6, 5]], minor: &[[1, 1, 4, 5], [1, 1, 6, 5]] },
    swing: 0,
    pumping: 0.45,
    hiss: 0.0,
    parts: &[
        drum(&[Kick], 1.0, Layer::Always, &["X...X...X...X..."]),
        drum(&[Clap], 0.3, Layer::Verse, &["....x.......x..."]),
        drum(&[OpenHat], 0.1, Layer::Verse, &["..x...x...x...x."]),
        drum(&[Hat], 0.1, Layer::Chorus, &["xoooxoooxoooxooo"]),
        Part {
            role: Role::Triads,
            instruments: &[Organ, Piano, ElectricPiano],
            lowest: 58,
            level: 0.75,
            layer: Layer::Always,
            percent: 100,
            patterns: &["x-.o-.o-x-.o-.o-", "x-..x-o-x-..x-o-", "x-.o-.x-.-o-x-.."],
        },
        Part {
            role: Role::Bass,
            instruments: &[SynthBass, SubBass],
            lowest: 33,
            level: 0.75,
            layer: Layer::Verse,
            percent: 100,
            patterns: &["1-1-1-1-1-1-1-1-", "1-.11-.11-.11-8-", "1-8-1-8-1-8-1-8-"],
        },
        Part {
            role: Role::Triads,
            instruments: &[Pad, Strings],
            lowest: 60,
            level: 0.4,
            layer: Layer::Chorus,
            percent: 80,
            patterns: &["x---------------"],
        },
        Part {
            role: Role::Melody(Pace::Walking),
            instruments: &[Lead, Pluck],
            lowest: 67,
            level: 0.5,
            layer: Layer::Chorus,
            percent: 60,
            patterns: &[],
        },
    ],
};

pub(super) const TECHNO: Recipe = Recipe {
    harmony: Harmony { major: &[[1, 1, 1, 1], [1, 1, 1, 5]], minor: &[[1, 1, 1, 1], [1, 1, 1, 4]] },
    swing: 0,
    pumping: 0.4,
    hiss: 0.0,
    parts: &[
        drum(&[Kick], 1.0, Layer::Always, &["X...X...X...X..."]),
        drum(&[Hat], 0.16, Layer::Verse, &["xoooxoooxoooxooo", "x.o.x.o.x.o.x.o."]),
        drum(&[Clap], 0.35, Layer::Chorus, &["....x.......x..."]),
        Part {
            role: Role::Bass,
            instruments: &[SynthBass],
            lowest: 31,
            level: 0.7,
            layer: Layer::Always,
            percent: 100,
            patterns: &["1111111111111111", "1111111111111181", "1.111.111.111.11"],
        },
        Part {
            role: Role::Arpeggio,
            instruments: &[Pluck, Lead, Bell],
            lowest: 60,
            level: 0.5,
            layer: Layer::Verse,
            percent: 85,
            patterns: &["1-2-3-2-1-2-3-2-", "1-3-2-3-1-3-2-3-", "1-2-1-3-1-2-1-3-"],
        },
        Part {
            role: Role::Triads,
            instruments: &[Pad, Strings],
            lowest: 57,
            level: 0.6,
            layer: Layer::Verse,
            percent: 100,
            patterns: &["x---------------"],
        },
    ],
};

pub(super) const DRUM_AND_BASS: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 1, 6, 1], [1, 6, 1, 1], [1, 1, 1, 6]],
        minor: &[[1, 1, 4, 1], [1, 1, 1, 6], [1, 1, 1, 5]],
    },
    swing: 0,
    pumping: 0.2,
    hiss: 0.0,
    parts: &[
        drum(
            &[Kick],
            0.9,
            Layer::Always,
            &["X...x...X...x...", "X...x...X.o.x...", "X.o.x...X...x..."],
        ),
        drum(
            &[Snare],
            0.42,
            Layer::Always,
            &["....X.......X...", "....X..o....X..o", "....X..o.o..X..."],
        ),
        drum(&[Hat], 0.38, Layer::Always, &["X.o.o.o.X.o.o.o."]),
        drum(&[Crash], 0.25, Layer::Chorus, &["x..............."]),
        Part {
            role: Role::Bass,
            instruments: &[SubBass, SynthBass],
            lowest: 33,
            level: 0.9,
            layer: Layer::Verse,
            percent: 100,
            patterns: &["1---1---1---5---", "1---1---1---1-8-", "1---1---1---1---"],
        },
        Part {
            role: Role::Triads,
            instruments: &[Pad, Strings],
            lowest: 57,
            level: 0.6,
            layer: Layer::Always,
            percent: 100,
            patterns: &["x---------------", "x---x---x---x---"],
        },
        Part {
            role: Role::Arpeggio,
            instruments: &[Bell, ElectricPiano, Pluck],
            lowest: 67,
            level: 0.45,
            layer: Layer::Verse,
            percent: 60,
            patterns: &["1---3---2---3---", "1-3-2-3-1-3-2-3-"],
        },
        Part {
            role: Role::Melody(Pace::Calm),
            instruments: &[Lead, Flute],
            lowest: 67,
            level: 0.55,
            layer: Layer::Chorus,
            percent: 80,
            patterns: &[],
        },
    ],
};
