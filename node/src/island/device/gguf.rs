//! Reading GGUF files, whose weights are mostly quantised.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use tokenizers::Tokenizer;

use super::error::DeviceError;

/// A GGUF file, open for reading.
#[derive(Debug)]
pub struct GgufFile {
    file: BufReader<File>,
    content: Content,
}

impl GgufFile {
    /// Opens a file and reads its header.
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        let file = File::open(path).map_err(|error| DeviceError::Failed(error.to_string()))?;
        let mut file = BufReader::new(file);
        let content = Content::read(&mut file).map_err(failed("no readable GGUF file"))?;
        Ok(Self { file, content })
    }

    /// The text that stands at `key`.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.content.metadata.get(key)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number that stands at `key`, be it whole or not.
    pub fn number(&self, key: &str) -> Option<f64> {
        match *self.content.metadata.get(key)? {
            Value::U8(value) => Some(value.into()),
            Value::I8(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::I16(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::I32(value) => Some(value.into()),
            Value::U64(value) => Some(value as f64),
            Value::I64(value) => Some(value as f64),
            Value::F32(value) => Some(value.into()),
            Value::F64(value) => Some(value),
            Value::Bool(_) | Value::String(_) | Value::Array(_) => None,
        }
    }

    /// Names of all tensors, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.content.tensor_infos.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The dimensions of a tensor, outputs first as everywhere else.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        Some(self.content.tensor_infos.get(name)?.shape.dims())
    }

    /// The values of a tensor.
    pub fn read(&mut self, name: &str) -> Result<Vec<f32>, DeviceError> {
        let cpu = candle_core::Device::Cpu;
        let tensor = self.content.tensor(&mut self.file, name, &cpu);
        let values = tensor.and_then(|it| it.dequantize(&cpu)?.flatten_all()?.to_vec1());
        values.map_err(failed(name))
    }

    /// The tokenizer inside, as the text of a `tokenizer.json`.
    pub fn tokenizer(&self) -> Result<String, DeviceError> {
        let tokenizer = Tokenizer::from_gguf(&self.content).map_err(failed("the tokenizer"))?;
        tokenizer.to_string(true).map_err(|error| DeviceError::Failed(error.to_string()))
    }
}

fn failed(what: &str) -> impl FnOnce(candle_core::Error) -> DeviceError {
    move |error| DeviceError::Failed(format!("{what}: {error}"))
}
