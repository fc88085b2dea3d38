//! One text value of a YAML mapping: plain, 'single quoted' or "double quoted", folded at 80.
//!
//! Plain if YAML reads the same text back, else single quoted; double quoted only if a character
//! needs an escape. A line is folded at the first single space after column 80, so it can be longer
//! by the rest of a word.
//!
//! Source: PyYAML 6.0.3 `emitter.py`, `analyze_scalar`, `choose_scalar_style` and the writers of
//! the three styles, for a value in block context, `allow_unicode`, indented by two.

use super::resolve::is_not_a_text;

/// Column after which lines are folded, in characters from 0.
const WIDTH: usize = 80;
const FOLD: &str = "\n  ";
const FOLDED_COLUMN: usize = 2;

enum Style {
    Plain,
    Single,
    Double,
}

/// Appends a space and `text` to a line that has `column` characters.
pub(super) fn write(yaml: &mut String, column: usize, text: &str) {
    yaml.push(' ');
    let chars: Vec<char> = text.chars().collect();
    let mut page = Page { yaml, column: column + 1 };
    match style(text, &chars) {
        Style::Plain => page.flow(&chars),
        Style::Single => {
            page.push('\'');
            page.flow_quoted(&chars);
            page.push('\'');
        }
        Style::Double => {
            page.push('"');
            page.escaped(&chars);
            page.push('"');
        }
    }
}

/// True for YAML 1.1's line breaks, except the carriage return, which PyYAML escapes.
fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// True for characters that activate an adjacent indicator.
fn is_blank(c: char) -> bool {
    is_break(c) || matches!(c, '\0' | ' ' | '\t' | '\r')
}

/// True if a character may be outside double quotes. U+10FFFF may not, because of an off-by-one
/// error in PyYAML.
fn is_printable(c: char) -> bool {
    matches!(c,
        '\n' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{FEFE}' | '\u{FF00}'..='\u{FFFD}'
        | '\u{10000}'..='\u{10FFFE}')
}

fn style(text: &str, chars: &[char]) -> Style {
    let space_beside_break = chars
        .windows(2)
        .any(|pair| (pair[0] == ' ' && is_break(pair[1])) || (is_break(pair[0]) && pair[1] == ' '));
    if space_beside_break || !chars.iter().all(|&c| is_printable(c)) {
        Style::Double
    } else if is_not_a_text(text) || chars.iter().any(|&c| is_break(c)) || has_indicator(chars) {
        Style::Single
    } else {
        Style::Plain
    }
}

/// True if a part of the text has a meaning in YAML, or if spaces at an end would be lost.
fn has_indicator(chars: &[char]) -> bool {
    let blank_after = |i: usize| chars.get(i + 1).is_none_or(|&c| is_blank(c));
    let at_start = chars.first().is_some_and(|&c| match c {
        '-' | '?' => blank_after(0),
        _ => " #,[]{}&*!|>'\"%@`".contains(c),
    });
    let document_marker = chars.starts_with(&['-'; 3]) || chars.starts_with(&['.'; 3]);
    let anywhere = chars.iter().enumerate().any(|(i, &c)| match c {
        ':' => blank_after(i),
        '#' => i > 0 && is_blank(chars[i - 1]),
        _ => false,
    });
    at_start || document_marker || anywhere || chars.last() == Some(&' ')
}

/// The output and the number of characters in its last line.
struct Page<'a> {
    yaml: &'a mut String,
    column: usize,
}

impl Page<'_> {
    fn push(&mut self, c: char) {
        self.yaml.push(c);
        self.column += 1;
    }

    fn fold(&mut self) {
        self.yaml.push_str(FOLD);
        self.column = FOLDED_COLUMN;
    }

    /// Writes one line, folded at single spaces.
    fn flow(&mut self, chars: &[char]) {
        for (i, &c) in chars.iter().enumerate() {
            let is_single_space = c == ' '
                && i > 0
                && chars[i - 1] != ' '
                && chars.get(i + 1).is_some_and(|&next| next != ' ');
            if is_single_space && self.column > WIDTH {
                self.fold();
            } else {
                self.push(c);
            }
        }
    }

    /// As [`Self::flow`], but doubles quotes and line breaks: YAML reads a single break as a space.
    fn flow_quoted(&mut self, chars: &[char]) {
        let mut rest = chars;
        while let [first, ..] = rest {
            let of_breaks = is_break(*first);
            let end = rest.iter().position(|&c| is_break(c) != of_breaks).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            if of_breaks {
                if *first == '\n' {
                    self.yaml.push('\n');
                }
                self.yaml.extend(run);
                self.yaml.push_str("  ");
                self.column = FOLDED_COLUMN;
            } else {
                let doubled = |&c: &char| std::iter::repeat_n(c, if c == '\'' { 2 } else { 1 });
                self.flow(&run.iter().flat_map(doubled).collect::<Vec<_>>());
            }
            rest = after;
        }
    }

    /// Writes text between double quotes. A line may be folded at a space or next to an escape: it
    /// ends with a backslash, and a space at the start of the next line gets another.
    fn escaped(&mut self, chars: &[char]) {
        let mut after_escape = false;
        for (i, &c) in chars.iter().enumerate() {
            let may_fold = 0 < i && i + 1 < chars.len();
            if let Some(escape) = escape(c) {
                self.yaml.push_str(&escape);
                self.column += escape.len();
                // PyYAML counts one less here: the next character has not begun.
                if may_fold && self.column - 1 > WIDTH {
                    self.fold_escaped(chars[i + 1]);
                }
                after_escape = true;
            } else {
                if may_fold && (c == ' ' || after_escape) && self.column > WIDTH {
                    self.fold_escaped(c);
                }
                self.push(c);
                after_escape = false;
            }
        }
    }

    fn fold_escaped(&mut self, next: char) {
        self.yaml.push('\\');
        self.fold();
        if next == ' ' {
            self.push('\\');
        }
    }
}

/// Returns the escape of a character between double quotes, if it needs one.
fn escape(c: char) -> Option<String> {
    let short = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{B}' => 'v',
        '\u{C}' => 'f',
        '\r' => 'r',
        '\u{1B}' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        // Characters above U+FFFF are escaped here even if they are printable.
        ' '..='~' | '\u{A0}'..='\u{FEFE}' | '\u{FF00}'..='\u{FFFD}' => return None,
        '\0'..='\u{FF}' => return Some(format!("\\x{:02X}", u32::from(c))),
        '\0'..='\u{FFFF}' => return Some(format!("\\u{:04X}", u32::from(c))),
        _ => return Some(format!("\\U{:08X}", u32::from(c))),
    };
    Some(format!("\\{short}"))
}
