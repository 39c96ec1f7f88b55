//! What can be wrong with data, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use atoll_protocol::id::ContentId;

/// Why data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Neither a file nor a folder.
    #[error("{path}: there is no such file or folder")]
    Missing {
        /// What was asked for.
        path: PathBuf,
    },
    /// Nothing to read.
    #[error("{path}: there is no text in it")]
    Empty {
        /// A file or a folder.
        path: PathBuf,
    },
    /// Text must be UTF-8.
    #[error("{path}: not UTF-8 at byte {byte}")]
    NotUtf8 {
        /// Which file.
        path: PathBuf,
        /// Bytes before the first wrong one.
        byte: u64,
    },
    /// A line of a JSONL file is no JSON.
    #[error("{path}: line {line} is not JSON: {reason}")]
    NotJson {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What the parser said.
        reason: String,
    },
    /// A line of a JSONL file has no text.
    #[error("{path}: line {line} has no field {field:?} with a string in it")]
    NoField {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// Which field was looked for.
        field: String,
    },
    /// A `tokenizer.json` that cannot be used.
    #[error("{path}: not a tokenizer: {reason}")]
    Tokenizer {
        /// Which file.
        path: PathBuf,
        /// What the tokenizers library said.
        reason: String,
    },
    /// A tokenizer, but not the one that the run's genesis names.
    #[error("{path}: not the run's tokenizer: its hash is {found}, the genesis has {expected}")]
    OtherTokenizer {
        /// Which file.
        path: PathBuf,
        /// What the file hashes to.
        found: ContentId,
        /// What the genesis says.
        expected: ContentId,
    },
    /// The tokenizer cannot do with a text.
    #[error("the tokenizer cannot encode the text: {reason}")]
    Encode {
        /// What the tokenizers library said.
        reason: String,
    },
    /// The tokenizer has more tokens than the model.
    #[error("the tokenizer has the token id {id}, but the model's vocabulary is {vocab}")]
    Vocabulary {
        /// The highest id.
        id: u32,
        /// How many the model knows; its highest id is one less.
        vocab: u32,
    },
    /// Not enough text to train on one window and hold another one out.
    #[error("the text has {tokens} tokens, but sequences of {sequence} need at least {needed}")]
    TooShort {
        /// Tokens there are.
        tokens: u64,
        /// Tokens in a sequence.
        sequence: u64,
        /// Tokens there would have to be.
        needed: u64,
    },
    /// A file in the cache's place that we did not write.
    #[error("{path}: not a token cache, so it is not overwritten")]
    ForeignCache {
        /// Which file.
        path: PathBuf,
    },
    /// The cache changed after it was checked.
    #[error("{path}: the token cache is damaged: {reason}")]
    DamagedCache {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A cursor of another run, island, sequence length or text.
    #[error("the saved place in the data is in other data than this")]
    Cursor,
    /// Reading or writing failed.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl DataError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "check the path, or use `generated` to train without any file",
            Self::Empty { .. } => "name a file, or a folder of files, that has text in it",
            Self::NotUtf8 { .. } => {
                "convert the file to UTF-8 (for example with iconv), or move it out of the folder"
            }
            Self::NotJson { .. } => {
                "JSONL has one JSON object in a line; plain text must not end in .jsonl"
            }
            Self::NoField { .. } => "name the field that holds the text",
            Self::Tokenizer { .. } | Self::Encode { .. } => {
                "use the tokenizer.json of a Hugging Face model, or the tokenizer `byte`"
            }
            Self::OtherTokenizer { .. } => {
                "use the very tokenizer.json the run began with, byte for byte"
            }
            Self::Vocabulary { .. } => {
                "use the model's own tokenizer, or a model with a larger vocabulary"
            }
            Self::TooShort { .. } => "add text, or lower the sequence length",
            Self::ForeignCache { .. } => "move that file away, or choose another cache folder",
            Self::DamagedCache { .. } => "delete the file: it is made again from the text",
            Self::Cursor => {
                "resume with the text, tokenizer and sequence length the run began with"
            }
            Self::File { .. } => "check the permissions and the free space",
        }
    }

    /// Wraps what the system said about `path`.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { path },
            _ => Self::File { path, source },
        }
    }
}
