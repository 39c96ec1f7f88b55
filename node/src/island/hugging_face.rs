//! Models as Hugging Face's folders: written for others, and read to start from.
//!
//! A GGUF file of the Llama architecture can be read as well, since some models come only so.

mod byte_tokenizer;
mod config;
mod error;
mod export;
mod gguf;
mod import;
mod weights;

pub use error::HuggingFaceError;
pub use export::{ExportTokenizer, export};
pub use import::{Imported, import};

/// The description of the model.
const CONFIG: &str = "config.json";
/// All weights in one file.
const WEIGHTS: &str = "model.safetensors";
/// Which file has which weight, where there are several.
const WEIGHTS_INDEX: &str = "model.safetensors.index.json";
