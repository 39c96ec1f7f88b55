//! Reading a model to start from.

use std::path::{Path, PathBuf};

use atoll_protocol::genesis::{Model, TensorSpec};

use super::error::HuggingFaceError;
use super::weights::Weights;
use super::{CONFIG, config, gguf};
use crate::island::data::TokenizerFiles;
use crate::island::data::tokenizer::TOKENIZER;
use crate::island::layout::Layout;

/// A model that was read, whole and checked.
#[derive(Debug)]
pub struct Imported {
    /// Its shape.
    pub model: Model,
    /// Values of the model's tensors, in the order of [`Model::tensors`], which is by name.
    pub tensors: Vec<Vec<f32>>,
    /// How text becomes tokens, if it came along.
    pub tokenizer: Option<TokenizerFiles>,
}

impl Imported {
    /// The parameters as one slice in the order of `layout`, which is of a run of this model.
    pub fn into_parameters(self, layout: &Layout) -> Result<Vec<f32>, HuggingFaceError> {
        let given = self.tensors.iter().map(Vec::len).sum();
        let expected = layout.elements();
        let fits = layout.tensors().len() == self.tensors.len()
            && layout.tensors().iter().zip(&self.tensors).all(|(a, b)| a.range.len() == b.len());
        if !fits {
            return Err(HuggingFaceError::Parameters { expected, given });
        }
        let mut parameters = vec![0.0; expected];
        for (place, values) in layout.tensors().iter().zip(self.tensors) {
            parameters[place.range.clone()].copy_from_slice(&values);
        }
        Ok(parameters)
    }
}

/// Reads a Hugging Face folder, or a GGUF file, of the Llama architecture.
pub fn import(path: &Path) -> Result<Imported, HuggingFaceError> {
    if path.is_file() {
        return gguf::import(path);
    }
    let config_path = path.join(CONFIG);
    if !config_path.is_file() {
        return Err(HuggingFaceError::NoModel(path.to_owned()));
    }
    let text = read_text(&config_path)?;
    let model = config::read(&config_path, &text)?;
    let weights = Weights::open(path)?;
    let specs = model.tensors();
    check_names(&weights, &specs)?;
    let read = |spec: &TensorSpec| weights.read(&spec.name, &sides(spec));
    let tensors = specs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    check_head(&weights, &specs, &tensors)?;
    let tokenizer = path.join(TOKENIZER);
    let tokenizer =
        if tokenizer.is_file() { Some(TokenizerFiles::read(&tokenizer)?) } else { None };
    Ok(Imported { model, tensors, tokenizer })
}

fn read_text(path: &Path) -> Result<String, HuggingFaceError> {
    std::fs::read_to_string(path).map_err(HuggingFaceError::file(path))
}

/// A tensor's dimensions.
pub(super) fn sides(spec: &TensorSpec) -> Vec<usize> {
    spec.shape.iter().map(|&side| side as usize).collect()
}

fn check_names(weights: &Weights, specs: &[TensorSpec]) -> Result<(), HuggingFaceError> {
    let missing = specs.iter().map(|spec| &spec.name).filter(|name| !weights.contains(name));
    let missing: Vec<_> = missing.cloned().collect();
    let known = |name: &str| specs.binary_search_by(|it| it.name.as_str().cmp(name)).is_ok();
    let extra = weights.names().filter(|name| !known(name) && !is_redundant(name));
    let extra: Vec<_> = extra.map(str::to_owned).collect();
    refuse(&weights.path, missing, extra)
}

/// Refuses names that are missing or too many, if there are any.
pub(super) fn refuse(
    path: &Path,
    missing: Vec<String>,
    extra: Vec<String>,
) -> Result<(), HuggingFaceError> {
    let path: PathBuf = path.to_owned();
    if !missing.is_empty() {
        return Err(HuggingFaceError::MissingTensors { path, names: missing });
    }
    if !extra.is_empty() {
        return Err(HuggingFaceError::ExtraTensors { path, names: extra });
    }
    Ok(())
}

/// What some files repeat although it follows from the rest.
fn is_redundant(name: &str) -> bool {
    name == HEAD || name.ends_with(".rotary_emb.inv_freq")
}

/// A tied model's file may have the head a second time, but not another one.
fn check_head(
    weights: &Weights,
    specs: &[TensorSpec],
    tensors: &[Vec<f32>],
) -> Result<(), HuggingFaceError> {
    let untied = specs.iter().any(|spec| spec.name == HEAD);
    let embedding = specs.iter().position(|spec| spec.name == EMBEDDING);
    let Some(embedding) = embedding.filter(|_| !untied && weights.contains(HEAD)) else {
        return Ok(());
    };
    let head = weights.read(HEAD, &sides(&specs[embedding]))?;
    if head == tensors[embedding] {
        return Ok(());
    }
    Err(HuggingFaceError::HeadNotTied { path: weights.path.clone() })
}

const HEAD: &str = "lm_head.weight";
const EMBEDDING: &str = "model.embed_tokens.weight";

#[cfg(test)]
mod tests;
