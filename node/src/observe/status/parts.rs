//! The parts of a status.

use std::iter::Sum;

use atoll_protocol::engine;
use atoll_protocol::frontier::Standing;
use atoll_protocol::id::{ContentId, FragmentId, NodeId, RoundId, Version};
use serde::{Deserialize, Serialize};

use crate::observe::written;

/// The four questions people ask first. Each can be answered badly while the others look well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gauges {
    /// Peers heard from in the last `alive_window_s` seconds.
    pub alive: u32,
    /// How long ago still counts as alive: the run's choice.
    pub alive_window_s: u64,
    /// Whether others can begin a connection to this node.
    pub reachable: Reachable,
    /// Whether the last closed round of each fragment holds a contribution of this node.
    pub merged_in_last_round: Merged,
    /// Versions that the fragment furthest behind is behind the newest frontier seen.
    pub staleness: Version,
}

/// Whether others can begin a connection to this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reachable {
    /// `yes`, `no` or `unknown`.
    pub answer: YesNo,
    /// If so, how: `direct`, `relayed` or `hole_punched`.
    pub how: Option<How>,
}

/// An answer, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum YesNo {
    /// It is so.
    Yes,
    /// It is not so.
    No,
    /// Nobody has tried yet.
    #[default]
    Unknown,
}

/// The way others take to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// They dial it.
    Direct,
    /// A relay passes everything on.
    Relayed,
    /// A relay introduced the two, who then found a direct way through their routers.
    HolePunched,
}

/// Whether the last closed rounds hold a contribution of this node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Merged {
    /// One answer for each fragment.
    pub fragments: Vec<bool>,
    /// The share of them that is true, 0 to 1.
    pub share: f64,
}

impl Merged {
    /// The answers and their share.
    pub fn of(fragments: Vec<bool>) -> Self {
        let merged = fragments.iter().filter(|it| **it).count();
        let share = merged as f64 / fragments.len().max(1) as f64;
        Self { fragments, share }
    }
}

/// One fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragment {
    /// Its number.
    pub fragment: FragmentId,
    /// Its newest version here.
    pub version: Version,
    /// The version up to which its history no longer changes.
    pub base: Version,
    /// The digest of its outer state at `version`, 64 hexadecimal digits.
    #[serde(with = "written")]
    pub digest: ContentId,
    /// Versions it is behind the newest frontier seen.
    #[serde(default)]
    pub staleness: Version,
    /// Where own tokens are.
    #[serde(default)]
    pub fates: Fates,
}

/// Where own tokens are. The five add up to `trained`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fates {
    /// All tokens trained.
    pub trained: u64,
    /// In the outer state.
    pub merged: u64,
    /// Captured, not yet in the outer state.
    pub pending: u64,
    /// Trained since the last capture.
    pub fresh: u64,
    /// Captured before, came back, wait for the next capture.
    pub reissued: u64,
    /// Lost for good.
    pub orphaned: u64,
}

impl From<engine::Fates> for Fates {
    fn from(fates: engine::Fates) -> Self {
        let engine::Fates { trained, merged, pending, fresh, reissued, orphaned } = fates;
        Self { trained, merged, pending, fresh, reissued, orphaned }
    }
}

impl Sum for Fates {
    fn sum<I: Iterator<Item = Self>>(fates: I) -> Self {
        fates.fold(Self::default(), |sum, it| Self {
            trained: sum.trained.saturating_add(it.trained),
            merged: sum.merged.saturating_add(it.merged),
            pending: sum.pending.saturating_add(it.pending),
            fresh: sum.fresh.saturating_add(it.fresh),
            reissued: sum.reissued.saturating_add(it.reissued),
            orphaned: sum.orphaned.saturating_add(it.orphaned),
        })
    }
}

/// How well the model does, in nats per token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Loss {
    /// Of the last step.
    pub last: Option<f64>,
    /// Smoothed over some steps.
    pub smoothed: Option<f64>,
    /// On text that was held out, when last measured.
    pub held_out: Option<f64>,
}

/// How the island does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Training {
    /// Steps made in this island's life.
    pub step: u64,
    /// Tokens learned from in this island's life.
    pub tokens: u64,
    /// Tokens per second, lately.
    pub tokens_per_s: f64,
    /// Milliseconds of a step, lately.
    pub step_ms: f64,
    /// The share of the time since training began that was spent in steps, 0 to 1.
    pub training_share: f64,
}

/// Bytes over the network since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lanes {
    /// Gossip and reconciling.
    pub control: Lane,
    /// Payloads, snapshots and geneses.
    pub content: Lane,
}

/// Bytes of one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lane {
    /// Sent.
    pub up: u64,
    /// Received.
    pub down: u64,
}

/// A peer that is connected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// Who, 64 hexadecimal digits.
    #[serde(with = "written")]
    pub node: NodeId,
    /// Where.
    #[serde(default)]
    pub address: Option<String>,
    /// Whether a relay passes everything on.
    #[serde(default)]
    pub relayed: bool,
    /// How the two are connected: `direct`, `relayed` or `hole_punched`.
    #[serde(default)]
    pub how: Option<How>,
    /// Bytes per second that contents came from it with, lately.
    #[serde(default)]
    pub bytes_per_s: Option<f64>,
    /// Milliseconds to the peer and back.
    #[serde(default)]
    pub rtt_ms: Option<f64>,
    /// What it last said about itself: `joining`, `caught_up` or `muted`.
    #[serde(default, with = "written::option")]
    pub standing: Option<Standing>,
    /// The newest version it last told of.
    #[serde(default)]
    pub version: Option<Version>,
}

/// How far one own contribution has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The round it contributed to, such as `f3/r41`.
    #[serde(with = "written")]
    pub round: RoundId,
    /// Peers that have merged it.
    pub merged_by: u32,
    /// Peers heard from.
    pub of: u32,
}

/// Bytes on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// All that this run keeps.
    pub used: u64,
    /// What it may keep; none means no limit.
    pub budget: Option<u64>,
    /// Payloads and snapshots.
    pub contents: u64,
    /// Outer states.
    pub bases: u64,
    /// Records.
    pub records: u64,
    /// The island's checkpoint.
    pub checkpoint: u64,
}

/// What a person should look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Warning {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}
