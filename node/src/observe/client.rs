//! How commands of the same machine talk to a running node.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::http::Response;

use super::command::{Answer, Command, Refusal};
use super::door::Door;
use super::status::Status;

/// Talks to the node of one run's folder. Its calls block, for a bounded time.
#[derive(Debug)]
pub struct Client {
    folder: PathBuf,
    door: Door,
    agent: Agent,
}

/// Why a node does not answer, or what it answered.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing runs in this folder.
    #[error("no node runs in {}\nhint: `atoll run` starts it", folder.display())]
    NotRunning {
        /// The run's folder.
        folder: PathBuf,
    },
    /// A node ran here and could not say goodbye.
    #[error(
        "the node of {} does not answer at {address}: {reason}\n\
         hint: if it was killed, `atoll run` starts it again; if it runs, look at its log",
        folder.display()
    )]
    Silent {
        /// The run's folder.
        folder: PathBuf,
        /// Where it was.
        address: SocketAddr,
        /// What went wrong.
        reason: String,
    },
    /// The file that leads to the node cannot be read.
    #[error("{}: {source}\nhint: only the user that runs the node can ask it", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The node does not do what it was asked.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Something answered that is no node, or one of another version.
    #[error(
        "what answers at {address} is not understood: {reason}\n\
         hint: use the atoll that the node was started with"
    )]
    Strange {
        /// Where.
        address: SocketAddr,
        /// What is not understood.
        reason: String,
    },
}

impl Client {
    /// Finds the node that runs in a run's folder. It is asked nothing yet.
    pub fn of_folder(folder: &Path) -> Result<Self, ClientError> {
        let door = match Door::read(folder) {
            Ok(Some(door)) => door,
            Ok(None) => return Err(ClientError::NotRunning { folder: folder.to_owned() }),
            Err(source) => return Err(ClientError::File { path: Door::path(folder), source }),
        };
        let agent = Agent::config_builder()
            // A proxy of the environment is for the world, not for this machine.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(PATIENCE))
            .build()
            .into();
        Ok(Self { folder: folder.to_owned(), door, agent })
    }

    /// Where the node's server is, for people's browsers and scrapers.
    pub fn address(&self) -> SocketAddr {
        self.door.dial()
    }

    /// Where the node stands.
    pub fn status(&self) -> Result<Status, ClientError> {
        self.ask("/status")
    }

    /// What the engine holds: everything, or one topic of it.
    pub fn inspect(&self, topic: Option<&str>) -> Result<serde_json::Value, ClientError> {
        let get = self.agent.get(self.url("/inspect"));
        let get = topic.into_iter().fold(get, |get, topic| get.query("topic", topic));
        self.read(get.call())
    }

    /// Asks the node to do something.
    pub fn command(&self, command: &Command) -> Result<Answer, ClientError> {
        self.tell("/command", command)
    }

    fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(self.agent.get(self.url(path)).call())
    }

    fn tell<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let bearer = format!("Bearer {}", self.door.token);
        let post = self.agent.post(self.url(path)).header("Authorization", bearer);
        self.read(post.send_json(body))
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.door.dial())
    }

    fn read<T: DeserializeOwned>(
        &self,
        response: Result<Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, ClientError> {
        let silent = |error: ureq::Error| ClientError::Silent {
            folder: self.folder.clone(),
            address: self.address(),
            reason: error.to_string(),
        };
        let strange = |reason| ClientError::Strange { address: self.address(), reason };
        let mut response = response.map_err(silent)?;
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let bytes = body.read_to_vec().map_err(silent)?;
        if response.status().is_success() {
            return serde_json::from_slice(&bytes).map_err(|error| strange(error.to_string()));
        }
        match serde_json::from_slice::<Refusal>(&bytes) {
            Ok(refusal) if !refusal.message.is_empty() => Err(refusal.into()),
            _ => Err(strange(format!("HTTP status {}", response.status().as_u16()))),
        }
    }
}

const CONNECT: Duration = Duration::from_secs(2);
/// Longer than the server waits for its driver, so that its own words arrive.
const PATIENCE: Duration = Duration::from_secs(15);
/// A ledger of many rounds is long; nothing is longer than this.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
