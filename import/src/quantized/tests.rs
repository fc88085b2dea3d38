use std::{fs, path::Path};

use acestep_model::{Place, qwen3};
use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::Int,
};
use burn_flex::FlexDevice;

use super::*;
use crate::{
    LanguageModelDir, open_tiny_language_model,
    testing::{B, copy_of_language_model as copy, edit_tensors, rewrite},
};

/// The words of all matrices in int8, and all float values.
#[derive(Default, PartialEq, Debug)]
struct Contents(Vec<Vec<u8>>, Vec<Vec<u8>>);

impl ModuleVisitor<B> for Contents {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.1.push(param.val().into_data().as_bytes().to_vec());
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<B, D, Int>>) {
        self.0.push(param.val().into_data().as_bytes().to_vec());
    }
}

fn contents(model: &qwen3::Causal<B>) -> Contents {
    let mut contents = Contents::default();
    model.visit(&mut contents);
    contents
}

fn open(path: &Path) -> LanguageModelDir {
    LanguageModelDir::open(Directory::Disk(path.to_owned())).expect("a model")
}

fn load(path: &Path) -> Result<Contents, Error> {
    let place = Place::<B> { device: FlexDevice, dtype: DType::I8 };
    Ok(contents(&open(path).model(&place)?))
}

fn quantize(path: &Path) -> Result<PathBuf, Error> {
    open(path).quantize::<B>(&FlexDevice, &|_, _| true)
}

/// The weights are changed after the file was written, but neither in the sampled bytes nor in
/// length, so the words can only be those of the file.
#[test]
fn a_network_takes_its_matrices_from_the_file_and_the_rest_from_the_weights() {
    let (_temporary, path) = copy();
    let fresh = load(&path).expect("loaded");
    assert_eq!(fresh.0.len(), 4 * 7 + 1);
    let written = quantize(&path).expect("written");
    assert_eq!(written.file_name().expect("a name"), "model.language-model.q8");
    assert_eq!(load(&path).expect("loaded"), fresh);

    let weights = path.join("model.safetensors");
    rewrite(&weights, |name, mut tensor| {
        // The sampled bytes are all of a small one.
        if let Some(at) = tensor.bytes.len().checked_sub(4).filter(|&at| at > 1000) {
            tensor.bytes[at..].copy_from_slice(&99.0f32.to_le_bytes());
        }
        (name.to_owned(), tensor)
    });
    assert_eq!(load(&path).expect("loaded"), fresh);
    fs::remove_file(&written).expect("removed");
    assert_ne!(load(&path).expect("loaded").0, fresh.0);
}

#[test]
fn other_types_do_not_read_the_file() {
    let (_temporary, path) = copy();
    let place = Place::<B> { device: FlexDevice, dtype: DType::BF16 };
    let plain = contents(&open(&path).model(&place).expect("loaded"));
    let written = quantize(&path).expect("written");
    fs::write(&written, "nothing").expect("damaged");
    assert_eq!(contents(&open(&path).model(&place).expect("loaded")), plain);
    assert!(matches!(load(&path), Err(Error::BadQuantized(_))));
}

#[test]
fn a_file_of_other_weights_is_refused_and_written_again() {
    let (_temporary, path) = copy();
    let written = quantize(&path).expect("written");
    let weights = path.join("model.safetensors");
    rewrite(&weights, |name, mut tensor| {
        tensor.bytes[..4].copy_from_slice(&7.0f32.to_le_bytes());
        (name.to_owned(), tensor)
    });
    let error = load(&path).expect_err("other weights");
    assert!(matches!(&error, Error::OtherQuantized { .. }), "{error}");
    assert!(error.hint().expect("a hint").contains("quantise the model again"));
    assert_eq!(quantize(&path).expect("written"), written);
    assert!(load(&path).is_ok());
    // The same name, another order of words, or a matrix less.
    let bytes = fs::read(&written).expect("a file");
    let text = String::from_utf8_lossy(&bytes[..4000]);
    let at = text.find(r#""acestep_q8":"1""#).expect("the version") + 14;
    let mut other = bytes.clone();
    other[at] = b'2';
    fs::write(&written, other).expect("changed");
    assert!(matches!(load(&path), Err(Error::OtherQuantized { .. })));
    fs::write(&written, &bytes[..bytes.len() / 2]).expect("cut");
    let error = load(&path).expect_err("cut");
    assert!(error.to_string().contains("is cut: it has"), "{error}");
    assert_eq!(error.hint().as_deref(), Some("remove the file, or quantise the model again"));
    fs::write(&written, &bytes).expect("whole");
    edit_tensors(&written, |tensors| drop(tensors.pop()));
    assert!(load(&path).is_err());
}

#[test]
fn work_that_is_ended_leaves_the_earlier_file() {
    let (_temporary, path) = copy();
    let written = quantize(&path).expect("written");
    let before = fs::read(&written).expect("a file");
    let seen = RefCell::new(Vec::new());
    let error = open(&path).quantize::<B>(&FlexDevice, &|done, all| {
        seen.borrow_mut().push((done, all));
        done < 3
    });
    assert!(matches!(error, Err(Error::NotWritten { .. })));
    assert_eq!(seen.into_inner(), [(0, 29), (1, 29), (2, 29), (3, 29)]);
    assert!(fs::read(&written).expect("a file") == before);
    assert_eq!(fs::read_dir(&path).expect("a folder").count(), {
        let (_temporary, path) = copy();
        fs::read_dir(path).expect("a folder").count() + 1
    });
    let tiny = open_tiny_language_model().expect("built in");
    let error = tiny.quantize::<B>(&FlexDevice, &|_, _| true).expect_err("no folder");
    assert!(matches!(error, Error::NoPlace { .. }), "{error}");
}
