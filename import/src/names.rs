//! Mapping between the tensors of a file and the parameters of a network, by names.

use std::borrow::Cow;

/// Pairs of a beginning in the file and a beginning in the module.
pub(crate) type Rows = Vec<(Cow<'static, str>, Cow<'static, str>)>;

/// The names of one network's tensors.
///
/// A parameter's path in its module is the tensor's name in the file, except for the beginnings
/// that are listed here. The longest beginning that matches applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorNames {
    /// Noun for messages, without an article.
    pub(crate) noun: &'static str,
    /// As published.
    pub(crate) published: Rows,
    /// Other spellings that are read and never written.
    pub(crate) others: Rows,
    /// Paths of parameters that the file leaves out because all their values are one.
    pub(crate) ones: Vec<String>,
}

impl TensorNames {
    /// Returns names that have only the published spelling.
    pub(crate) fn of(noun: &'static str, published: Rows) -> Self {
        Self { noun, published, others: Vec::new(), ones: Vec::new() }
    }

    /// Returns the path of tensor `name` in the module; `None` if it belongs to another network.
    pub(crate) fn path_of(&self, name: &str) -> Option<String> {
        let all = self.published.iter().chain(&self.others);
        let fitting = all.filter(|(file, _)| name.starts_with(&**file));
        let (file, module) = fitting.max_by_key(|(file, _)| file.len())?;
        Some(format!("{module}{}", &name[file.len()..]))
    }

    /// Returns the name in the file of the parameter at `path` of the module.
    pub(crate) fn name_of(&self, path: &str) -> String {
        let fitting = self.published.iter().filter(|(_, module)| path.starts_with(&**module));
        match fitting.max_by_key(|(_, module)| module.len()) {
            Some((file, module)) => format!("{file}{}", &path[module.len()..]),
            None => path.to_owned(),
        }
    }
}
