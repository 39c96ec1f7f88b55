//! Why there is no answer.

use std::io;

use thiserror::Error;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum InputError {
    /// A number that is none.
    #[error("{option} is {given:?}, which is no number")]
    Number {
        /// The option.
        option: &'static str,
        /// What was given.
        given: String,
    },
    /// A rate that is none.
    #[error("--link is {given:?}, which is no rate")]
    Rate {
        /// What was given.
        given: String,
    },
    /// A number outside its range.
    #[error("{option} is {given}")]
    Range {
        /// The option.
        option: &'static str,
        /// What was given.
        given: String,
        /// What is allowed, in words.
        allowed: String,
    },
    /// A codec that does not exist.
    #[error("there is no codec {given:?}")]
    Codec {
        /// What was given.
        given: String,
        /// Those that do.
        known: String,
    },
    /// Something could not be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

impl InputError {
    /// What to do instead.
    pub fn hint(&self) -> String {
        match self {
            Self::Number { .. } => "write 12e9, 12b or 350m".into(),
            Self::Rate { .. } => {
                "write 20mbit, 2.5gbit or, with another rate for sending, 110mbit/500mbit".into()
            }
            Self::Range { allowed, .. } => format!("allowed are {allowed}"),
            Self::Codec { known, .. } => format!("choose one of {known}"),
            Self::Write(_) => "is somebody reading?".into(),
        }
    }
}
