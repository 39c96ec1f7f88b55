//! A tokenizer as files.

use std::io;
use std::path::{Path, PathBuf};

use atoll_protocol::crypto::content_id;
use atoll_protocol::genesis::DataSpec;
use atoll_protocol::id::ContentId;

use super::Tokenizer;
use crate::island::data::DataError;

/// The text of a Hugging Face tokenizer's files, as they are read, kept and handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerFiles {
    /// Where they were read.
    pub path: PathBuf,
    /// The `tokenizer.json`.
    pub json: String,
    /// The `tokenizer_config.json`, which says what token ends a text, if there is one.
    pub config: Option<String>,
}

impl TokenizerFiles {
    /// Reads a `tokenizer.json`, and the `tokenizer_config.json` beside it if there is one.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let json = std::fs::read_to_string(path).map_err(refused(path))?;
        let beside = path.with_file_name(TOKENIZER_CONFIG);
        let config = match std::fs::read_to_string(&beside) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(refused(&beside)(error)),
        };
        Ok(Self { path: path.to_owned(), json, config })
    }

    /// Writes the files into `folder`, under the names that [`TokenizerFiles::read`] looks for.
    pub fn write(&self, folder: &Path) -> Result<(), DataError> {
        let config = self.config.as_ref().map(|text| (TOKENIZER_CONFIG, text));
        for (name, text) in [(TOKENIZER, &self.json)].into_iter().chain(config) {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(DataError::file(&path))?;
        }
        Ok(())
    }

    /// What names the tokenizer in a genesis.
    pub fn content(&self) -> ContentId {
        content_id(self.json.as_bytes())
    }

    /// Refuses to be the tokenizer of a run whose genesis names another.
    pub fn check(&self, data: &DataSpec) -> Result<(), DataError> {
        let found = self.content();
        match data.tokenizer_content {
            Some(expected) if expected != found => {
                Err(DataError::OtherTokenizer { path: self.path.clone(), found, expected })
            }
            _ => Ok(()),
        }
    }

    /// The tokenizer that the files describe.
    pub fn tokenizer(&self) -> Result<Tokenizer, DataError> {
        let config = self.config.as_deref().map(str::as_bytes);
        Tokenizer::from_json(self.json.as_bytes(), config)
            .map_err(|reason| DataError::Tokenizer { path: self.path.clone(), reason })
    }
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> DataError {
    let path = path.to_owned();
    |error| DataError::Tokenizer { path, reason: error.to_string() }
}

/// How text becomes tokens.
pub const TOKENIZER: &str = "tokenizer.json";
/// What else there is to know about a tokenizer.
pub const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

#[cfg(test)]
mod tests {
    use super::super::tests::SMALL;
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(TOKENIZER);
        for config in [None, Some(r#"{"eos_token": "cat"}"#.to_owned())] {
            let files = TokenizerFiles { path: path.clone(), json: SMALL.into(), config };
            files.write(folder.path()).unwrap();
            let read = TokenizerFiles::read(&path).unwrap();
            assert_eq!(read, files);
            let separator = if files.config.is_some() { 2 } else { 9 };
            assert_eq!(read.tokenizer().unwrap().separator(), Some(separator));
        }
    }

    #[test]
    fn what_is_no_tokenizer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(TOKENIZER);
        let reason = || match TokenizerFiles::read(&path).and_then(|files| files.tokenizer()) {
            Err(DataError::Tokenizer { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason().contains("No such file"), "{}", reason());
        std::fs::write(&path, [0xff]).unwrap();
        assert!(reason().contains("UTF-8"), "{}", reason());
        std::fs::write(&path, "{}").unwrap();
        reason();
        std::fs::write(&path, SMALL).unwrap();
        std::fs::create_dir(folder.path().join(TOKENIZER_CONFIG)).unwrap();
        // A config that is there but cannot be read is not the same as none.
        reason();
    }
}
