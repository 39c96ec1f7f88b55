//! Where text comes from.

mod files;

use std::path::PathBuf;

pub use files::Files;
pub(super) use files::Found;

use super::DataError;

/// Where text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The built-in corpus, endless and different for every seed.
    Generated {
        /// Which of them.
        seed: u64,
    },
    /// A file, or all files of a folder.
    Files(Files),
}

impl Source {
    /// What a person means by `corpus`: the word `generated`, or a path.
    ///
    /// With a `field`, every file is JSONL and that field holds the text; without one, files that
    /// end in `.jsonl` or `.ndjson` are, and their field is `text`.
    pub fn named(corpus: &str, field: Option<&str>) -> Result<Self, DataError> {
        if corpus == GENERATED {
            return Ok(Self::Generated { seed: 0 });
        }
        let path = PathBuf::from(corpus);
        if !path.exists() {
            return Err(DataError::Missing { path });
        }
        Ok(Self::Files(Files { path, field: field.map(str::to_owned) }))
    }
}

/// How far the reading of a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub done: u64,
    /// Bytes there are.
    pub total: u64,
}

/// What the built-in corpus is called.
pub const GENERATED: &str = "generated";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_built_in_corpus_or_paths() {
        assert_eq!(Source::named("generated", None).unwrap(), Source::Generated { seed: 0 });
        let error = Source::named("no/such/place", None).unwrap_err();
        assert_eq!(error.to_string(), "no/such/place: there is no such file or folder");
        assert!(error.hint().contains("generated"));
        assert!(matches!(Source::named(".", Some("body")).unwrap(), Source::Files(_)));
    }
}
