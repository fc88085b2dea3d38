//! Recipes of the quiet styles: ambient, piano ballad, lofi hip hop, waltz.

use super::{Layer, Recipe, Role, STEADY, drum, part};
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
    hiss: 0.06,
    parts: &[
        part(Role::Triads, &[Pad, Pad, Strings], 55, 0.7, Layer::Always)
            .with(&["x---------------"]),
        part(Role::Arpeggio, &[Pluck, Bell, ElectricPiano], 60, 1.0, Layer::Always).with(&[
            "1---2---3---2---",
            "1---3---2---3---",
            "1---3---4---3---",
            "1---4---3---2---",
        ]),
        part(Role::Bass, &[SubBass], 36, 0.6, Layer::Always)
            .with(&["1---1---1---1---", "1---5---1---5---"]),
        part(Role::Melody(Pace::Calm), &[Flute, Bell], 67, 0.6, Layer::Chorus).in_percent(70),
    ],
    ..STEADY
};

pub(super) const PIANO_BALLAD: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 5, 6, 4], [1, 6, 4, 5], [1, 4, 6, 5]],
        minor: &[[1, 6, 4, 5], [1, 4, 6, 5], [1, 6, 4, 1]],
    },
    parts: &[
        part(Role::Triads, &[Piano], 55, 0.9, Layer::Always).with(&[
            "x---x---x---x---",
            "x---x---x---x-o-",
            "x---x-o-x---x---",
        ]),
        part(Role::Bass, &[Piano], 36, 0.6, Layer::Always).with(&[
            "1---5---1---5---",
            "1-------5-------",
            "1---1---1---1---",
        ]),
        part(Role::Melody(Pace::Calm), &[Piano], 67, 0.9, Layer::Verse),
        part(Role::Triads, &[Strings], 60, 0.45, Layer::Chorus)
            .in_percent(60)
            .with(&["x---------------"]),
    ],
    ..STEADY
};

pub(super) const LOFI_HIP_HOP: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 6, 2, 5], [1, 2, 5, 1], [1, 4, 2, 5]],
        minor: &[[1, 2, 5, 1], [1, 4, 2, 5], [1, 6, 2, 5]],
    },
    swing: 2,
    pumping: 0.15,
    parts: &[
        drum(
            &[Kick],
            0.75,
            Layer::Always,
            &["X.......X.......", "X.......X.o.....", "X......oX......."],
        ),
        drum(&[Snare], 0.45, Layer::Always, &["....X.......X...", "....X.......X..o"]),
        drum(&[Hat], 0.15, Layer::Verse, &["X.o.o.o.X.o.o.o.", "X.o.o.ooX.o.o.o."]),
        part(Role::Sevenths, &[ElectricPiano], 55, 0.85, Layer::Always).with(&[
            "x---x---x---x---",
            "x---x-o-x---x---",
            "x-----o-x---x---",
        ]),
        part(Role::Bass, &[Bass, SubBass], 33, 0.7, Layer::Verse).with(&[
            "1---1---1---5---",
            "1---5---1---5-1-",
            "1---1-1-5---1---",
        ]),
        part(Role::Melody(Pace::Walking), &[Guitar, ElectricPiano, Flute], 64, 0.55, Layer::Chorus)
            .in_percent(85),
    ],
    ..STEADY
};

pub(super) const WALTZ: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 5, 5, 1], [1, 1, 5, 1], [1, 5, 1, 1]],
        minor: &[[1, 5, 5, 1], [1, 1, 5, 1], [1, 5, 1, 1]],
    },
    parts: &[
        part(Role::Bass, &[Bass, Piano], 36, 0.7, Layer::Always).with(&["1-----------...."]),
        part(Role::Triads, &[Piano, Accordion], 50, 0.85, Layer::Always)
            .with(&["x---x---x---x---", "x-..x-..x-..x-.."]),
        drum(&[Rim, Snare], 0.22, Layer::Verse, &["....x...x...x...", "o...x...x...x..."]),
        part(Role::Melody(Pace::Walking), &[Accordion, Strings], 67, 0.7, Layer::Verse),
        part(Role::Triads, &[Strings, Accordion], 60, 0.35, Layer::Chorus)
            .in_percent(70)
            .with(&["x---------------"]),
    ],
    ..STEADY
};
