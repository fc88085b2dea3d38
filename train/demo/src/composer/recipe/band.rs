//! Recipes of the band styles: bossa nova, folk, synth pop, rock, polka.

use super::{Layer, Recipe, Role, STEADY, drum, part};
use crate::composer::{
    harmony::Harmony,
    instrument::Instrument::{
        Accordion, Bass, Crash, ElectricGuitar, ElectricPiano, Flute, Guitar, Hat, Kick, Lead,
        Organ, Pad, Piano, Pluck, Rim, Shaker, Snare, Strings, SynthBass,
    },
    melody::Pace,
};

pub(super) const BOSSA_NOVA: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 1, 2, 5], [1, 2, 2, 5], [1, 2, 4, 1]],
        minor: &[[1, 1, 2, 5], [1, 4, 2, 1], [1, 4, 4, 5]],
    },
    parts: &[
        part(Role::Sevenths, &[Guitar], 55, 0.9, Layer::Always).with(&[
            "x-..x-o-x-..x-o-",
            "x-o-x-..x-o-x-..",
            "x-..x-o-x-o-x-..",
        ]),
        part(Role::Bass, &[Bass], 33, 0.8, Layer::Always).with(&[
            "1---5-5-1---5-5-",
            "1---1---5---5---",
            "1---5---1---5---",
        ]),
        drum(&[Shaker], 0.3, Layer::Always, &["X.o.X.o.X.o.X.o.", "XoooXoooXoooXooo"]),
        drum(&[Rim], 0.25, Layer::Verse, &["x.....x.....x...", "x.....x...x....."]),
        drum(&[Kick], 0.45, Layer::Verse, &["x...x...x...x...", "x.....o.x.....o."]),
        part(Role::Melody(Pace::Walking), &[Flute, Piano, ElectricPiano], 67, 0.7, Layer::Verse)
            .in_percent(90),
        part(Role::Triads, &[Strings, Organ], 60, 0.3, Layer::Chorus)
            .in_percent(50)
            .with(&["x---------------"]),
    ],
    ..STEADY
};

pub(super) const FOLK: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 4, 1, 5], [1, 5, 4, 1], [1, 5, 1, 5]],
        minor: &[[1, 4, 1, 5], [1, 5, 4, 1], [1, 7, 1, 5]],
    },
    parts: &[
        part(Role::Triads, &[Guitar], 52, 0.95, Layer::Always).with(&[
            "x---x-o-x---x-o-",
            "x---x-o-x-o-x-o-",
            "x-o-x-o-x-o-x-oo",
        ]),
        part(Role::Arpeggio, &[Guitar], 64, 0.5, Layer::Verse)
            .in_percent(60)
            .with(&["1-3-2-3-1-3-2-3-", "1-2-3-2-1-2-3-2-"]),
        part(Role::Bass, &[Bass], 36, 0.65, Layer::Verse)
            .in_percent(90)
            .with(&["1---5---1---5---", "1---1---5---5---"]),
        drum(&[Shaker], 0.2, Layer::Chorus, &["X.o.X.o.X.o.X.o."]),
        part(Role::Melody(Pace::Walking), &[Flute, Flute, Strings], 69, 0.7, Layer::Verse),
    ],
    ..STEADY
};

pub(super) const SYNTH_POP: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 6, 5, 4], [1, 5, 2, 4], [1, 3, 4, 5]],
        minor: &[[1, 6, 7, 1], [1, 6, 1, 7], [1, 4, 7, 1]],
    },
    pumping: 0.25,
    parts: &[
        drum(&[Kick], 0.85, Layer::Always, &["X...X...X...X...", "X...x...X...x.o."]),
        drum(&[Snare], 0.42, Layer::Verse, &["....X.......X..."]),
        drum(&[Hat], 0.26, Layer::Verse, &["X.o.o.o.X.o.o.o.", "XoooooooXooooooo"]),
        drum(&[Crash], 0.2, Layer::Chorus, &["x..............."]),
        part(Role::Bass, &[SynthBass], 33, 0.75, Layer::Always).with(&[
            "1-1-1-1-1-1-1-1-",
            "1-8-1-8-1-8-1-8-",
            "1-1-1-1-1-1-5-5-",
        ]),
        part(Role::Triads, &[Pad, Strings], 57, 0.5, Layer::Verse)
            .with(&["x---------------", "x---x---x---x---"]),
        part(Role::Arpeggio, &[Pluck], 67, 0.5, Layer::Always).in_percent(60).with(&[
            "1-2-3-2-1-2-3-2-",
            "1-3-4-3-1-3-4-3-",
            "1232123212321232",
        ]),
        part(Role::Melody(Pace::Walking), &[Lead], 67, 0.65, Layer::Chorus),
    ],
    ..STEADY
};

pub(super) const ROCK: Recipe = Recipe {
    harmony: Harmony {
        major: &[[1, 4, 5, 4], [1, 5, 5, 4], [1, 1, 5, 4]],
        minor: &[[1, 7, 6, 1], [1, 4, 5, 4], [1, 7, 4, 1]],
    },
    parts: &[
        drum(
            &[Kick],
            0.85,
            Layer::Always,
            &["X...x...X...x...", "X...x...X.o.x...", "X...x.o.X...x..."],
        ),
        drum(&[Snare], 0.45, Layer::Always, &["....X.......X..."]),
        drum(&[Hat], 0.34, Layer::Verse, &["X.o.o.o.X.o.o.o."]),
        drum(&[Crash], 0.3, Layer::Chorus, &["x..............."]),
        part(Role::Powers, &[ElectricGuitar], 43, 0.7, Layer::Always).with(&[
            "x-o-x-o-x-o-x-o-",
            "x---x---x-o-x-o-",
            "x-o-x---x-o-x---",
        ]),
        part(Role::Bass, &[Bass], 31, 0.75, Layer::Verse)
            .with(&["1-1-1-1-1-1-1-1-", "1---1-1-1---1-1-"]),
        part(Role::Triads, &[Organ], 60, 0.55, Layer::Always)
            .with(&["x---------------", "x---x---x---x---"]),
        part(Role::Melody(Pace::Walking), &[ElectricGuitar, Lead], 67, 0.6, Layer::Chorus),
    ],
    ..STEADY
};

pub(super) const POLKA: Recipe = Recipe {
    harmony: Harmony { major: &[[1, 1, 5, 5], [1, 4, 5, 5]], minor: &[[1, 1, 5, 5], [1, 4, 5, 5]] },
    parts: &[
        part(Role::Bass, &[Bass], 33, 0.9, Layer::Always).with(&["1-..5-..1-..5-.."]),
        part(Role::Triads, &[Accordion], 60, 0.9, Layer::Always).with(&["..X...X...X...X."]),
        drum(&[Kick], 0.5, Layer::Always, &["X...X...X...X..."]),
        drum(&[Snare], 0.3, Layer::Verse, &["..x...x...x...x.", "..x...x...x..oo."]),
        part(Role::Melody(Pace::Lively), &[Accordion], 67, 0.8, Layer::Verse),
    ],
    ..STEADY
};
