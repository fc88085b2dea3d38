//! PTX as text: statements with their labels, registers and symbols.
//!
//! Source: NVIDIA, "Parallel Thread Execution ISA", version 9.

use std::collections::HashMap;

/// A module of kernels.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) kernels: Vec<Kernel>,
    /// Variables in global memory, with initial bytes.
    pub(crate) globals: HashMap<String, Variable>,
}

/// A kernel as text.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// The compute capability that it was compiled for.
    pub(crate) capability: i32,
    /// Sizes and alignments of the parameters, in order.
    pub(crate) parameters: Vec<Variable>,
    /// The names of the parameters, with their offsets.
    pub(crate) offsets: HashMap<String, usize>,
    /// Bytes of all parameters.
    pub(crate) parameter_bytes: usize,
    /// Blocks per cluster, or 1.
    pub(crate) cluster: u32,
    /// Maximum number of threads per block, or 1024.
    pub(crate) threads: u32,
    pub(crate) statements: Vec<Statement>,
    /// Labels by their full name, and the statement after each.
    pub(crate) labels: HashMap<String, usize>,
    /// The types of registers, by their full name.
    pub(crate) registers: HashMap<String, Class>,
    /// Offsets of variables in shared memory.
    pub(crate) shared: HashMap<String, usize>,
    /// Bytes of shared memory that are no dynamic memory.
    pub(crate) shared_bytes: usize,
    /// Offsets of variables in the memory of a thread.
    pub(crate) local: HashMap<String, usize>,
    /// Bytes of memory of a thread.
    pub(crate) local_bytes: usize,
}

/// A variable in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variable {
    pub(crate) align: usize,
    pub(crate) bytes: usize,
    /// Initial bytes, fewer than `bytes` if the rest is zero.
    pub(crate) initial: Vec<u8>,
}

/// The class of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Predicate,
    /// Up to 32 bits.
    Word,
    Double,
}

/// An instruction as text.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    /// The predicate, with `!` before it if it is negated.
    pub(crate) guard: Option<String>,
    pub(crate) opcode: String,
    pub(crate) operands: Vec<String>,
}

impl Module {
    /// Parses a module.
    ///
    /// # Errors
    /// Text that is not understood.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = without_comments(text);
        let mut module = Self { kernels: Vec::new(), globals: HashMap::new() };
        let mut shared = Vec::new();
        let mut rest = text.as_str();
        let mut capability = 0;
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                break;
            }
            let line_end = rest.find('\n').unwrap_or(rest.len());
            let word = rest.split_whitespace().next().unwrap_or_default();
            match word {
                ".version" | ".target" | ".address_size" | ".file" | ".loc" => {
                    let target = rest[..line_end]
                        .split_whitespace()
                        .nth(1)
                        .and_then(|name| name.strip_prefix("sm_"));
                    if let (".target", Some(target)) = (word, target) {
                        capability =
                            target.trim_end_matches(char::is_alphabetic).parse().unwrap_or(0);
                    }
                    rest = &rest[line_end..];
                }
                ".section" => {
                    let end = rest.find('}').ok_or("a section without an end")?;
                    rest = &rest[end + 1..];
                }
                ".visible" | ".entry" | ".weak" if starts_entry(rest) => {
                    let open = body_start(rest).ok_or("a kernel without a body")?;
                    let end = open + matching(&rest[open..]).ok_or("a kernel without an end")?;
                    let kernel = Kernel::parse(&rest[..open], &rest[open + 1..end], &shared)?;
                    module.kernels.push(Kernel { capability, ..kernel });
                    rest = &rest[end + 1..];
                }
                _ => {
                    let end = rest.find(';').ok_or_else(|| format!("{word:?} without an end"))?;
                    module.declare(&rest[..end], &mut shared)?;
                    rest = &rest[end + 1..];
                }
            }
        }
        Ok(module)
    }

    fn declare(&mut self, text: &str, shared: &mut Vec<(String, Variable)>) -> Result<(), String> {
        if text.contains(".func") {
            return Err(format!("functions are not supported: {text}"));
        }
        let (name, variable) = variable(text)?;
        if text.contains(".shared") {
            shared.push((name, variable));
        } else {
            self.globals.insert(name, variable);
        }
        Ok(())
    }
}

fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        out.push_str(&rest[..at]);
        let after = &rest[at..];
        rest = if after.starts_with("//") {
            &after[after.find('\n').unwrap_or(after.len())..]
        } else if after.starts_with("/*") {
            &after[after.find("*/").map_or(after.len(), |end| end + 2)..]
        } else {
            out.push('/');
            &after[1..]
        };
    }
    out.push_str(rest);
    out
}

fn starts_entry(text: &str) -> bool {
    text.split_whitespace().take(2).any(|word| word == ".entry")
}

/// Returns the place of the brace after the parameters.
fn body_start(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, char)| {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            '{' if depth == 0 => return Some(at),
            _ => {}
        }
        None
    })
}

/// Returns the place of the brace that closes the first one.
fn matching(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, char)| {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (char == '}' && depth == 0).then_some(at)
    })
}

/// Parses the declaration of a variable, without the semicolon.
fn variable(text: &str) -> Result<(String, Variable), String> {
    let (declaration, initial) = text.split_once('=').unwrap_or((text, ""));
    let mut words = declaration.split_whitespace();
    let (mut align, mut size, mut count, mut name, mut is_pointer) = (0, 0, 1, None, false);
    while let Some(word) = words.next() {
        match word {
            // The alignment of what a parameter points to.
            ".align" if is_pointer => drop(words.next()),
            ".align" => align = words.next().and_then(|n| n.parse().ok()).unwrap_or(1),
            ".ptr" => is_pointer = true,
            _ if word.starts_with('.') => {
                let number = word.trim_start_matches(['.', 'b', 'u', 's', 'f']);
                match word {
                    ".v2" => count *= 2,
                    ".v4" => count *= 4,
                    _ => {
                        if let Ok(bits) = number.parse::<usize>() {
                            size = bits / 8;
                        }
                    }
                }
            }
            _ => {
                let mut parts = word.split('[');
                name = parts.next();
                for part in parts {
                    count *= part.trim_end_matches([']', ',']).parse::<usize>().unwrap_or(0);
                }
            }
        }
    }
    let name = name.ok_or_else(|| format!("a variable without a name: {text}"))?;
    let mut bytes = Vec::new();
    for item in
        initial.trim().trim_matches(['{', '}']).split(',').filter(|item| !item.trim().is_empty())
    {
        let number = immediate(item.trim()).ok_or_else(|| format!("not a number: {item}"))?;
        bytes.extend(&number.to_le_bytes()[..size]);
    }
    let align = if align == 0 { size.max(1) } else { align };
    Ok((
        name.trim_end_matches(',').to_owned(),
        Variable { align, bytes: size * count, initial: bytes },
    ))
}

/// Parses a number; floats are the bits of their type.
pub(crate) fn immediate(text: &str) -> Option<u64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let digits = digits.strip_suffix('U').unwrap_or(digits);
    let value = if let Some(hex) = digits.strip_prefix("0f").or(digits.strip_prefix("0F")) {
        u64::from_str_radix(hex, 16).ok()?
    } else if let Some(hex) = digits.strip_prefix("0d").or(digits.strip_prefix("0D")) {
        u64::from_str_radix(hex, 16).ok()?
    } else if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16).ok()?
    } else {
        digits.parse().ok()?
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

/// A block of statements, in which names may be declared anew.
struct Scope {
    number: usize,
    registers: HashMap<String, String>,
    labels: HashMap<String, String>,
}

impl Kernel {
    fn parse(header: &str, body: &str, shared: &[(String, Variable)]) -> Result<Self, String> {
        let mut kernel = Self { cluster: 1, threads: 1024, ..Self::default() };
        let (start, rest) = header.split_once('(').unwrap_or((header, ""));
        let (list, directives) = rest.rsplit_once(')').unwrap_or((rest, ""));
        kernel.name = start.split_whitespace().last().unwrap_or_default().to_owned();
        for text in list.split(',').filter(|text| !text.trim().is_empty()) {
            let (name, variable) = variable(text)?;
            let offset = kernel.parameter_bytes.next_multiple_of(variable.align);
            kernel.offsets.insert(name, offset);
            kernel.parameter_bytes = offset + variable.bytes;
            kernel.parameters.push(variable);
        }
        let product = |name: &str| -> Option<u32> {
            let (_, rest) = directives.split_once(name)?;
            let numbers = rest.split('\n').next()?.split(',');
            Some(numbers.filter_map(|number| number.trim().parse::<u32>().ok()).product())
        };
        kernel.cluster = product(".reqnctapercluster").unwrap_or(1);
        kernel.threads = product(".maxntid").or(product(".reqntid")).unwrap_or(1024);
        for (name, variable) in shared.iter().filter(|(_, variable)| variable.bytes > 0) {
            kernel.share(name, variable);
        }
        kernel.body(body)?;
        // Dynamic memory follows the rest.
        for (name, variable) in shared.iter().filter(|(_, variable)| variable.bytes == 0) {
            kernel.shared_bytes = kernel.shared_bytes.next_multiple_of(variable.align);
            kernel.shared.insert(name.clone(), kernel.shared_bytes);
        }
        Ok(kernel)
    }

    fn share(&mut self, name: &str, variable: &Variable) {
        let offset = self.shared_bytes.next_multiple_of(variable.align);
        self.shared.insert(name.to_owned(), offset);
        self.shared_bytes = offset + variable.bytes;
    }

    fn body(&mut self, body: &str) -> Result<(), String> {
        let scopes = label_scopes(body);
        let mut stack = vec![Scope::new(0, &scopes)];
        let mut seen = 0;
        let mut rest = body;
        loop {
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else { break };
            if first == '{' {
                seen += 1;
                stack.push(Scope::new(seen, &scopes));
                rest = &rest[1..];
                continue;
            }
            if first == '}' {
                stack.pop();
                rest = &rest[1..];
                continue;
            }
            if is_note(rest) {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            if let Some((label, after)) = label(rest) {
                let full = renamed(&stack, label, |scope| &scope.labels);
                self.labels.insert(full, self.statements.len());
                rest = after;
                continue;
            }
            let end =
                rest.find(';').ok_or_else(|| format!("no end: {}", &rest[..rest.len().min(80)]))?;
            let text = rest[..end].trim();
            rest = &rest[end + 1..];
            if text.is_empty() {
                continue;
            }
            if let Some(list) = text.strip_prefix(".reg") {
                self.declare(list, stack.last_mut().expect("the body is a scope"))?;
            } else if text.starts_with('.') {
                let (name, variable) = variable(text)?;
                if text.starts_with(".shared") {
                    self.share(&name, &variable);
                } else {
                    let offset = self.local_bytes.next_multiple_of(variable.align);
                    self.local.insert(name, offset);
                    self.local_bytes = offset + variable.bytes;
                }
            } else {
                self.statements.push(statement(text, &stack));
            }
        }
        Ok(())
    }

    /// Declares registers: names, or a name with their number.
    fn declare(&mut self, list: &str, scope: &mut Scope) -> Result<(), String> {
        let list = list.trim();
        let (class, names) =
            list.split_once(char::is_whitespace).ok_or("registers without names")?;
        let class = match class {
            ".pred" => Class::Predicate,
            ".b64" | ".u64" | ".s64" | ".f64" => Class::Double,
            ".b128" => return Err("registers of 128 bits are not supported".to_owned()),
            _ => Class::Word,
        };
        for name in names.split(',').map(str::trim) {
            let all: Vec<String> = match name.split_once('<') {
                Some((name, count)) => {
                    let count: usize =
                        count.trim_end_matches('>').parse().map_err(|_| "a number of registers")?;
                    (0..count).map(|index| format!("{name}{index}")).collect()
                }
                None => vec![name.to_owned()],
            };
            for name in all {
                let full = if scope.number == 0 {
                    name.clone()
                } else {
                    format!("{name}#{}", scope.number)
                };
                self.registers.insert(full.clone(), class);
                scope.registers.insert(name, full);
            }
        }
        Ok(())
    }
}

impl Scope {
    fn new(number: usize, labels: &[Vec<String>]) -> Self {
        let labels =
            labels[number].iter().map(|label| (label.clone(), format!("{label}#{number}")));
        Self { number, registers: HashMap::new(), labels: labels.collect() }
    }
}

/// Returns the labels of each scope, for a branch may come before its label.
fn label_scopes(body: &str) -> Vec<Vec<String>> {
    let mut scopes = vec![Vec::new()];
    let mut stack = vec![0];
    let mut rest = body;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { break };
        if first == '{' {
            scopes.push(Vec::new());
            stack.push(scopes.len() - 1);
            rest = &rest[1..];
        } else if first == '}' {
            stack.pop();
            rest = &rest[1..];
        } else if is_note(rest) {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if let Some((label, after)) = label(rest) {
            scopes[stack.last().copied().unwrap_or(0)].push(label.to_owned());
            rest = after;
        } else {
            rest = &rest[rest.find(';').map_or(rest.len(), |end| end + 1)..];
        }
    }
    scopes
}

/// True if the line says something to debuggers or compilers alone.
fn is_note(text: &str) -> bool {
    matches!(text.split_whitespace().next(), Some(".loc" | ".pragma"))
}

/// Returns a label at the beginning, and what follows it.
fn label(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|char: char| !(char.is_alphanumeric() || "_$".contains(char)))?;
    (end > 0 && text[end..].starts_with(':') && !text[end..].starts_with("::"))
        .then(|| (&text[..end], &text[end + 1..]))
}

/// Returns the full name of `name` in the innermost scope that declares it.
fn renamed(
    stack: &[Scope],
    name: &str,
    names: impl Fn(&Scope) -> &HashMap<String, String>,
) -> String {
    let found = stack.iter().rev().find_map(|scope| names(scope).get(name));
    found.cloned().unwrap_or_else(|| name.to_owned())
}

fn statement(text: &str, stack: &[Scope]) -> Statement {
    let (guard, text) = match text.strip_prefix('@') {
        Some(rest) => {
            let (guard, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            (Some(guard), rest.trim())
        }
        None => (None, text),
    };
    let (opcode, list) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rename = |operand: &str| {
        // Names are the longest runs of these characters.
        let is_name = |char: char| char.is_alphanumeric() || "_$%.".contains(char);
        let mut out = String::new();
        let mut rest = operand;
        while !rest.is_empty() {
            let start = rest.find(is_name).unwrap_or(rest.len());
            out.push_str(&rest[..start]);
            rest = &rest[start..];
            let end = rest.find(|char| !is_name(char)).unwrap_or(rest.len());
            let name = &rest[..end];
            let register = renamed(stack, name, |scope| &scope.registers);
            let full = if register == name {
                renamed(stack, name, |scope| &scope.labels)
            } else {
                register
            };
            out.push_str(&full);
            rest = &rest[end..];
        }
        out
    };
    Statement {
        guard: guard.map(&rename),
        opcode: opcode.to_owned(),
        operands: parts(list).into_iter().map(|operand| rename(operand.trim())).collect(),
    }
}

/// Splits at commas outside of brackets and braces.
pub(crate) fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, char) in list.char_indices() {
        match char {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !list[start..].trim().is_empty() {
        parts.push(&list[start..]);
    }
    parts
}
