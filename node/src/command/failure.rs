//! Why a task cannot be done: something to tell the person who asked for it.

use std::fmt;
use std::path::Path;

use atoll_node::island::IslandError;
use atoll_node::island::data::DataError;
use atoll_node::island::device::DeviceError;
use atoll_node::island::hugging_face::HuggingFaceError;
use atoll_node::island::precision::PrecisionError;
use atoll_protocol::genesis::GenesisError;

/// A message, with a hint in it where a person can do something.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    passing: bool,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), passing: false }
    }

    /// The same for what is nobody's mistake: a supervisor may just try again.
    pub(crate) fn passing(self) -> Self {
        Self { passing: true, ..self }
    }

    /// What the process ends with: 1 where the same again may do, 2 where something has to be
    /// changed first.
    pub(crate) fn exit_code(&self) -> u8 {
        if self.passing { 1 } else { 2 }
    }

    /// The same message with what to do about it.
    pub(crate) fn hint(self, hint: &str) -> Self {
        Self { message: format!("{}\nhint: {hint}", self.message), ..self }
    }

    /// Wraps what the system said about `path`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::new(format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        Self::new(error.to_string()).hint(error.hint())
    }
}

impl From<IslandError> for Failure {
    fn from(error: IslandError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            IslandError::Checkpoint(_) => failure.hint(
                "nothing was changed; put a copy of the checkpoint back, or begin anew in another folder",
            ),
            _ => failure,
        }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<PrecisionError> for Failure {
    fn from(error: PrecisionError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<HuggingFaceError> for Failure {
    fn from(error: HuggingFaceError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<GenesisError> for Failure {
    fn from(error: GenesisError) -> Self {
        Self::new(error.to_string())
    }
}

/// Errors of the swarm's parts say what to do themselves.
macro_rules! from {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.to_string())
            }
        })*
    };
}

from!(
    atoll_node::config::ConfigError,
    atoll_node::driver::StartError,
    atoll_node::identity::IdentityError,
    atoll_node::net::NetError,
    atoll_node::observe::client::ClientError,
    atoll_node::observe::logging::LoggingError,
    atoll_node::observe::server::ServerError,
    atoll_node::ticket::TicketError,
);

impl From<atoll_node::store::StoreError> for Failure {
    fn from(error: atoll_node::store::StoreError) -> Self {
        let failure = Self::new(error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
