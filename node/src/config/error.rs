//! What can be wrong with a configuration.

use std::path::PathBuf;

use super::source::Source;

/// What can be wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value that cannot be.
    #[error("{key} from {from}: `{value}` is {wrong}\nhint: {hint}")]
    Value {
        /// Which value.
        key: &'static str,
        /// What was given.
        value: String,
        /// Where.
        from: Source,
        /// What is wrong with it, and what would be allowed.
        wrong: String,
        /// What to do.
        hint: String,
    },
    /// A value whose type has its own words for what is wrong; they include the value.
    #[error("{key} from {from}: {reason}")]
    Parsed {
        /// Which value.
        key: &'static str,
        /// Where it was given.
        from: Source,
        /// What is wrong with it, and a hint.
        reason: String,
    },
    /// A variable that is not text.
    #[error("{name} is not UTF-8\nhint: unset it, or give it plain text")]
    NotText {
        /// The variable.
        name: String,
    },
    /// The file cannot be read, or does not say what it should.
    #[error(
        "{}: {}\nhint: `atoll run --print-config` prints a file with every key",
        path.display(), reason.trim_end()
    )]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// There is no place to keep anything.
    #[error("neither HOME nor XDG_DATA_HOME is set\nhint: say where to keep things with --home")]
    NoHome,
}

impl ConfigError {
    pub(super) fn value(
        key: &'static str,
        value: &str,
        from: Source,
        wrong: &str,
        hint: &str,
    ) -> Self {
        let (wrong, hint) = (wrong.to_owned(), hint.to_owned());
        Self::Value { key, value: value.escape_debug().to_string(), from, wrong, hint }
    }

    pub(super) fn parsed(key: &'static str, value: &str, from: Source, reason: &str) -> Self {
        if key == "http" {
            // The standard library says only that the syntax is invalid.
            let hint = "write it like 127.0.0.1:8080; port 0 takes any free one";
            return Self::value(key, value, from, "not an address and a port", hint);
        }
        Self::Parsed { key, from, reason: reason.to_owned() }
    }
}
