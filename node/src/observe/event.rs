//! What happened, as lines of the event log.

use atoll_protocol::engine::report::Report;
use atoll_protocol::fault::Fault;
use atoll_protocol::frontier::Standing;
use atoll_protocol::id::{ContentId, ContributionId, FragmentId, NodeId, RoundId, Version};
use atoll_protocol::round::CloseReason;
use serde::{Deserialize, Serialize};

use super::written;

/// An event and when it happened: one line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// RFC 3339.
    pub at: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Something that happened. The names stay as they are, like those of the status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The node started.
    Started {
        /// The version of the program.
        program: String,
        /// Who it is.
        #[serde(with = "written")]
        node: NodeId,
        /// How often it was started, this time included.
        incarnation: u64,
        /// Whether it goes on from records on disk.
        resumed: bool,
    },
    /// The node stops.
    Stopped {
        /// Why.
        reason: String,
    },
    /// The node's standing changed.
    Standing {
        /// The new one.
        #[serde(with = "written")]
        standing: Standing,
    },
    /// The first contribution to a round is known here.
    Opened {
        /// Which round.
        #[serde(with = "written")]
        round: RoundId,
        /// Who opened it.
        #[serde(with = "written")]
        author: NodeId,
    },
    /// We signed a contribution.
    Contributed {
        /// To which round.
        #[serde(with = "written")]
        round: RoundId,
        /// Its id.
        #[serde(with = "written")]
        contribution: ContributionId,
        /// Tokens in it.
        tokens: u64,
        /// Steps in it.
        steps: u32,
        /// True if another island had opened the round.
        answer: bool,
    },
    /// A contribution entered the ledger.
    Admitted {
        /// To which round.
        #[serde(with = "written")]
        round: RoundId,
        /// Its id.
        #[serde(with = "written")]
        contribution: ContributionId,
        /// Who trained.
        #[serde(with = "written")]
        author: NodeId,
        /// Tokens in it.
        tokens: u64,
        /// True if the round was closed here before: it is folded again.
        late: bool,
    },
    /// A round closed here.
    Closed {
        /// Which round.
        #[serde(with = "written")]
        round: RoundId,
        /// Contributions in the cut.
        have: u32,
        /// Contributions that quorum asked for.
        need: u32,
        /// Why it closed now.
        because: Because,
    },
    /// A fragment was folded to this version.
    Materialised {
        /// Which fragment.
        fragment: FragmentId,
        /// The version.
        version: Version,
        /// Its digest.
        #[serde(with = "written")]
        digest: ContentId,
    },
    /// Rounds up to this version no longer change.
    Stable {
        /// Which fragment.
        fragment: FragmentId,
        /// The version.
        version: Version,
        /// True if the horizon or enough peers decided.
        forced: bool,
    },
    /// Peers have another stable history than we do.
    Diverged {
        /// Which fragment.
        fragment: FragmentId,
        /// One that differs.
        #[serde(with = "written")]
        peer: NodeId,
    },
    /// A peer has the same history with other bits.
    BitsDiffer {
        /// Which fragment.
        fragment: FragmentId,
        /// At which version.
        version: Version,
        /// Whose digest differs.
        #[serde(with = "written")]
        peer: NodeId,
    },
    /// A snapshot replaced our state of a fragment.
    Installed {
        /// Which fragment.
        fragment: FragmentId,
        /// The version of the new base.
        version: Version,
        /// Own contributions that return to fresh.
        reissued: u32,
        /// Own tokens lost for good.
        orphaned: u64,
    },
    /// How far one of our contributions has come.
    Receipt {
        /// The round it contributed to.
        #[serde(with = "written")]
        round: RoundId,
        /// Peers that have merged it.
        merged_by: u32,
        /// Peers heard from.
        of: u32,
    },
    /// An author signed twice for one slot.
    Equivocated {
        /// Who.
        #[serde(with = "written")]
        node: NodeId,
    },
    /// Another node runs with our key.
    SameKey,
    /// A payload that nobody serves.
    Withheld {
        /// Which payload.
        #[serde(with = "written")]
        payload: ContentId,
        /// Who announced it.
        #[serde(with = "written")]
        author: NodeId,
    },
    /// A peer is connected.
    PeerUp {
        /// Who.
        #[serde(with = "written")]
        node: NodeId,
    },
    /// The last connection to a peer is gone.
    PeerDown {
        /// Who.
        #[serde(with = "written")]
        node: NodeId,
    },
    /// Something about the network, in words.
    Network {
        /// The words.
        notice: String,
    },
    /// A peer did something wrong.
    Fault {
        /// Who.
        #[serde(with = "written")]
        node: NodeId,
        /// What.
        #[serde(with = "written")]
        fault: Fault,
        /// Points against it.
        penalty: u32,
    },
    /// What the island did lately.
    Steps {
        /// Steps made in its life.
        step: u64,
        /// Tokens learned from in its life.
        tokens: u64,
        /// Smoothed loss.
        loss: Option<f64>,
        /// Milliseconds of a step, lately.
        step_ms: f64,
        /// Tokens per second, lately.
        tokens_per_s: f64,
    },
    /// The loss on held-out text was measured.
    HeldOut {
        /// After this step.
        step: u64,
        /// The loss.
        loss: Option<f64>,
    },
    /// Something was wrong and is not any more, in words.
    Recovered {
        /// The words.
        what: String,
    },
    /// Something a person should look at.
    Warning {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// Events that are missing here: the log could not keep up, or the disk would not take them.
    Dropped {
        /// How many.
        events: u64,
    },
}

/// Why a round closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Because {
    /// Every live island had contributed.
    Everyone,
    /// Quorum was met, and the grace window after it was over.
    Grace {
        /// Milliseconds that quorum had been met.
        waited_ms: u64,
        /// Milliseconds of the window.
        window_ms: u64,
    },
    /// Most of the swarm had closed it.
    Peers {
        /// How many had.
        closed: u32,
    },
}

impl From<CloseReason> for Because {
    fn from(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Everyone => Self::Everyone,
            CloseReason::Grace { waited, window } => {
                Self::Grace { waited_ms: waited.0, window_ms: window.0 }
            }
            CloseReason::Peers { closed } => Self::Peers { closed },
        }
    }
}

impl From<Report> for Event {
    fn from(report: Report) -> Self {
        match report {
            Report::Standing(standing) => Self::Standing { standing },
            Report::Opened { round, author } => Self::Opened { round, author },
            Report::Contributed { round, id, tokens, steps, answer } => {
                Self::Contributed { round, contribution: id, tokens, steps, answer }
            }
            Report::Admitted { round, id, author, tokens, late } => {
                Self::Admitted { round, contribution: id, author, tokens, late }
            }
            Report::Closed { round, have, need, reason } => {
                Self::Closed { round, have, need, because: reason.into() }
            }
            Report::Materialised { fragment, version, digest } => {
                Self::Materialised { fragment, version, digest }
            }
            Report::Stable { fragment, version, forced } => {
                Self::Stable { fragment, version, forced }
            }
            Report::Diverged { fragment, peer } => Self::Diverged { fragment, peer },
            Report::BitsDiffer { fragment, version, peer } => {
                Self::BitsDiffer { fragment, version, peer }
            }
            Report::Installed { fragment, version, reissued, orphaned } => {
                Self::Installed { fragment, version, reissued, orphaned }
            }
            Report::Receipt { round, merged_by, of } => Self::Receipt { round, merged_by, of },
            Report::Equivocated(node) => Self::Equivocated { node },
            Report::SameKey => Self::SameKey,
            Report::Withheld { payload, author } => Self::Withheld { payload, author },
        }
    }
}

#[cfg(test)]
mod tests {
    use atoll_protocol::time::Span;

    use super::*;

    fn written(event: Event) -> String {
        let entry = Entry { at: "2026-11-16T20:08:44.123Z".into(), event };
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry, "{text}");
        text.replace("2026-11-16T20:08:44.123Z", "T")
    }

    #[test]
    fn an_event_is_one_flat_line_with_its_name() {
        let round = RoundId { fragment: FragmentId(3), number: 41 };
        assert_eq!(
            written(Report::Receipt { round, merged_by: 6, of: 8 }.into()),
            r#"{"at":"T","event":"receipt","round":"f3/r41","merged_by":6,"of":8}"#
        );
        let reason = CloseReason::Grace { waited: Span(5), window: Span(4) };
        assert_eq!(
            written(Report::Closed { round, have: 4, need: 3, reason }.into()),
            r#"{"at":"T","event":"closed","round":"f3/r41","have":4,"need":3,"because":{"reason":"grace","waited_ms":5,"window_ms":4}}"#
        );
        let node = NodeId([0xab; 32]);
        assert_eq!(
            written(Event::Fault { node, fault: Fault::BadPayload, penalty: 100 }),
            format!(
                r#"{{"at":"T","event":"fault","node":"{}","fault":"bad_payload","penalty":100}}"#,
                "ab".repeat(32)
            )
        );
        assert_eq!(
            written(Report::Standing(Standing::CaughtUp).into()),
            r#"{"at":"T","event":"standing","standing":"caught_up"}"#
        );
        assert_eq!(written(Report::SameKey.into()), r#"{"at":"T","event":"same_key"}"#);
        written(Event::HeldOut { step: 3, loss: None });
    }
}
