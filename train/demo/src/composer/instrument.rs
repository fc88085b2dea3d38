//! Instruments of the composer.

use serde::Serialize;

/// An instrument; [`Instrument::name`] is the word in captions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Instrument {
    /// Struck strings, bright at first, then soft.
    Piano,
    /// Tine piano: a sine with a bell at the start.
    ElectricPiano,
    /// Nylon guitar.
    Guitar,
    /// Electric guitar, overdriven.
    ElectricGuitar,
    /// Short synthetic pluck.
    Pluck,
    /// Bell with an inharmonic timbre.
    Bell,
    /// Drawbar organ.
    Organ,
    /// Reeds with a tremolo.
    Accordion,
    /// Bowed strings, slow attack.
    Strings,
    /// Soft synthetic pad.
    Pad,
    /// Nearly a sine, with vibrato.
    Flute,
    /// Detuned saw lead.
    Lead,
    /// Square wave, as in old game consoles.
    Square,
    /// Plucked bass.
    Bass,
    /// Saw bass with a quickly closing filter.
    SynthBass,
    /// Nearly a sine, very low.
    SubBass,
    /// Bass drum.
    Kick,
    /// Snare drum.
    Snare,
    /// Hand clap.
    Clap,
    /// Rim click.
    Rim,
    /// Closed hi-hat.
    Hat,
    /// Open hi-hat.
    OpenHat,
    /// Shaker.
    Shaker,
    /// Crash cymbal.
    Crash,
}

impl Instrument {
    /// Returns the English name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Piano => "piano",
            Self::ElectricPiano => "electric piano",
            Self::Guitar => "guitar",
            Self::ElectricGuitar => "electric guitar",
            Self::Pluck => "synth pluck",
            Self::Bell => "bells",
            Self::Organ => "organ",
            Self::Accordion => "accordion",
            Self::Strings => "strings",
            Self::Pad => "pad",
            Self::Flute => "flute",
            Self::Lead => "synth lead",
            Self::Square => "square synth",
            Self::Bass => "bass",
            Self::SynthBass => "synth bass",
            Self::SubBass => "sub bass",
            Self::Kick => "kick",
            Self::Snare => "snare",
            Self::Clap => "clap",
            Self::Rim => "rim",
            Self::Hat => "hi-hat",
            Self::OpenHat => "open hi-hat",
            Self::Shaker => "shaker",
            Self::Crash => "crash",
        }
    }

    /// True if it has no pitch.
    pub fn is_drum(self) -> bool {
        self >= Self::Kick
    }
}
