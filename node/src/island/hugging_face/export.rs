//! Writing a model as a folder that `transformers` loads.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use atoll_protocol::genesis::Model;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use super::error::HuggingFaceError;
use super::{CONFIG, WEIGHTS, byte_tokenizer, config};
use crate::island::data::tokenizer::{TOKENIZER, TOKENIZER_CONFIG};
use crate::island::layout::Layout;

/// The tokenizer that goes with an exported model.
#[derive(Clone, Copy, Debug)]
pub enum ExportTokenizer<'a> {
    /// Every byte is a token.
    Byte,
    /// Files to copy, such as `tokenizer.json` and `tokenizer_config.json`.
    Files(&'a [PathBuf]),
    /// None.
    None,
}

/// Writes a model to `folder`, which must not exist or be empty.
///
/// Everything is written beside it first, so the folder is complete as soon as it is there, and
/// after an error it is as before.
pub fn export(
    folder: &Path,
    model: &Model,
    layout: &Layout,
    parameters: &[f32],
    tokenizer: ExportTokenizer<'_>,
) -> Result<(), HuggingFaceError> {
    let config = config::write(model).ok_or(HuggingFaceError::CustomModel)?;
    let (expected, given) = (layout.elements(), parameters.len());
    if expected != given {
        return Err(HuggingFaceError::Parameters { expected, given });
    }
    refuse_full(folder)?;
    let partial = beside(folder);
    let outcome = fill(&partial, model, &config, layout, parameters, tokenizer).and_then(|()| {
        fs::rename(&partial, folder).map_err(|source| match source.kind() {
            ErrorKind::DirectoryNotEmpty => HuggingFaceError::NotEmpty(folder.to_owned()),
            _ => HuggingFaceError::File { path: folder.to_owned(), source },
        })
    });
    if outcome.is_err() {
        // The first error is the one worth telling.
        let _ = fs::remove_dir_all(&partial);
    }
    outcome
}

fn fill(
    folder: &Path,
    model: &Model,
    config: &Value,
    layout: &Layout,
    parameters: &[f32],
    tokenizer: ExportTokenizer<'_>,
) -> Result<(), HuggingFaceError> {
    fs::create_dir_all(folder).map_err(HuggingFaceError::file(folder))?;
    write_json(&folder.join(CONFIG), config)?;
    write_json(&folder.join("generation_config.json"), &json!({ "do_sample": true }))?;
    write_weights(&folder.join(WEIGHTS), layout, parameters)?;
    match tokenizer {
        ExportTokenizer::None => Ok(()),
        ExportTokenizer::Byte => {
            write_json(&folder.join(TOKENIZER), &byte_tokenizer::tokenizer())?;
            let settings = byte_tokenizer::settings(model.context().unwrap_or_default());
            write_json(&folder.join(TOKENIZER_CONFIG), &settings)
        }
        ExportTokenizer::Files(files) => files.iter().try_for_each(|file| copy(file, folder)),
    }
}

fn copy(file: &Path, folder: &Path) -> Result<(), HuggingFaceError> {
    let name = file.file_name().unwrap_or_default();
    if name.is_empty() || name == CONFIG || name == WEIGHTS {
        return Err(HuggingFaceError::TokenizerName(file.to_owned()));
    }
    fs::copy(file, folder.join(name)).map_err(HuggingFaceError::file(file))?;
    Ok(())
}

fn write_weights(path: &Path, layout: &Layout, values: &[f32]) -> Result<(), HuggingFaceError> {
    let views = layout.tensors().iter().map(|place| {
        let bytes = bytemuck::cast_slice(&values[place.range.clone()]);
        let view = TensorView::new(Dtype::F32, place.shape.clone(), bytes);
        (place.name.as_str(), view.expect("a tensor's range is as long as its shape says"))
    });
    // transformers refuses files that do not name their format.
    let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(views, Some(format), path)
        .map_err(|error| HuggingFaceError::malformed(path, error))?;
    let file = fs::File::open(path).and_then(|file| file.sync_all());
    file.map_err(HuggingFaceError::file(path))
}

fn write_json(path: &Path, value: &Value) -> Result<(), HuggingFaceError> {
    fs::write(path, format!("{value:#}\n")).map_err(HuggingFaceError::file(path))
}

fn refuse_full(folder: &Path) -> Result<(), HuggingFaceError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(HuggingFaceError::NotEmpty(folder.to_owned())),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(HuggingFaceError::file(folder)(error)),
    }
}

/// A folder of this process's own next to `folder`, so that a rename can move it there.
fn beside(folder: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(folder.file_name().unwrap_or_default());
    name.push(format!(".partial-{}", std::process::id()));
    folder.with_file_name(name)
}
