//! Why a model cannot be read or written.

use std::path::{Path, PathBuf};

use atoll_protocol::genesis::GenesisError;

use crate::island::data::DataError;
use crate::island::device::DeviceError;

/// Why a model cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HuggingFaceError {
    /// The system refused.
    #[error("{path}: {source}")]
    File {
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no model at this place.
    #[error(
        "{0} has no model\nhint: give a folder with config.json and model.safetensors, or a \
         .gguf file"
    )]
    NoModel(PathBuf),
    /// Writing would destroy something.
    #[error("{0} is not empty\nhint: name a folder that does not exist yet")]
    NotEmpty(PathBuf),
    /// A file is no JSON, or not of the form it should have.
    #[error("{path}: {reason}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file ends before its header says.
    #[error(
        "{path} has {present} bytes where its header promises {promised}\nhint: the file is \
         incomplete, download or copy it again"
    )]
    Truncated {
        /// Which file.
        path: PathBuf,
        /// Bytes of the file.
        present: u64,
        /// Bytes it should have.
        promised: u64,
    },
    /// The model is of another architecture.
    #[error(
        "{path}: the architecture is `{found}`\nhint: only models of the Llama architecture \
         (LlamaForCausalLM) can be used"
    )]
    Architecture {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// A setting that this trainer computes differently.
    #[error("{path}: `{setting}` is {value}, and only {supported} is supported")]
    Setting {
        /// Which file.
        path: PathBuf,
        /// The setting's name.
        setting: String,
        /// What it is.
        value: String,
        /// What it would have to be.
        supported: String,
    },
    /// A setting that has to be there is not.
    #[error("{path}: `{setting}` is missing")]
    MissingSetting {
        /// Which file.
        path: PathBuf,
        /// The setting's name.
        setting: String,
    },
    /// The settings together make no model that a run could have.
    #[error("{path}: {source}")]
    Model {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: GenesisError,
    },
    /// Tensors that the model needs are not in the file.
    #[error("{path} lacks {} of the model's tensors, first `{}`", names.len(), names[0])]
    MissingTensors {
        /// Which file.
        path: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// Tensors that the model has no place for.
    #[error("{path} has {} tensors that the model has no place for, first `{}`", names.len(), names[0])]
    ExtraTensors {
        /// Which file.
        path: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// A tensor of another shape than the settings imply.
    #[error("{path}: tensor `{name}` has shape {found:?} where {expected:?} is needed")]
    TensorShape {
        /// Which file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape that follows from the settings.
        expected: Vec<usize>,
    },
    /// A tensor of numbers that are no f32, f16 or bf16.
    #[error("{path}: tensor `{name}` is of type {found}, and only F32, F16 and BF16 are supported")]
    TensorType {
        /// Which file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// Its type.
        found: String,
    },
    /// The head should be the embedding, and is not.
    #[error(
        "{path}: `tie_word_embeddings` is true, but lm_head.weight differs from \
         model.embed_tokens.weight\nhint: set `tie_word_embeddings` to false in config.json"
    )]
    HeadNotTied {
        /// Which file.
        path: PathBuf,
    },
    /// Only [`Model::Llama`](atoll_protocol::genesis::Model) has a folder of this kind.
    #[error("a custom model has no Hugging Face form\nhint: only Llama models can be exported")]
    CustomModel,
    /// The parameters are not those of the layout.
    #[error("the model has {expected} parameters, not {given}")]
    Parameters {
        /// Parameters of the layout.
        expected: usize,
        /// Parameters given.
        given: usize,
    },
    /// A tokenizer's file would take the place of the model's own.
    #[error("{0} cannot be copied as a tokenizer's file: the model writes that name itself")]
    TokenizerName(PathBuf),
    /// The model's tokenizer cannot be read.
    #[error("{0}\nhint: {hint}", hint = .0.hint())]
    Tokenizer(#[from] DataError),
    /// A GGUF file that cannot be read.
    #[error("{path}: {source}")]
    Gguf {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: DeviceError,
    },
}

impl HuggingFaceError {
    /// Adds the path to what the system said.
    pub(super) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::File { path, source }
    }

    pub(super) fn malformed(path: &Path, reason: impl ToString) -> Self {
        Self::Malformed { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(super) fn setting(
        path: &Path,
        setting: &str,
        value: impl ToString,
        supported: impl ToString,
    ) -> Self {
        let (value, supported) = (value.to_string(), supported.to_string());
        Self::Setting { path: path.to_owned(), setting: setting.to_owned(), value, supported }
    }
}
