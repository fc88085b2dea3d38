//! Loading of tensors into a freshly initialised module, all or nothing.
//!
//! Names, shapes and types are compared before the first byte is read, so that a wrong checkpoint
//! fails quickly. Parameters are initialised lazily and replaced one by one: the peak memory is the
//! parameters plus about one tensor.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc};

use acestep_model::{
    Backend, kept_as,
    nn::{quantizing, set_q8_words},
};
use burn::{
    module::{Module, ModuleVisitor, Param, ParamId},
    tensor::{DType, Shape, Tensor, TensorData},
};
use burn_store::{ModuleSnapshot, TensorSnapshot, TensorSnapshotError};
use half::bf16;

use crate::{
    Error, Tensors,
    adapter::Shared,
    convert::{self, Element as _},
    error::NameList,
    fold::fold,
    names::TensorNames,
    quantized::{Matrix, Quantized},
    safetensors::is_beyond_f16,
};

/// (Ending of the length, ending of the direction) of a weight-norm pair: PyTorch's `weight_norm`, and
/// its parametrization since 2.0.
const PAIRS: [(&str, &str); 2] = [
    (".weight_g", ".weight_v"),
    (".parametrizations.weight.original0", ".parametrizations.weight.original1"),
];

/// Source of a parameter's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A tensor of the file.
    Plain(String),
    /// A weight-norm pair: names of `g` and `v`.
    WeightNorm(String, String),
    /// Ones, which the file leaves out.
    Ones,
}

impl Source {
    /// Returns the name of the tensor that has the parameter's shape, if the file has one.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Plain(name) | Self::WeightNorm(_, name) => Some(name),
            Self::Ones => None,
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        match self {
            Self::Plain(name) => [Some(name.as_str()), None],
            Self::WeightNorm(g, v) => [Some(g.as_str()), Some(v.as_str())],
            Self::Ones => [None, None],
        }
        .into_iter()
        .flatten()
    }

    /// Returns the type to read for a parameter that is stored as `dtype`. It avoids a second
    /// rounding before int8, and is not wider than the type of the file.
    fn read_type(&self, tensors: &Tensors, dtype: DType) -> DType {
        match (self, dtype) {
            (Self::Plain(name), DType::I8) if tensors.dtype(name) == Some("BF16") => DType::BF16,
            (_, DType::I8) => DType::F32,
            (_, same) => same,
        }
    }

    /// Reads the value with the parameter's `shape`, as `dtype`.
    fn read(
        &self,
        tensors: &Tensors,
        shape: Vec<usize>,
        dtype: DType,
    ) -> Result<TensorData, Error> {
        match self {
            Self::Plain(name) => tensors.read_as(name, shape, dtype),
            Self::WeightNorm(g, v) => {
                let mut weight = tensors.values::<f32>(v)?;
                if !fold(&tensors.values::<f32>(g)?, &mut weight) {
                    let path = tensors.file_of(v).to_owned();
                    return Err(Error::NotFinite { path, tensor: v.clone() });
                }
                if dtype == DType::F16 && weight.iter().copied().any(is_beyond_f16) {
                    return Err(tensors.beyond_f16(v));
                }
                Ok(match dtype {
                    DType::BF16 => TensorData::new(convert::narrowed(&weight), shape),
                    DType::F32 => TensorData::new(weight, shape),
                    other => TensorData::new(weight, shape).convert_dtype(other),
                })
            }
            Self::Ones => Ok(TensorData::ones::<f32, _>(shape).convert_dtype(dtype)),
        }
    }
}

/// Returns the parameters of the network with these `names` in the files: module path to source.
pub(crate) fn sources(
    tensors: &Tensors,
    names: &TensorNames,
) -> Result<BTreeMap<String, Source>, Error> {
    let ones = names.ones.iter().map(|path| (path.clone(), Source::Ones));
    let mut sources: BTreeMap<String, Source> = ones.collect();
    for name in tensors.names() {
        let Some(mut path) = names.path_of(name) else { continue };
        tensors.check_dtype(name)?;
        let pair = |other: String| match tensors.has(&other) {
            true => Ok(other),
            false => Err(Error::HalfWeightNorm {
                path: tensors.file_of(name).to_owned(),
                found: name.to_owned(),
                missing: other,
            }),
        };
        let of = |ending: fn(&(&'static str, &'static str)) -> &'static str| {
            PAIRS.iter().find_map(|both| Some((name.strip_suffix(ending(both))?, both)))
        };
        let source = if let Some((stem, (g, _))) = of(|both| both.1) {
            pair(format!("{stem}{g}"))?;
            continue;
        } else if let Some((stem, (g, v))) = of(|both| both.0) {
            let v = pair(format!("{stem}{v}"))?;
            check_g(tensors, name, &v)?;
            path.truncate(path.len() - g.len());
            path.push_str(".weight");
            Source::WeightNorm(name.to_owned(), v)
        } else {
            Source::Plain(name.to_owned())
        };
        let second = source.name().unwrap_or(name).to_owned();
        if let Some(first) = sources.insert(path.clone(), source) {
            let first = first.name().map_or(path, str::to_owned);
            return Err(Error::SameParameter { path: tensors.path().to_owned(), first, second });
        }
    }
    Ok(sources)
}

/// Checks that `g` is `[d, 1, ..]` if `v` is `[d, ..]`.
fn check_g(tensors: &Tensors, g: &str, v: &str) -> Result<(), Error> {
    let mut expected = tensors.shape(v)?.to_vec();
    expected.iter_mut().skip(1).for_each(|size| *size = 1);
    if tensors.fits(g, &expected)? {
        return Ok(());
    }
    let found = tensors.shape(g)?.to_vec();
    let path = tensors.file_of(g).to_owned();
    Err(Error::WrongShape { path, tensor: g.to_owned(), by: "its `weight_v`", expected, found })
}

/// Returns the number of values and bytes of a part in its files.
pub(crate) fn size(tensors: &Tensors, names: &TensorNames) -> Result<PartSize, Error> {
    let mut size = PartSize { parameters: 0, file_bytes: 0 };
    for source in sources(tensors, names)?.values() {
        let Some(name) = source.name() else { continue };
        size.parameters += tensors.shape(name)?.iter().product::<usize>() as u64;
        size.file_bytes += source.names().map(|name| tensors.bytes(name)).sum::<u64>();
    }
    Ok(size)
}

/// Size of one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartSize {
    /// Number of parameters; a weight-norm pair counts as the folded weight.
    pub parameters: u64,
    /// Bytes in the files.
    pub file_bytes: u64,
}

/// Paths, shapes and kinds of a module's parameters, without initialising them.
#[derive(Default)]
struct Expected {
    stack: Vec<String>,
    /// Container of each module of the stack.
    containers: Vec<String>,
    parameters: BTreeMap<String, Parameter>,
}

/// Expected properties of a parameter.
struct Parameter {
    shape: Vec<usize>,
    /// Its own name; the container of its layer follows.
    name: String,
    layer: String,
}

impl<B: burn::tensor::backend::Backend> ModuleVisitor<B> for Expected {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let shape = param.lazy_shape().iter().copied().collect();
        let last = |of: &[String]| of.last().cloned().unwrap_or_default();
        let (name, layer) = (last(&self.stack), last(&self.containers));
        self.parameters.insert(self.stack.join("."), Parameter { shape, name, layer });
    }

    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.stack.push(name.to_owned());
        self.containers.push(container_type.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.stack.pop();
        self.containers.pop();
    }
}

/// Checks that `sources` are exactly the parameters of `module`, with matching shapes, and returns
/// the parameters.
fn check<B: Backend, M: Module<B>>(
    module: &M,
    tensors: &Tensors,
    names: &TensorNames,
    sources: &BTreeMap<String, Source>,
) -> Result<BTreeMap<String, Parameter>, Error> {
    let mut expected = Expected::default();
    module.visit(&mut expected);
    let expected = expected.parameters;

    let missing: Vec<_> = expected
        .keys()
        .filter(|path| !sources.contains_key(*path))
        .map(|path| names.name_of(path))
        .collect();
    if !missing.is_empty() {
        let path = tensors.path().to_owned();
        return Err(Error::MissingTensors { path, part: names.noun, names: NameList(missing) });
    }
    let unused: Vec<_> = sources
        .iter()
        .filter(|(path, _)| !expected.contains_key(*path))
        .flat_map(|(_, source)| source.names().map(str::to_owned))
        .collect();
    if !unused.is_empty() {
        return Err(unused_tensors(tensors, names.noun, unused));
    }
    for (path, source) in sources {
        let expected = &expected[path].shape;
        if let Some(name) = source.name()
            && !tensors.fits(name, expected)?
        {
            return Err(tensors.wrong_shape(name, expected.clone()));
        }
    }
    Ok(expected)
}

/// Returns the paths and shapes of the parameters of the network with these `names` in the files.
pub(crate) fn shapes(
    tensors: &Tensors,
    names: &TensorNames,
) -> Result<Vec<(String, Vec<usize>)>, Error> {
    let shape = |(path, source): (String, Source)| {
        let shape = tensors.shape(source.name()?).map(<[usize]>::to_vec);
        Some(shape.map(|shape| (path, shape)))
    };
    sources(tensors, names)?.into_iter().filter_map(shape).collect()
}

/// Merges the adapted weights of the network with these `names` to measure the change of `adapters` in `dtype`.
pub(crate) fn measure(
    tensors: &Tensors,
    names: &TensorNames,
    dtype: DType,
    adapters: &Shared,
) -> Result<(), Error> {
    let sources = sources(tensors, names)?;
    let mut changed = sources.iter().filter(|(path, _)| adapters.change(path));
    changed.try_for_each(|(path, source)| {
        let weight = source.read(tensors, shape_of(source, tensors)?, DType::F32)?;
        let others = |path: &str| values(&sources[path], tensors);
        adapters.merge(path, weight, dtype, &others).map(drop)
    })
}

/// The values of `source` in f32.
fn values(source: &Source, tensors: &Tensors) -> Result<Vec<f32>, Error> {
    let shape = shape_of(source, tensors)?;
    Ok(source.read(tensors, shape, DType::F32)?.to_vec().expect("it was read as f32"))
}

/// The shape of `source` in the file; no adapter changes a parameter that the file leaves out.
fn shape_of(source: &Source, tensors: &Tensors) -> Result<Vec<usize>, Error> {
    Ok(source.name().map(|name| tensors.shape(name)).transpose()?.unwrap_or_default().to_vec())
}

/// Returns the matrices that `module`, the network with these `names`, holds in int8.
pub(crate) fn matrices<'a, B: Backend, M: Module<B>>(
    module: &M,
    tensors: &'a Tensors,
    names: &TensorNames,
) -> Result<Vec<Matrix<'a>>, Error> {
    let sources = sources(tensors, names)?;
    let parameters = check(module, tensors, names, &sources)?;
    let matrix = |(path, source): (String, Source)| {
        let Parameter { shape, name, layer } = &parameters[&path];
        let is_kept = kept_as::<B>(name, layer, DType::I8) == DType::I8;
        let shape = <[usize; 2]>::try_from(&shape[..]).ok().filter(|_| is_kept)?;
        let name = source.name()?.to_owned();
        let dtype = source.read_type(tensors, DType::I8);
        let read = Box::new(move || source.read(tensors, shape.to_vec(), dtype));
        Some(Matrix { name, shape, read })
    };
    Ok(sources.into_iter().filter_map(matrix).collect())
}

/// Compares the names and shapes of `module`'s parameters with the tensors of the network with these `names`.
pub(crate) fn compare<B: Backend, M: Module<B>>(
    module: &M,
    tensors: &Tensors,
    names: &TensorNames,
) -> Result<(), Error> {
    check(module, tensors, names, &sources(tensors, names)?).map(drop)
}

/// Returns the error for tensors that no network uses.
pub(crate) fn unused_tensors(tensors: &Tensors, part: &'static str, names: Vec<String>) -> Error {
    let path = tensors.path().to_owned();
    Error::UnusedTensors { path, part, count: names.len(), names: NameList(names) }
}

/// Fills `module` with the tensors of the network with these `names`, in a network of `dtype`,
/// changed by `adapters`. Matrices in int8 come from `quantized`, unless an adapter changes them.
pub(crate) fn load<B: Backend, M: Module<B>>(
    mut module: M,
    tensors: &Arc<Tensors>,
    names: &TensorNames,
    dtype: DType,
    adapters: Option<&Shared>,
    quantized: Option<&Arc<Quantized>>,
) -> Result<M, Error> {
    let sources = sources(tensors, names)?;
    let parameters = check(&module, tensors, names, &sources)?;

    // Burn keeps only the text of a snapshot's error; this keeps the error itself.
    let failure = Rc::new(RefCell::new(None));
    let sources = Rc::new(sources);
    let snapshots = sources.iter().map(|(path, source)| {
        let (path, source) = (path.clone(), source.clone());
        let Parameter { shape, name, layer } = &parameters[&path];
        let (shape, dtype) = (shape.clone(), kept_as::<B>(name, layer, dtype));
        // With adapters the sum is computed in f32.
        let is_changed = adapters.is_some_and(|adapters| adapters.change(&path));
        let read_as = match dtype {
            DType::I8 if is_changed => DType::F32,
            _ => source.read_type(tensors, dtype),
        };
        let sizes = Shape::from(shape.clone());
        let (tensors, failure) = (Arc::clone(tensors), Rc::clone(&failure));
        let stack = path.split('.').map(str::to_owned).collect();
        let adapters = adapters.filter(|adapters| adapters.change(&path)).cloned();
        let sources = Rc::clone(&sources);
        let quantized = quantized.filter(|_| dtype == DType::I8 && !is_changed).cloned();
        let read = move || {
            let others = |path: &str| self::values(&sources[path], &tensors);
            let values = match (&adapters, &quantized) {
                (None, None) => source.read(&tensors, shape.clone(), read_as),
                (None, Some(quantized)) => {
                    set_words::<B>(quantized, &source, &shape).map(|()| empty(&shape, read_as))
                }
                (Some(adapters), _) => source
                    .read(&tensors, shape.clone(), DType::F32)
                    .and_then(|weight| adapters.merge(&path, weight, dtype, &others)),
            };
            values.map_err(|error| {
                let text = error.to_string();
                failure.borrow_mut().get_or_insert(error);
                TensorSnapshotError::DataError(text)
            })
        };
        Ok(TensorSnapshot::from_closure(
            Rc::new(read),
            read_as,
            sizes,
            stack,
            Vec::new(),
            ParamId::new(),
        ))
    });
    let snapshots = snapshots.collect::<Result<_, Error>>()?;
    let apply = || module.apply(snapshots, None, None, false);
    let result = if dtype == DType::I8 { quantizing(apply) } else { apply() };
    if let Some(error) = failure.borrow_mut().take() {
        return Err(error);
    }
    // `check` has excluded all other errors.
    assert!(
        result.errors.is_empty() && result.missing.is_empty() && result.unused.is_empty(),
        "the {} was not applied as checked: {:?} {:?} {:?}",
        names.noun,
        result.errors,
        result.missing,
        result.unused
    );
    Ok(module)
}

/// Gives the weight that is loaded now its words in int8.
fn set_words<B: Backend>(
    quantized: &Quantized,
    source: &Source,
    shape: &[usize],
) -> Result<(), Error> {
    // Only matrices are in int8.
    let (&[rows, width], Some(name)) = (shape, source.name()) else { return Ok(()) };
    quantized.words(name, [rows, B::q8_words(width)]).map(set_q8_words)
}

/// Returns zeros that nothing reads, so the system gives no memory for them.
fn empty(shape: &[usize], dtype: DType) -> TensorData {
    let count = shape.iter().product();
    match dtype {
        DType::BF16 => TensorData::new(bf16::zeros(count), shape.to_vec()),
        _ => TensorData::new(f32::zeros(count), shape.to_vec()),
    }
}

#[cfg(test)]
mod tests;
