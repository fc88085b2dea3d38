//! Statements become instructions.

mod arithmetic;
mod cooperation;
mod operands;

use crate::{
    instruction::Instruction,
    ptx::{Class, Kernel, Statement},
};
use operands::Names;

/// A kernel that can run.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) name: String,
    /// The compute capability that it was compiled for.
    pub(crate) capability: i32,
    pub(crate) instructions: Vec<Instruction>,
    /// The text of each instruction, for messages.
    pub(crate) texts: Vec<String>,
    /// Numbers of registers: predicates, words, doubles.
    pub(crate) registers: [usize; 3],
    /// Sizes and offsets of the parameters.
    pub(crate) parameters: Vec<[usize; 2]>,
    pub(crate) parameter_bytes: usize,
    pub(crate) shared_bytes: usize,
    pub(crate) local_bytes: usize,
    pub(crate) cluster: u32,
    pub(crate) threads: u32,
}

impl Code {
    /// Decodes a kernel. `globals` returns addresses of variables in global memory.
    ///
    /// # Errors
    /// An instruction that is not supported.
    pub(crate) fn decode(
        kernel: &Kernel,
        globals: impl Fn(&str) -> Option<u64>,
    ) -> Result<Self, String> {
        let mut counts = [0usize; 3];
        let mut names: Vec<(&String, Class)> =
            kernel.registers.iter().map(|(name, &class)| (name, class)).collect();
        names.sort_unstable_by_key(|&(name, _)| name);
        let registers = names.into_iter().map(|(name, class)| {
            let count = &mut counts[class as usize];
            *count += 1;
            (name.as_str(), (class, (*count - 1) as u32))
        });
        let registers = registers.collect();
        let names = Names { registers, kernel, globals: &globals };
        let mut instructions = Vec::new();
        let mut texts = Vec::new();
        for statement in &kernel.statements {
            let text = text_of(statement);
            let decoded = instruction(statement, &names);
            instructions
                .push(decoded.map_err(|reason| format!("{}: {reason}: {text}", kernel.name))?);
            texts.push(text);
        }
        let mut offset = 0;
        let parameters = kernel.parameters.iter().map(|parameter| {
            offset = usize::next_multiple_of(offset, parameter.align);
            offset += parameter.bytes;
            [parameter.bytes, offset - parameter.bytes]
        });
        Ok(Self {
            name: kernel.name.clone(),
            capability: kernel.capability,
            parameters: parameters.collect(),
            parameter_bytes: kernel.parameter_bytes,
            shared_bytes: kernel.shared_bytes,
            local_bytes: kernel.local_bytes.next_multiple_of(16),
            cluster: kernel.cluster,
            threads: kernel.threads,
            instructions,
            texts,
            registers: counts,
        })
    }
}

fn text_of(statement: &Statement) -> String {
    let guard = statement.guard.as_ref().map_or(String::new(), |guard| format!("@{guard} "));
    format!("{guard}{} {}", statement.opcode, statement.operands.join(", "))
}

fn instruction(statement: &Statement, names: &Names<'_>) -> Result<Instruction, String> {
    let guard = match &statement.guard {
        Some(name) => Some(names.guard(name)?),
        None => None,
    };
    let parts: Vec<&str> = statement.opcode.split('.').filter(|part| !part.is_empty()).collect();
    let operands: Vec<&str> = statement.operands.iter().map(String::as_str).collect();
    let operation = match arithmetic::decoded(&parts, &operands, names)? {
        Some(operation) => operation,
        None => cooperation::decoded(&parts, &operands, names)?,
    };
    Ok(Instruction { guard, operation })
}
