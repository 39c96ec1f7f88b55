//! What an operator asks of a running node, and what it answers.

use atoll_protocol::id::{NodeId, Version};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::written;

/// What an operator asks of a running node.
///
/// In JSON: `{"invite":{"node":"12ab...","last_round":500}}`, `{"revoke":{"node":"12ab..."}}`,
/// `"leave"`, `"quiesce"` or `"resume"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Admit a node; this node must be a steward.
    Invite {
        /// Whom.
        #[serde(with = "written")]
        node: NodeId,
        /// The last round it may contribute to.
        last_round: Version,
    },
    /// Exclude a node; this node must be a steward.
    Revoke {
        /// Whom.
        #[serde(with = "written")]
        node: NodeId,
    },
    /// Flush, say goodbye and stop.
    Leave,
    /// Stop training, but go on merging what others contribute.
    Quiesce,
    /// Train again.
    Resume,
}

/// The node did as it was asked, or will.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// What it did.
    pub message: String,
    /// The ticket that an invitation is passed on with.
    pub ticket: Option<String>,
}

/// The node did not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}\nhint: {hint}")]
#[serde(default)]
pub struct Refusal {
    /// Why.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl Refusal {
    /// A refusal with what to do about it.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// Something that only the driver can answer. Whoever asked stops waiting after a while, so the
/// answer may find nobody.
#[derive(Debug)]
pub enum Request {
    /// Show what the engine holds: the ledger, rounds, frontiers, evidence.
    Inspect {
        /// What to show; none means all of it.
        topic: Option<String>,
        /// Where the answer goes.
        reply: oneshot::Sender<serde_json::Value>,
    },
    /// Do something.
    Command {
        /// What.
        command: Command,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Answer, Refusal>>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_written_like_this() {
        let node = NodeId([0x12; 32]);
        let hex = "12".repeat(32);
        for (command, text) in [
            (
                Command::Invite { node, last_round: 500 },
                format!(r#"{{"invite":{{"node":"{hex}","last_round":500}}}}"#),
            ),
            (Command::Revoke { node }, format!(r#"{{"revoke":{{"node":"{hex}"}}}}"#)),
            (Command::Leave, r#""leave""#.to_owned()),
            (Command::Quiesce, r#""quiesce""#.to_owned()),
            (Command::Resume, r#""resume""#.to_owned()),
        ] {
            assert_eq!(serde_json::to_string(&command).unwrap(), text);
            assert_eq!(serde_json::from_str::<Command>(&text).unwrap(), command);
        }
        for text in [r#""dance""#, r#"{"revoke":{"node":"12"}}"#, r#"{"revoke":{}}"#, "3"] {
            assert!(serde_json::from_str::<Command>(text).is_err(), "{text}");
        }
    }
}
