//! Recipes of the quiet styles: ambient, piano ballad, lofi hip hop, waltz.

use super::{Layer, Part, Recipe, Role, drum};
use crate::composer::{
    harmony::Harmony,
    instrument::Instrument::{
        Accordion, Bass, Bell, ElectricPiano, Flute, Guitar, Hat, Kick, Pad, Piano, Pluck, Rim,
        Snare, Strings, SubBass,
    },
    melody::Pace,
};

pub(super) const AMBIENT: Recipe = Recipe {
    harmony: Harmony { major: &[[1, 1, 4, 1], [1, 4, 1, 1]], minor: &[[1, 1, 6, 1], [1, 6, 1, 1]] },
    swing: 0,
    pumping: 0.0,
    hiss: 0.06,
    parts: &[
        Part {
            role: Role::Triads,
            instruments: &[Pad, Pad, Strings],
            lowest: 55,
            level: 0.7,
            layer: Layer::Always,
            percent: 100,
            patterns: &["x---------------"],
        },
        Part {
            role: Role::Arpeggio,
            instruments: &[Pluck, Bell, ElectricPiano],
            lowest: 60,
            level: 1.0,
            layer: Layer::Always,
            percent: 100,
            patterns: &[
                "1---2---3---2---",
                "1---3---2---3---",
                "1---3---4---3---",
                "1---4---3---2---",
            ],
        },
        Part {
            role: Role::Bass,
            instruments: &[SubBass],
            lowest: 36,
            level: 0.6,
            layer: Layer::Always,
            percent: 100,
            patterns: &["1---1---1---1---", "1---5---1---5---"],
        },
        Part {
            role: Role::Melody(Pace::Calm),
            instruments: &[Flute, Bell],
            lowest: 67,
            level: 0.6,
            layer: Layer::Chorus,
            percent: 70,
            patterns: &[],
        },
    ],
};

pub(super) const PIANO_BALLAD: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 5, 6, 4], [1, 6, 4, 5], [1, 4, 6, 5]],
        minor: &[[1, 6, 4, 5], [1, 4, 6, 5], [1, 6, 4, 1]],
    },
    swing: 0,
    pumping: 0.0,
    hiss: 0.0,
    parts: &[
        Part {
            role: Role::Triads,
            instruments: &[Piano],
            lowest: 55,
            level: 0.9,
            layer: Layer::Always,
            percent: 100,
            patterns: &["x---x---x---x---", "x---x---x---x-o-", "x---x-o-x---x---"],
        },
        Part {
            role: Role::Bass,
            instruments: &[Piano],
            lowest: 36,
            level: 0.6,
            layer: Layer::Always,
            percent: 100,
            patterns: &["1---5---1---5---", "1-------5-------", "1---1---1---1---"],
        },
        Part {
            role: Role::Melody(Pace::Calm),
            instruments: &[Piano],
            lowest: 67,
            level: 0.9,
            layer: Layer::Verse,
            percent: 100,
            patterns: &[],
        },
        Part {
            role: Role::Triads,
            instruments: &[Strings],
            lowest: 60,
            level: 0.45,
            layer: Layer::Chorus,
            percent: 60,
            patterns: &["x---------------"],
        },
    ],
};

pub(super) const LOFI_HIP_HOP: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 6, 2, 5], [1, 2, 5, 1], [1, 4, 2, 5]],
        minor: &[[1, 2, 5, 1], [1, 4, 2, 5], [1, 6, 2, 5]],
    },
    swing: 2,
    pumping: 0.15,
    hiss: 0.0,
    parts: &[
        drum(
            &[Kick],
            0.75,
            Layer::Always,
            &["X.......X.......", "X.......X.o.....", "X......oX......."],
        ),
        drum(&[Snare], 0.45, Layer::Always, &["....X.......X...", "....X.......X..o"]),
        drum(&[Hat], 0.15, Layer::Verse, &["X.o.o.o.X.o.o.o.", "X.o.o.ooX.o.o.o."]),
        Part {
            role: Role::Sevenths,
            instruments: &[ElectricPiano],
            lowest: 55,
            level: 0.85,
            layer: Layer::Always,
            percent: 100,
            patterns: &["x---x---x---x---", "x---x-o-x---x---", "x-----o-x---x---"],
        },
        Part {
            role: Role::Bass,
            instruments: &[Bass, SubBass],
            lowest: 33,
            level: 0.7,
            layer: Layer::Verse,
            percent: 100,
            patterns: &["1---1---1---5---", "1---5---1---5-1-", "1---1-1-5---1---"],
        },
        Part {
            role: Role::Melody(Pace::Walking),
            instruments: &[Guitar, ElectricPiano, Flute],
            lowest: 64,
            level: 0.55,
            layer: Layer::Chorus,
            percent: 85,
            patterns: &[],
        },
    ],
};

pub(super) const WALTZ: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 5, 5, 1], [1, 1, 5, 1], [1, 5, 1, 1]],
        minor: &[[1, 5, 5, 1], [1, 1, 5, 1], [1, 5, 1, 1]],
    },
    swing: 0,
    pumping: 0.0,
    hiss: 0.0,
    parts: &[
        Part {
            role: Role::Bass,
            instruments: &[Bass, Piano],
            lowest: 36,
            level: 0.7,
            layer: Layer::Always,
            percent: 100,
            patterns: &["1-----------...."],
        },
        Part {
            role: Role::Triads,
            instruments: &[Piano, Accordion],
            lowest: 50,
            level: 0.85,
            layer: Layer::Always,
            percent: 100,
            patterns: &["x---x---x---x---", "x-..x-..x-..x-.."],
        },
        drum(&[Rim, Snare], 0.22, Layer::Verse, &["....x...x...x...", "o...x...x...x..."]),
        Part {
            role: Role::Melody(Pace::Walking),
            instruments: &[Accordion, Strings],
            lowest: 67,
            level: 0.7,
            layer: Layer::Verse,
            percent: 100,
            patterns: &[],
        },
        Part {
            role: Role::Triads,
            instruments: &[Strings, Accordion],
            lowest: 60,
            level: 0.35,
            layer: Layer::Chorus,
            percent: 70,
            patterns: &["x---------------"],
        },
    ],
};
