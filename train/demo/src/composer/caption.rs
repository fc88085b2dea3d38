//! Captions: descriptions of a piece as a listener would write them.

use super::{
    dice::Dice,
    instrument::Instrument,
    key::{Key, Mode},
    style::Style,
};

/// Facts for a caption.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) style: Style,
    pub(super) bpm: u32,
    pub(super) key: Key,
    pub(super) instruments: &'a [Instrument],
}

const MAJOR_MOODS: [&str; 12] = [
    "happy",
    "bright",
    "warm",
    "cheerful",
    "uplifting",
    "sunny",
    "joyful",
    "hopeful",
    "light",
    "playful",
    "sweet",
    "friendly",
];
const MINOR_MOODS: [&str; 10] = [
    "sad",
    "dark",
    "moody",
    "melancholic",
    "serious",
    "lonely",
    "mysterious",
    "sombre",
    "wistful",
    "tense",
];
const NOUNS: [&str; 8] =
    ["track", "piece", "tune", "song", "music", "instrumental", "beat", "groove"];

/// Writes a caption.
pub(super) fn caption(subject: &Subject<'_>, dice: &mut Dice) -> String {
    let style = dice.pick(subject.style.names());
    let mood = mood(subject, dice);
    let speed = speed(subject.bpm, dice);
    let noun = noun(subject.style, dice);
    // "A music" is not English.
    let one = if noun == "music" { "piece" } else { noun };
    let band = band(subject, dice);
    let with = dice.pick(&["with", "with", "featuring", "built on", "led by", "driven by"]);
    let form = dice.between(0, 9);
    // A list of words is continued as a list.
    let listed = form == 9;
    let head = match form {
        0 => format!("{style} {noun}"),
        1 | 2 => format!("{mood} {style} {noun}"),
        3 => format!("{} {style} {one}", article(mood)),
        4 => format!("{speed} {style} {noun}"),
        5 => format!("{} {mood} {style} {one}", article(speed)),
        6 => format!("{mood} {style}"),
        7 => format!("{speed}, {mood} {style} {noun}"),
        8 => format!("{} {mood} {one} in {style} style", article(speed)),
        _ => format!("{style}, {mood}, {speed}"),
    };
    let mut text = match dice.between(0, 9) {
        0 | 1 => head,
        2..6 if !listed => format!("{head} {with} {band}"),
        2..=6 => format!("{head}, {band}"),
        7 if !listed => format!("{head} {with} {band}, {}", feeling(subject, dice)),
        7 | 8 => format!("{head}, {}", feeling(subject, dice)),
        _ => format!("{band} in {} {style} {one}", article(mood)),
    };
    // Key and tempo are in the metadata; captions repeat them only sometimes.
    match dice.between(0, 29) {
        0 => text = format!("{text}, {} bpm", subject.bpm),
        1 => text = format!("{text}, in {}", subject.key),
        _ => {}
    }
    if dice.chance(0.4) { sentence(&text, dice.chance(0.6)) } else { text }
}

/// Picks a word for the mood, of the mode or of the style.
fn mood(subject: &Subject<'_>, dice: &mut Dice) -> &'static str {
    let of_style: &[&str] = match subject.style {
        Style::Ambient => &["calm", "dreamy", "floating", "peaceful", "spacious", "gentle"],
        Style::PianoBallad => &["tender", "gentle", "emotional", "intimate", "soft", "romantic"],
        Style::LofiHipHop => &["relaxed", "chill", "mellow", "laid-back", "sleepy", "smooth"],
        Style::Waltz => &["elegant", "graceful", "swaying", "charming", "old-fashioned"],
        Style::BossaNova => &["smooth", "breezy", "relaxed", "elegant", "mellow"],
        Style::Folk => &["simple", "rustic", "earthy", "honest", "gentle"],
        Style::SynthPop => &["catchy", "shiny", "nostalgic", "dreamy", "danceable"],
        Style::Rock => &["powerful", "loud", "energetic", "raw", "heavy"],
        Style::Chiptune => &["retro", "bouncy", "playful", "pixelated", "energetic"],
        Style::House => &["groovy", "danceable", "funky", "deep", "smooth"],
        Style::Techno => &["driving", "hypnotic", "relentless", "deep", "mechanical"],
        Style::DrumAndBass => &["energetic", "rolling", "intense", "frantic", "deep"],
        Style::Polka => &["merry", "bouncy", "cheerful", "rustic"],
    };
    let of_mode: &[&str] = match subject.key.mode() {
        Mode::Major => &MAJOR_MOODS,
        Mode::Minor => &MINOR_MOODS,
    };
    if dice.chance(0.5) { dice.pick(of_style) } else { dice.pick(of_mode) }
}

/// Picks a word for the tempo.
fn speed(bpm: u32, dice: &mut Dice) -> &'static str {
    let words: &[&str] = match bpm {
        0..76 => &["slow", "very slow", "unhurried"],
        76..96 => &["slow", "easy-going", "unhurried"],
        96..118 => &["mid-tempo", "moderate", "steady"],
        118..140 => &["upbeat", "lively", "steady"],
        140..158 => &["fast", "quick", "lively"],
        _ => &["very fast", "fast", "rapid"],
    };
    dice.pick(words)
}

/// Picks a noun for the piece.
fn noun(style: Style, dice: &mut Dice) -> &'static str {
    let beats = matches!(
        style,
        Style::LofiHipHop | Style::House | Style::Techno | Style::DrumAndBass | Style::SynthPop
    );
    // "Beat" and "groove" are last in the list, and only fit music with drums.
    let nouns = if beats { &NOUNS[..] } else { &NOUNS[..6] };
    dice.pick(nouns)
}

/// Picks a phrase for the use or the feeling of the piece.
fn feeling(subject: &Subject<'_>, dice: &mut Dice) -> &'static str {
    let phrases: &[&str] = match subject.style {
        Style::Ambient => {
            &["music for sleep", "like a quiet morning", "slow and spacious", "no drums"]
        }
        Style::PianoBallad => {
            &["soft and slow", "like a love song", "full of feeling", "quiet and close"]
        }
        Style::LofiHipHop => {
            &["music for study", "late at night", "a slow head nod", "for a rainy day"]
        }
        Style::Waltz => {
            &["three beats a bar", "for a ballroom dance", "swaying in three", "in waltz time"]
        }
        Style::BossaNova => &["a warm evening by the beach", "light and easy", "for a summer day"],
        Style::Folk => &["by the fire", "a walk in the country", "simple and warm"],
        Style::SynthPop => &["like the eighties", "neon lights at night", "made for the radio"],
        Style::Rock => &["made for the stage", "loud and direct", "full of power"],
        Style::Chiptune => &["like an old video game", "for a game level", "retro game sound"],
        Style::House => &["four on the floor", "made for the dance floor", "for a club night"],
        Style::Techno => &["for a dark club", "four on the floor", "late night in the club"],
        Style::DrumAndBass => &["full of energy", "fast breakbeat", "for a wild night"],
        Style::Polka => &["for a village dance", "one two, one two", "made for dancing"],
    };
    dice.pick(phrases)
}

/// Lists some of the instruments, as in `warm pad, piano and bass`.
fn band(subject: &Subject<'_>, dice: &mut Dice) -> String {
    let mut names: Vec<&str> =
        subject.instruments.iter().filter(|one| !one.is_drum()).map(|one| one.name()).collect();
    let drums = [Instrument::Kick, Instrument::Snare];
    if drums.iter().any(|drum| subject.instruments.contains(drum)) {
        names.push("drums");
    } else if subject.instruments.contains(&Instrument::Shaker) {
        names.push("shaker");
    }
    let wanted = dice.between(1, 3) as usize;
    let mut chosen: Vec<String> = Vec::new();
    while chosen.len() < wanted && !names.is_empty() {
        let name = names.remove(dice.between(0, names.len() as u32 - 1) as usize);
        chosen.push(adorned(name, dice));
    }
    match chosen.as_slice() {
        [] => "soft sounds".to_owned(),
        [one] => one.clone(),
        [first, second] => format!("{first} and {second}"),
        [first, second, rest @ ..] => format!("{first}, {second} and {}", rest.join(" and ")),
    }
}

/// Returns an instrument, sometimes with an adjective.
fn adorned(name: &str, dice: &mut Dice) -> String {
    let words: &[&str] = match name {
        "piano" => &["soft", "gentle", "simple"],
        "electric piano" => &["warm", "mellow", "soft"],
        "guitar" => &["acoustic", "plucked", "nylon"],
        "electric guitar" => &["distorted", "heavy", "crunchy"],
        "synth pluck" | "bells" => &["bright", "sparkling", "soft"],
        "organ" | "accordion" => &["warm", "lively", "full"],
        "strings" => &["lush", "soft", "warm"],
        "pad" => &["warm", "soft", "airy", "wide"],
        "flute" => &["airy", "gentle", "clear"],
        "synth lead" | "square synth" => &["bright", "catchy", "sharp"],
        "bass" | "sub bass" => &["deep", "round", "warm"],
        "synth bass" => &["pulsing", "deep", "thick"],
        "drums" => &["steady", "crisp", "punchy", "tight"],
        _ => &["soft", "steady"],
    };
    if dice.chance(0.45) { format!("{} {name}", dice.pick(words)) } else { name.to_owned() }
}

/// Returns the word after `a` or `an`.
fn article(word: &str) -> String {
    let vowel = word.starts_with(['a', 'e', 'i', 'o', 'u']) && !word.starts_with("uni");
    format!("{} {word}", if vowel { "an" } else { "a" })
}

/// Capitalises the first letter, and adds a full stop if `stop`.
fn sentence(text: &str, stop: bool) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}{}", letters.as_str(), if stop { "." } else { "" })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{super::dice::Stream, *};

    #[test]
    fn captions_name_their_style_and_vary() {
        let mut words = BTreeSet::new();
        for style in Style::ALL {
            let mut forms = BTreeSet::new();
            for seed in 0..2_000 {
                let subject = Subject {
                    style,
                    bpm: style.tempo_range().0,
                    key: Key::new(0, if seed % 2 == 0 { Mode::Major } else { Mode::Minor }),
                    instruments: &[Instrument::Piano, Instrument::Bass, Instrument::Kick],
                };
                let text = caption(&subject, &mut Dice::new(seed, Stream::Caption));
                let lower = text.to_lowercase();
                assert!(style.names().iter().any(|name| lower.contains(name)), "{text}");
                words.extend(lower.split([' ', ',', '.']).map(str::to_owned));
                forms.insert(text);
            }
            assert!(forms.len() > 500, "{style}: {}", forms.len());
        }
        assert!(words.len() < 320, "{} words", words.len());
    }

    #[test]
    fn articles_fit() {
        assert_eq!(article("old-fashioned"), "an old-fashioned");
        assert_eq!(article("slow"), "a slow");
    }
}
