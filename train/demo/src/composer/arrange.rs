//! Arrangement: converts recipe, harmony and theme to notes.

use super::{
    dice::{Dice, Stream},
    harmony::{Chord, Progression, TONIC},
    instrument::Instrument,
    key::{Key, raised},
    melody::{Pace, Theme, Tone, closing_bar, theme},
    meter::Meter,
    recipe::{Layer, Part, Recipe, Role},
    score::{Note, TICKS_PER_BEAT, TICKS_PER_STEP},
    section::{Section, SectionKind},
};

/// Inputs of the arranger.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrangeInputs<'a> {
    pub(super) seed: u64,
    pub(super) recipe: &'static Recipe,
    pub(super) key: Key,
    pub(super) meter: Meter,
    pub(super) sections: &'a [Section],
    /// Tick from which on no note starts.
    pub(super) end: u32,
}

/// A part of the recipe with the choices of a piece.
#[derive(Debug, Clone, Copy)]
struct Player {
    index: usize,
    part: &'static Part,
    instrument: Instrument,
    verse: &'static str,
    chorus: &'static str,
}

/// Harmony and melodies of one kind of section.
#[derive(Debug)]
struct SectionMusic {
    chords: Progression,
    calm: Theme,
    walking: Theme,
    lively: Theme,
}

impl SectionMusic {
    fn compose(plan: &ArrangeInputs<'_>, harmony: &mut Dice, melody: &mut Dice) -> Self {
        let chords = plan.recipe.harmony.pick(plan.key.mode(), harmony);
        let mut compose = |pace| theme(&chords, plan.meter, pace, melody);
        let (calm, walking, lively) =
            (compose(Pace::Calm), compose(Pace::Walking), compose(Pace::Lively));
        Self { chords, calm, walking, lively }
    }

    fn theme(&self, pace: Pace) -> &Theme {
        match pace {
            Pace::Calm => &self.calm,
            Pace::Walking => &self.walking,
            Pace::Lively => &self.lively,
        }
    }
}

/// Returns all notes of a piece, ordered by start.
pub(super) fn notes(plan: &ArrangeInputs<'_>) -> Vec<Note> {
    let players = players(plan);
    let mut harmony = Dice::new(plan.seed, Stream::Harmony);
    let mut melody = Dice::new(plan.seed, Stream::Melody);
    let verse = SectionMusic::compose(plan, &mut harmony, &mut melody);
    let chorus = SectionMusic::compose(plan, &mut harmony, &mut melody);
    let bars = plan.sections.iter().map(|section| section.bars).sum::<u32>();
    let mut notes = Vec::new();
    for (index, section) in plan.sections.iter().enumerate() {
        let song = if section.kind == SectionKind::Chorus { &chorus } else { &verse };
        for bar in 0..section.bars {
            let number = section.start + bar;
            let last_of_piece = number + 1 == bars && bars > 1;
            let last_of_section = bar + 1 == section.bars && index + 1 < plan.sections.len();
            let scene = Scene {
                plan,
                kind: section.kind,
                start: number * plan.meter.beats() * TICKS_PER_BEAT,
                chord: if last_of_piece { TONIC } else { song.chords[bar as usize % 4] },
                first: bar == 0,
                fill: last_of_section,
            };
            for player in players.iter().filter(|player| plays(player.part.layer, section.kind)) {
                match player.part.role {
                    Role::Melody(_) if last_of_piece => {
                        scene.sing(player, &closing_bar(plan.meter), &mut notes);
                    }
                    Role::Melody(pace) => {
                        scene.sing(player, &song.theme(pace)[bar as usize % 4], &mut notes);
                    }
                    _ => scene.play(player, &mut notes),
                }
            }
        }
    }
    notes.retain(|note| note.start < plan.end);
    notes.sort_by_key(|note| (note.start, note.part, note.pitch));
    notes
}

/// Picks the parts of a piece with their instruments and patterns.
fn players(plan: &ArrangeInputs<'_>) -> Vec<Player> {
    let mut dice = Dice::new(plan.seed, Stream::Parts);
    let mut players = Vec::new();
    for (index, part) in plan.recipe.parts.iter().enumerate() {
        let joins = dice.between(1, 100) <= part.percent;
        let instrument = dice.pick(part.instruments);
        let patterns: &[&str] = if part.patterns.is_empty() { &[""] } else { part.patterns };
        let verse = dice.pick(patterns);
        let chorus = if dice.chance(0.5) { verse } else { dice.pick(patterns) };
        if joins {
            players.push(Player { index, part, instrument, verse, chorus });
        }
    }
    players
}

/// True if a layer plays in a kind of section.
fn plays(layer: Layer, kind: SectionKind) -> bool {
    match kind {
        SectionKind::Intro | SectionKind::Outro => layer == Layer::Always,
        SectionKind::Verse | SectionKind::Bridge => layer <= Layer::Verse,
        SectionKind::Chorus => true,
    }
}

/// One bar of the piece.
#[derive(Debug)]
struct Scene<'a> {
    plan: &'a ArrangeInputs<'a>,
    kind: SectionKind,
    /// First tick of the bar.
    start: u32,
    chord: Chord,
    /// True in the first bar of a section.
    first: bool,
    /// True if a drum fill leads to the next section.
    fill: bool,
}

impl Scene<'_> {
    /// Adds one bar of a pattern.
    fn play(&self, player: &Player, notes: &mut Vec<Note>) {
        let steps = self.plan.meter.beats() as usize * 4;
        let pattern = if self.kind == SectionKind::Chorus { player.chorus } else { player.verse };
        let signs: Vec<u8> = pattern.bytes().take(steps).collect();
        let crash = player.instrument == Instrument::Crash;
        if crash && !self.first {
            return;
        }
        for (step, &sign) in signs.iter().enumerate() {
            let sign = match player.instrument {
                // A fill in the last three sixteenths before a new section.
                Instrument::Snare | Instrument::Clap if self.fill && step + 3 >= steps => b'o',
                _ => sign,
            };
            if matches!(sign, b'.' | b'-') {
                continue;
            }
            let held = signs[step + 1..].iter().take_while(|&&next| next == b'-').count() as u32;
            let velocity = loudness(sign, step as u32);
            for pitch in self.pitches(player.part, sign) {
                notes.push(Note {
                    part: player.index,
                    instrument: player.instrument,
                    start: self.start + self.tick(step as u32),
                    length: (held + 1) * TICKS_PER_STEP,
                    pitch,
                    velocity,
                });
            }
        }
    }

    /// Adds one bar of a theme.
    fn sing(&self, player: &Player, tones: &[Tone], notes: &mut Vec<Note>) {
        notes.extend(tones.iter().map(|tone| Note {
            part: player.index,
            instrument: player.instrument,
            start: self.start + self.tick(tone.start / TICKS_PER_STEP),
            length: tone.length,
            pitch: self.plan.key.pitch(tone.step, player.part.lowest),
            velocity: emphasis(tone.start / TICKS_PER_STEP),
        }));
    }

    /// Returns the tick of a sixteenth in the bar, with swing.
    fn tick(&self, step: u32) -> u32 {
        step * TICKS_PER_STEP + if step % 2 == 1 { self.plan.recipe.swing } else { 0 }
    }

    /// Returns the pitches of one sign.
    fn pitches(&self, part: &Part, sign: u8) -> Vec<u8> {
        let (key, chord) = (self.plan.key, self.chord);
        match part.role {
            Role::Triads => chord.close_voicing(key, part.lowest),
            Role::Sevenths => chord.seventh_voicing(key, part.lowest),
            Role::Powers => chord.power_voicing(key, part.lowest),
            Role::Bass => {
                let root = raised(key.pitch_class(chord.root), part.lowest);
                vec![match sign {
                    b'5' => raised(key.pitch_class(chord.root + 4), part.lowest),
                    b'8' => root + 12,
                    _ => root,
                }]
            }
            Role::Arpeggio => {
                let tones = chord.root_voicing(key, part.lowest);
                // Signs beyond the triad repeat it an octave higher.
                let index = usize::from(sign.saturating_sub(b'1'));
                vec![tones[index % 3] + 12 * (index / 3) as u8]
            }
            Role::Drum | Role::Melody(_) => vec![0],
        }
    }
}

/// Returns the velocity of a sign at a sixteenth of the bar.
fn loudness(sign: u8, step: u32) -> f32 {
    match sign {
        b'X' => 1.0,
        b'x' => 0.9,
        b'o' => 0.36,
        _ => emphasis(step),
    }
}

/// Returns the metric velocity: beats are loud, eighths softer, sixteenths softest.
fn emphasis(step: u32) -> f32 {
    match step % 4 {
        0 => 1.0,
        2 => 0.45,
        _ => 0.36,
    }
}
