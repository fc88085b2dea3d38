//! Text files of timed lines: LRC for music players, WebVTT for video players and browsers.
//!
//! Source: upstream `format_lrc`, `parse_lrc_to_subtitles`, `lrc_to_vtt_file`; WebVTT: W3C.

use super::Line;
use crate::lyrics::without_times;

/// A subtitle that would be shown for less time is merged with the next one.
const LEAST_SECONDS: f64 = 2.0;

/// Duration of the last subtitle if the song ends at or before its start.
const LAST_SECONDS: f64 = 3.0;

/// Formats each line as `[mm:ss.cc]text`, without a newline after the last.
///
/// Seconds that round up to 60 become the next minute, where upstream writes `[00:60.00]`.
pub fn lrc(lines: &[Line]) -> String {
    let line = |line: &Line| {
        let hundredths = hundredths(line.start);
        let (minutes, rest) = (hundredths / 6000, hundredths % 6000);
        format!("[{minutes:02}:{:02}.{:02}]{}", rest / 100, rest % 100, line.text)
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Formats a WebVTT file: each line is shown until the next begins, the last until the song ends.
///
/// Lines that begin less than two seconds after the first of a group are shown together, so that a
/// tag such as `[Verse]` is not shown for an instant only.
pub fn vtt(lines: &[Line], seconds: f64) -> String {
    let mut groups: Vec<(u64, Vec<&str>)> = Vec::new();
    let mut sorted: Vec<&Line> = lines.iter().collect();
    sorted.sort_by(|a, b| a.start.total_cmp(&b.start));
    for line in sorted {
        let start = hundredths(line.start);
        match groups.last_mut() {
            Some((first, texts)) if start - *first < (100.0 * LEAST_SECONDS) as u64 => {
                texts.push(&line.text);
            }
            _ => groups.push((start, vec![&line.text])),
        }
    }
    let mut file = "WEBVTT\n".to_owned();
    for (i, (start, texts)) in groups.iter().enumerate() {
        let end = groups.get(i + 1).map_or(hundredths(seconds), |next| next.0);
        let end = if end > *start { end } else { start + (100.0 * LAST_SECONDS) as u64 };
        let text = escaped(&texts.join("\n"));
        file += &format!("\n{}\n{} --> {}\n{text}\n", i + 1, clock(*start), clock(end));
    }
    file
}

/// Parses the timed lines of an LRC file, sorted by time; skips others, such as `[ti:a title]`.
///
/// Seconds may have any number of decimals. A text with several times is a line at each, as players
/// show it; times of words are left out. A line ends where the next one begins.
pub fn parse(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = text.lines().flat_map(parsed).collect();
    lines.sort_by(|a, b| a.start.total_cmp(&b.start));
    for i in 1..lines.len() {
        lines[i - 1].end = lines[i].start;
    }
    lines
}

fn parsed(line: &str) -> Vec<Line> {
    let (mut starts, mut rest) = (Vec::new(), line.trim());
    while let Some((start, after)) = stamp(rest) {
        starts.push(start);
        rest = after.trim_start();
    }
    let text = without_times(rest);
    if text.is_empty() {
        return vec![];
    }
    let timed = |start| Line { text: text.clone(), start, end: start + LAST_SECONDS };
    starts.into_iter().map(timed).collect()
}

/// Returns the seconds of a leading time stamp, and the text after it.
fn stamp(line: &str) -> Option<(f64, &str)> {
    let (time, text) = line.strip_prefix('[')?.split_once(']')?;
    let (minutes, seconds) = time.split_once(':')?;
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let (true, minutes) = (is_number(seconds), minutes.parse::<u32>().ok()?) else { return None };
    Some((60.0 * f64::from(minutes) + seconds.parse::<f64>().ok()?, text))
}

/// Formats a time as `HH:MM:SS.mmm`.
fn clock(hundredths: u64) -> String {
    let (minutes, rest) = (hundredths / 6000, hundredths % 6000);
    let (seconds, rest) = (rest / 100, rest % 100);
    format!("{:02}:{:02}:{seconds:02}.{:03}", minutes / 60, minutes % 60, rest * 10)
}

/// Escapes the special characters of WebVTT.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn hundredths(seconds: f64) -> u64 {
    (seconds * 100.0).round_ties_even().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, start: f64) -> Line {
        Line { text: text.into(), start, end: start + 1.0 }
    }

    #[test]
    fn lrc_has_minutes_seconds_and_hundredths() {
        let lines = [line("[Verse]", 0.0), line("late", 59.996), line("later", 601.234)];
        assert_eq!(lrc(&lines), "[00:00.00][Verse]\n[01:00.00]late\n[10:01.23]later");
        assert_eq!(lrc(&[]), "");
    }

    #[test]
    fn what_was_written_is_read_back_and_other_lines_are_left_out() {
        let text = "[ti:a title]\n[ar: x:y]\n\n[01:02.5] again\r\n[00:01.25][Verse]\nwords\n\
                    [0:3]\n[00:10][1:20.5] twice <00:21.0>now\n";
        let lines = parse(text);
        let found: Vec<(&str, f64)> = lines.iter().map(|l| (l.text.as_str(), l.start)).collect();
        let twice = "twice now";
        assert_eq!(found, [("[Verse]", 1.25), (twice, 10.0), ("again", 62.5), (twice, 80.5)]);
        assert_eq!(lines[0].end, 10.0);
        assert_eq!(lrc(&lines[..2]), "[00:01.25][Verse]\n[00:10.00]twice now");
    }

    #[test]
    fn vtt_shows_a_short_line_with_the_next_and_the_last_to_the_end() {
        let lines = [line("[Verse]", 1.0), line("rain & <i>", 2.5), line("sun", 3.0)];
        assert_eq!(
            vtt(&lines, 3725.5),
            "WEBVTT\n\n1\n00:00:01.000 --> 00:00:03.000\n[Verse]\nrain &amp; &lt;i&gt;\n\n2\n\
             00:00:03.000 --> 01:02:05.500\nsun\n"
        );
        // A song that ends at the start of its last line.
        assert!(vtt(&lines[2..], 3.0).contains("00:00:03.000 --> 00:00:06.000"));
        assert_eq!(vtt(&[], 3.0), "WEBVTT\n");
    }
}
