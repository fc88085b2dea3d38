//! Recipes of the electronic styles: chiptune, house, techno, drum and bass.

use super::{Layer, Recipe, Role, STEADY, drum, part};
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
    parts: &[
        drum(&[Kick], 0.6, Layer::Verse, &["X...x...X...x..."]),
        drum(&[Snare], 0.32, Layer::Verse, &["....X.......X..."]),
        drum(&[Hat], 0.24, Layer::Verse, &["X.o.o.o.X.o.o.o."]),
        part(Role::Bass, &[Square], 36, 0.7, Layer::Always).with(&[
            "1-8-1-8-1-8-1-8-",
            "1-1-1-1-1-1-1-1-",
            "1-..1-8-1-..1-8-",
        ]),
        part(Role::Arpeggio, &[Square], 60, 0.55, Layer::Always).with(&[
            "1-2-3-2-1-2-3-2-",
            "1234123412341234",
            "1232123212321232",
        ]),
        part(Role::Melody(Pace::Lively), &[Square], 69, 0.75, Layer::Verse),
    ],
    ..STEADY
};

pub(super) const HOUSE: Recipe = Recipe {
    harmony: Harmony { major: &[[1, 1, 4, 5], [1, 1, 6, 5]], minor: &[[1, 1, 4, 5], [1, 1, 6, 5]] },
    pumping: 0.45,
    parts: &[
        drum(&[Kick], 1.0, Layer::Always, &["X...X...X...X..."]),
        drum(&[Clap], 0.3, Layer::Verse, &["....x.......x..."]),
        drum(&[OpenHat], 0.1, Layer::Verse, &["..x...x...x...x."]),
        drum(&[Hat], 0.1, Layer::Chorus, &["xoooxoooxoooxooo"]),
        part(Role::Triads, &[Organ, Piano, ElectricPiano], 58, 0.75, Layer::Always).with(&[
            "x-.o-.o-x-.o-.o-",
            "x-..x-o-x-..x-o-",
            "x-.o-.x-.-o-x-..",
        ]),
        part(Role::Bass, &[SynthBass, SubBass], 33, 0.75, Layer::Verse).with(&[
            "1-1-1-1-1-1-1-1-",
            "1-.11-.11-.11-8-",
            "1-8-1-8-1-8-1-8-",
        ]),
        part(Role::Triads, &[Pad, Strings], 60, 0.4, Layer::Chorus)
            .in_percent(80)
            .with(&["x---------------"]),
        part(Role::Melody(Pace::Walking), &[Lead, Pluck], 67, 0.5, Layer::Chorus).in_percent(60),
    ],
    ..STEADY
};

pub(super) const TECHNO: Recipe = Recipe {
    harmony: Harmony { major: &[[1, 1, 1, 1], [1, 1, 1, 5]], minor: &[[1, 1, 1, 1], [1, 1, 1, 4]] },
    pumping: 0.4,
    parts: &[
        drum(&[Kick], 1.0, Layer::Always, &["X...X...X...X..."]),
        drum(&[Hat], 0.16, Layer::Verse, &["xoooxoooxoooxooo", "x.o.x.o.x.o.x.o."]),
        drum(&[Clap], 0.35, Layer::Chorus, &["....x.......x..."]),
        part(Role::Bass, &[SynthBass], 31, 0.7, Layer::Always).with(&[
            "1111111111111111",
            "1111111111111181",
            "1.111.111.111.11",
        ]),
        part(Role::Arpeggio, &[Pluck, Lead, Bell], 60, 0.5, Layer::Verse).in_percent(85).with(&[
            "1-2-3-2-1-2-3-2-",
            "1-3-2-3-1-3-2-3-",
            "1-2-1-3-1-2-1-3-",
        ]),
        part(Role::Triads, &[Pad, Strings], 57, 0.6, Layer::Verse).with(&["x---------------"]),
    ],
    ..STEADY
};

pub(super) const DRUM_AND_BASS: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 1, 6, 1], [1, 6, 1, 1], [1, 1, 1, 6]],
        minor: &[[1, 1, 4, 1], [1, 1, 1, 6], [1, 1, 1, 5]],
    },
    pumping: 0.2,
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
        part(Role::Bass, &[SubBass, SynthBass], 33, 0.9, Layer::Verse).with(&[
            "1---1---1---5---",
            "1---1---1---1-8-",
            "1---1---1---1---",
        ]),
        part(Role::Triads, &[Pad, Strings], 57, 0.6, Layer::Always)
            .with(&["x---------------", "x---x---x---x---"]),
        part(Role::Arpeggio, &[Bell, ElectricPiano, Pluck], 67, 0.45, Layer::Verse)
            .in_percent(60)
            .with(&["1---3---2---3---", "1-3-2-3-1-3-2-3-"]),
        part(Role::Melody(Pace::Calm), &[Lead, Flute], 67, 0.55, Layer::Chorus).in_percent(80),
    ],
    ..STEADY
};
